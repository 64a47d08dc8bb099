//! The underlying error of some errors.

use std::sync::Arc;

/// The underlying error of [`Error::Open`](crate::Error::Open),
/// [`Error::Backup`](crate::Error::Backup) and [`Error::NotChanged`](crate::Error::NotChanged). It
/// displays that error, and [`std::error::Error::source`] returns the source of that error.
#[derive(Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    pub(crate) fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Cause(Arc::new(error))
    }
}

impl std::fmt::Debug for Cause {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(to)
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(to)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Causes are equal if their texts are equal.
impl PartialEq for Cause {
    fn eq(&self, other: &Cause) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}

/// An error that consists of a text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MessageError(pub(crate) String);

//! An opened file of the virtual machine.

use std::path::Path;
use std::sync::Arc;

use platform::files::Access;

use super::store::FileNumber;

/// An opened file.
#[derive(Clone, Debug)]
pub struct VirtualFile {
    pub(crate) number: FileNumber,
    pub(crate) access: Access,
    pub(crate) path: Arc<Path>,
}

//! Deployments in files: TOML, in which every field has a default.

use std::path::Path;

use super::error::DeploymentError;
use super::value::Deployment;

impl Deployment {
    /// The deployment that a file describes.
    ///
    /// # Errors
    /// [`DeploymentError::File`]: the file cannot be read, is no deployment, or describes an
    /// invalid one.
    pub fn from_file(path: &Path) -> Result<Self, DeploymentError> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let deployment =
            text.and_then(|text| Deployment::from_toml(&text).map_err(|error| error.to_string()));
        deployment.map_err(|problem| DeploymentError::File { path: path.to_owned(), problem })
    }

    /// The deployment that a text describes: its display form, in which fields with default values
    /// may be omitted.
    ///
    /// # Errors
    /// [`DeploymentError`]: the text is no deployment, or describes an invalid one.
    pub fn from_toml(text: &str) -> Result<Self, DeploymentError> {
        let deployment: Deployment = toml::from_str(text).map_err(|error| malformed(text, &error))?;
        deployment.check()?;
        Ok(deployment)
    }
}

/// The message of the TOML parser in one line, with the line number.
pub(crate) fn malformed(text: &str, error: &toml::de::Error) -> DeploymentError {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let message = error.message().replace('\n', ", ");
    DeploymentError::Malformed(match line {
        Some(line) => format!("line {line}: {message}"),
        None => message,
    })
}

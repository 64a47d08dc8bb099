//! Standard output: results and nothing else.

use std::io::Write;

use crate::errors::Failure;

/// Prints a result.
///
/// # Errors
/// Standard output is closed, or cannot be written.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()?;
    Ok(())
}

//! `isles topology`.

use crate::arguments::TopologyArguments;
use crate::bad_input::BadInput;
use crate::choices::{TopologyFormat, choose};
use crate::machines;

/// Draws the machine that the arguments name.
///
/// # Errors
/// A format or machine that does not exist, or a directory that holds no machine.
pub fn draw(arguments: &TopologyArguments) -> Result<String, BadInput> {
    let format = choose("--format", arguments.format.as_deref(), TopologyFormat::Text)?;
    let topology = match (arguments.machine.as_deref(), arguments.sysroot.as_deref()) {
        (Some(_), Some(_)) => {
            return Err(BadInput::new(
                "--machine with --sysroot",
                "each names the machine to draw",
                "one of the two",
            ));
        }
        (None, Some(root)) => machines::under(root)?,
        (None | Some(machines::NATIVE), None) => machines::native()?,
        (Some(name), None) => machines::shipped(name)?,
    };
    match format {
        TopologyFormat::Text => Ok(format!("{:?}\n", topology.counts())),
        TopologyFormat::Json => Ok(format!("{:?}\n", topology.counts())),
    }
}

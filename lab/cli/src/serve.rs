//! `isles serve`: starts the program `isles-serve`, which lies beside this one. It is a program of
//! its own, so that those who need no SQL server do not build one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::bad_input::BadInput;

/// The program.
const PROGRAM: &str = "isles-serve";

/// Becomes the program, with these arguments; returns only if that fails.
pub fn run(arguments: &[OsString]) -> BadInput {
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
    let error = match beside {
        Ok(program) => Command::new(program).args(arguments).exec(),
        Err(error) => error,
    };
    let hint = "build it: cargo build --release -p isles-serve";
    BadInput::see("serve", format!("the program {PROGRAM} cannot be started: {error}"), hint)
}

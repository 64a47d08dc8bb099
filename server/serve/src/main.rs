//! The program `isles-serve`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match serve::server::run(std::env::args_os().collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("isles-serve: {error}");
            ExitCode::FAILURE
        }
    }
}

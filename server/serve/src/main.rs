//! The program `isles-serve`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = serve::arguments::Arguments::parse();
    match serve::server::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("isles-serve: {error}");
            ExitCode::FAILURE
        }
    }
}

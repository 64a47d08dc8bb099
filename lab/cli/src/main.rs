//! The `isles` binary.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    cli::main()
}

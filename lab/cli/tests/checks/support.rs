//! Runs of the binary, and directories for them.

// Tests write scratch files of their own.
#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_isles");

/// The outcome of a run of the binary.
pub struct Outcome {
    pub status: i32,
    pub output: String,
    pub error: String,
}

impl Outcome {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Outcome {
        let output = command.output().expect("the binary of this package runs");
        Outcome {
            status: output.status.code().expect("no signal ends it"),
            output: String::from_utf8(output.stdout).expect("UTF-8"),
            error: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

pub fn isles(arguments: &[&str]) -> Outcome {
    Outcome::of(Command::new(PROGRAM).args(arguments))
}

/// Status 2, nothing on standard output, one line on standard error, which begins with `expected`.
pub fn assert_fault(arguments: &[&str], expected: &str) {
    let Outcome { status, output, error } = isles(arguments);
    assert_eq!((status, output.as_str()), (2, ""), "{arguments:?}: {error}");
    assert!(error.ends_with('\n') && error.lines().count() == 1, "{arguments:?}: {error:?}");
    assert!(error.starts_with(&format!("isles: {expected}")), "{arguments:?}: {error}");
}

/// Starts a command whose output is read by the test.
pub fn start(command: &mut Command) -> Child {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary of this package runs")
}

/// A directory that goes away with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("isles-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Scratch(path)
    }

    /// The path of a file in the directory.
    pub fn name(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }

    /// Writes a file. Returns its path.
    pub fn write(&self, file: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(file), text).expect("a scratch file");
        self.name(file)
    }

    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

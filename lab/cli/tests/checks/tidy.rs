//! What readers of the source can rely on: no file is longer than they can take in.

// The test walks over the source.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

/// Lines of the longest file.
const LINES_MAX: usize = 600;

/// The Rust files below a folder, without those that are built.
fn sources(folder: &Path, to: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, to);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            to.push(path);
        }
    }
}

/// Whether a file is longer than it may be.
fn is_too_long(text: &str) -> bool {
    text.lines().count() > LINES_MAX
}

#[test]
fn no_file_is_too_long() {
    let mut files = Vec::new();
    for storey in ["crates", "lab"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(storey), &mut files);
    }
    assert!(files.len() > 500, "{}", files.len());
    let text = |path: &PathBuf| std::fs::read_to_string(path).expect("a file");
    let too_long: Vec<_> = files.iter().filter(|path| is_too_long(&text(path))).collect();
    assert!(too_long.is_empty(), "more than {LINES_MAX} lines: {too_long:?}");
    assert!(is_too_long(&"line\n".repeat(LINES_MAX + 1)) && !is_too_long(&"line\n".repeat(LINES_MAX)));
}

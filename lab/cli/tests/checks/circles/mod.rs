//! No file of a crate uses a file that uses it, directly or through others; and no folder uses a
//! folder or file beside it that uses it.
//!
//! The sources are read as text: imports and paths that begin in the crate, resolved through
//! re-exports to the file that defines the name. Calls of methods have no path, so they are not
//! seen: a type whose methods are spread over files that need each other is not caught.

// The test reads the sources.
#![allow(clippy::disallowed_methods)]

mod edges;
mod modules;
mod tokens;

use std::path::{Path, PathBuf};

use self::modules::Crate;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of each crate's sources.
fn sources() -> Vec<PathBuf> {
    let storeys = ["crates", "lab"].map(|storey| workspace().join(storey));
    let crates = storeys.iter().flat_map(|storey| std::fs::read_dir(storey).expect("the workspace's crates"));
    let mut folders: Vec<PathBuf> = crates.map(|entry| entry.expect("an entry").path()).collect();
    folders.push(workspace().join("benchmarks/side-by-side"));
    folders.sort();
    folders
}

fn name(folder: &Path) -> String {
    folder.file_name().expect("a name").to_string_lossy().into_owned()
}

/// The circles of all crates' libraries and programs.
fn all(circles: impl Fn(&Crate) -> Vec<String>) -> Vec<String> {
    let mut found = Vec::new();
    for folder in &sources() {
        for root in
            ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)).iter().filter(|root| root.exists())
        {
            let read = Crate::read(root, &|path| std::fs::read_to_string(path).ok());
            found.extend(circles(&read).iter().map(|circle| format!("{}:\n  {circle}", name(folder))));
        }
    }
    found
}

#[test]
fn no_crate_has_a_circle_of_files() {
    let found = all(Crate::circles);
    assert!(found.is_empty(), "{} circles of files:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_crate_has_a_circle_of_folders() {
    let found = all(Crate::circles_of_folders);
    assert!(found.is_empty(), "{} circles of folders:\n{}", found.len(), found.join("\n"));
}

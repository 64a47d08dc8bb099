//! The indexes for readers are complete: decisions, and pages of documents.

// The test makes a folder of its own.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The pages of a folder that its README does not link to.
fn missing(folder: &Path) -> Vec<String> {
    let index = std::fs::read_to_string(folder.join("README.md")).expect("an index");
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"));
    let pages = names.filter(|name| name.ends_with(".md") && name != "README.md");
    pages.filter(|name| !index.contains(&format!("({name})"))).collect()
}

#[test]
fn indexes_name_every_page() {
    assert_eq!(missing(&docs()), [""; 0], "docs/README.md has no link to them");
    assert_eq!(missing(&docs().join("decisions")), [""; 0], "docs/decisions/README.md has no link to them");
}

#[test]
fn a_page_without_a_link_is_found() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("index-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("README.md"), "[a](a.md)").expect("an index");
    for name in ["a.md", "b.md"] {
        std::fs::write(folder.join(name), "").expect("a page");
    }
    assert_eq!(missing(&folder), ["b.md"]);
    std::fs::remove_dir_all(&folder).expect("the test's folder");
}

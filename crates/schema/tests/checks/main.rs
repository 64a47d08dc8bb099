//! Errors of the compiler about types of rows.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The newest library of the crate beside this test.
fn library(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).expect("the folder of this test");
    let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let is_library = |path: &PathBuf| {
        name(path).is_some_and(|name| name.starts_with("libschema-") && name.ends_with(".rlib"))
    };
    let paths = files.filter_map(|file| Some(file.ok()?.path())).filter(is_library);
    let written = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).ok();
    paths.max_by_key(written).expect("the library that this test is linked with")
}

/// The errors of the compiler about a program.
fn errors_of(name: &str, program: &str) -> String {
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.parent().expect("a folder");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.rs"));
    let text = format!("#![allow(dead_code, unused_imports)]\nuse schema::*;\n{program}\nfn main() {{}}\n");
    std::fs::write(&file, text).expect("a file");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler)
        .args(["--edition", "2024", "--emit", "metadata", "--out-dir"])
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .arg("--extern")
        .arg(format!("schema={}", library(folder).display()))
        .arg("-L")
        .arg(format!("dependency={}", folder.display()))
        .arg(&file)
        .output()
        .expect("a compiler");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), errors.is_empty(), "{errors}");
    errors
}

#[test]
fn a_program_without_errors_compiles() {
    let program = "#[derive(Row)] #[row(key(id))] struct Person { id: u64, name: Option<String> }";
    assert_eq!(errors_of("right", program), "");
}

#[test]
fn a_wrong_column_is_named_with_what_can_be_one() {
    let list = errors_of(
        "list",
        "#[derive(Row)]\n#[row(key(id))]\nstruct Student { id: u64, marks: Vec<Vec<u64>> }",
    );
    for part in ["`Vec<u64>` cannot be the type of a column", "marks: Vec<Vec<u64>>", "rows of another table"]
    {
        assert!(list.contains(part), "{part}: {list}");
    }
    let own =
        errors_of("own", "struct Own;\n#[derive(Row)]\n#[row(key(id))]\nstruct Thing { id: u64, own: Own }");
    for part in ["`Own` cannot be the type of a column", "own: Own", "#[derive(Value)]"] {
        assert!(own.contains(part), "{part}: {own}");
    }
}

#[test]
fn a_wrong_column_of_a_key_is_named_with_what_can_be_one() {
    let list = errors_of("sizes", "#[derive(Row)]\n#[row(key(sizes))]\nstruct Parcel { sizes: [u16; 3] }");
    for part in ["`[u16; 3]` cannot be a column of a key", "sizes: [u16; 3]", "keys are of numbers"] {
        assert!(list.contains(part), "{part}: {list}");
    }
}

#[test]
fn a_struct_that_is_no_row_is_named() {
    let plain = errors_of("plain", "struct Plain;\nfn takes<R: Row>() {}\nfn gives() { takes::<Plain>() }");
    for part in ["`Plain` is not a type of rows", "#[derive(Row)]"] {
        assert!(plain.contains(part), "{part}: {plain}");
    }
}

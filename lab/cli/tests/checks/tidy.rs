//! Readers of the source and of the documents can rely on this: files are short, lines are narrow,
//! and the words are plain.

// The test reads the sources.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

/// Lines of the longest file.
const LINES_MAX: usize = 600;
/// Columns of the longest line of a comment or a document.
const COLUMNS_MAX: usize = 100;

/// Beginnings of comments of items and modules that are half a sentence.
const OPENERS: [&str; 4] = ["What ", "Whether ", "Who ", "Of "];

/// Words that comments do without: they say neither which thread nor how many messages.
const WORDS: [&str; 5] = ["somebody", "nobody", "whoever", "so many", "so much"];

/// Names of types that say nothing.
const TYPES: [&str; 7] = ["Hands", "Made", "Of", "Wish", "Said", "Told", "Desk"];
/// Names of functions that say nothing.
const FUNCTIONS: [&str; 4] = ["tell", "go_on", "bring", "meet"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a folder with this extension, without those that are built.
fn files(folder: &Path, extension: &str, to: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            files(&path, extension, to);
        } else if path.extension().is_some_and(|its| its == extension) {
            to.push(path);
        }
    }
}

/// All Rust files of the workspace with their text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for storey in ["crates", "lab", "server"] {
        files(&workspace().join(storey), "rs", &mut found);
    }
    assert!(found.len() > 500, "{}", found.len());
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("a file"))).collect()
}

/// All documents with their text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&workspace().join("docs"), "md", &mut found);
    files(&workspace().join("benchmarks"), "md", &mut found);
    found.extend(
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"]
            .map(|name| workspace().join(name)),
    );
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("a file"))).collect()
}

/// The comment that a line consists of, without its strokes.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text).trim_start())
}

/// True of a line of code without fences: four spaces, or four of a comment.
fn is_indented(line: &str) -> bool {
    let text = line.trim_start();
    let said = ["//!", "///", "//"].iter().find_map(|strokes| text.strip_prefix(strokes));
    said.map_or(line.starts_with("    "), |said| said.starts_with("     "))
}

/// A line of a document.
fn whole(line: &str) -> Option<&str> {
    Some(line)
}

/// Numbers of the lines that are too long, outside of blocks of code, tables and lines of one word.
/// `text_of` gives what a line says; `None`: the line does not count.
fn long_lines(text: &str, text_of: fn(&str) -> Option<&str>) -> Vec<usize> {
    let mut is_code = false;
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let Some(said) = text_of(line) else { return false };
        if said.starts_with("```") {
            is_code = !is_code;
        }
        let is_free = is_code || is_indented(line) || said.starts_with('|') || !said.trim().contains(' ');
        line.chars().count() > COLUMNS_MAX && !is_free
    });
    lines.map(|(number, _)| number + 1).collect()
}

/// Numbers of the lines with which a comment of an item or a module begins as half a sentence.
fn half_sentences(text: &str) -> Vec<usize> {
    let is_doc = |line: &str| line.trim_start().starts_with("///") || line.trim_start().starts_with("//!");
    let mut before = "";
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let begins = is_doc(line) && (!is_doc(before) || comment(before).is_some_and(str::is_empty));
        before = line;
        begins && comment(line).is_some_and(|said| OPENERS.iter().any(|opener| said.starts_with(opener)))
    });
    lines.map(|(number, _)| number + 1).collect()
}

/// Numbers of the lines of comments that have one of the words that are not used.
fn unused_words(text: &str) -> Vec<usize> {
    let has_word = |said: &str| {
        let said = said.to_lowercase();
        WORDS.iter().any(|word| {
            said.match_indices(word).any(|(at, _)| {
                let is_letter =
                    |sign: Option<char>| sign.is_some_and(|sign| sign.is_alphanumeric() || sign == '_');
                !is_letter(said[..at].chars().next_back())
                    && !is_letter(said[at + word.len()..].chars().next())
            })
        })
    };
    let lines = text.lines().enumerate().filter(|(_, line)| comment(line).is_some_and(has_word));
    lines.map(|(number, _)| number + 1).collect()
}

/// Numbers of the lines that declare something under a name that says nothing.
fn riddles(text: &str) -> Vec<usize> {
    let declares = |line: &str| {
        let words = line.split(|sign: char| !sign.is_alphanumeric() && sign != '_' && sign != '{');
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        comment(line).is_none()
            && words.windows(2).any(|pair| match pair[0] {
                "struct" | "enum" | "trait" | "type" => TYPES.contains(&pair[1]),
                "fn" => FUNCTIONS.contains(&pair[1]),
                _ => false,
            })
    };
    text.lines().enumerate().filter(|(_, line)| declares(line)).map(|(number, _)| number + 1).collect()
}

/// Asserts that a check finds nothing in these files.
fn assert_clean(files: &[(PathBuf, String)], what: &str, check: impl Fn(&str) -> Vec<usize>) {
    let mut found = Vec::new();
    for (path, text) in files {
        let path = path.strip_prefix(workspace()).unwrap_or(path);
        found.extend(check(text).iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(found.is_empty(), "{} {what}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_file_is_too_long() {
    let is_too_long = |text: &str| text.lines().count() > LINES_MAX;
    assert_clean(&sources(), "files have too many lines", |text| {
        is_too_long(text).then_some(1).into_iter().collect()
    });
    assert!(is_too_long(&"line\n".repeat(LINES_MAX + 1)) && !is_too_long(&"line\n".repeat(LINES_MAX)));
}

#[test]
fn lines_of_comments_and_documents_are_narrow() {
    assert_clean(&sources(), "comments are too wide", |text| long_lines(text, comment));
    assert_clean(&documents(), "lines are too wide", |text| long_lines(text, whole));
    let long = "word ".repeat(21);
    assert_eq!(long_lines(&format!("/// {long}\nlet x = \"{long}\";\n"), comment), [1]);
    assert_eq!(long_lines(&format!("{long}\n| {long}\n```\n{long}\n```\n"), whole), [1]);
}

#[test]
fn comments_of_items_begin_with_whole_sentences() {
    assert_clean(&sources(), "comments begin with half a sentence", half_sentences);
    assert_eq!(half_sentences("/// What a log is.\n/// Of it.\nfn a() {}\n/// The log.\n"), [1]);
}

#[test]
fn comments_do_without_some_words() {
    assert_clean(&sources(), "comments have words that are not used", unused_words);
    assert_eq!(unused_words("// Somebody waits.\nlet somebody = 1;\n// A nobody_waits.\n"), [1]);
}

#[test]
fn names_say_what_they_name() {
    assert_clean(&sources(), "names are riddles", riddles);
    let declared = |keyword: &str, name: &str| riddles(&format!("{keyword} {name}<T> {{\n"));
    assert_eq!([declared("struct", TYPES[0]), declared("fn", FUNCTIONS[0])], [[1], [1]]);
    assert!(declared("// struct", TYPES[0]).is_empty() && declared("struct", "Handset").is_empty());
}

/// The paths to sources that a document names in code spans, without those that stand for any name.
fn paths(text: &str) -> Vec<&str> {
    let spans = text.split('`').skip(1).step_by(2);
    let is_path = |span: &&str| {
        let mut parts = span.split('/').skip_while(|part| ["crates", "lab", "server"].contains(part));
        let is_name = |part: Option<&str>| {
            part.is_some_and(|part| part.chars().all(|sign| sign.is_ascii_lowercase() || sign == '-'))
        };
        is_name(parts.next())
            && parts.next().is_some_and(|part| ["src", "tests", "examples", "data"].contains(&part))
    };
    let is_exact = |span: &&str| !span.contains("NAME") && !span.contains([' ', '*']);
    spans.filter(is_path).filter(is_exact).collect()
}

#[test]
fn documents_name_sources_that_exist() {
    let exists = |path: &str| {
        ["", "crates", "lab", "server"].iter().any(|folder| workspace().join(folder).join(path).exists())
    };
    let mut missing = Vec::new();
    for (document, text) in documents() {
        // Decisions and changes tell of their time.
        if document.components().any(|part| part.as_os_str() == "decisions")
            || document.ends_with("CHANGELOG.md")
        {
            continue;
        }
        missing.extend(
            paths(&text)
                .iter()
                .filter(|path| !exists(path))
                .map(|path| format!("{}: {path}", document.display())),
        );
    }
    assert!(missing.is_empty(), "no such files:\n{}", missing.join("\n"));
    assert_eq!(
        paths("`log/src/slot.rs` a `b/src/x` `crates/log/src/NAME.rs` `lab/sim/src/lib.rs` `P/src`"),
        ["log/src/slot.rs", "b/src/x", "lab/sim/src/lib.rs"]
    );
}

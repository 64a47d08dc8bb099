//! Where commands stand in documents and in `--help`.

use std::path::{Path, PathBuf};

use cli::COMMANDS;

use crate::support::isles;

/// A text with its commands.
pub struct Text {
    pub name: String,
    pub lines: Vec<Line>,
}

/// A command, and what is shown of its output: nothing, if that is not shown.
#[derive(Debug)]
pub struct Line {
    pub command: String,
    pub output: Vec<String>,
}

impl Line {
    fn of(command: String) -> Self {
        Line { command, output: Vec::new() }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The help of each command.
pub fn of_help() -> Vec<Text> {
    let help = |command: &str| {
        let mut lines = of_examples(&isles(&[command, "--help-all"]).output);
        let basics = of_examples(&isles(&[command, "--help"]).output);
        lines.extend(basics.into_iter().filter(|line| !lines.contains(line)).collect::<Vec<_>>());
        let lines: Vec<Line> = lines.into_iter().map(Line::of).collect();
        assert!(!lines.is_empty(), "{command} --help shows no command");
        Text { name: command.to_owned(), lines }
    };
    COMMANDS.map(help).into()
}

/// README and the documents beside it.
pub fn of_documents() -> Vec<Text> {
    let root = repository();
    let docs = std::fs::read_dir(root.join("docs")).expect("documents");
    let mut paths: Vec<PathBuf> = docs.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.extend(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    paths.sort();
    let text = |path: &PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        Text { name, lines: of_document(&std::fs::read_to_string(path).expect("text")) }
    };
    paths.iter().map(text).collect()
}

/// The commands of a document: lines of blocks, and those within sentences that have no names in
/// capitals. In a block `console` a line with `$` is a command, and those behind it are its output.
pub fn of_document(text: &str) -> Vec<Line> {
    let (mut lines, mut is_fenced) = (Vec::new(), false);
    let mut rest = text.lines();
    while let Some(line) = rest.next() {
        if line == "```console" {
            for line in rest.by_ref().take_while(|line| *line != "```") {
                match line.strip_prefix("$ ").and_then(command) {
                    Some(command) => lines.push(Line::of(command)),
                    None => lines.last_mut().expect("a command").output.push(line.to_owned()),
                }
            }
        } else if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced || line.starts_with("    ") {
            let mut whole = line.to_owned();
            // A line that ends with a stroke goes on in the next one.
            while let Some(first) = whole.strip_suffix('\\') {
                whole = format!("{} {}", first.trim_end(), rest.next().unwrap_or_default().trim());
            }
            lines.extend(command(&whole).map(Line::of));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            let commands = spans.filter_map(command).filter(|line| is_whole(line) && !has_names(line));
            lines.extend(commands.map(Line::of));
        }
    }
    lines
}

/// The command that a line shows, without what stands behind it: a comment, or words behind two
/// spaces.
fn command(line: &str) -> Option<String> {
    let line = line.split(" #").next()?.trim().trim_start_matches("$ ");
    let line = match line.strip_prefix("cargo run --release -- ") {
        Some(rest) => format!("isles {rest}"),
        None => line.to_owned(),
    };
    let is_command = line.strip_prefix("isles ").is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    is_command.then(|| line.split("  ").next().unwrap_or_default().trim().to_owned())
}

/// True if words of a sentence are a whole command, not a command's name and that of a flag.
fn is_whole(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.len() > 2 && words.last() != Some(&"--out") && !(words[1] == "bench" && words[2].starts_with("--"))
}

/// True if a word stands for others.
fn has_names(line: &str) -> bool {
    let is_name = |word: &str| !word.is_empty() && word.chars().all(|one| one.is_ascii_uppercase());
    line.contains("...")
        || line.contains('|')
        || line.split(|one: char| !one.is_ascii_alphanumeric()).any(is_name)
}

/// The commands of the examples of a help, whose lines are wrapped: an explanation stands behind
/// two spaces or more.
fn of_examples(help: &str) -> Vec<String> {
    let Some((_, examples)) = help.split_once("Examples:\n").or(help.split_once("Example:\n")) else {
        return Vec::new();
    };
    let mut lines: Vec<String> = Vec::new();
    for line in examples.lines().take_while(|line| !line.trim().is_empty()) {
        match line.strip_prefix("  isles ") {
            Some(rest) => lines.push(format!("isles {rest}")),
            // An explanation on a line of its own.
            None if line.starts_with("   ") => {}
            None => lines.last_mut().expect("a command comes first").extend([" ", line.trim_start()]),
        }
    }
    lines.iter().map(|line| line.split("  ").next().unwrap_or_default().trim().to_owned()).collect()
}

/// A line with values for its names in capitals, and without what it may have besides.
pub fn with_values(line: &str, values: &[(&str, &str)]) -> String {
    let mut whole = line.to_owned();
    while let Some((before, rest)) = whole.split_once('[') {
        let behind = rest.split_once(']').map_or("", |(_, behind)| behind);
        whole = format!("{before}{behind}");
    }
    let value = |word: &str| {
        let known = values.iter().find(|(name, _)| *name == word);
        known.map_or_else(|| word.to_owned(), |(_, value)| (*value).to_owned())
    };
    whole.split_whitespace().map(value).collect::<Vec<_>>().join(" ")
}

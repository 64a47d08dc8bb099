//! The interface of the library, read from its source: every public function of a public type. A
//! function that is added later is reported as missing, by name, until the suite calls it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Types whose functions need no engine, because they work on values alone.
const VALUES: [&str; 2] = ["Error", "NormalizedRange"];
/// Types and free functions of deployments only, and of databases only.
const OF_DEPLOYMENTS: [&str; 3] = ["Deployment", "DeploymentBuilder", "copy_deployment"];
const OF_DATABASES: [&str; 15] = [
    "Database",
    "Builder",
    "TableOptions",
    "TableChange",
    "Sequence",
    "SequenceOptions",
    "Latencies",
    "ConflictStatistics",
    "copy_directory",
    "ReadCopy",
    "Watch",
    "Bucket",
    "Batch",
    "record_metrics",
    "trace_event",
];
/// Types that databases over pages do not give: [`isles::Error::NoChanges`].
const OF_ROWS_IN_MEMORY: [&str; 4] = ["Changes", "RowChange", "ChangePosition", "Watch"];

/// The functions that the suite has to call on a database, as `Owner::name`.
pub fn of_databases() -> BTreeSet<String> {
    without(&OF_DEPLOYMENTS)
}

/// The functions that the suite has to call on a database over pages.
pub fn of_pages() -> BTreeSet<String> {
    let mut all = of_databases();
    all.retain(|name| !OF_ROWS_IN_MEMORY.iter().any(|owner| name.split("::").next() == Some(owner)));
    all
}

/// The functions that the suite has to call on a deployment.
pub fn of_deployments() -> BTreeSet<String> {
    without(&OF_DATABASES)
}

fn without(others: &[&str]) -> BTreeSet<String> {
    let mut all = functions();
    all.retain(|name| {
        let owner = name.split("::").next().unwrap_or(name);
        !others.contains(&owner) && !VALUES.contains(&owner)
    });
    all
}

/// All public functions of the library.
fn functions() -> BTreeSet<String> {
    let mut files = Vec::new();
    list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let sources: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(file).expect("a source file")).collect();
    functions_of(&sources)
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("the sources of the library") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The public functions in some files, which are formatted by rustfmt.
fn functions_of(sources: &[String]) -> BTreeSet<String> {
    let (mut found, mut of_macro, mut users) = (BTreeSet::new(), Vec::new(), Vec::new());
    for source in sources {
        let mut owner = Some(String::new());
        let mut hidden = false;
        for line in source.lines() {
            let (code, indent) = (line.trim_start(), line.len() - line.trim_start().len());
            if let Some(types) = line.strip_prefix("verbs!(").and_then(|rest| rest.strip_suffix(");")) {
                users.extend(types.split(", ").map(|name| type_name(name).to_owned()));
            } else if code.starts_with("impl") && code.ends_with('{') {
                owner = owner_of(code);
            } else if line == "}" {
                owner = Some(String::new());
            } else if code == "#[doc(hidden)]" {
                hidden = true;
            } else if let Some(rest) = code.strip_prefix("pub fn ").or(code.strip_prefix("pub const fn ")) {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                match owner.as_deref() {
                    _ if hidden => {}
                    Some("") if indent == 0 => drop(found.insert(name)),
                    Some("$transaction") => of_macro.push(name),
                    Some(owner) if !owner.is_empty() => drop(found.insert(format!("{owner}::{name}"))),
                    _ => {}
                }
                hidden = false;
            }
        }
    }
    for user in &users {
        found.extend(of_macro.iter().map(|name| format!("{user}::{name}")));
    }
    found
}

/// The type of an `impl`, unless it implements a trait.
fn owner_of(code: &str) -> Option<String> {
    let mut rest = code.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|letter| {
            depth += i32::from(letter == '<') - i32::from(letter == '>');
            depth == 0
        })?;
        rest = &rest[end + 1..];
    }
    (!rest.contains(" for ")).then(|| type_name(rest.trim()).to_owned())
}

fn type_name(name: &str) -> &str {
    name.split(['<', ' ']).next().unwrap_or(name)
}

#[test]
fn public_functions_are_parsed_from_the_source() {
    let source = "
impl<'a, R: Row, K: Key> Scan<'a, R, K> {
    /// All of them.
    pub fn collect(self) -> Result<Vec<R>> {
    }
    pub(crate) fn run(self) {}
    #[doc(hidden)]
    pub fn secret(self) {}
}
impl<V: Fn(u8) -> bool> Iterator for Rows<V> {
    pub fn strange(self) {}
}
pub fn prefix<P: Key>(columns: P) {}
macro_rules! verbs {
        impl $transaction {
            pub fn get<L>(&mut self) {}
        }
}
verbs!(Open<'_>, Owned);
";
    let found: Vec<String> = functions_of(&[source.to_owned()]).into_iter().collect();
    assert_eq!(found, ["Open::get", "Owned::get", "Scan::collect", "prefix"]);
    // The library itself: some known functions, and many.
    let all = functions();
    let known =
        ["Transaction::upsert", "OwnedTransaction::upsert", "Session::snapshot", "Scan::update", "prefixes"];
    assert!(known.iter().all(|name| all.contains(*name)), "{all:?}");
    assert!(all.len() > 120, "{} functions", all.len());
}

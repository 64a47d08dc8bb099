//! Study files: TOML, one `[[finding]]` for each claim.
//!
//! The file is read by hand rather than derived, so that every error names the finding, the key and
//! the accepted values.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use toml::{Table, Value as Toml};

use crate::expression::{Expression, is_run_name};

const KEYS_OF_FILE: &str = "title, about, finding";
const KEYS_OF_FINDING: &str = "id, source, claim, published, accept, value, runs";
const ACCEPT: &str = "an interval such as [2.25, 9.0], or true";
/// Flags that belong to the program that starts a run.
const NOT_IN_RUNS: [&str; 3] = ["--json", "--report", "--help"];

/// A parsed study file.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Heading of the report; empty if the file has none.
    pub title: String,
    /// Subject of the study; empty if the file has none.
    pub about: String,
    /// Findings in the order of the file.
    pub findings: Vec<Finding>,
}

/// A published claim and how to test it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its name, unique in the file.
    pub id: String,
    /// Publication of the finding.
    pub source: String,
    /// The finding in words.
    pub claim: String,
    /// The published value.
    pub published: Published,
    /// Values that reproduce the finding.
    pub accept: Accept,
    /// Expression over the results of the runs.
    pub value: Expression,
    /// Runs, in the order in which the value names them.
    pub runs: Vec<Run>,
}

/// A run of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its name in the expression.
    pub name: String,
    /// Arguments of `isles bench`.
    pub arguments: Vec<String>,
}

/// The published result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Number(f64),
    /// True if a comparison holds.
    Truth(bool),
}

/// Accepted values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Accept {
    /// Numbers within this closed interval.
    Interval(f64, f64),
    /// The truth value true.
    True,
}

impl fmt::Display for Published {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Published::Number(number) => formatter.write_str(&crate::numbers::plain(*number)),
            Published::Truth(truth) => write!(formatter, "{truth}"),
        }
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Accept::Interval(low, high) => {
                write!(formatter, "{} to {}", crate::numbers::plain(*low), crate::numbers::plain(*high))
            }
            Accept::True => formatter.write_str("true"),
        }
    }
}

impl Serialize for Accept {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Accept::Interval(low, high) => [low, high].serialize(serializer),
            Accept::True => serializer.serialize_bool(true),
        }
    }
}

/// Errors of a study file. Displays as one line; TOML syntax errors also show the line of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StudyError {
    /// The text is not TOML.
    #[error("{0}")]
    Toml(String),
    /// A key outside of findings.
    #[error("{key}: {problem} (accepted: {accepted})")]
    File {
        /// The key.
        key: String,
        /// The error.
        problem: String,
        /// Accepted values.
        accepted: String,
    },
    /// A key of a finding.
    #[error("finding {finding}: {key}: {problem}")]
    Finding {
        /// The id of the finding, or its number in the file.
        finding: String,
        /// The key.
        key: String,
        /// The error, and accepted values.
        problem: String,
    },
}

impl Study {
    /// Parses the text of a study file.
    ///
    /// # Errors
    /// [`StudyError`] for the first error: a missing, unknown or unsuitable key, a repeated id, an
    /// expression with an error or with an unknown run.
    pub fn parse(text: &str) -> Result<Study, StudyError> {
        let file: Table = text.parse().map_err(|error: toml::de::Error| toml_error(text, &error))?;
        let fault = |key: &str, problem: &str, accepted: &str| StudyError::File {
            key: key.to_owned(),
            problem: problem.to_owned(),
            accepted: accepted.to_owned(),
        };
        let (mut title, mut about, mut findings) = (String::new(), String::new(), Vec::new());
        for (key, value) in &file {
            match (key.as_str(), value) {
                ("title", Toml::String(text)) => title.clone_from(text),
                ("about", Toml::String(text)) => about.clone_from(text),
                ("title" | "about", _) => return Err(fault(key, "not text", "text in quotes")),
                ("finding", Toml::Array(tables)) => findings = read_findings(tables)?,
                ("finding", _) => return Err(fault(key, "not a list of tables", "[[finding]]")),
                _ => return Err(fault(key, "unknown key", KEYS_OF_FILE)),
            }
        }
        if findings.is_empty() {
            return Err(fault("finding", "missing", "at least one [[finding]]"));
        }
        Ok(Study { title, about, findings })
    }
}

/// The message of the TOML parser in one line, with the position.
fn toml_error(text: &str, error: &toml::de::Error) -> StudyError {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let message = error.message().replace('\n', ", ");
    StudyError::Toml(match line {
        Some(line) => format!("line {line}: {message}"),
        None => message,
    })
}

fn read_findings(tables: &[Toml]) -> Result<Vec<Finding>, StudyError> {
    let mut ids = BTreeSet::new();
    let mut findings = Vec::new();
    for (position, table) in tables.iter().enumerate() {
        let number = format!("number {}", position + 1);
        let Toml::Table(table) = table else {
            return Err(fault(&number, "finding", "not a table", "[[finding]]"));
        };
        let finding = Reader { table, name: number }.finding()?;
        if !ids.insert(finding.id.clone()) {
            return Err(fault(&finding.id, "id", "another finding has it", "an id of its own"));
        }
        findings.push(finding);
    }
    Ok(findings)
}

fn fault(finding: &str, key: &str, problem: impl fmt::Display, accepted: &str) -> StudyError {
    let problem = format!("{problem} (accepted: {accepted})");
    StudyError::Finding { finding: finding.to_owned(), key: key.to_owned(), problem }
}

/// Reads one finding.
struct Reader<'a> {
    table: &'a Table,
    /// Name of the finding in messages: its number, then its id.
    name: String,
}

impl Reader<'_> {
    fn finding(mut self) -> Result<Finding, StudyError> {
        let id = self.text("id")?;
        let of_id = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        if id.is_empty() || !id.chars().all(of_id) {
            return Err(self.fault("id", format!("{id:?}"), "letters, digits, - _ ."));
        }
        self.name.clone_from(&id);
        let known: Vec<&str> = KEYS_OF_FINDING.split(", ").collect();
        if let Some(key) = self.table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(self.fault(key, "unknown key", KEYS_OF_FINDING));
        }
        let (source, claim) = (self.text("source")?, self.text("claim")?);
        let (published, accept) = (self.published()?, self.accept()?);
        let mut runs = self.runs()?;
        let value = self.value(&runs)?;
        let paths = value.paths();
        runs.sort_by_key(|run| paths.iter().position(|path| path.run == run.name));
        Ok(Finding { id, source, claim, published, accept, value, runs })
    }

    fn get(&self, key: &str, accepted: &str) -> Result<&Toml, StudyError> {
        self.table.get(key).ok_or_else(|| self.fault(key, "missing", accepted))
    }

    fn text(&self, key: &str) -> Result<String, StudyError> {
        const ACCEPTED: &str = "text in quotes";
        match self.get(key, ACCEPTED)? {
            Toml::String(text) => Ok(text.clone()),
            other => Err(self.fault(key, other.type_str(), ACCEPTED)),
        }
    }

    fn published(&self) -> Result<Published, StudyError> {
        const ACCEPTED: &str = "a number, true or false";
        let value = self.get("published", ACCEPTED)?;
        match (value, number(value)) {
            (_, Some(number)) => Ok(Published::Number(number)),
            (Toml::Boolean(truth), _) => Ok(Published::Truth(*truth)),
            _ => Err(self.fault("published", value, ACCEPTED)),
        }
    }

    fn accept(&self) -> Result<Accept, StudyError> {
        let value = self.get("accept", ACCEPT)?;
        match value {
            Toml::Boolean(true) => Ok(Accept::True),
            Toml::Array(ends) => match ends.iter().map(number).collect::<Vec<_>>()[..] {
                [Some(low), Some(high)] if low <= high => Ok(Accept::Interval(low, high)),
                [Some(_), Some(_)] => Err(self.fault("accept", format!("{value} is empty"), ACCEPT)),
                _ => Err(self.fault("accept", value, ACCEPT)),
            },
            _ => Err(self.fault("accept", value, ACCEPT)),
        }
    }

    fn runs(&self) -> Result<Vec<Run>, StudyError> {
        const ACCEPTED: &str = "a table of names and arguments of isles bench";
        let Toml::Table(table) = self.get("runs", ACCEPTED)? else {
            return Err(self.fault("runs", "not a table", ACCEPTED));
        };
        if table.is_empty() {
            return Err(self.fault("runs", "empty", ACCEPTED));
        }
        table.iter().map(|(name, value)| self.run(name, value)).collect()
    }

    fn run(&self, name: &str, value: &Toml) -> Result<Run, StudyError> {
        const ACCEPTED: &str = "arguments of isles bench, such as \"tpcc --cores 2\"";
        let key = format!("runs.{name}");
        if !is_run_name(name) {
            let accepted = "letters, digits and _, not beginning with a digit, no word of the language";
            return Err(self.fault(&key, "a name that no expression can use", accepted));
        }
        let Toml::String(line) = value else { return Err(self.fault(&key, value.type_str(), ACCEPTED)) };
        let Some(mut arguments) = shlex::split(line) else {
            return Err(self.fault(&key, "a quote that does not close", ACCEPTED));
        };
        if arguments.first().is_some_and(|word| word == "bench") {
            arguments.remove(0);
        }
        if arguments.is_empty() {
            return Err(self.fault(&key, "empty", ACCEPTED));
        }
        let word = |argument: &String| argument.split('=').next().unwrap_or_default().to_owned();
        if let Some(flag) = arguments.iter().map(word).find(|word| NOT_IN_RUNS.contains(&word.as_str())) {
            return Err(self.fault(&key, format!("{flag} is given by the study"), "other flags"));
        }
        Ok(Run { name: name.to_owned(), arguments })
    }

    fn value(&self, runs: &[Run]) -> Result<Expression, StudyError> {
        let text = self.text("value")?;
        let expression = Expression::parse(&text).map_err(|error| StudyError::Finding {
            finding: self.name.clone(),
            key: "value".to_owned(),
            problem: error.to_string(),
        })?;
        let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        let paths = expression.paths();
        if let Some(path) = paths.iter().find(|path| !names.contains(&path.run.as_str())) {
            let accepted = names.join(", ");
            return Err(self.fault("value", format!("{path}: no run {}", path.run), &accepted));
        }
        if let Some(name) = names.iter().find(|name| !paths.iter().any(|path| path.run == **name)) {
            let accepted = format!("a value with {name}, or no run {name}");
            return Err(self.fault(&format!("runs.{name}"), "not used by value", &accepted));
        }
        Ok(expression)
    }

    fn fault(&self, key: &str, problem: impl fmt::Display, accepted: &str) -> StudyError {
        fault(&self.name, key, problem, accepted)
    }
}

/// A finite number, written with or without a decimal point.
fn number(value: &Toml) -> Option<f64> {
    let number = match value {
        Toml::Integer(number) => Some(*number as f64),
        Toml::Float(number) => Some(*number),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        [[finding]]
        id = "one"
        source = "[S] Fig. 1"
        claim = "b over a"
        published = 2
        accept = [1, 4.5]
        value = "b.throughput / a.throughput"
        [finding.runs]
        a = "bench counter --machine 'my machine.toml'"
        b = "counter --threads 2"
    "#;

    #[test]
    fn reads_a_finding() {
        let study = Study::parse(GOOD).unwrap();
        let finding = &study.findings[0];
        assert_eq!((finding.id.as_str(), finding.source.as_str()), ("one", "[S] Fig. 1"));
        assert_eq!((finding.published, finding.accept), (Published::Number(2.0), Accept::Interval(1.0, 4.5)));
        // In the order of the value.
        assert_eq!(finding.runs[0].arguments, ["counter", "--threads", "2"]);
        assert_eq!(finding.runs[1].arguments, ["counter", "--machine", "my machine.toml"]);
    }

    /// A replacement in the good file, and the expected message.
    const FAULTS: &[(&str, &str, &str)] = &[
        ("[[finding]]", "[finding", "line 2: "),
        ("[[finding]]", "titles = 3\n[[finding]]", "titles: unknown key (accepted: title, about, finding)"),
        ("[[finding]]", "title = 3\n[[finding]]", "title: not text (accepted: text in quotes)"),
        ("id = \"one\"", "", "finding number 1: id: missing (accepted: text in quotes)"),
        ("id = \"one\"", "id = 'a b'", "finding number 1: id: \"a b\" (accepted: letters, digits, - _ .)"),
        ("claim =", "claims =", "finding one: claims: unknown key (accepted: id, source, claim,"),
        ("source = \"[S] Fig. 1\"", "source = 1", "finding one: source: integer (accepted: text in quotes)"),
        ("published = 2", "published = nan", "finding one: published: nan (accepted: a number, true or"),
        ("[1, 4.5]", "[4.5, 1]", "finding one: accept: [4.5, 1] is empty (accepted: an interval such as"),
        (
            "[1, 4.5]",
            "false",
            "finding one: accept: false (accepted: an interval such as [2.25, 9.0], or true",
        ),
        ("[1, 4.5]", "[1, 2, 3]", "finding one: accept: [1, 2, 3] (accepted: an interval such as"),
        (
            "b.throughput /",
            "b.throughput //",
            "finding one: value: unexpected / at column 15 of `b.throughput",
        ),
        (
            "/ a.throughput",
            "",
            "finding one: runs.a: not used by value (accepted: a value with a, or no run a)",
        ),
        ("/ a.through", "/ c.through", "finding one: value: c.throughput: no run c (accepted: a, b)"),
        ("b = \"counter", "or = \"counter", "finding one: runs.or: a name that no expression can use"),
        ("\"counter --threads 2\"", "\"\"", "finding one: runs.b: empty (accepted: arguments of isles bench"),
        ("\"counter --threads 2\"", "2", "finding one: runs.b: integer (accepted: arguments of isles bench"),
        ("--threads 2", "'", "finding one: runs.b: a quote that does not close"),
        (
            "--threads 2",
            "--json",
            "finding one: runs.b: --json is given by the study (accepted: other flags)",
        ),
        ("--threads 2", "--report=x", "finding one: runs.b: --report is given by the study"),
    ];

    #[test]
    fn faults_name_finding_key_and_what_is_accepted() {
        for (good, bad, expected) in FAULTS {
            assert!(GOOD.contains(good), "{good}");
            let error = Study::parse(&GOOD.replacen(good, bad, 1)).expect_err(bad).to_string();
            assert!(error.starts_with(expected), "{bad}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let twice = Study::parse(&format!("{GOOD}{GOOD}")).unwrap_err().to_string();
        assert_eq!(twice, "finding one: id: another finding has it (accepted: an id of its own)");
        let nothing = Study::parse("title = 'x'").unwrap_err().to_string();
        assert_eq!(nothing, "finding: missing (accepted: at least one [[finding]])");
    }
}

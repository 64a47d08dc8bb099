//! Findings: published claims with the values that reproduce them.

use std::fmt;

use serde::Serialize;
use toml::{Table, Value as Toml};

use super::error::StudyError;
use super::reader::{Entry, Like, Reader, number};
use super::run::{self, Run};
use super::size::Size;
use crate::expression::{Expression, is_run_name};

const KEYS: &str = "id, source, claim, published, accept, value, run, runs, like, smoke, full";
const ACCEPT: &str = "an interval such as [2.25, 9.0], or true";

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

/// Reads one finding in a size, in one form or two. `number` is its place in the file;
/// `size_arguments` are those that the file gives all runs of the size.
pub(super) fn read(
    number: usize,
    table: &Table,
    size: Size,
    size_arguments: &[String],
) -> Result<Vec<Finding>, StudyError> {
    let read = |reader: Reader<'_>, size_arguments: &[String]| {
        FindingReader { reader, size, size_arguments }.finding()
    };
    let entry = Entry { table, kind: "finding", number };
    entry.forms(size_arguments, read, |finding| [&mut finding.id, &mut finding.claim])
}

struct FindingReader<'a> {
    reader: Reader<'a>,
    size: Size,
    size_arguments: &'a [String],
}

impl FindingReader<'_> {
    fn finding(mut self) -> Result<(Finding, Option<Like>), StudyError> {
        let id = self.reader.id(KEYS)?;
        let (source, claim) = (self.reader.text("source")?, self.reader.text("claim")?);
        let (published, accept) = (self.published()?, self.accept()?);
        let mut runs = self.runs()?;
        let value = self.value(&runs)?;
        let paths = value.paths();
        runs.sort_by_key(|run| paths.iter().position(|path| path.run == run.name));
        Ok((Finding { id, source, claim, published, accept, value, runs }, self.reader.like()?))
    }

    fn published(&self) -> Result<Published, StudyError> {
        const ACCEPTED: &str = "a number, true or false";
        let value = self.reader.get("published", ACCEPTED)?;
        match (value, number(value)) {
            (_, Some(number)) => Ok(Published::Number(number)),
            (Toml::Boolean(truth), _) => Ok(Published::Truth(*truth)),
            _ => Err(self.reader.fault("published", value, ACCEPTED)),
        }
    }

    fn accept(&self) -> Result<Accept, StudyError> {
        let value = self.reader.get("accept", ACCEPT)?;
        match value {
            Toml::Boolean(true) => Ok(Accept::True),
            Toml::Array(ends) => match ends.iter().map(number).collect::<Vec<_>>()[..] {
                [Some(low), Some(high)] if low <= high => Ok(Accept::Interval(low, high)),
                [Some(_), Some(_)] => Err(self.reader.fault("accept", format!("{value} is empty"), ACCEPT)),
                _ => Err(self.reader.fault("accept", value, ACCEPT)),
            },
            _ => Err(self.reader.fault("accept", value, ACCEPT)),
        }
    }

    fn runs(&self) -> Result<Vec<Run>, StudyError> {
        const ACCEPTED: &str = "a table of names and arguments of isles bench";
        let Toml::Table(table) = self.reader.get("runs", ACCEPTED)? else {
            return Err(self.reader.fault("runs", "not a table", ACCEPTED));
        };
        if table.is_empty() {
            return Err(self.reader.fault("runs", "empty", ACCEPTED));
        }
        let common = self.reader.table.get("run");
        let common = common.map(|value| self.reader.whole_arguments("run", value)).transpose()?;
        let (_, own_arguments) = self.reader.of_size(self.size, "{ arguments = \"...\" }", "arguments")?;
        table.iter().map(|(name, value)| self.run(name, value, common.as_deref(), &own_arguments)).collect()
    }

    /// A run: its arguments behind those that are `common` to the runs of the finding, or a whole
    /// run.
    fn run(
        &self,
        name: &str,
        value: &Toml,
        common: Option<&[String]>,
        own_arguments: &[String],
    ) -> Result<Run, StudyError> {
        let key = format!("runs.{name}");
        if !is_run_name(name) {
            let accepted = "letters, digits and _, not beginning with a digit, no word of the language";
            return Err(self.reader.fault(&key, "a name that no expression can use", accepted));
        }
        let mut arguments = match common {
            Some(common) => {
                let mut arguments = common.to_vec();
                run::append(&mut arguments, &self.reader.arguments(&key, value)?);
                arguments
            }
            None => self.reader.whole_arguments(&key, value)?,
        };
        run::append(&mut arguments, self.size_arguments);
        run::append(&mut arguments, own_arguments);
        Ok(Run { name: name.to_owned(), arguments })
    }

    fn value(&self, runs: &[Run]) -> Result<Expression, StudyError> {
        let text = self.reader.text("value")?;
        let expression = Expression::parse(&text).map_err(|error| self.reader.plain_fault("value", error))?;
        let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        let paths = expression.paths();
        if let Some(path) = paths.iter().find(|path| !names.contains(&path.run.as_str())) {
            let accepted = names.join(", ");
            return Err(self.reader.fault("value", format!("{path}: no run {}", path.run), &accepted));
        }
        if let Some(name) = names.iter().find(|name| !paths.iter().any(|path| path.run == **name)) {
            let accepted = format!("a value with {name}, or no run {name}");
            return Err(self.reader.fault(&format!("runs.{name}"), "not used by value", &accepted));
        }
        Ok(expression)
    }
}

//! Reader of one entry of a study file, by hand rather than derived, so that every error names the
//! entry, the key and the accepted values.

use std::fmt;

use toml::{Table, Value as Toml};

use super::error::StudyError;
use super::run::{self, ArgumentsFault};
use super::size::Size;

/// Key of the arguments of the second form of an entry.
const LIKE: &str = "like";

/// Second form of an entry: the same runs with further arguments, such as those that make this
/// engine behave like the published one.
pub(super) struct Like {
    arguments: Vec<String>,
}

/// A finding or figure of a study file, in one form or two.
pub(super) struct Entry<'a> {
    /// The entry.
    pub table: &'a Table,
    /// `finding` or `figure`.
    pub kind: &'static str,
    /// Its place in the file.
    pub number: usize,
}

impl Entry<'_> {
    /// Reads each form of the entry by `read`, which gets the arguments that all runs of the form
    /// have last. `texts` are the id and the description of an entry, to which those of the second
    /// form add.
    pub fn forms<E>(
        &self,
        size_arguments: &[String],
        read: impl Fn(Reader<'_>, &[String]) -> Result<(E, Option<Like>), StudyError>,
        texts: impl Fn(&mut E) -> [&mut String; 2],
    ) -> Result<Vec<E>, StudyError> {
        let &Entry { table, kind, number } = self;
        let form =
            |arguments: &[String]| read(Reader { table, kind, name: format!("number {number}") }, arguments);
        let (first, like) = form(size_arguments)?;
        let Some(Like { mut arguments }) = like else { return Ok(vec![first]) };
        let with = arguments.join(" ");
        run::append(&mut arguments, size_arguments);
        let (mut second, _) = form(&arguments)?;
        let [id, text] = texts(&mut second);
        id.push_str("-like");
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str("with ");
        text.push_str(&with);
        Ok(vec![first, second])
    }
}

/// Reads one finding or one figure.
pub(super) struct Reader<'a> {
    /// The entry.
    pub table: &'a Table,
    /// `finding` or `figure`.
    pub kind: &'static str,
    /// Name of the entry in messages: its number, then its id.
    pub name: String,
}

impl<'a> Reader<'a> {
    /// Reads the id, and refuses other keys than these.
    pub fn id(&mut self, keys: &str) -> Result<String, StudyError> {
        let id = self.text("id")?;
        let of_id = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        if id.is_empty() || !id.chars().all(of_id) {
            return Err(self.fault("id", format!("{id:?}"), "letters, digits, - _ ."));
        }
        self.name.clone_from(&id);
        self.known("", self.table, keys)?;
        Ok(id)
    }

    /// The table of a size that is not the normal one, with the keys `keys`, and the arguments that
    /// it adds. Tables of other sizes are checked by their own readings.
    pub fn of_size(
        &self,
        size: Size,
        accepted: &str,
        keys: &str,
    ) -> Result<(Option<&'a Table>, Vec<String>), StudyError> {
        let name = size.name();
        let Some(given) = self.table.get(name).filter(|_| size != Size::Normal) else {
            return Ok((None, Vec::new()));
        };
        let Toml::Table(table) = given else { return Err(self.fault(name, given.type_str(), accepted)) };
        self.known(&format!("{name}."), table, keys)?;
        let arguments = table.get("arguments");
        let arguments = arguments.map(|value| self.arguments(&format!("{name}.arguments"), value));
        Ok((Some(table), arguments.transpose()?.unwrap_or_default()))
    }

    /// Refuses other keys of a table than these; `prefix` is the way to the table.
    pub fn known(&self, prefix: &str, table: &Table, keys: &str) -> Result<(), StudyError> {
        match table.keys().find(|key| !keys.split(", ").any(|known| known == *key)) {
            Some(key) => Err(self.fault(&format!("{prefix}{key}"), "unknown key", keys)),
            None => Ok(()),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str, accepted: &str) -> Result<&'a Toml, StudyError> {
        self.table.get(key).ok_or_else(|| self.fault(key, "missing", accepted))
    }

    /// The text of a key.
    pub fn text(&self, key: &str) -> Result<String, StudyError> {
        self.text_in(self.table, key, key)
    }

    /// The text of a key of an inner table; messages call it `name`.
    pub fn text_in(&self, table: &Table, key: &str, name: &str) -> Result<String, StudyError> {
        const ACCEPTED: &str = "text in quotes";
        match table.get(key) {
            Some(Toml::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.fault(name, other.type_str(), ACCEPTED)),
            None => Err(self.fault(name, "missing", ACCEPTED)),
        }
    }

    /// The arguments that a key consists of.
    pub fn arguments(&self, key: &str, value: &Toml) -> Result<Vec<String>, StudyError> {
        const ACCEPTED: &str = "arguments of isles bench, such as \"tpcc --cores 2\"";
        let Toml::String(line) = value else { return Err(self.fault(key, value.type_str(), ACCEPTED)) };
        run::arguments(line, ACCEPTED)
            .map_err(|ArgumentsFault { problem, accepted }| self.fault(key, problem, accepted))
    }

    /// The arguments of a whole run, which name a workload.
    pub fn whole_arguments(&self, key: &str, value: &Toml) -> Result<Vec<String>, StudyError> {
        let mut arguments = self.arguments(key, value)?;
        if arguments.first().is_some_and(|word| word == "bench") {
            arguments.remove(0);
        }
        if arguments.is_empty() {
            let accepted = "arguments of isles bench, such as \"tpcc --cores 2\"";
            return Err(self.fault(key, "empty", accepted));
        }
        Ok(arguments)
    }

    /// The arguments by which the runs of the second form of this entry differ; `None` if the entry
    /// has one form.
    pub fn like(&self) -> Result<Option<Like>, StudyError> {
        let Some(given) = self.table.get(LIKE) else { return Ok(None) };
        let arguments = self.arguments(LIKE, given)?;
        if arguments.is_empty() {
            return Err(self.fault(LIKE, "empty", "arguments such as \"--like shore-mt\""));
        }
        Ok(Some(Like { arguments }))
    }

    /// A fault of a key, with the accepted values.
    pub fn fault(&self, key: &str, problem: impl fmt::Display, accepted: &str) -> StudyError {
        self.plain_fault(key, format!("{problem} (accepted: {accepted})"))
    }

    /// A fault of a key whose text has the accepted values already.
    pub fn plain_fault(&self, key: &str, problem: impl fmt::Display) -> StudyError {
        let (name, key, problem) = (self.name.clone(), key.to_owned(), problem.to_string());
        StudyError::Entry { kind: self.kind, name, key, problem }
    }
}

/// A finite number, written with or without a decimal point.
pub(super) fn number(value: &Toml) -> Option<f64> {
    let number = match value {
        Toml::Integer(number) => Some(*number as f64),
        Toml::Float(number) => Some(*number),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

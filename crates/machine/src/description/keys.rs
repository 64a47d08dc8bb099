//! Checked access to the keys of a description file: every error is one line that names the key.

use toml::{Table, Value};

use super::fact::{Confidence, Fact};

/// The key of the only number that may be 0.
pub(super) const CODE_MISS_NS: &str = "code_miss_ns";

/// Reasons for which a description file is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The file is not TOML.
    #[error("line {line}: not TOML: {reason}")]
    Syntax {
        /// Line of the error, from 1.
        line: usize,
        /// Message of the parser.
        reason: String,
    },
    /// A required key is missing.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A key that no description has: most likely misspelt.
    #[error("`{key}` is no key of a machine description: expected {expected}")]
    Unknown {
        /// The key.
        key: String,
        /// The accepted keys.
        expected: String,
    },
    /// A value of the wrong type or outside the range of real machines.
    #[error("`{key}` is {found}: expected {expected}")]
    Invalid {
        /// The key.
        key: String,
        /// The value in the file.
        found: String,
        /// The accepted values.
        expected: String,
    },
}

/// A table of a description, and the path to it for messages.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    path: String,
    table: Table,
}

/// Largest accepted number of sockets, cores or machines; keeps a misprint from exhausting memory.
const COUNT_MAX: usize = 4096;

/// Largest number of hops between two sockets.
const HOPS_MAX: u32 = 64;

impl Keys {
    pub(super) fn parse(text: &str) -> Result<Self, DescriptionError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count() + 1;
            DescriptionError::Syntax { line, reason: error.message().replace('\n', " ") }
        })?;
        Ok(Self::of(table))
    }

    pub(super) fn of(table: Table) -> Self {
        Self { path: String::new(), table }
    }

    fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn missing(&self, key: &str) -> DescriptionError {
        DescriptionError::Missing(self.full(key))
    }

    pub(super) fn invalid(&self, key: &str, found: impl ToString, expected: &str) -> DescriptionError {
        DescriptionError::Invalid {
            key: self.full(key),
            found: found.to_string(),
            expected: expected.to_owned(),
        }
    }

    /// Refuses keys that are not among `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), DescriptionError> {
        match self.table.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(DescriptionError::Unknown { key: self.full(key), expected: listed(known) }),
            None => Ok(()),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(super) fn is_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(Value::is_table)
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, DescriptionError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.invalid(key, brief(other), "a text")),
        }
    }

    /// A table below this one.
    pub(super) fn below(&self, key: &str) -> Result<Option<Keys>, DescriptionError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(Keys { path: self.full(key), table: table.clone() })),
            Some(other) => Err(self.invalid(key, brief(other), "a table")),
        }
    }

    /// A positive number.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, DescriptionError> {
        self.table.get(key).map(|value| self.positive(key, value)).transpose()
    }

    pub(super) fn required_number(&self, key: &str) -> Result<f64, DescriptionError> {
        self.number(key)?.ok_or_else(|| self.missing(key))
    }

    /// A whole number from 1 to 4096.
    pub(super) fn count(&self, key: &str) -> Result<Option<usize>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let count = value.as_integer().and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|count| (1..=COUNT_MAX).contains(count));
        count.map(Some).ok_or_else(|| self.invalid(key, brief(value), "a whole number from 1 to 4096"))
    }

    pub(super) fn required_count(&self, key: &str) -> Result<usize, DescriptionError> {
        self.count(key)?.ok_or_else(|| self.missing(key))
    }

    /// A list of `length` positive numbers.
    pub(super) fn numbers(&self, key: &str, length: usize) -> Result<Option<Vec<f64>>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        self.row(key, value, length).map(Some)
    }

    /// A square matrix of positive numbers.
    pub(super) fn matrix(&self, key: &str, size: usize) -> Result<Option<Vec<Vec<f64>>>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let expected = format!("a matrix of {size} rows of {size} positive numbers");
        let Value::Array(rows) = value else { return Err(self.invalid(key, brief(value), &expected)) };
        if rows.len() != size {
            return Err(self.invalid(key, format!("a list of {} rows", rows.len()), &expected));
        }
        let numbered = rows.iter().enumerate();
        numbered
            .map(|(index, row)| self.row(&format!("{key}[{index}]"), row, size))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Hops to each of `length` sockets of a chassis: 0 to the first, positive to the others.
    pub(super) fn hops(&self, key: &str, length: usize) -> Result<Option<Vec<u32>>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let read = |items: &Vec<Value>| -> Option<Vec<u32>> {
            items.iter().map(|item| u32::try_from(item.as_integer()?).ok()).collect()
        };
        let usable = |hops: &Vec<u32>| {
            let zeros = hops.iter().enumerate().all(|(index, &hops)| (index == 0) == (hops == 0));
            zeros && hops.len() == length && hops.iter().all(|&hops| hops <= HOPS_MAX)
        };
        let expected = format!("{length} numbers of hops, 0 and then positive ones up to {HOPS_MAX}");
        let hops = value.as_array().and_then(read).filter(usable);
        hops.map(Some).ok_or_else(|| self.invalid(key, brief(value), &expected))
    }

    /// Pairs of different numbers below `limit`.
    pub(super) fn pairs(
        &self,
        key: &str,
        limit: usize,
    ) -> Result<Option<Vec<(usize, usize)>>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let expected = format!("a list of pairs of different sockets from 0 to {}", limit.saturating_sub(1));
        let Value::Array(items) = value else { return Err(self.invalid(key, brief(value), &expected)) };
        let pair = |item: &Value| {
            let [from, to] = item.as_array()?.as_slice() else { return None };
            let index =
                |value: &Value| usize::try_from(value.as_integer()?).ok().filter(|&index| index < limit);
            Some((index(from)?, index(to)?)).filter(|(from, to)| from != to)
        };
        let read = |item: &Value| pair(item).ok_or_else(|| self.invalid(key, brief(item), &expected));
        items.iter().map(read).collect::<Result<_, _>>().map(Some)
    }

    fn row(&self, key: &str, value: &Value, length: usize) -> Result<Vec<f64>, DescriptionError> {
        let expected = format!("a list of {length} positive numbers");
        let Value::Array(items) = value else { return Err(self.invalid(key, brief(value), &expected)) };
        if items.len() != length {
            return Err(self.invalid(key, format!("a list of {} entries", items.len()), &expected));
        }
        let numbered = items.iter().enumerate();
        numbered.map(|(index, item)| self.positive(&format!("{key}[{index}]"), item)).collect()
    }

    fn positive(&self, key: &str, value: &Value) -> Result<f64, DescriptionError> {
        let number = match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        };
        if number == Some(0.0) && self.full(key).contains(CODE_MISS_NS) {
            return Ok(0.0);
        }
        let usable = number.filter(|number| number.is_finite() && *number > 0.0);
        let number = usable.ok_or_else(|| self.invalid(key, brief(value), "a positive number"))?;
        let (least, most) = limits(&self.full(key));
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        Err(self.invalid(key, brief(value), &format!("a number from {least} to {most}")))
    }

    /// A line size from a number: whole, and a power of two.
    pub(super) fn line_bytes(&self, fact: Fact<f64>) -> Result<Fact<u32>, DescriptionError> {
        let bytes = fact.value as u32;
        if f64::from(bytes) != fact.value || !bytes.is_power_of_two() {
            return Err(self.invalid("line_bytes", fact.value, "a power of two from 16 to 4096"));
        }
        Ok(Fact { value: bytes, confidence: fact.confidence, source: fact.source })
    }

    /// Tables below this one, each with its number in its path.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<Keys>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Err(self.missing(key)) };
        let items = value.as_array().ok_or_else(|| self.invalid(key, brief(value), "a list of tables"))?;
        let below = |(index, item): (usize, &Value)| {
            let path = format!("{key}[{index}]");
            match item {
                Value::Table(table) => Ok(Keys { path: self.full(&path), table: table.clone() }),
                other => Err(self.invalid(&path, brief(other), "a table")),
            }
        };
        items.iter().enumerate().map(below).collect()
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let texts = value.as_array().and_then(|items| {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.map(Some).ok_or_else(|| self.invalid(key, brief(value), "a list of texts"))
    }

    /// A whole number from 0 to `most`.
    pub(super) fn whole(&self, key: &str, most: u64) -> Result<Option<u64>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| *number <= most);
        let expected = || format!("a whole number from 0 to {most}");
        number.map(Some).ok_or_else(|| self.invalid(key, brief(value), &expected()))
    }

    /// A list of whole numbers, each up to `most`.
    pub(super) fn whole_numbers(&self, key: &str, most: u32) -> Result<Option<Vec<u32>>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        self.whole_row(key, value, most).map(Some)
    }

    /// A square matrix of whole numbers up to `most`.
    pub(super) fn whole_matrix(
        &self,
        key: &str,
        size: usize,
        most: u32,
    ) -> Result<Option<Vec<Vec<u32>>>, DescriptionError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let expected = format!("a matrix of {size} rows of {size} whole numbers from 0 to {most}");
        let rows = value.as_array().filter(|rows| rows.len() == size);
        let rows = rows.ok_or_else(|| self.invalid(key, brief(value), &expected))?;
        let read = |(index, row): (usize, &Value)| {
            let key = format!("{key}[{index}]");
            let numbers = self.whole_row(&key, row, most)?;
            let found = format!("a list of {} entries", numbers.len());
            if numbers.len() == size { Ok(numbers) } else { Err(self.invalid(&key, found, &expected)) }
        };
        rows.iter().enumerate().map(read).collect::<Result<_, _>>().map(Some)
    }

    /// A square matrix of texts; `None` if there is no list.
    pub(super) fn text_matrix(
        &self,
        key: &str,
        size: usize,
    ) -> Result<Option<Vec<Vec<String>>>, DescriptionError> {
        let Some(value) = self.table.get(key).filter(|value| value.is_array()) else { return Ok(None) };
        let row = |row: &Value| -> Option<Vec<String>> {
            let texts: Option<Vec<String>> =
                row.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            texts.filter(|row| row.len() == size)
        };
        let rows: Option<Vec<_>> = value.as_array().and_then(|rows| rows.iter().map(row).collect());
        let expected = || format!("one text, or a matrix of {size} rows of {size} texts");
        let rows = rows.filter(|rows| rows.len() == size);
        rows.map(Some).ok_or_else(|| self.invalid(key, brief(value), &expected()))
    }

    fn whole_row(&self, key: &str, value: &Value, most: u32) -> Result<Vec<u32>, DescriptionError> {
        let number = |item: &Value| u32::try_from(item.as_integer()?).ok().filter(|number| *number <= most);
        let numbers = value.as_array().and_then(|items| items.iter().map(number).collect());
        let expected = || format!("a list of whole numbers from 0 to {most}");
        numbers.ok_or_else(|| self.invalid(key, brief(value), &expected()))
    }
}

/// Lists keys for a message, in one readable line.
fn listed(known: &[&str]) -> String {
    const MOST: usize = 12;
    match known.len() {
        0..=MOST => known.join(", "),
        _ => format!("{} or others (docs/machines.md lists all)", known[..MOST].join(", ")),
    }
}

/// Smallest and largest accepted value of a key; reports misprints and wrong units.
fn limits(key: &str) -> (f64, f64) {
    let name = |part: &'static str, key: &str| key.split(['.', '[']).any(|word| word == part);
    let cycles = key.contains("cycles");
    let of = |parts: &[&'static str]| parts.iter().any(|part| name(part, key));
    match () {
        () if of(&["clock_ghz"]) => (0.01, 100.0),
        () if of(&["line_bytes"]) => (16.0, 4096.0),
        () if of(&["memory_gib"]) => (0.001, 1e9),
        // KiB: up to a TiB.
        () if of(&["l1d", "l2", "l3_shared", "l3_per_core", "l3_per_complex"]) && !cycles => (1.0, 1e9),
        () if of(&["share"]) => (0.001, 1.0),
        () => (1e-6, 1e9),
    }
}

/// A value in one short line.
pub(super) fn brief(value: &Value) -> String {
    let text = value.to_string().replace('\n', " ");
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The confidence of a table, estimate if it has none.
pub(super) fn confidence(keys: &Keys) -> Result<Confidence, DescriptionError> {
    let Some(name) = keys.text("confidence")? else { return Ok(Confidence::Estimate) };
    Confidence::parse(&name).ok_or_else(|| keys.invalid("confidence", &name, Confidence::NAMES))
}

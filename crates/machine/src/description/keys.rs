//! Checked access to the keys of a description file: every refusal is one line that names the key.

use toml::{Table, Value};

/// Why a description file is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// Not TOML at all.
    #[error("line {line}: not TOML: {reason}")]
    Syntax {
        /// Line of the mistake, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// A key that must be there.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A key that no description has: most likely misspelt.
    #[error("`{0}` is no key of a machine description")]
    Unknown(String),
    /// A value of the wrong type or outside of what machines have.
    #[error("`{key}` is {found}: expected {expected}")]
    Invalid {
        /// The key.
        key: String,
        /// What the file has.
        found: String,
        /// What would be accepted.
        expected: String,
    },
}

/// A table of a description, and the path to it for messages.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    path: String,
    table: Table,
}

/// Greatest number taken for a count of sockets, cores or machines; keeps a misprint from exhausting memory.
const COUNT_MAX: usize = 4096;

/// Greatest number of hops between two sockets.
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
            Some(key) => Err(DescriptionError::Unknown(self.full(key))),
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
        let usable = number.filter(|number| number.is_finite() && *number > 0.0);
        usable.ok_or_else(|| self.invalid(key, brief(value), "a positive number"))
    }
}

/// A value in one short line.
fn brief(value: &Value) -> String {
    let text = value.to_string().replace('\n', " ");
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

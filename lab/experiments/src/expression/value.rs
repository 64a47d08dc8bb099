//! Values of expressions.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::numbers;

/// A value from a result or of a computation. Numbers are finite.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// True or false.
    Truth(bool),
    /// Text, as in `run.checks.name == "ok"`.
    Text(String),
    /// Values in order.
    List(Vec<Value>),
}

impl Value {
    /// Kind of the value, with its article.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Number(_) => "a number",
            Value::Truth(_) => "true or false",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => formatter.write_str(&numbers::plain(*number)),
            Value::Truth(truth) => write!(formatter, "{truth}"),
            Value::Text(text) => write!(formatter, "{text:?}"),
            Value::List(values) => {
                let texts: Vec<String> = values.iter().map(Value::to_string).collect();
                write!(formatter, "[{}]", texts.join(", "))
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Number(number) => serializer.serialize_f64(*number),
            Value::Truth(truth) => serializer.serialize_bool(*truth),
            Value::Text(text) => serializer.serialize_str(text),
            Value::List(values) => values.serialize(serializer),
        }
    }
}

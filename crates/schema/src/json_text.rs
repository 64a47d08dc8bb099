//! [`JsonText`]: the column type `json`, a text that is known to be JSON.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::tail_value::TailValue;
use crate::value_error::ValueError;
use crate::value_type::ValueType;

/// A JSON text. It is kept as it is written, with its blanks and the digits of its numbers, as
/// PostgreSQL's `json` does; texts compare as texts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText {
    text: String,
}

/// Returns the fault of a text that is not one JSON value.
pub(crate) fn json_fault(text: &str) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(text).err().map(|error| error.to_string())
}

impl JsonText {
    /// Serializes a value.
    ///
    /// # Errors
    /// The value cannot be JSON, such as a map whose keys are not texts.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<JsonText, ValueError> {
        let text = serde_json::to_string(value);
        text.map(|text| JsonText { text }).map_err(|error| ValueError::Json { fault: error.to_string() })
    }

    /// Deserializes a value.
    ///
    /// # Errors
    /// The text has other members or types than the value.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        serde_json::from_str(&self.text).map_err(|error| ValueError::Json { fault: error.to_string() })
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.text
    }
}

impl TryFrom<String> for JsonText {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Self, ValueError> {
        match json_fault(&text) {
            Some(fault) => Err(ValueError::Json { fault }),
            None => Ok(JsonText { text }),
        }
    }
}

impl TryFrom<&str> for JsonText {
    type Error = ValueError;

    fn try_from(text: &str) -> Result<Self, ValueError> {
        JsonText::try_from(text.to_owned())
    }
}

impl FromStr for JsonText {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        JsonText::try_from(text)
    }
}

/// `null`.
impl Default for JsonText {
    fn default() -> Self {
        JsonText { text: "null".to_owned() }
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

/// As a text.
impl Serialize for JsonText {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        JsonText::try_from(text).map_err(serde::de::Error::custom)
    }
}

impl TailValue for JsonText {
    fn value_type() -> ValueType {
        ValueType::Json
    }
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.text.as_bytes())
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        JsonText { text: String::from_utf8_lossy(bytes).into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_json_and_stay_as_they_are() {
        for text in ["null", " {\"a\": [1.50, 12345678901234567890123456789] }\n", "\"é\"", "-0"] {
            assert_eq!(text.parse::<JsonText>().expect(text).as_str(), text);
        }
        for (text, fault) in [
            ("", "EOF"),
            ("{a: 1}", "line 1 column 2"),
            ("1 2", "trailing"),
            ("[1,]", "column"),
            ("NaN", "column"),
        ] {
            let error = text.parse::<JsonText>().expect_err(text).to_string();
            assert!(error.starts_with("no JSON: ") && error.contains(fault), "{text}: {error}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let _ = deep.parse::<JsonText>();
    }

    #[test]
    fn values_are_json() {
        let json = JsonText::of(&(1, "a", Some(2.5))).expect("JSON");
        assert_eq!(json.as_str(), "[1,\"a\",2.5]");
        assert_eq!(json.value(), Ok((1, "a".to_owned(), Some(2.5))));
        assert!(json.value::<u8>().is_err());
        assert_eq!(JsonText::default().value(), Ok(None::<u8>));
        let sent = postcard::to_allocvec(&json).expect("sent");
        assert_eq!(postcard::from_bytes(&sent), Ok(json));
    }
}

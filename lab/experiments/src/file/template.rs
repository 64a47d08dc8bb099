//! Texts with `{x}`, or an expression over x in braces, in the place of values.

use std::fmt;

use serde::Serialize;

use crate::expression::{Expression, Results, Value};

/// A value on the horizontal axis of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Position {
    /// A number.
    Number(f64),
    /// The name of a category.
    Word(String),
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Twelve digits hide the rounding of `{x/100}`.
            Position::Number(number) => {
                let rounded = format!("{number:.11e}").parse::<f64>().unwrap_or(*number);
                write!(formatter, "{rounded}")
            }
            Position::Word(word) => formatter.write_str(word),
        }
    }
}

/// The text with values in the place of its braces.
///
/// # Errors
/// The first brace without a value, and the reason.
pub(super) fn fill(text: &str, x: &Position) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        let (inner, after) =
            behind.split_once('}').ok_or_else(|| format!("{{{behind}: a brace that does not close"))?;
        filled.push_str(before);
        filled.push_str(&value(inner, x).map_err(|problem| format!("{{{inner}}}: {problem}"))?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn value(inner: &str, x: &Position) -> Result<String, String> {
    if inner.trim() == "x" {
        return Ok(x.to_string());
    }
    let Position::Number(number) = x else { return Err("x is a word, not a number".to_owned()) };
    let expression = Expression::parse(&with_number(inner, *number)).map_err(|error| error.to_string())?;
    match expression.evaluate(&Results::new()) {
        Ok(Value::Number(number)) => Ok(Position::Number(number).to_string()),
        Ok(other) => Err(format!("{other} is no number")),
        Err(error) => Err(error.to_string()),
    }
}

/// An expression with a number in the place of x. Other words that contain the letter stay.
fn with_number(expression: &str, number: f64) -> String {
    let is_of_word = |character: char| character.is_alphanumeric() || "_.".contains(character);
    let mut text = String::new();
    let mut rest = expression;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|one| !is_of_word(one)).unwrap_or(rest.len()));
        match word {
            "x" => text.push_str(&format!("({number})")),
            other => text.push_str(other),
        }
        let mut characters = after.chars();
        text.extend(characters.next());
        rest = characters.as_str();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_values() {
        let fill = |text: &str, x: f64| fill(text, &Position::Number(x));
        for (text, x, expected) in [
            ("--multisite {x/100}", 20.0, "--multisite 0.2"),
            ("{x}isl", 4.0, "4isl"),
            ("{x * 100}", 0.07, "7"),
            ("{max(x, 2) + exp(0)}{x}", 1.0, "31"),
            ("{800000 / (x * 10)}", 8.0, "10000"),
            ("nothing", 1.0, "nothing"),
        ] {
            assert_eq!(fill(text, x), Ok(expected.to_owned()), "{text}");
        }
        for (text, expected) in [
            ("{x", "{x: a brace that does not close"),
            ("{y}", "{y}: "),
            ("{1 / x}", "{1 / x}: 1 / (0): division by zero"),
            ("{x > 1}", "{x > 1}: false is no number"),
            ("{}", "{}: "),
        ] {
            let fault = fill(text, 0.0).unwrap_err();
            assert!(fault.starts_with(expected), "{fault}");
        }
        let word = Position::Word("full".to_owned());
        assert_eq!(super::fill("--mix {x}", &word), Ok("--mix full".to_owned()));
        assert_eq!(super::fill("{x + 1}", &word), Err("{x + 1}: x is a word, not a number".to_owned()));
    }
}

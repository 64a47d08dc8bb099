//! The language in which a finding computes its value from the results of its runs.
//!
//! ```text
//! value      = conjunction { "or" conjunction }
//! conjunction= negation { "and" negation }
//! negation   = "not" negation | comparison
//! comparison = sum { ("<" | "<=" | ">" | ">=" | "==" | "!=") sum }      a > b > c is a > b and b > c
//! sum        = product { ("+" | "-") product }
//! product    = factor { ("*" | "/") factor }
//! factor     = "-" factor | number | "text" | "true" | "false" | "(" value ")" | "[" [ value { "," value } ] "]"
//!            | function "(" [ value { "," value } ] ")" | run { "." name | "[" number "]" }
//! ```
//!
//! A path begins with the name of a run and continues as in the JSON object that
//! `isles bench --json` prints. Arithmetic is that of floating-point numbers, element by element if
//! an operand is a list. There are no defaults: null or missing values, a division by zero and an
//! order of unordered values are errors, never false.

mod error;
mod evaluate;
mod functions;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;
mod tree;
mod value;

pub use error::SyntaxError;
pub(crate) use evaluate::look_up;
pub use evaluate::{EvaluationError, Results};
pub use functions::names as function_names;
pub(crate) use parser::is_run_name;
pub use tree::{Pairing, Path, PathStep};
pub use value::Value;

use tree::{Kind, Node};

/// A parsed expression and its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

impl Expression {
    /// Parses `text`.
    ///
    /// # Errors
    /// [`SyntaxError`] with the column of the first error.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Ok(Expression { text: text.to_owned(), root: parser::parse(text)? })
    }

    /// Text of the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All paths in the order of the text, repeated ones too.
    pub fn paths(&self) -> Vec<&Path> {
        let mut paths = Vec::new();
        self.root.visit(&mut |node| {
            if let Kind::Path(path) = &node.kind {
                paths.push(path);
            }
        });
        paths
    }

    /// The value for these results.
    ///
    /// # Errors
    /// [`EvaluationError`] that names the part of the text without a value, and the reason.
    pub fn evaluate(&self, results: &Results) -> Result<Value, EvaluationError> {
        evaluate::Evaluation { text: &self.text, results }.value(&self.root)
    }

    /// The comparisons of the expression with numbers in place of their operands (`3.2 > 1.7`),
    /// joined by `; `. Empty without comparisons or values.
    pub fn explain(&self, results: &Results) -> String {
        let evaluation = evaluate::Evaluation { text: &self.text, results };
        let mut parts = Vec::new();
        self.root.visit(&mut |node| parts.extend(evaluation.comparison(node)));
        parts.join("; ")
    }

    /// Every function over two lists in the expression, if it has a value.
    pub fn pairings(&self, results: &Results) -> Vec<Pairing> {
        let evaluation = evaluate::Evaluation { text: &self.text, results };
        let mut pairings = Vec::new();
        self.root.visit(&mut |node| pairings.extend(evaluation.pairing(node)));
        pairings
    }
}

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
//! A path begins with the name of a run and goes on as in the JSON object that `isles bench --json` prints. Arithmetic is
//! that of floating-point numbers, element by element where an operand is a list. Nothing is guessed: what is null or
//! absent in a result, a division by zero, an order of things that have none are errors, never false.

mod evaluate;
mod functions;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;
use std::ops::Range;

pub(crate) use evaluate::look_up;
pub use evaluate::{EvaluationError, Results};
pub use functions::names as function_names;
pub use parser::SyntaxError;
pub(crate) use parser::is_run_name;
pub use value::Value;

/// A parsed expression and the text it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

/// A part of an expression, and where in the text it stands.
#[derive(Clone, Debug, PartialEq)]
struct Node {
    kind: Kind,
    span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Literal(Value),
    Path(Path),
    List(Vec<Node>),
    Call(functions::Function, Vec<Node>),
    Negative(Box<Node>),
    Not(Box<Node>),
    Arithmetic(Operator, Box<Node>, Box<Node>),
    /// First operand, then each comparison with the next.
    Chain(Box<Node>, Vec<(Comparison, Node)>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Comparison {
    fn symbol(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
        }
    }
}

/// Where a number stands: the name of a run, and the way through its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Name of the run.
    pub run: String,
    /// The way from the root of its result.
    pub steps: Vec<Step>,
}

/// One step into a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Member of an object.
    Name(String),
    /// Element of an array, from 0.
    Index(usize),
}

impl Path {
    /// The way without the run: `throughput`, `timeline[3].throughput`.
    pub fn way(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            match step {
                Step::Name(name) if text.is_empty() => text.push_str(name),
                Step::Name(name) => text.extend([".", name]),
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.steps.first() {
            Some(Step::Index(_)) | None => write!(formatter, "{}{}", self.run, self.way()),
            Some(Step::Name(_)) => write!(formatter, "{}.{}", self.run, self.way()),
        }
    }
}

/// A function over two lists of equal length, evaluated: something to draw as two lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairing {
    /// Name of the function.
    pub function: &'static str,
    /// The paths of the first list where it consists of paths, possibly divided by something; else none.
    pub paths: Vec<Path>,
    /// The first list.
    pub first: Vec<f64>,
    /// The second list.
    pub second: Vec<f64>,
    /// What the function gives.
    pub value: f64,
}

impl Expression {
    /// Parses `text`.
    ///
    /// # Errors
    /// [`SyntaxError`] with the column at which the text stops making sense.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Ok(Expression { text: text.to_owned(), root: parser::parse(text)? })
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Every path, in the order of the text; one that stands there twice comes twice.
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
    /// [`EvaluationError`] that names the part of the text without a value, and why it has none.
    pub fn evaluate(&self, results: &Results) -> Result<Value, EvaluationError> {
        evaluate::Evaluation { text: &self.text, results }.value(&self.root)
    }

    /// The comparisons of the expression with numbers in place of their operands (`3.2 > 1.7`), joined by `; `. Empty
    /// where there are none, or no value.
    pub fn explain(&self, results: &Results) -> String {
        let evaluation = evaluate::Evaluation { text: &self.text, results };
        let mut parts = Vec::new();
        self.root.visit(&mut |node| parts.extend(evaluation.comparison(node)));
        parts.join("; ")
    }

    /// Every function over two lists in the expression, as far as it has a value.
    pub fn pairings(&self, results: &Results) -> Vec<Pairing> {
        let evaluation = evaluate::Evaluation { text: &self.text, results };
        let mut pairings = Vec::new();
        self.root.visit(&mut |node| pairings.extend(evaluation.pairing(node)));
        pairings
    }
}

impl Node {
    /// Calls `see` with this node and all below it, in the order of the text.
    fn visit<'a>(&'a self, see: &mut impl FnMut(&'a Node)) {
        see(self);
        match &self.kind {
            Kind::Literal(_) | Kind::Path(_) => {}
            Kind::List(parts) | Kind::Call(_, parts) | Kind::And(parts) | Kind::Or(parts) => {
                parts.iter().for_each(|part| part.visit(see));
            }
            Kind::Negative(inner) | Kind::Not(inner) => inner.visit(see),
            Kind::Arithmetic(_, left, right) => {
                left.visit(see);
                right.visit(see);
            }
            Kind::Chain(first, rest) => {
                first.visit(see);
                rest.iter().for_each(|(_, operand)| operand.visit(see));
            }
        }
    }
}

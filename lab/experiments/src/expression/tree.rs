//! Expressions as trees, and their paths and pairings.

use std::fmt;
use std::ops::Range;

use super::functions::Function;
use super::value::Value;

/// A part of an expression, and its position in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Literal(Value),
    Path(Path),
    List(Vec<Node>),
    Call(Function, Vec<Node>),
    Negative(Box<Node>),
    Not(Box<Node>),
    Arithmetic(Operator, Box<Node>, Box<Node>),
    /// First operand, then each comparison with the next.
    Chain(Box<Node>, Vec<(Comparison, Node)>),
    And(Vec<Node>),
    Or(Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Comparison {
    pub(super) fn symbol(self) -> &'static str {
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

/// Location of a number: the name of a run, and the steps through its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Name of the run.
    pub run: String,
    /// The steps from the root of its result.
    pub steps: Vec<PathStep>,
}

/// One step into a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// Member of an object.
    Name(String),
    /// Element of an array, from 0.
    Index(usize),
}

impl Path {
    /// The steps without the run: `throughput`, `timeline[3].throughput`.
    pub fn without_run(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            match step {
                PathStep::Name(name) if text.is_empty() => text.push_str(name),
                PathStep::Name(name) => text.extend([".", name]),
                PathStep::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.steps.first() {
            Some(PathStep::Index(_)) | None => write!(formatter, "{}{}", self.run, self.without_run()),
            Some(PathStep::Name(_)) => write!(formatter, "{}.{}", self.run, self.without_run()),
        }
    }
}

/// An evaluated function over two lists of equal length, drawn as two lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairing {
    /// Name of the function.
    pub function: &'static str,
    /// The paths of the first list if it consists of paths, possibly divided by a value; otherwise
    /// empty.
    pub paths: Vec<Path>,
    /// The first list.
    pub first: Vec<f64>,
    /// The second list.
    pub second: Vec<f64>,
    /// Result of the function.
    pub value: f64,
}

impl Node {
    /// Calls `see` with this node and all nodes below it, in the order of the text.
    pub(super) fn visit<'a>(&'a self, see: &mut impl FnMut(&'a Node)) {
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

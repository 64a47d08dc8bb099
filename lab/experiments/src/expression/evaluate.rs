//! Evaluation of a tree with the results of runs.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::functions::{each, pair};
use super::tree::{Comparison, Kind, Node, Operator, Pairing, Path, PathStep};
use super::value::Value;

/// Results of runs by their names in a finding.
pub type Results = BTreeMap<String, Json>;

/// Reason for which an expression has no value. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {problem}")]
pub struct EvaluationError {
    /// The part of the text that has no value.
    pub part: String,
    /// The reason.
    pub problem: String,
}

pub(super) struct Evaluation<'a> {
    pub text: &'a str,
    pub results: &'a Results,
}

impl Evaluation<'_> {
    pub fn value(&self, node: &Node) -> Result<Value, EvaluationError> {
        let value = match &node.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Path(path) => look_up(path, self.results),
            Kind::List(parts) => return self.values(parts).map(Value::List),
            Kind::Call(function, arguments) => function.apply(&self.values(arguments)?),
            Kind::Negative(inner) => each(&self.value(inner)?, &|number| Ok(-number)),
            Kind::Not(inner) => return self.truth(inner).map(|truth| Value::Truth(!truth)),
            Kind::Arithmetic(operator, left, right) => {
                arithmetic(*operator, &self.value(left)?, &self.value(right)?)
            }
            Kind::Chain(first, rest) => return self.chain(node, first, rest).map(Value::Truth),
            // Every part is evaluated: a part without a value is an error wherever it is.
            Kind::And(parts) => return self.truths(parts).map(|all| Value::Truth(!all.contains(&false))),
            Kind::Or(parts) => return self.truths(parts).map(|all| Value::Truth(all.contains(&true))),
        };
        match value {
            Ok(value) if finite(&value) => Ok(value),
            Ok(_) => Err(self.error(node, "no finite number")),
            Err(problem) => Err(self.error(node, problem)),
        }
    }

    /// A comparison with values in place of its operands; `None` for other nodes.
    pub fn comparison(&self, node: &Node) -> Option<String> {
        let Kind::Chain(first, rest) = &node.kind else { return None };
        let mut text = self.value(first).ok()?.to_string();
        for (comparison, operand) in rest {
            text.push_str(&format!(" {} {}", comparison.symbol(), self.value(operand).ok()?));
        }
        Some(text)
    }

    /// A function over two lists with their values; `None` for other nodes, or without a value.
    pub fn pairing(&self, node: &Node) -> Option<Pairing> {
        let Kind::Call(function, arguments) = &node.kind else { return None };
        if !function.pairs() {
            return None;
        }
        let (first, second) = pair(&self.values(arguments).ok()?).ok()?;
        let Ok(Value::Number(value)) = self.value(node) else { return None };
        let mut paths = paths_of(&arguments[0]).unwrap_or_default();
        if paths.len() != first.len() {
            paths.clear();
        }
        Some(Pairing { function: function.name(), paths, first, second, value })
    }

    fn values(&self, nodes: &[Node]) -> Result<Vec<Value>, EvaluationError> {
        nodes.iter().map(|node| self.value(node)).collect()
    }

    fn truth(&self, node: &Node) -> Result<bool, EvaluationError> {
        match self.value(node)? {
            Value::Truth(truth) => Ok(truth),
            other => Err(self.error(node, format!("{} where true or false is needed", other.kind()))),
        }
    }

    fn truths(&self, nodes: &[Node]) -> Result<Vec<bool>, EvaluationError> {
        nodes.iter().map(|node| self.truth(node)).collect()
    }

    fn chain(&self, node: &Node, first: &Node, rest: &[(Comparison, Node)]) -> Result<bool, EvaluationError> {
        let mut left = self.value(first)?;
        let mut holds = true;
        for (comparison, operand) in rest {
            let right = self.value(operand)?;
            holds &= compare(*comparison, &left, &right).map_err(|problem| self.error(node, problem))?;
            left = right;
        }
        Ok(holds)
    }

    fn error(&self, node: &Node, problem: impl Into<String>) -> EvaluationError {
        EvaluationError { part: self.text[node.span.clone()].to_owned(), problem: problem.into() }
    }
}

/// The paths of a list of paths, also if the list is an operand of arithmetic.
fn paths_of(node: &Node) -> Option<Vec<Path>> {
    match &node.kind {
        Kind::List(parts) => {
            let paths = parts.iter().map(|part| match &part.kind {
                Kind::Path(path) => Some(path.clone()),
                _ => None,
            });
            paths.collect()
        }
        Kind::Arithmetic(_, left, right) => paths_of(left).or_else(|| paths_of(right)),
        _ => None,
    }
}

/// The value at a path, or the reason for its absence.
pub(crate) fn look_up(path: &Path, results: &Results) -> Result<Value, String> {
    let mut json = results.get(&path.run).ok_or("no such run")?;
    for step in &path.steps {
        let inner = match step {
            PathStep::Name(name) => json.get(name),
            PathStep::Index(index) => json.get(index),
        };
        json = inner.ok_or_else(|| match (step, json) {
            (PathStep::Name(name), Json::Object(members)) => {
                let names: Vec<&str> = members.keys().map(String::as_str).collect();
                format!("the result has no {name} there (accepted: {})", names.join(", "))
            }
            (PathStep::Name(name), _) => format!("the result has no {name} there"),
            (PathStep::Index(index), Json::Array(elements)) => {
                format!("the result has {} elements there, none at {index}", elements.len())
            }
            (PathStep::Index(_), _) => "the result has no list there".to_owned(),
        })?;
    }
    of_json(json)
}

fn of_json(json: &Json) -> Result<Value, String> {
    match json {
        Json::Number(number) => number.as_f64().map(Value::Number).ok_or_else(|| "no number".to_owned()),
        Json::Bool(truth) => Ok(Value::Truth(*truth)),
        Json::String(text) => Ok(Value::Text(text.clone())),
        Json::Array(elements) => {
            elements.iter().map(of_json).collect::<Result<Vec<Value>, String>>().map(Value::List)
        }
        Json::Null => Err("not known to this run (null in its result)".to_owned()),
        Json::Object(members) => {
            let names: Vec<&str> = members.keys().map(String::as_str).collect();
            Err(format!("an object, of which a value needs one member (accepted: {})", names.join(", ")))
        }
    }
}

fn finite(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_finite(),
        Value::List(values) => values.iter().all(finite),
        Value::Truth(_) | Value::Text(_) => true,
    }
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result<Value, String> {
    match (left, right) {
        (Value::List(left), Value::List(right)) => {
            if left.len() != right.len() {
                return Err(format!("lists of {} and {} elements", left.len(), right.len()));
            }
            let pairs = left.iter().zip(right);
            let values: Result<Vec<Value>, String> =
                pairs.map(|(left, right)| arithmetic(operator, left, right)).collect();
            values.map(Value::List)
        }
        (Value::List(_), Value::Number(right)) => each(left, &|left| calculate(operator, left, *right)),
        (Value::Number(left), _) => each(right, &|right| calculate(operator, *left, right)),
        (Value::List(_), other) | (other, _) => Err(format!("{} where a number is needed", other.kind())),
    }
}

fn calculate(operator: Operator, left: f64, right: f64) -> Result<f64, String> {
    match operator {
        Operator::Add => Ok(left + right),
        Operator::Subtract => Ok(left - right),
        Operator::Multiply => Ok(left * right),
        Operator::Divide if right == 0.0 => Err("division by zero".to_owned()),
        Operator::Divide => Ok(left / right),
    }
}

fn compare(comparison: Comparison, left: &Value, right: &Value) -> Result<bool, String> {
    match (comparison, left, right) {
        (Comparison::Equal | Comparison::NotEqual, left, right) if left.kind() == right.kind() => {
            Ok((left == right) == (comparison == Comparison::Equal))
        }
        (_, Value::Number(left), Value::Number(right)) => Ok(match comparison {
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
            Comparison::Greater => left > right,
            Comparison::GreaterOrEqual => left >= right,
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
        }),
        _ => Err(format!("{} {} {}", left.kind(), comparison.symbol(), right.kind())),
    }
}

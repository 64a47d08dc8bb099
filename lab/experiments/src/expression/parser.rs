//! Parser: tokens to a tree, by recursive descent with one function for each line of the grammar.

use std::ops::Range;

use super::error::SyntaxError;
use super::functions::Function;
use super::lexer::{Token, tokens};
use super::tree::{Comparison, Kind, Node, Operator, Path, PathStep};
use super::value::Value;

/// Deepest nesting: no finding needs more, and more would exhaust the stack.
const DEPTH_MAX: usize = 64;

/// Words that cannot be names of runs.
const RESERVED: [&str; 5] = ["and", "or", "not", "true", "false"];

/// True if an expression can use this name for a run.
pub(crate) fn is_run_name(name: &str) -> bool {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let rest = characters.all(|other| other.is_ascii_alphanumeric() || other == '_');
    first && rest && !RESERVED.contains(&name)
}

pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let node = parser.value()?;
    match parser.token() {
        Token::End => Ok(node),
        _ => Err(parser.unexpected("an operator, or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn value(&mut self) -> Result<Node, SyntaxError> {
        self.deeper(|parser| parser.joined("or", Parser::conjunction, Kind::Or))
    }

    fn conjunction(&mut self) -> Result<Node, SyntaxError> {
        self.joined("and", Parser::negation, Kind::And)
    }

    fn negation(&mut self) -> Result<Node, SyntaxError> {
        let start = self.start();
        if !self.take_word("not") {
            return self.comparison();
        }
        let inner = self.deeper(Parser::negation)?;
        Ok(self.node(start, Kind::Not(Box::new(inner))))
    }

    fn comparison(&mut self) -> Result<Node, SyntaxError> {
        const COMPARISONS: [Comparison; 6] = [
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
            Comparison::Equal,
            Comparison::NotEqual,
        ];
        let start = self.start();
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(comparison) = COMPARISONS.into_iter().find(|one| self.take(one.symbol())) {
            rest.push((comparison, self.sum()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(self.node(start, Kind::Chain(Box::new(first), rest)))
    }

    fn sum(&mut self) -> Result<Node, SyntaxError> {
        self.operators([("+", Operator::Add), ("-", Operator::Subtract)], Parser::product)
    }

    fn product(&mut self) -> Result<Node, SyntaxError> {
        self.operators([("*", Operator::Multiply), ("/", Operator::Divide)], Parser::factor)
    }

    fn factor(&mut self) -> Result<Node, SyntaxError> {
        const ACCEPTED: &str = "a number, a run, a function, ( or [";
        let start = self.start();
        let kind = match self.token().clone() {
            Token::Symbol("-") => {
                self.at += 1;
                Kind::Negative(Box::new(self.deeper(Parser::factor)?))
            }
            Token::Symbol("(") => {
                self.at += 1;
                let inner = self.value()?;
                self.expect(")")?;
                inner.kind
            }
            Token::Symbol("[") => {
                self.at += 1;
                Kind::List(self.arguments("]")?)
            }
            Token::Number(number) => self.literal(Value::Number(number)),
            Token::Text(text) => self.literal(Value::Text(text)),
            Token::Name(name) if name == "true" => self.literal(Value::Truth(true)),
            Token::Name(name) if name == "false" => self.literal(Value::Truth(false)),
            Token::Name(name) if !RESERVED.contains(&name.as_str()) => self.named(name)?,
            _ => return Err(self.unexpected(ACCEPTED)),
        };
        Ok(self.node(start, kind))
    }

    /// A function with its arguments, or a path.
    fn named(&mut self, name: String) -> Result<Kind, SyntaxError> {
        let start = self.start();
        self.at += 1;
        if !self.take("(") {
            return self.path(name);
        }
        let Some(function) = Function::named(&name) else {
            let accepted = super::functions::names().join(", ");
            return Err(SyntaxError::new(self.text, start, format!("unknown function {name}"), accepted));
        };
        let arguments = self.arguments(")")?;
        if !function.takes(arguments.len()) {
            let problem = format!("{name} of {} arguments", arguments.len());
            return Err(SyntaxError::new(self.text, start, problem, function.signature()));
        }
        Ok(Kind::Call(function, arguments))
    }

    fn path(&mut self, run: String) -> Result<Kind, SyntaxError> {
        let mut steps = Vec::new();
        loop {
            if self.take(".") {
                let Token::Name(name) = self.token().clone() else {
                    return Err(self.unexpected("a name, as in run.throughput"));
                };
                self.at += 1;
                steps.push(PathStep::Name(name));
            } else if self.take("[") {
                steps.push(self.index()?);
                self.expect("]")?;
            } else {
                return Ok(Kind::Path(Path { run, steps }));
            }
        }
    }

    /// Content of the brackets after a path: a position, or a name that is no word.
    fn index(&mut self) -> Result<PathStep, SyntaxError> {
        let step = match self.token().clone() {
            Token::Number(number) if number.fract() == 0.0 && number < u32::MAX as f64 => {
                PathStep::Index(number as usize)
            }
            Token::Text(name) => PathStep::Name(name),
            _ => return Err(self.unexpected("a position from 0, or a name in quotes")),
        };
        self.at += 1;
        Ok(step)
    }

    /// Values between commas up to the closing bracket, which is consumed.
    fn arguments(&mut self, close: &'static str) -> Result<Vec<Node>, SyntaxError> {
        let mut arguments = Vec::new();
        if self.take(close) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.value()?);
            if self.take(close) {
                return Ok(arguments);
            }
            if !self.take(",") {
                return Err(self.unexpected(&format!(", or {close}")));
            }
        }
    }

    fn joined(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Node, SyntaxError>,
        kind: fn(Vec<Node>) -> Kind,
    ) -> Result<Node, SyntaxError> {
        let start = self.start();
        let first = part(self)?;
        if !self.is_word(word) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_word(word) {
            parts.push(part(self)?);
        }
        Ok(self.node(start, kind(parts)))
    }

    fn operators(
        &mut self,
        operators: [(&'static str, Operator); 2],
        part: fn(&mut Self) -> Result<Node, SyntaxError>,
    ) -> Result<Node, SyntaxError> {
        let start = self.start();
        let mut left = part(self)?;
        while let Some((_, operator)) = operators.into_iter().find(|(symbol, _)| self.take(symbol)) {
            // Each operator is a level of the tree, which is walked recursively.
            self.enter()?;
            let right = part(self)?;
            left = self.node(start, Kind::Arithmetic(operator, Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn deeper<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        let depth = self.depth;
        self.enter()?;
        let result = part(self);
        self.depth = depth;
        result
    }

    fn enter(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let accepted = format!("at most {DEPTH_MAX} levels");
            return Err(SyntaxError::new(self.text, self.start(), "nested too deeply", accepted));
        }
        Ok(())
    }

    fn token(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn start(&self) -> usize {
        self.tokens[self.at].1.start
    }

    /// A node from `start` to the end of the last token taken.
    fn node(&self, start: usize, kind: Kind) -> Node {
        let end = self.tokens[..self.at].last().map_or(start, |(_, span)| span.end);
        Node { kind, span: start..end }
    }

    fn literal(&mut self, value: Value) -> Kind {
        self.at += 1;
        Kind::Literal(value)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let there = matches!(self.token(), Token::Symbol(other) if *other == symbol);
        self.at += usize::from(there);
        there
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token(), Token::Name(other) if other == word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let there = self.is_word(word);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), SyntaxError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(symbol)) }
    }

    fn unexpected(&self, accepted: &str) -> SyntaxError {
        let problem = format!("unexpected {}", self.token().describe());
        SyntaxError::new(self.text, self.start(), problem, accepted)
    }
}

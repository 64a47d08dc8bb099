//! Lexer: text to tokens.

use std::ops::Range;

use super::error::SyntaxError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Name(String),
    Text(String),
    /// An operator, a bracket, a comma or a dot.
    Symbol(&'static str),
    End,
}

impl Token {
    /// Description for messages.
    pub fn describe(&self) -> String {
        match self {
            Token::Number(number) => format!("{number}"),
            Token::Name(name) => name.clone(),
            Token::Text(text) => format!("{text:?}"),
            Token::Symbol(symbol) => (*symbol).to_owned(),
            Token::End => "the end".to_owned(),
        }
    }
}

/// Longer symbols first, because the first match is taken.
const SYMBOLS: [&str; 16] =
    ["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "(", ")", "[", "]", ",", "."];

/// The tokens of `text` with their byte ranges, the last one [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, length) = token(text, at, first)?;
        tokens.push((token, at..at + length));
        at += length;
    }
    tokens.push((Token::End, text.len()..text.len()));
    Ok(tokens)
}

/// The token at `at`, which begins with `first`, and its length in bytes.
fn token(text: &str, at: usize, first: char) -> Result<(Token, usize), SyntaxError> {
    let rest = &text[at..];
    if first.is_ascii_digit() {
        let length = number_length(rest.as_bytes());
        let number = rest[..length].parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| SyntaxError::new(text, at, "no number", "a number such as 1.5"))?;
        return Ok((Token::Number(number), length));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let end = rest.find(|other: char| !(other.is_ascii_alphanumeric() || other == '_'));
        let length = end.unwrap_or(rest.len());
        return Ok((Token::Name(rest[..length].to_owned()), length));
    }
    if first == '"' {
        let Some(length) = rest[1..].find('"') else {
            return Err(SyntaxError::new(text, at, "text without its closing quote", "\"text\""));
        };
        return Ok((Token::Text(rest[1..=length].to_owned()), length + 2));
    }
    match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        Some(symbol) => Ok((Token::Symbol(symbol), symbol.len())),
        None => {
            let problem = format!("unexpected {}", first.escape_default());
            Err(SyntaxError::new(text, at, problem, "+ - * / < <= > >= == != and or not ( ) [ ] , ."))
        }
    }
}

/// Length of the number at the start: digits, a fraction, an exponent.
fn number_length(text: &[u8]) -> usize {
    let digits = |from: usize| from + text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(0);
    if text.get(end) == Some(&b'.') && digits(end + 1) > end + 1 {
        end = digits(end + 1);
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}

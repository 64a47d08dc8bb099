//! Statements as trees: bounds before parsing, and the parser.

use sqlparser::ast::{DataType, Expr, Ident, Query, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use crate::error::{Result, SqlError, state};

/// Most bytes of a statement.
const BYTES_MAX: usize = 1 << 26;
/// Deepest nesting, and most operators in a row: trees and their walks are as deep.
const DEPTH_MAX: usize = 48;
const CHAIN_MAX: usize = 1_000;

/// A statement, as the parser knows it or as the server adds it.
#[derive(Clone, Debug)]
pub enum Parsed {
    /// A statement of the parser.
    Statement(Box<Statement>),
    /// `VACUUM` and `ANALYZE`, which do nothing here.
    Maintenance(&'static str),
    /// Something that is not there, with a name for messages.
    Unsupported(&'static str),
}

/// Returns the error of a text that is no SQL.
fn syntax(message: &str, at: Option<Location>) -> SqlError {
    let error = SqlError::new(state::SYNTAX, message);
    match at {
        Some(at) => error.at(Span::new(at, at)),
        None => error,
    }
}

fn of_parser(error: ParserError) -> SqlError {
    match error {
        ParserError::RecursionLimitExceeded => {
            SqlError::new(state::TOO_COMPLEX, "the statement is nested too deeply")
        }
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
            let (message, place) = match message.rsplit_once(" at Line: ") {
                Some((message, place)) => (message.to_owned(), Some(place)),
                None => (message.clone(), None),
            };
            let mut numbers =
                place.unwrap_or_default().split(", Column: ").map(|part| part.trim().parse().ok());
            let place = match (numbers.next().flatten(), numbers.next().flatten()) {
                (Some(line), Some(column)) => Some(Location::new(line, column)),
                _ => None,
            };
            syntax(&format!("syntax error: {message}"), place)
        }
    }
}

/// Splits a text into the tokens of its statements.
fn tokens(text: &str) -> Result<Vec<TokenWithSpan>> {
    if text.len() > BYTES_MAX {
        return Err(SqlError::new(state::TOO_COMPLEX, format!("a statement has at most {BYTES_MAX} bytes")));
    }
    let mut tokens = Vec::new();
    let dialect = PostgreSqlDialect {};
    let done = Tokenizer::new(&dialect, text).tokenize_with_location_into_buf(&mut tokens);
    done.map_err(|error| syntax(&error.message, Some(error.location)))?;
    check_depth(&tokens)?;
    Ok(tokens)
}

/// Refuses texts whose trees would be too deep.
fn check_depth(tokens: &[TokenWithSpan]) -> Result<()> {
    // Operators since the last comma, for each level of parentheses.
    let mut chains = vec![0_usize];
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => chains.push(0),
            Token::RParen | Token::RBracket if chains.len() > 1 => _ = chains.pop(),
            Token::Comma | Token::SemiColon => chains.last_mut().into_iter().for_each(|chain| *chain = 0),
            Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen => {}
            // Words and operators: a tree is no deeper than there are of them.
            _ => chains.last_mut().into_iter().for_each(|chain| *chain += 1),
        }
        let chain = chains.last().copied().unwrap_or(0);
        if chains.len() > DEPTH_MAX || chain > 4 * CHAIN_MAX {
            let error = SqlError::new(
                state::TOO_COMPLEX,
                "the statement is nested too deeply, or too long in one piece",
            );
            return Err(error.at(token.span).hint(format!(
                "Parentheses have up to {DEPTH_MAX} levels, and lists without commas some {CHAIN_MAX} operators."
            )));
        }
    }
    Ok(())
}

/// Parses a text of several statements.
pub fn statements(text: &str) -> Result<Vec<Parsed>> {
    let all = tokens(text)?;
    let mut parsed = Vec::new();
    for tokens in all.split(|token| token.token == Token::SemiColon) {
        let is_empty = tokens.iter().all(|token| matches!(token.token, Token::Whitespace(_) | Token::EOF));
        if !is_empty {
            parsed.push(statement(tokens)?);
        }
    }
    Ok(parsed)
}

/// Returns the first words of a statement, in capital letters.
fn words(tokens: &[TokenWithSpan]) -> Vec<String> {
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => Some(word.value.to_uppercase()),
        _ => None,
    };
    tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .map_while(word)
        .take(4)
        .collect()
}

fn statement(tokens: &[TokenWithSpan]) -> Result<Parsed> {
    let words = words(tokens);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        // Statements that the parser does not know in all of their forms.
        ["VACUUM", ..] => return Ok(Parsed::Maintenance("VACUUM")),
        ["ANALYZE" | "ANALYSE", ..] => return Ok(Parsed::Maintenance("ANALYZE")),
        ["CHECKPOINT"] => return Ok(Parsed::Maintenance("CHECKPOINT")),
        ["PREPARE", "TRANSACTION", ..] | ["COMMIT" | "ROLLBACK", "PREPARED", ..] => {
            return Ok(Parsed::Unsupported("two-phase commit"));
        }
        _ => {}
    }
    let dialect = PostgreSqlDialect {};
    let mut tokens = tokens.to_vec();
    if words.first() == Some(&"COPY") {
        tokens = crate::copy::plain_options(tokens);
    }
    tokens = crate::roles::plain_roles(tokens, &words);
    let moves = words.first() == Some(&"MOVE");
    if moves || words.first() == Some(&"FETCH") {
        tokens = plain_fetch(tokens);
    }
    let mut parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
    let mut statement = parser.parse_statement().map_err(of_parser)?;
    if let Statement::Fetch { into, .. } = &mut statement {
        if into.is_some() {
            return Err(syntax("syntax error at or near \"INTO\"", None));
        }
        // The parser has no MOVE, which is a FETCH without its rows.
        *into = moves.then(|| vec![Ident::new("move")].into());
    }
    let next = parser.peek_token();
    match next.token {
        Token::EOF => Ok(Parsed::Statement(Box::new(statement))),
        other => Err(syntax(&format!("syntax error at or near \"{other}\""), Some(next.span.start))),
    }
}

/// Returns true if a token is this word, in capital letters or others.
pub fn is_word(token: &TokenWithSpan, name: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.value.eq_ignore_ascii_case(name))
}

/// Brings FETCH and MOVE to the one form that the parser knows: FETCH, a direction, FROM, a name.
fn plain_fetch(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut tokens: Vec<_> = tokens
        .into_iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
        .collect();
    let keyword = |name: &str, span: Span| TokenWithSpan { token: Token::make_keyword(name), span };
    let span = tokens[0].span;
    tokens[0] = keyword("FETCH", span);
    let place = tokens.iter().position(|token| is_word(token, "from") || is_word(token, "in"));
    let place = place.unwrap_or_else(|| {
        let last = tokens.len() - 1;
        tokens.insert(last.max(1), keyword("FROM", span));
        last.max(1)
    });
    if place == 1 {
        tokens.insert(1, keyword("NEXT", span));
    }
    tokens
}

/// Parses a query, as a view keeps it.
pub fn query(text: &str) -> Result<Query> {
    let mut parsed = statements(text)?;
    match (parsed.pop(), parsed.is_empty()) {
        (Some(Parsed::Statement(statement)), true) => match *statement {
            Statement::Query(query) => Ok(*query),
            _ => Err(SqlError::new(state::SYNTAX, "a query is needed")),
        },
        _ => Err(SqlError::new(state::SYNTAX, "a query is needed")),
    }
}

/// Parses an expression, as a default keeps it.
pub fn expression(text: &str) -> Result<Expr> {
    let dialect = PostgreSqlDialect {};
    let mut parser =
        Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens(text)?);
    parser.parse_expr().map_err(of_parser)
}

/// Returns the type of this name.
pub fn data_type(name: &str) -> DataType {
    let dialect = PostgreSqlDialect {};
    let parsed = Parser::new(&dialect).try_with_sql(name).and_then(|mut parser| parser.parse_data_type());
    parsed.unwrap_or(DataType::Text)
}

/// Returns a name in quotation marks.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_texts_are_refused() {
        let deep = format!("select {}1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(statements(&deep).expect_err("deep").code, state::TOO_COMPLEX);
        let long = format!("select 1{}", "+a".repeat(100_000));
        assert_eq!(statements(&long).expect_err("long").code, state::TOO_COMPLEX);
        let wide = format!("insert into t values {}", vec!["(1, 'a')"; 10_000].join(","));
        assert_eq!(statements(&wide).map(|all| all.len()), Ok(1));
        assert_eq!(statements(" ; ;; ").map(|all| all.len()), Ok(0));
        assert_eq!(statements("select 1; vacuum analyze t").map(|all| all.len()), Ok(2));
    }

    #[test]
    fn errors_have_places() {
        let text = "create table\n (a int)";
        let error = statements(text).expect_err("a table without a name");
        assert_eq!((error.code, error.position(text)), (state::SYNTAX, Some(15)));
        assert_eq!(statements("copy t from stdin with (freeze on)").map(|all| all.len()), Ok(1));
    }
}

//! Options of COPY.

use sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, Ident};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::bind::name_of;
use crate::copy::lines::Form;
use crate::error::{Result, SqlError, state};

/// The name that stands for all columns.
const ALL: &str = "*";

/// Columns that an option names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// These.
    Named(Vec<String>),
}

impl Columns {
    fn of(names: &[Ident]) -> Columns {
        match names {
            [all] if all.value == ALL => Columns::All,
            names => Columns::Named(names.iter().map(name_of).collect()),
        }
    }

    /// Returns for each of the columns that are copied whether it is named.
    pub fn flags(&self, copied: &[&str]) -> Result<Vec<bool>> {
        match self {
            Columns::None => Ok(vec![false; copied.len()]),
            Columns::All => Ok(vec![true; copied.len()]),
            Columns::Named(names) => {
                if let Some(other) = names.iter().find(|name| !copied.contains(&name.as_str())) {
                    let message = format!("column \"{other}\" of COPY is not copied");
                    return Err(SqlError::new("42P10", message));
                }
                Ok(copied.iter().map(|column| names.iter().any(|name| name == column)).collect())
            }
        }
    }
}

/// The format of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines with escapes.
    Text,
    /// Lines with quotation marks.
    Csv,
    /// Values in their binary form.
    Binary,
}

/// Options of a COPY.
#[derive(Clone, Debug)]
pub struct Options {
    /// The format.
    pub format: Format,
    /// The form of lines.
    pub form: Form,
    /// Columns that are always quoted in output.
    pub force_quote: Columns,
    /// Columns whose input is never null.
    pub force_not_null: Columns,
    /// Columns whose input may be null in quotation marks.
    pub force_null: Columns,
}

/// Options as they are written.
#[derive(Default)]
struct Written {
    format: Option<Format>,
    delimiter: Option<char>,
    null: Option<String>,
    header: Option<bool>,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Option<Columns>,
    force_not_null: Option<Columns>,
    force_null: Option<Columns>,
}

fn set<T>(place: &mut Option<T>, value: T) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(SqlError::new(state::SYNTAX, "conflicting or redundant options")),
    }
}

impl Written {
    fn add(&mut self, option: &CopyOption) -> Result<()> {
        match option {
            CopyOption::Format(name) => {
                let format = match name.value.to_ascii_lowercase().as_str() {
                    "text" => Format::Text,
                    "csv" => Format::Csv,
                    "binary" => Format::Binary,
                    other => {
                        let message = format!("COPY format \"{other}\" not recognized");
                        return Err(SqlError::new(state::INVALID_PARAMETER, message));
                    }
                };
                set(&mut self.format, format)
            }
            CopyOption::Delimiter(character) => set(&mut self.delimiter, *character),
            CopyOption::Null(null) => set(&mut self.null, null.clone()),
            CopyOption::Header(header) => set(&mut self.header, *header),
            CopyOption::Quote(character) => set(&mut self.quote, *character),
            CopyOption::Escape(character) => set(&mut self.escape, *character),
            CopyOption::ForceQuote(names) => set(&mut self.force_quote, Columns::of(names)),
            CopyOption::ForceNotNull(names) => set(&mut self.force_not_null, Columns::of(names)),
            CopyOption::ForceNull(names) => set(&mut self.force_null, Columns::of(names)),
            // Rows are visible at the commit and not before.
            CopyOption::Freeze(_) => Ok(()),
            CopyOption::Encoding(name) => match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
                "utf8" | "unicode" | "sqlascii" => Ok(()),
                _ => Err(SqlError::unsupported(format!("COPY with the encoding \"{name}\""))),
            },
        }
    }

    fn add_old(&mut self, option: &CopyLegacyOption) -> Result<()> {
        match option {
            CopyLegacyOption::Binary => set(&mut self.format, Format::Binary),
            CopyLegacyOption::Delimiter(character) => set(&mut self.delimiter, *character),
            CopyLegacyOption::Null(null) => set(&mut self.null, null.clone()),
            CopyLegacyOption::Header => set(&mut self.header, true),
            CopyLegacyOption::Csv(all) => {
                set(&mut self.format, Format::Csv)?;
                all.iter().try_for_each(|option| match option {
                    CopyLegacyCsvOption::Header => set(&mut self.header, true),
                    CopyLegacyCsvOption::Quote(character) => set(&mut self.quote, *character),
                    CopyLegacyCsvOption::Escape(character) => set(&mut self.escape, *character),
                    CopyLegacyCsvOption::ForceQuote(names) => set(&mut self.force_quote, Columns::of(names)),
                    CopyLegacyCsvOption::ForceNotNull(names) => {
                        set(&mut self.force_not_null, Columns::of(names))
                    }
                })
            }
            other => Err(SqlError::unsupported(format!("COPY option {other}"))),
        }
    }

    /// Checks what goes together, and fills in what is not said.
    fn complete(self, is_in: bool) -> Result<Options> {
        let format = self.format.unwrap_or(Format::Text);
        let is_csv = format == Format::Csv;
        let syntax = |message: &str| Err(SqlError::new(state::SYNTAX, message));
        let unfit = |message: &str| Err(SqlError::new(state::NOT_SUPPORTED, message));
        if format == Format::Binary {
            if self.delimiter.is_some() {
                return syntax("cannot specify DELIMITER in BINARY mode");
            }
            if self.null.is_some() {
                return syntax("cannot specify NULL in BINARY mode");
            }
            if self.header == Some(true) {
                return unfit("cannot specify HEADER in BINARY mode");
            }
        }
        let of_csv = [
            ("quote", self.quote.is_some()),
            ("escape", self.escape.is_some()),
            ("force quote", self.force_quote.is_some()),
            ("force not null", self.force_not_null.is_some()),
            ("force null", self.force_null.is_some()),
        ];
        if let Some((name, _)) = of_csv.iter().find(|(_, given)| *given && !is_csv) {
            return unfit(&format!("COPY {name} available only in CSV mode"));
        }
        if is_in && self.force_quote.is_some() {
            return unfit("COPY force quote only available using COPY TO");
        }
        if !is_in && self.force_not_null.is_some() {
            return unfit("COPY force not null only available using COPY FROM");
        }
        if !is_in && self.force_null.is_some() {
            return unfit("COPY force null only available using COPY FROM");
        }
        let delimiter = byte("delimiter", self.delimiter.unwrap_or(if is_csv { ',' } else { '\t' }))?;
        let null = self.null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".to_owned() });
        let quote = byte("quote", self.quote.unwrap_or('"'))?;
        let escape = self.escape.map_or(Ok(quote), |escape| byte("escape", escape))?;
        let form = Form { is_csv, delimiter, null, has_header: self.header.unwrap_or(false), quote, escape };
        form.check()?;
        Ok(Options {
            format,
            form,
            force_quote: self.force_quote.unwrap_or_default(),
            force_not_null: self.force_not_null.unwrap_or_default(),
            force_null: self.force_null.unwrap_or_default(),
        })
    }
}

fn byte(name: &str, character: char) -> Result<u8> {
    let byte = u8::try_from(character).ok().filter(u8::is_ascii);
    let message = || format!("COPY {name} must be a single one-byte character");
    byte.ok_or_else(|| SqlError::new(state::NOT_SUPPORTED, message()))
}

impl Options {
    /// Reads the options of a statement; `is_in`: of one that brings rows.
    pub fn read(options: &[CopyOption], old: &[CopyLegacyOption], is_in: bool) -> Result<Options> {
        let mut written = Written::default();
        options.iter().try_for_each(|option| written.add(option))?;
        old.iter().try_for_each(|option| written.add_old(option))?;
        written.complete(is_in)
    }
}

/// Brings options to the forms that the parser knows: `ON`, `OFF`, `1` and `0` of those that are
/// true or false, a format in quotation marks, and `*` of those that name columns.
pub fn plain_options(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_end = |token: &TokenWithSpan| {
        matches!(&token.token, Token::Word(word)
            if word.value.eq_ignore_ascii_case("stdin") || word.value.eq_ignore_ascii_case("stdout"))
    };
    // What stands before is a table or a query.
    let Some(start) = tokens.iter().rposition(is_end) else { return tokens };
    let mut last = String::new();
    let mut plain = Vec::with_capacity(tokens.len());
    for (number, mut token) in tokens.into_iter().enumerate() {
        let is_truth = matches!(last.as_str(), "FREEZE" | "HEADER");
        match &token.token {
            _ if number <= start => {}
            Token::Whitespace(_) => {}
            Token::Word(word) if is_truth => {
                let truth = truth_of(&word.value);
                last = word.value.to_ascii_uppercase();
                truth.into_iter().for_each(|truth| token.token = Token::make_keyword(truth));
            }
            Token::Number(text, _) | Token::SingleQuotedString(text) if is_truth => {
                let truth = truth_of(text);
                last.clear();
                truth.into_iter().for_each(|truth| token.token = Token::make_keyword(truth));
            }
            Token::SingleQuotedString(text) if last == "FORMAT" => {
                token.token = Token::make_word(&text.clone(), Some('"'));
                last.clear();
            }
            Token::Mul if matches!(last.as_str(), "FORCE_QUOTE" | "FORCE_NOT_NULL" | "FORCE_NULL") => {
                let span = token.span;
                plain.push(TokenWithSpan::new(Token::LParen, span));
                plain.push(TokenWithSpan::new(Token::make_word(ALL, Some('"')), span));
                token.token = Token::RParen;
                last.clear();
            }
            Token::Mul if last == "QUOTE" => {
                token.token = Token::make_word(ALL, Some('"'));
                last.clear();
            }
            Token::Word(word) => last = word.value.to_ascii_uppercase(),
            _ => last.clear(),
        }
        plain.push(token);
    }
    plain
}

fn truth_of(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" => Some("TRUE"),
        "off" | "false" | "0" => Some("FALSE"),
        _ => None,
    }
}

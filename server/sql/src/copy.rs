//! COPY: rows as text or CSV, from and to clients.

use std::sync::Arc;

use isles::Datum;
use sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, ObjectName, Statement,
};

use crate::bind::{Binder, name_of, span_of, table_of};
use crate::error::{Result, SqlError, state};
use crate::exec::Row;
use crate::expr::Expr;
use crate::schema::Table;
use crate::session::{Outcome, Session};
use crate::text::{from_text, to_text};

/// Most bytes of a row.
const LINE_BYTES_MAX: usize = 1 << 24;

/// The form of the data.
#[derive(Clone, Debug)]
struct Form {
    csv: bool,
    delimiter: u8,
    null: String,
    header: bool,
    quote: u8,
    escape: u8,
}

/// Data of a client that become rows.
pub struct CopyIn {
    table: Arc<Table>,
    columns: Vec<usize>,
    defaults: Vec<Expr>,
    form: Form,
    /// Bytes of a row whose end has not come.
    pending: Vec<u8>,
    /// True while a line of names is awaited.
    skips_header: bool,
    /// True behind the line `\.`.
    ended: bool,
    rows: u64,
}

fn form_of(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Form> {
    let mut csv = options
        .iter()
        .any(|option| matches!(option, CopyOption::Format(name) if name.value.eq_ignore_ascii_case("csv")));
    csv |= legacy.iter().any(|option| matches!(option, CopyLegacyOption::Csv(_)));
    let (delimiter, null) = if csv { (b',', "") } else { (b'\t', "\\N") };
    let mut form = Form { csv, delimiter, null: null.to_owned(), header: false, quote: b'"', escape: b'"' };
    let byte = |character: &char| {
        u8::try_from(*character).ok().filter(u8::is_ascii).ok_or_else(|| {
            SqlError::new(state::INVALID_PARAMETER, "COPY delimiter must be a single one-byte character")
        })
    };
    for option in options {
        match option {
            CopyOption::Format(name) if matches!(name.value.to_lowercase().as_str(), "csv" | "text") => {}
            CopyOption::Format(name) => return Err(SqlError::unsupported(format!("COPY format \"{name}\""))),
            CopyOption::Delimiter(character) => form.delimiter = byte(character)?,
            CopyOption::Null(null) => form.null.clone_from(null),
            CopyOption::Header(header) => form.header = *header,
            CopyOption::Quote(character) => (form.quote, form.escape) = (byte(character)?, byte(character)?),
            CopyOption::Escape(character) => form.escape = byte(character)?,
            // Rows are visible at the commit and not before, and texts are UTF-8.
            CopyOption::Freeze(_) | CopyOption::Encoding(_) => {}
            other => return Err(SqlError::unsupported(format!("COPY option {other}"))),
        }
    }
    for option in legacy {
        match option {
            CopyLegacyOption::Delimiter(character) => form.delimiter = byte(character)?,
            CopyLegacyOption::Null(null) => form.null.clone_from(null),
            CopyLegacyOption::Header => form.header = true,
            CopyLegacyOption::Csv(all) => {
                for option in all {
                    match option {
                        CopyLegacyCsvOption::Header => form.header = true,
                        CopyLegacyCsvOption::Quote(character) => form.quote = byte(character)?,
                        CopyLegacyCsvOption::Escape(character) => form.escape = byte(character)?,
                        _ => return Err(SqlError::unsupported("this option of COPY CSV")),
                    }
                }
            }
            other => return Err(SqlError::unsupported(format!("COPY option {other}"))),
        }
    }
    Ok(form)
}

impl Session {
    /// Runs COPY.
    pub(crate) fn copy(&mut self, statement: &Statement) -> Result<Outcome> {
        let Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
            return Err(SqlError::new(state::INTERNAL, "no COPY"));
        };
        if matches!(target, CopyTarget::File { .. } | CopyTarget::Program { .. }) {
            let message = "COPY to or from a file of the server is not supported";
            return Err(
                SqlError::new("42501", message).hint("psql's \\copy reads and writes files of the client.")
            );
        }
        let form = form_of(options, legacy_options)?;
        self.begin_engine()?;
        match (source, to) {
            (CopySource::Table { table_name, columns }, false) => self.copy_in(table_name, columns, form),
            (CopySource::Table { table_name, columns }, true) => {
                let names = match &columns[..] {
                    [] => "*".to_owned(),
                    columns => columns.iter().map(Ident::to_string).collect::<Vec<_>>().join(", "),
                };
                let query = crate::parse::query(&format!("select {names} from {table_name}"))?;
                self.copy_out(query, &form)
            }
            (CopySource::Query(query), true) => self.copy_out((**query).clone(), &form),
            (CopySource::Query(_), false) => {
                Err(SqlError::new(state::SYNTAX, "COPY of a query has no input"))
            }
        }
    }

    fn copy_in(&mut self, name: &ObjectName, columns: &[Ident], form: Form) -> Result<Outcome> {
        if self.is_read_only() {
            return Err(SqlError::new(
                state::READ_ONLY,
                "cannot execute COPY FROM in a read-only transaction",
            ));
        }
        let table = self.context.schema.table(&table_of(name)?).map_err(|error| error.at(span_of(name)))?;
        let table = Arc::clone(table);
        let mut places =
            columns.iter().map(|name| table.column(&name_of(name))).collect::<Result<Vec<_>>>()?;
        if columns.is_empty() {
            places =
                (0..table.columns.len()).filter(|place| table.columns[*place].generated.is_none()).collect();
        }
        let defaults = Binder::new(Arc::clone(&self.context.schema), Vec::new()).defaults(&table)?;
        let count = places.len();
        let skips_header = form.header;
        let copy = CopyIn {
            table,
            columns: places,
            defaults,
            form,
            pending: Vec::new(),
            skips_header,
            ended: false,
            rows: 0,
        };
        self.begin_copy(copy);
        Ok(Outcome::CopyIn(count, false))
    }

    fn copy_out(&mut self, query: sqlparser::ast::Query, form: &Form) -> Result<Outcome> {
        let (columns, rows) = self.all_rows_of(query)?;
        let mut lines = Vec::with_capacity(rows.len());
        if form.header {
            let names = columns.iter().map(|column| Some(column.name.clone()));
            lines.push(form.line(names));
        }
        for row in &rows {
            let texts = row.iter().zip(&columns).map(|(value, column)| to_text(value, &column.kind));
            lines.push(form.line(texts));
        }
        Ok(Outcome::CopyOut(columns.len(), lines, format!("COPY {}", rows.len())))
    }

    /// Receives data.
    pub fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let Some(mut copy) = self.take_copy() else { return Ok(()) };
        copy.pending.extend(data);
        if copy.pending.len() > LINE_BYTES_MAX + data.len() {
            return Err(SqlError::new(state::LIMIT, "a row of COPY is too long"));
        }
        self.copy_lines(&mut copy, false)?;
        self.begin_copy(copy);
        Ok(())
    }

    /// Ends the data; returns the tag.
    pub fn copy_done(&mut self) -> Result<String> {
        let Some(mut copy) = self.take_copy() else { return Ok("COPY 0".to_owned()) };
        self.copy_lines(&mut copy, true)?;
        Ok(format!("COPY {}", copy.rows))
    }

    /// Inserts the rows that are complete.
    fn copy_lines(&mut self, copy: &mut CopyIn, is_last: bool) -> Result<()> {
        let pending = std::mem::take(&mut copy.pending);
        let mut rest = &pending[..];
        let mut rows = Vec::new();
        while !rest.is_empty() && !copy.ended {
            let Some(end) = copy.form.end_of_line(rest, is_last) else { break };
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or(&[]);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if std::mem::take(&mut copy.skips_header) {
                continue;
            }
            if line == b"\\." {
                copy.ended = true;
                continue;
            }
            rows.push(copy.row(line)?);
        }
        if !copy.ended {
            copy.pending = rest.to_vec();
        }
        let (table, defaults, columns) = (Arc::clone(&copy.table), &copy.defaults, &copy.columns);
        let first = copy.rows;
        copy.rows += rows.len() as u64;
        self.within(|x| {
            for (number, values) in rows.into_iter().enumerate() {
                x.check()?;
                let mut row = Vec::with_capacity(table.width());
                let mut values: Vec<Option<Datum>> = values.into_iter().map(Some).collect();
                for (place, default) in defaults.iter().enumerate() {
                    let given = columns.iter().position(|column| *column == place);
                    row.push(match given.and_then(|given| values[given].take()) {
                        Some(value) => value,
                        None => default.eval(&[], x)?,
                    });
                }
                crate::modify::insert_row(&table, row, x).map_err(|error| {
                    let line = first + number as u64 + 1;
                    let context = format!("COPY {}, line {line}", table.name);
                    if error.detail.is_none() { error.detail(context) } else { error }
                })?;
            }
            Ok(())
        })
    }
}

impl CopyIn {
    /// Returns the values of a line.
    fn row(&self, line: &[u8]) -> Result<Row> {
        let line = std::str::from_utf8(line)
            .map_err(|_| SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\""))?;
        let fields = if self.form.csv { self.form.csv_fields(line)? } else { self.form.text_fields(line) };
        let place = || format!("COPY {}, line {}", self.table.name, self.rows + 1);
        if fields.len() != self.columns.len() {
            let what = if fields.len() < self.columns.len() {
                let missing = &self.table.columns[self.columns[fields.len()]].name;
                format!("missing data for column \"{missing}\"")
            } else {
                "extra data after last expected column".to_owned()
            };
            return Err(SqlError::new(state::BAD_COPY, what).detail(place()));
        }
        let values = fields.into_iter().zip(&self.columns).map(|(field, column)| {
            let kind = &self.table.columns[*column].kind;
            match field {
                None => Ok(Datum::Null),
                Some(text) => {
                    let value = from_text(&text, kind)
                        .and_then(|value| crate::value::cast(value, &kind.plain(), kind, false));
                    value.map_err(|error| error.detail(place()))
                }
            }
        });
        values.collect()
    }
}

impl Form {
    /// Returns the end of the first line; at the end of the data also of one without an end.
    fn end_of_line(&self, data: &[u8], is_last: bool) -> Option<usize> {
        let mut quoted = false;
        for (at, byte) in data.iter().enumerate() {
            match byte {
                b'\n' if !quoted => return Some(at),
                byte if self.csv && *byte == self.quote => quoted = !quoted,
                _ => {}
            }
        }
        is_last.then_some(data.len())
    }

    fn text_fields(&self, line: &str) -> Vec<Option<String>> {
        let (mut fields, mut start, mut escaped) = (Vec::new(), 0, false);
        for (at, byte) in line.bytes().enumerate() {
            if escaped {
                escaped = false;
            } else if byte == b'\\' {
                escaped = true;
            } else if byte == self.delimiter {
                fields.push(self.text_field(&line[start..at]));
                start = at + 1;
            }
        }
        fields.push(self.text_field(&line[start..]));
        fields
    }

    /// Reads a field with its escapes.
    fn text_field(&self, field: &str) -> Option<String> {
        if field == self.null {
            return None;
        }
        if !field.contains('\\') {
            return Some(field.to_owned());
        }
        let (mut text, mut characters) = (String::with_capacity(field.len()), field.chars().peekable());
        while let Some(character) = characters.next() {
            if character != '\\' {
                text.push(character);
                continue;
            }
            match characters.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some('b') => text.push('\u{8}'),
                Some('f') => text.push('\u{c}'),
                Some('v') => text.push('\u{b}'),
                Some(digit @ '0'..='7') => {
                    let mut code = digit as u32 - '0' as u32;
                    for _ in 0..2 {
                        let Some(digit) = characters.peek().and_then(|digit| digit.to_digit(8)) else {
                            break;
                        };
                        code = code * 8 + digit;
                        characters.next();
                    }
                    text.extend(char::from_u32(code & 0x7f));
                }
                Some(other) => text.push(other),
                None => text.push('\\'),
            }
        }
        Some(text)
    }

    fn csv_fields(&self, line: &str) -> Result<Vec<Option<String>>> {
        let mut fields = Vec::new();
        let (mut field, mut quoted, mut was_quoted) = (String::new(), false, false);
        let mut characters = line.chars().peekable();
        let (quote, escape, delimiter) = (self.quote as char, self.escape as char, self.delimiter as char);
        while let Some(character) = characters.next() {
            if quoted {
                let next = characters.peek().copied();
                if character == escape && (next == Some(quote) || (next == Some(escape) && escape != quote)) {
                    field.extend(characters.next());
                } else if character == quote {
                    quoted = false;
                } else {
                    field.push(character);
                }
            } else if character == quote {
                (quoted, was_quoted) = (true, true);
            } else if character == delimiter {
                let done = std::mem::take(&mut field);
                fields.push(if !was_quoted && done == self.null { None } else { Some(done) });
                was_quoted = false;
            } else {
                field.push(character);
            }
        }
        if quoted {
            return Err(SqlError::new(state::BAD_COPY, "unterminated CSV quoted field"));
        }
        fields.push(if !was_quoted && field == self.null { None } else { Some(field) });
        Ok(fields)
    }

    /// Returns a line of these fields.
    fn line(&self, fields: impl Iterator<Item = Option<String>>) -> Vec<u8> {
        let mut line = Vec::new();
        for (number, field) in fields.enumerate() {
            if number > 0 {
                line.push(self.delimiter);
            }
            match field {
                None => line.extend(self.null.bytes()),
                Some(text) if self.csv => self.write_csv(&text, &mut line),
                Some(text) => self.write_text(&text, &mut line),
            }
        }
        line.push(b'\n');
        line
    }

    fn write_text(&self, text: &str, to: &mut Vec<u8>) {
        for byte in text.bytes() {
            match byte {
                b'\\' => to.extend(b"\\\\"),
                b'\n' => to.extend(b"\\n"),
                b'\r' => to.extend(b"\\r"),
                b'\t' => to.extend(b"\\t"),
                byte if byte == self.delimiter => to.extend([b'\\', byte]),
                byte => to.push(byte),
            }
        }
    }

    fn write_csv(&self, text: &str, to: &mut Vec<u8>) {
        let is_special =
            |byte: u8| byte == self.delimiter || byte == self.quote || matches!(byte, b'\n' | b'\r');
        if text != self.null && !text.bytes().any(is_special) && text != "\\." {
            return to.extend(text.bytes());
        }
        to.push(self.quote);
        for byte in text.bytes() {
            if byte == self.quote || byte == self.escape {
                to.push(self.escape);
            }
            to.push(byte);
        }
        to.push(self.quote);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(csv: bool) -> Form {
        let (delimiter, null) = if csv { (b',', "") } else { (b'\t', "\\N") };
        Form { csv, delimiter, null: null.to_owned(), header: false, quote: b'"', escape: b'"' }
    }

    #[test]
    fn lines_come_back() {
        for csv in [false, true] {
            let form = form(csv);
            for fields in [
                vec![Some("a".to_owned()), None, Some("b\tc\\d,e\"f".to_owned())],
                vec![Some(String::new()), Some("\\N".to_owned())],
                vec![Some("two\nlines".to_owned()), Some("\\.".to_owned())],
                vec![Some("end\\".to_owned())],
            ] {
                let line = form.line(fields.clone().into_iter());
                let end = form.end_of_line(&line, false).expect("the end of the line");
                let text = std::str::from_utf8(&line[..end]).expect("UTF-8");
                let read = if csv { form.csv_fields(text).expect("fields") } else { form.text_fields(text) };
                assert_eq!(read, fields, "{text:?}");
            }
        }
        assert_eq!(form(false).text_fields("a\\"), [Some("a\\".to_owned())]);
        assert_eq!(form(false).text_fields(""), [Some(String::new())]);
        assert!(form(true).csv_fields("\"a").is_err());
    }
}

//! Rows as lines: text with escapes, and CSV.

use crate::error::{Result, SqlError, state};

/// The form of lines.
#[derive(Clone, Debug)]
pub struct Form {
    /// True for CSV.
    pub is_csv: bool,
    /// Stands between two values.
    pub delimiter: u8,
    /// Stands for null.
    pub null: String,
    /// True if the first line has the names of the columns.
    pub has_header: bool,
    /// Stands around values of CSV.
    pub quote: u8,
    /// Stands before a quotation mark within a value.
    pub escape: u8,
}

/// A value of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its text; `None`: null.
    pub text: Option<String>,
    /// True if a part of it had quotation marks.
    pub quoted: bool,
}

/// The end of a line among data that came in pieces: bytes that were looked at are not looked at
/// again.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineEnd {
    /// Bytes that have no end of a line.
    seen: usize,
    /// True within quotation marks of CSV.
    quoted: bool,
    /// True behind a backslash of a text.
    escaped: bool,
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(state::BAD_COPY, message)
}

fn of_bytes(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\""))
}

impl Form {
    /// Fails if the signs could not be told apart.
    pub fn check(&self) -> Result<()> {
        let invalid = |message: String| Err(SqlError::new(state::INVALID_PARAMETER, message));
        let is_end = |byte: u8| matches!(byte, b'\n' | b'\r');
        if is_end(self.delimiter) {
            return invalid("COPY delimiter cannot be newline or carriage return".to_owned());
        }
        if self.null.bytes().any(is_end) {
            return invalid("COPY null representation cannot use newline or carriage return".to_owned());
        }
        if !self.is_csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&self.delimiter) {
            let delimiter = char::from(self.delimiter);
            return invalid(format!("COPY delimiter cannot be \"{delimiter}\""));
        }
        if self.null.bytes().any(|byte| byte == self.delimiter) {
            return invalid("COPY delimiter must not appear in the NULL specification".to_owned());
        }
        if self.is_csv && self.delimiter == self.quote {
            return invalid("COPY delimiter and quote must be different".to_owned());
        }
        if self.is_csv && self.null.bytes().any(|byte| byte == self.quote) {
            return invalid("CSV quote character must not appear in the NULL specification".to_owned());
        }
        Ok(())
    }

    /// Returns the end of the first line; at the end of the data also of one without an end.
    /// `so_far` goes on where the last call with these data has ended.
    pub fn end_of_line(&self, data: &[u8], is_last: bool, so_far: &mut LineEnd) -> Option<usize> {
        for (at, byte) in data.iter().enumerate().skip(so_far.seen) {
            if std::mem::take(&mut so_far.escaped) {
                continue;
            }
            match byte {
                b'\n' if !so_far.quoted => {
                    *so_far = LineEnd::default();
                    return Some(at);
                }
                byte if self.is_csv && *byte == self.quote => so_far.quoted = !so_far.quoted,
                b'\\' if !self.is_csv => so_far.escaped = true,
                // An escape of its own before a quotation mark within a value.
                byte if self.is_csv && so_far.quoted && *byte == self.escape => so_far.escaped = true,
                _ => {}
            }
        }
        so_far.seen = data.len();
        is_last.then_some(data.len())
    }

    /// Returns the values of a line.
    pub fn fields(&self, line: &str) -> Result<Vec<Field>> {
        if self.is_csv { self.csv_fields(line) } else { self.text_fields(line) }
    }

    fn text_fields(&self, line: &str) -> Result<Vec<Field>> {
        let (mut fields, mut start, mut escaped) = (Vec::new(), 0, false);
        for (at, byte) in line.bytes().enumerate() {
            if escaped {
                escaped = false;
            } else if byte == b'\\' {
                escaped = true;
            } else if byte == self.delimiter {
                fields.push(self.text_field(&line[start..at])?);
                start = at + 1;
            }
        }
        fields.push(self.text_field(&line[start..])?);
        Ok(fields)
    }

    /// Reads a value with its escapes.
    fn text_field(&self, field: &str) -> Result<Field> {
        if field == self.null {
            return Ok(Field { text: None, quoted: false });
        }
        if !field.contains('\\') {
            return Ok(Field { text: Some(field.to_owned()), quoted: false });
        }
        let mut text = Vec::with_capacity(field.len());
        let mut bytes = field.bytes().peekable();
        // Up to this many digits make a byte.
        let number = |bytes: &mut std::iter::Peekable<std::str::Bytes<'_>>, first: u32, base, most| {
            let mut code = first;
            for _ in 0..most {
                let digit = bytes.peek().and_then(|byte| char::from(*byte).to_digit(base));
                let Some(digit) = digit else { break };
                code = code * base + digit;
                bytes.next();
            }
            code as u8
        };
        while let Some(byte) = bytes.next() {
            if byte != b'\\' {
                text.push(byte);
                continue;
            }
            text.push(match bytes.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'b') => 8,
                Some(b'f') => 12,
                Some(b'v') => 11,
                Some(digit @ b'0'..=b'7') => number(&mut bytes, u32::from(digit - b'0'), 8, 2),
                Some(b'x') if bytes.peek().is_some_and(u8::is_ascii_hexdigit) => number(&mut bytes, 0, 16, 2),
                Some(other) => other,
                None => b'\\',
            });
        }
        Ok(Field { text: Some(of_bytes(text)?), quoted: false })
    }

    fn csv_fields(&self, line: &str) -> Result<Vec<Field>> {
        let mut fields = Vec::new();
        let (mut field, mut within, mut quoted) = (Vec::new(), false, false);
        let mut end = |field: Vec<u8>, quoted: bool| {
            let text = of_bytes(field)?;
            let is_null = !quoted && text == self.null;
            fields.push(Field { text: (!is_null).then_some(text), quoted });
            Ok::<(), SqlError>(())
        };
        let mut bytes = line.bytes().peekable();
        while let Some(byte) = bytes.next() {
            if within {
                let next = bytes.peek().copied();
                let is_escape = byte == self.escape
                    && (next == Some(self.quote) || (next == Some(self.escape) && self.escape != self.quote));
                if is_escape {
                    field.extend(bytes.next());
                } else if byte == self.quote {
                    within = false;
                } else {
                    field.push(byte);
                }
            } else if byte == self.quote {
                (within, quoted) = (true, true);
            } else if byte == self.delimiter {
                end(std::mem::take(&mut field), quoted)?;
                quoted = false;
            } else {
                field.push(byte);
            }
        }
        if within {
            return Err(bad("unterminated CSV quoted field"));
        }
        end(field, quoted)?;
        Ok(fields)
    }

    /// Appends a line of these values; `quoted`: columns that have quotation marks always.
    pub fn line(&self, fields: impl Iterator<Item = Option<String>>, quoted: &[bool]) -> Vec<u8> {
        let mut line = Vec::new();
        let is_single = quoted.len() == 1;
        for (number, field) in fields.enumerate() {
            if number > 0 {
                line.push(self.delimiter);
            }
            match field {
                None => line.extend(self.null.bytes()),
                Some(text) if self.is_csv => {
                    let always = quoted.get(number) == Some(&true);
                    self.write_csv(&text, always || (is_single && text == "\\."), &mut line);
                }
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
                8 => to.extend(b"\\b"),
                11 => to.extend(b"\\v"),
                12 => to.extend(b"\\f"),
                byte if byte == self.delimiter => to.extend([b'\\', byte]),
                byte => to.push(byte),
            }
        }
    }

    fn write_csv(&self, text: &str, always: bool, to: &mut Vec<u8>) {
        let is_special =
            |byte: u8| byte == self.delimiter || byte == self.quote || matches!(byte, b'\n' | b'\r');
        if !always && text != self.null && !text.bytes().any(is_special) {
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

    fn form(is_csv: bool) -> Form {
        let (delimiter, null) = if is_csv { (b',', "") } else { (b'\t', "\\N") };
        Form { is_csv, delimiter, null: null.to_owned(), has_header: false, quote: b'"', escape: b'"' }
    }

    fn texts(form: &Form, line: &str) -> Vec<Option<String>> {
        form.fields(line).expect("fields").into_iter().map(|field| field.text).collect()
    }

    #[test]
    fn lines_come_back() {
        let own_escape = Form { escape: b'\\', ..form(true) };
        for form in [form(false), form(true), own_escape] {
            for fields in [
                vec![Some("a".to_owned()), None, Some("b\tc\\d,e\"f".to_owned())],
                vec![Some(String::new()), Some("\\N".to_owned())],
                vec![Some("two\nlines".to_owned()), Some("\\.".to_owned())],
                vec![Some("end\\".to_owned())],
                vec![Some("\u{8}\u{b}\u{c}\r\\\"".to_owned()), Some("\"".to_owned())],
            ] {
                let line = form.line(fields.clone().into_iter(), &vec![false; fields.len()]);
                // In pieces of one byte, and whole.
                let mut so_far = LineEnd::default();
                let pieces =
                    (1..line.len()).find_map(|count| form.end_of_line(&line[..count], false, &mut so_far));
                assert_eq!(pieces, None, "{fields:?}");
                let end = form.end_of_line(&line, false, &mut so_far).expect("the end of the line");
                assert_eq!(end, line.len() - 1);
                let text = std::str::from_utf8(&line[..end]).expect("UTF-8");
                assert_eq!(texts(&form, text), fields, "{text:?}");
            }
        }
        let text = form(false);
        assert_eq!(texts(&text, "a\\"), [Some("a\\".to_owned())]);
        assert_eq!(texts(&text, ""), [Some(String::new())]);
        assert_eq!(texts(&text, "\\x41\\102\\303\\244\\xq"), [Some("AB\u{e4}xq".to_owned())]);
        assert_eq!(text.fields("\\377").expect_err("no text").code, "22021");
        assert!(form(true).fields("\"a").is_err());
    }

    #[test]
    fn signs_that_could_not_be_told_apart_are_refused() {
        assert!(form(false).check().is_ok() && form(true).check().is_ok());
        for (delimiter, null, quote) in
            [(b'\n', "", b'"'), (b',', "a,b", b'"'), (b'"', "", b'"'), (b',', "x\"", b'"')]
        {
            let form = Form { delimiter, null: null.to_owned(), quote, ..form(true) };
            assert!(form.check().is_err(), "{form:?}");
        }
        assert!(Form { delimiter: b'a', ..form(false) }.check().is_err());
    }
}

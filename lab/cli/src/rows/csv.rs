//! CSV as RFC 4180 has it: fields between commas, in quotation marks where they need them; records
//! end with a line, or with both characters of one.

/// A field: its text, and whether it was in quotation marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsvField {
    pub(super) text: String,
    pub(super) quoted: bool,
}

/// The fields between two ends of lines, and the line that they begin in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) line: usize,
    pub(super) fields: Vec<CsvField>,
}

/// A fault with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) what: &'static str,
}

/// Reads records one after the other. Empty lines are none.
pub(super) struct Reader<'t> {
    rest: &'t str,
    line: usize,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        // A mark that some programs write at the beginning of a file.
        Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 }
    }

    /// Takes the end of a line, if there is one here.
    fn take_end(&mut self) -> bool {
        let rest = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n'));
        if let Some(rest) = rest {
            self.rest = rest;
            self.line += 1;
        }
        rest.is_some()
    }

    fn field(&mut self) -> Result<CsvField, Fault> {
        let Some(rest) = self.rest.strip_prefix('"') else {
            let end = self.rest.find([',', '\n', '"']).unwrap_or(self.rest.len());
            if self.rest[end..].starts_with('"') {
                return Err(Fault {
                    line: self.line,
                    what: "a quotation mark inside a field that does not begin with one",
                });
            }
            let (text, rest) = self.rest.split_at(end);
            let text = if rest.starts_with('\n') { text.strip_suffix('\r').unwrap_or(text) } else { text };
            self.rest = &self.rest[text.len()..];
            return Ok(CsvField { text: text.to_owned(), quoted: false });
        };
        let begins = self.line;
        self.rest = rest;
        let mut text = String::new();
        loop {
            let Some(end) = self.rest.find('"') else {
                let what = "a field in quotation marks has no end: the file ends in the middle of it";
                return Err(Fault { line: begins, what });
            };
            text += &self.rest[..end];
            self.line += self.rest[..end].matches('\n').count();
            self.rest = &self.rest[end + 1..];
            match self.rest.strip_prefix('"') {
                Some(rest) => {
                    text.push('"');
                    self.rest = rest;
                }
                None => break,
            }
        }
        let ends =
            self.rest.is_empty() || self.rest.starts_with([',', '\n']) || self.rest.starts_with("\r\n");
        match ends {
            true => Ok(CsvField { text, quoted: true }),
            false => {
                Err(Fault { line: self.line, what: "something follows a field's closing quotation mark" })
            }
        }
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Record, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.take_end() {}
        if self.rest.is_empty() {
            return None;
        }
        let (line, mut fields) = (self.line, Vec::new());
        loop {
            match self.field() {
                Ok(field) => fields.push(field),
                Err(fault) => {
                    // There is no telling where the next record would begin.
                    self.rest = "";
                    return Some(Err(fault));
                }
            }
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None => break,
            }
        }
        self.take_end();
        Some(Ok(Record { line, fields }))
    }
}

/// Appends a field; a text that is empty is in quotation marks, since an empty field is no value.
pub(super) fn write_field(text: &str, to: &mut String) {
    let plain = !text.is_empty() && !text.contains([',', '"', '\n', '\r']) && text.trim() == text;
    if plain && !text.starts_with('\u{feff}') {
        to.push_str(text);
    } else {
        to.push('"');
        to.push_str(&text.replace('"', "\"\""));
        to.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, Vec<String>)> {
        let record = |record: Result<Record, Fault>| {
            let Record { line, fields } = record.expect("a record");
            (line, fields.into_iter().map(|field| field.text).collect())
        };
        Reader::new(text).map(record).collect()
    }

    #[test]
    fn records_are_read() {
        let text = "\u{feff}a,b\r\n\n1,\"x, \"\"y\"\"\nz\"\n,\n\"\",2";
        let texts = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>();
        let expected = [
            (1, texts(&["a", "b"])),
            (3, texts(&["1", "x, \"y\"\nz"])),
            (5, texts(&["", ""])),
            (6, texts(&["", "2"])),
        ];
        assert_eq!(read(text), expected);
        let quoted: Vec<bool> = Reader::new("a,\"\",")
            .flatten()
            .flat_map(|record| record.fields)
            .map(|field| field.quoted)
            .collect();
        assert_eq!(quoted, [false, true, false]);
    }

    #[test]
    fn faults_say_where() {
        for (text, line, what) in
            [("a\n\"b\nc", 2, "has no end"), ("a\nb\"c", 2, "inside a field"), ("a\n\"b\nc\"d", 3, "follows")]
        {
            let fault = Reader::new(text).find_map(Result::err).expect(text);
            assert!(fault.line == line && fault.what.contains(what), "{text}: {fault:?}");
        }
    }

    #[test]
    fn fields_are_read_as_written() {
        for text in ["", "a", " a", "a,b", "\"", "\n", "a\r\nb", "é"] {
            let mut written = String::new();
            write_field(text, &mut written);
            assert_eq!(read(&format!("{written},1")), [(1, vec![text.to_owned(), "1".to_owned()])]);
        }
    }
}

//! JSON: a reader that keeps numbers as they are written, notices names that come twice, and says
//! where it stands; and a writer of texts.

/// A value as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// As it is written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// A fault of a text with its character, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) what: String,
    pub(super) character: usize,
}

/// Values inside values, at most.
const DEPTH_MAX: usize = 64;

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

/// Reads one value, and nothing behind it.
pub(super) fn parse(text: &str) -> Result<Json, Fault> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.value()?;
    reader.skip_blanks();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.fault("something follows the value")),
    }
}

impl Reader<'_> {
    fn fault(&self, what: impl Into<String>) -> Fault {
        Fault { what: what.into(), character: self.text[..self.at].chars().count() + 1 }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    /// Takes a character that has to be there.
    fn expect(&mut self, wanted: char, what: &str) -> Result<(), Fault> {
        self.skip_blanks();
        match self.peek() {
            Some(found) if found == wanted => {
                self.at += found.len_utf8();
                Ok(())
            }
            None => Err(self.fault(format!("ends in the middle, where {what} is expected"))),
            Some(_) => Err(self.fault(format!("{what} is expected"))),
        }
    }

    /// Takes the next character if it is this one; true if it was.
    fn take(&mut self, wanted: char) -> bool {
        self.skip_blanks();
        let there = self.peek() == Some(wanted);
        self.at += if there { wanted.len_utf8() } else { 0 };
        there
    }

    fn value(&mut self) -> Result<Json, Fault> {
        self.skip_blanks();
        if self.depth >= DEPTH_MAX {
            return Err(self.fault("too many values inside each other"));
        }
        self.depth += 1;
        let value = match self.peek() {
            None => Err(self.fault("ends in the middle, where a value is expected")),
            Some('"') => self.string().map(Json::Text),
            Some('[') => self.list(),
            Some('{') => self.object(),
            Some('-' | '0'..='9') => self.number(),
            Some(_) => self.word(),
        };
        self.depth -= 1;
        value
    }

    fn word(&mut self) -> Result<Json, Fault> {
        let words = [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
        for (word, value) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.fault("a value is expected"))
    }

    fn number(&mut self) -> Result<Json, Fault> {
        let is_part = |letter: char| !matches!(letter, '0'..='9' | '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest().find(is_part).unwrap_or(self.rest().len());
        let text = self.rest()[..end].to_owned();
        if text.parse::<f64>().is_err() || text.ends_with('.') {
            return Err(self.fault(format!("{text} is no number")));
        }
        self.at += end;
        Ok(Json::Number(text))
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.expect('"', "a text in quotation marks")?;
        let mut text = String::new();
        loop {
            let Some(letter) = self.peek() else {
                return Err(self.fault("ends in the middle of a text"));
            };
            self.at += letter.len_utf8();
            match letter {
                '"' => return Ok(text),
                '\\' => text.push(self.escaped()?),
                letter => text.push(letter),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Fault> {
        let Some(letter) = self.peek() else { return Err(self.fault("ends in the middle of a text")) };
        self.at += letter.len_utf8();
        Ok(match letter {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '"' | '\\' | '/' => letter,
            'u' => {
                let first = self.unit()?;
                let mut units = vec![first];
                if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
                    self.at += 2;
                    units.push(self.unit()?);
                }
                let mut read = char::decode_utf16(units);
                match (read.next(), read.next()) {
                    (Some(Ok(letter)), None) => letter,
                    _ => return Err(self.fault("half of a character")),
                }
            }
            _ => return Err(self.fault(format!("\\{letter} is no character"))),
        })
    }

    /// Four digits behind `\u`.
    fn unit(&mut self) -> Result<u16, Fault> {
        let digits =
            self.rest().get(..4).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
            Some(unit) => {
                self.at += 4;
                Ok(unit)
            }
            None => Err(self.fault("\\u is followed by four digits")),
        }
    }

    fn list(&mut self) -> Result<Json, Fault> {
        self.expect('[', "a list")?;
        let mut values = Vec::new();
        if self.take(']') {
            return Ok(Json::List(values));
        }
        loop {
            values.push(self.value()?);
            if !self.take(',') {
                self.expect(']', "a comma, or the end of the list,")?;
                return Ok(Json::List(values));
            }
        }
    }

    fn object(&mut self) -> Result<Json, Fault> {
        self.expect('{', "an object")?;
        let mut members: Vec<(String, Json)> = Vec::new();
        if self.take('}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_blanks();
            let begins = self.at;
            let name = self.string()?;
            if members.iter().any(|(other, _)| *other == name) {
                self.at = begins;
                return Err(self.fault(format!("{name:?} comes twice")));
            }
            self.expect(':', "a colon")?;
            members.push((name, self.value()?));
            if !self.take(',') {
                self.expect('}', "a comma, or the end of the object,")?;
                return Ok(Json::Object(members));
            }
        }
    }
}

/// Appends a text in quotation marks.
pub(super) fn write_text(text: &str, to: &mut String) {
    to.push('"');
    for letter in text.chars() {
        match letter {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            control if (control as u32) < 0x20 => *to += &format!("\\u{:04x}", control as u32),
            letter => to.push(letter),
        }
    }
    to.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_written() {
        let text = r#" {"a": [1, -2.5e3, null], "b\u00e9\ud83d\ude00": {"c": true, "d": "x\"\n"}, "e": {}, "f": []} "#;
        let Ok(Json::Object(members)) = parse(text) else { panic!("{:?}", parse(text)) };
        let number = |text: &str| Json::Number(text.to_owned());
        assert_eq!(members[0], ("a".to_owned(), Json::List(vec![number("1"), number("-2.5e3"), Json::Null])));
        assert_eq!(members[1].0, "b\u{e9}\u{1f600}");
        let inside = vec![("c".to_owned(), Json::Bool(true)), ("d".to_owned(), Json::Text("x\"\n".into()))];
        assert_eq!(members[1].1, Json::Object(inside));
        assert_eq!((&members[2].1, &members[3].1), (&Json::Object(vec![]), &Json::List(vec![])));
    }

    #[test]
    fn faults_say_where() {
        let deep = "[".repeat(100);
        for (text, what, character) in [
            ("", "ends in the middle", 1),
            ("{\"a\": 1", "ends in the middle", 8),
            ("{\"a\" 1}", "a colon", 6),
            ("{\"a\": \"x", "ends in the middle of a text", 9),
            ("{\"a\": 1, \"a\": 2}", "\"a\" comes twice", 10),
            ("{\"é\": ?}", "a value is expected", 7),
            ("1 2", "something follows", 3),
            ("[1,]", "a value is expected", 4),
            ("--1", "--1 is no number", 1),
            ("\"\\x\"", "\\x is no character", 4),
            ("\"\\ud800\"", "half of a character", 8),
            ("\"\\u12\"", "four digits", 4),
            (&deep, "too many", 65),
        ] {
            let fault = parse(text).expect_err(text);
            assert!(fault.what.contains(what), "{text}: {fault:?}");
            assert_eq!(fault.character, character, "{text}: {fault:?}");
        }
    }

    #[test]
    fn texts_are_read_as_written() {
        let text = "a \"b\" \\ \n\r\t\u{1} é😀";
        let mut written = String::new();
        write_text(text, &mut written);
        assert_eq!(parse(&written), Ok(Json::Text(text.to_owned())));
    }
}

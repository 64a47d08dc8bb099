//! Rust's source text as tokens: names, `::`, and single signs; comments and the contents of
//! literals are left out.

/// Cuts a source text into tokens.
pub fn tokens(text: &str) -> Vec<String> {
    let signs: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&sign) = signs.get(at) {
        let next = signs.get(at + 1).copied();
        if sign.is_whitespace() {
            at += 1;
        } else if sign == '/' && next == Some('/') {
            at = after(&signs, at, |sign| sign != '\n');
        } else if sign == '/' && next == Some('*') {
            at = after_block_comment(&signs, at);
        } else if let Some(end) = after_raw_string(&signs, at) {
            at = end;
        } else if sign == '"' {
            at = after_quoted(&signs, at, '"');
        } else if sign == '\'' && is_character(&signs, at) {
            at = after_quoted(&signs, at, '\'');
        } else if sign == '\'' {
            // A lifetime or a label.
            at = after(&signs, at + 1, is_of_name);
        } else if is_of_name(sign) {
            let end = after(&signs, at, is_of_name);
            found.push(signs[at..end].iter().collect());
            at = end;
        } else if sign == ':' && next == Some(':') {
            found.push("::".into());
            at += 2;
        } else {
            found.push(sign.into());
            at += 1;
        }
    }
    found
}

fn is_of_name(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

/// The first place from `at` on whose sign is not `wanted`.
fn after(signs: &[char], at: usize, wanted: impl Fn(char) -> bool) -> usize {
    (at..signs.len()).find(|place| !wanted(signs[*place])).unwrap_or(signs.len())
}

fn after_block_comment(signs: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at + 1 < signs.len() {
        match (signs[at], signs[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    signs.len()
}

/// The end of a raw string that begins here, if one does.
fn after_raw_string(signs: &[char], at: usize) -> Option<usize> {
    let begins_inside_a_name = at > 0 && is_of_name(signs[at - 1]);
    let begin = if signs[at] == 'b' { at + 1 } else { at };
    if begins_inside_a_name || signs.get(begin) != Some(&'r') {
        return None;
    }
    let quote = after(signs, begin + 1, |sign| sign == '#');
    if signs.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - begin - 1;
    let ends = |place: &usize| {
        signs[*place] == '"' && signs[place + 1..].iter().take_while(|sign| **sign == '#').count() >= hashes
    };
    Some((quote + 1..signs.len()).find(ends).map_or(signs.len(), |place| place + 1 + hashes))
}

/// True if a character begins at this quotation mark, not a lifetime.
fn is_character(signs: &[char], at: usize) -> bool {
    signs.get(at + 1) == Some(&'\\') || signs.get(at + 2) == Some(&'\'')
}

fn after_quoted(signs: &[char], at: usize, quote: char) -> usize {
    let mut end = at + 1;
    while let Some(sign) = signs.get(end) {
        match sign {
            '\\' => end += 2,
            sign if *sign == quote => return end + 1,
            _ => end += 1,
        }
    }
    signs.len()
}

#[test]
fn comments_and_literals_hold_no_names() {
    let text = r##"
        // crate::a
        /* crate::b /* crate::c */ */
        let text = ("crate::d \" crate::e", r#"crate::"f"#, b"crate::g", 'c', '\'', '"');
        fn get<'a>(x: &'a crate::h) {}
    "##;
    let names: Vec<_> = tokens(text).into_iter().filter(|token| token.len() > 1).collect();
    assert_eq!(names, ["let", "text", "fn", "get", "crate", "::"]);
}

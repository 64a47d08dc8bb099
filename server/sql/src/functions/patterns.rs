//! Patterns: LIKE and regular expressions.

use isles::Datum;
use regex_automata::meta::{Builder, Config, Regex};

use super::{Builtin, T, function, text};
use crate::error::{Result, SqlError, state};
use crate::exec::Exec;

/// Bytes of a compiled expression.
const SIZE_MAX: usize = 1 << 20;

pub static FUNCTIONS: &[Builtin] = &[
    function("~", &[T::Text, T::Text], T::Bool, |a, x| matches(a, x, false)),
    function("~*", &[T::Text, T::Text], T::Bool, |a, x| matches(a, x, true)),
    function("like", &[T::Text, T::Text, T::Text], T::Bool, |a, _| {
        like(text(&a[0]), text(&a[1]), text(&a[2]).chars().next()).map(Datum::Bool)
    }),
    function("ilike", &[T::Text, T::Text, T::Text], T::Bool, |a, _| {
        let [of, pattern] = [0, 1].map(|place: usize| text(&a[place]).to_lowercase());
        like(&of, &pattern, text(&a[2]).chars().next()).map(Datum::Bool)
    }),
    function("regexp_replace", &[T::Text, T::Text, T::Text], T::Text, |a, _| replace(a, "")),
    function("regexp_replace", &[T::Text, T::Text, T::Text, T::Text], T::Text, |a, _| {
        replace(a, text(&a[3]))
    }),
    function("substring", &[T::Text, T::Text], T::Text, |a, _| {
        let (of, regex) = (text(&a[0]), compiled(text(&a[1]), false)?);
        let mut captures = regex.create_captures();
        regex.captures(of, &mut captures);
        let found = captures.get_group(1).or_else(|| captures.get_match().map(|found| found.span()));
        Ok(found.map_or(Datum::Null, |span| Datum::Text(of[span.range()].to_owned())))
    }),
];

/// Returns true if a text meets a pattern: `%` for any characters, `_` for one.
pub fn like(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    /// An element of a pattern.
    enum Element {
        Any,
        One,
        Character(char),
    }
    let (mut elements, mut characters) = (Vec::new(), pattern.chars());
    while let Some(character) = characters.next() {
        elements.push(match character {
            escaped if Some(escaped) == escape => match characters.next() {
                Some(character) => Element::Character(character),
                None => {
                    return Err(SqlError::new("22025", "LIKE pattern must not end with escape character"));
                }
            },
            '%' => Element::Any,
            '_' => Element::One,
            character => Element::Character(character),
        });
    }
    let text: Vec<char> = text.chars().collect();
    // The last `%`, and how much of the text it has taken: only that one has to be tried again.
    let (mut at, mut element, mut retry) = (0, 0, None);
    while at < text.len() {
        match elements.get(element) {
            Some(Element::Any) => {
                retry = Some((element + 1, at));
                element += 1;
                continue;
            }
            Some(Element::One) => {
                (at, element) = (at + 1, element + 1);
                continue;
            }
            Some(Element::Character(character)) if *character == text[at] => {
                (at, element) = (at + 1, element + 1);
                continue;
            }
            _ => {}
        }
        let Some((behind, taken)) = retry else { return Ok(false) };
        retry = Some((behind, taken + 1));
        (element, at) = (behind, taken + 1);
    }
    Ok(elements[element..].iter().all(|element| matches!(element, Element::Any)))
}

/// Compiles a regular expression. Its time is linear in the text.
fn compiled(pattern: &str, ignores_case: bool) -> Result<Regex> {
    let config = Config::new().nfa_size_limit(Some(SIZE_MAX));
    let syntax = regex_automata::util::syntax::Config::new().case_insensitive(ignores_case);
    let regex = Builder::new().configure(config).syntax(syntax).build(pattern);
    regex.map_err(|error| {
        SqlError::new("2201B", format!("invalid regular expression: {error}")).detail(pattern.to_owned())
    })
}

fn matches(a: &[Datum], x: &mut Exec<'_, '_>, ignores_case: bool) -> Result<Datum> {
    let pattern = text(&a[1]);
    let key = (pattern.to_owned(), ignores_case);
    let regex = match &x.context.pattern {
        Some((known, regex)) if *known == key => regex,
        _ => {
            let regex = compiled(pattern, ignores_case)?;
            &x.context.pattern.insert((key, regex)).1
        }
    };
    Ok(Datum::Bool(regex.is_match(text(&a[0]))))
}

fn replace(a: &[Datum], flags: &str) -> Result<Datum> {
    if flags.contains(|flag| !matches!(flag, 'g' | 'i')) {
        return Err(SqlError::new(
            state::INVALID_PARAMETER,
            format!("invalid regular expression option: \"{flags}\""),
        ));
    }
    let (of, by) = (text(&a[0]), text(&a[2]));
    let regex = compiled(text(&a[1]), flags.contains('i'))?;
    let (mut result, mut end) = (String::new(), 0);
    let mut captures = regex.create_captures();
    for found in regex.find_iter(of) {
        result.push_str(&of[end..found.start()]);
        regex.search_captures(&regex_automata::Input::new(of).range(found.range()), &mut captures);
        let mut characters = by.chars();
        while let Some(character) = characters.next() {
            match (character, character == '\\') {
                (_, true) => match characters.next() {
                    Some('&') => result.push_str(&of[found.range()]),
                    Some(digit) if digit.is_ascii_digit() => {
                        let group = captures.get_group(digit as usize - '0' as usize);
                        result.push_str(group.map_or("", |span| &of[span.range()]));
                    }
                    other => result.extend(other),
                },
                (other, false) => result.push(other),
            }
        }
        end = found.end();
        if !flags.contains('g') {
            break;
        }
    }
    result.push_str(&of[end..]);
    Ok(Datum::Text(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_like() {
        for (text, pattern, expected) in [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "_b_", true),
            ("abc", "_b", false),
            ("", "%", true),
            ("", "_", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("aXbXc", "%X%X%", true),
            ("mississippi", "%iss%ip%", true),
            ("mississippi", "%iss%ix%", false),
        ] {
            assert_eq!(like(text, pattern, Some('\\')), Ok(expected), "{text} {pattern}");
        }
        // Many wildcards take no time beyond the product of both lengths.
        assert_eq!(like(&"a".repeat(2000), &("%a".repeat(200) + "b"), None), Ok(false));
    }
}

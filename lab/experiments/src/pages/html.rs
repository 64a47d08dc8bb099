//! Pages: one self-contained file, readable on light and dark screens and on paper.
//!
//! All outside text passes [`escape`]. The same input gives the same bytes.

use std::fmt::Write;

/// The style of every page. Colours are variables, so that drawings follow the reader's preference
/// too.
const STYLE: &str = include_str!("page.css");

/// Escapes a text for an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Other control characters are not allowed in HTML.
            character if character.is_control() && !matches!(character, '\n' | '\t') => {
                escaped.push('\u{fffd}');
            }
            character => escaped.push(character),
        }
    }
    escaped
}

/// A whole page around `body`, which is HTML.
pub fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A section with a heading of the second level, and `anchor` as the target of links.
pub fn section(anchor: &str, heading: &str, body: &str) -> String {
    format!("<section id=\"{}\">\n<h2>{}</h2>\n{body}</section>\n", escape(anchor), escape(heading))
}

/// A table; cells are HTML, and those of the columns in `numbers` are aligned as numbers.
pub fn table(headings: &[&str], numbers: &[usize], rows: &[Vec<String>]) -> String {
    let class = |column| if numbers.contains(&column) { " class=\"number\"" } else { "" };
    let mut text = String::from("<div class=\"scroll\"><table>\n");
    if headings.iter().any(|heading| !heading.is_empty()) {
        text.push_str("<thead><tr>");
        for (column, heading) in headings.iter().enumerate() {
            push(&mut text, format_args!("<th{}>{}</th>", class(column), escape(heading)));
        }
        text.push_str("</tr></thead>\n");
    }
    text.push_str("<tbody>\n");
    for row in rows {
        text.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            push(&mut text, format_args!("<td{}>{cell}</td>", class(column)));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// Large numbers with their labels, side by side; all three parts of a tile are text: label,
/// number, remark.
pub fn tiles(tiles: &[(&str, String, String)]) -> String {
    let mut text = String::from("<div class=\"tiles\">\n");
    for (label, number, remark) in tiles {
        let (label, number, remark) = (escape(label), escape(number), escape(remark));
        push(
            &mut text,
            format_args!(
                "<div class=\"tile\"><div class=\"label\">{label}</div><div class=\"value\">{number}</div>\
                 <div class=\"remark\">{remark}</div></div>\n"
            ),
        );
    }
    text.push_str("</div>\n");
    text
}

/// A short word on a coloured ground. `tone` is `good`, `bad`, `warn` or `plain`.
pub fn chip(tone: &str, text: &str) -> String {
    format!("<span class=\"chip {}\">{}</span>", escape(tone), escape(text))
}

/// A command line, which one click selects.
pub fn command(line: &str) -> String {
    format!("<code class=\"command\">{}</code>", escape(line))
}

/// A drawing with a caption, which is text.
pub fn figure(drawing: &str, caption: &str) -> String {
    format!("<figure>\n{drawing}<figcaption>{}</figcaption>\n</figure>\n", escape(caption))
}

pub(crate) fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        assert_eq!(escape("<a href='x'>&\"\u{1b}\n"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}\n");
        let evil = "<script>\"'&";
        let parts = [
            page(evil, ""),
            section(evil, evil, ""),
            table(&[evil], &[0], &[]),
            tiles(&[(evil, evil.to_owned(), evil.to_owned())]),
            chip(evil, evil),
            command(evil),
            figure("", evil),
        ];
        for part in parts {
            assert!(!part.contains("<script") && part.contains("&lt;script"), "{part}");
        }
    }

    #[test]
    fn a_page_needs_nothing_else() {
        let page = page("t", "<p>x</p>");
        for outside in ["http:", "https:", "src=", "@import", "url(", "<link", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}

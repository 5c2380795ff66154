//! Reports as one HTML file that needs nothing else: no network, no script, no font.
//!
//! Everything that comes from outside passes [`escape`]; the JSON for programs stands in an element that no browser runs.

pub(crate) mod course;

use serde::Serialize;

use crate::failure::Failure;
use crate::svg::{self, Chart, escape};

const CSS: &str = include_str!("page.css");

/// A page before it is one.
pub(crate) struct Page<'a> {
    /// Plain text, as are the lines below.
    pub(crate) title: &'a str,
    /// The line under the title.
    pub(crate) subtitle: &'a str,
    /// HTML.
    pub(crate) sections: String,
    /// The `id` of the element with the JSON.
    pub(crate) json_id: &'a str,
}

impl Page<'_> {
    /// The page, with `document` for programs.
    pub(crate) fn render(&self, document: &impl Serialize) -> Result<String, Failure> {
        let (title, id) = (escape(self.title), self.json_id);
        Ok(format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{CSS}{}\n</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n<p class=\"soft\">{}</p>\n{}</main>\n\
             <footer><p class=\"soft\">robinhood {}. The figures of this page, and more, stand in it as JSON: the element with the id \
             <code>{id}</code>.</p></footer>\n\
             <script type=\"application/json\" id=\"{id}\">{}</script>\n</body>\n</html>\n",
            svg::STYLE,
            escape(self.subtitle),
            self.sections,
            env!("CARGO_PKG_VERSION"),
            embedded(document)?
        ))
    }
}

/// JSON that cannot end the element it stands in: in JSON, `<` occurs within strings only, where it may be written by its number.
fn embedded(document: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(document).map_err(Failure::failed)?;
    Ok(json.replace('<', "\\u003c"))
}

/// A chart with its caption.
pub(crate) fn figure(id: &str, chart: &Chart<'_>) -> String {
    captioned(&chart.inline(id), chart.title, &chart.subtitle)
}

/// A picture, given as HTML, with its caption in plain text.
pub(crate) fn captioned(picture: &str, title: &str, subtitle: &str) -> String {
    format!(
        "<figure>\n{picture}<figcaption><b>{}</b> {}</figcaption>\n</figure>\n",
        escape(title),
        escape(subtitle)
    )
}

/// A row of a table; `name` and `cells` are plain text.
pub(crate) fn row(class: &str, name: &str, cells: &[String]) -> String {
    let mut html = format!("<tr class=\"{class}\"><th scope=\"row\">{}</th>", escape(name));
    for cell in cells {
        html += &format!("<td>{}</td>", escape(cell));
    }
    html + "</tr>\n"
}

/// A line of a list of names and values.
pub(crate) fn pair(name: &str, value: &str) -> String {
    format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value))
}

/// A count with its noun.
pub(crate) fn many(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_is_text_wherever_it_stands() {
        let page = Page {
            title: "<i>run</i>",
            subtitle: "a & b",
            sections: row("", "</tr>", &["<script>".to_owned()]) + &pair("<dl>", "\"x\""),
            json_id: "robinhood-test",
        };
        let html = page.render(&"</script><!--").unwrap();
        for text in ["<i>", "<script>", "</tr></th>", "<dl>", "</script><!--"] {
            assert!(!html.contains(text), "{text} in\n{html}");
        }
        assert_eq!(html.matches("</script>").count(), 1);
        assert!(html.contains("\"\\u003c/script>\\u003c!--\""));
    }
}

//! Tables for people, as plain text and for pages: the first column to the left, the others to the right.

use crate::html;
use crate::svg::escape;

/// Rows of cells under a row of headings.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new<S: Into<String>>(headings: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![headings.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it has not one cell for each heading.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.rows[0].len(), "a row has one cell for each heading");
        self.rows.push(cells);
    }

    /// The table as text, two spaces between columns.
    pub(crate) fn render(&self) -> String {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.chars().count());
                if column == 0 {
                    line.push_str(&format!("{cell}{padding}"));
                } else {
                    line.push_str(&format!("  {padding}{cell}"));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// The table as a part of a page; `caption` is plain text.
    pub(crate) fn html(&self, caption: &str) -> String {
        let mut text = format!(
            "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>",
            escape(caption)
        );
        for heading in &self.rows[0] {
            text += &format!("<th scope=\"col\">{}</th>", escape(heading));
        }
        text += "</tr></thead>\n<tbody>\n";
        for row in &self.rows[1..] {
            text += &html::row("", &row[0], &row[1..]);
        }
        text + "</tbody></table></div>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["stack", "P99"]);
        table.row(["shared", "120 ms"]);
        table.row(["robinhood", "9 ms"]);
        assert_eq!(table.render(), "stack         P99\nshared     120 ms\nrobinhood    9 ms\n");
    }

    #[test]
    fn a_page_has_the_same_cells_as_text() {
        let mut table = Table::new(["stack", "P99"]);
        table.row(["<shared>", "120 ms"]);
        let html = table.html("a & b");
        assert!(html.contains("<caption>a &amp; b</caption>"), "{html}");
        assert!(html.contains("<th scope=\"col\">stack</th><th scope=\"col\">P99</th>"));
        assert!(html.contains("<th scope=\"row\">&lt;shared&gt;</th><td>120 ms</td>"));
    }
}

//! Plain text tables for people: the first column to the left, the others to the right.

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
}

//! Tables on the terminal: one rule below the header, figures to the right, no more.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// A table whose columns after the first are figures.
pub fn table(header: Vec<String>, rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(header);
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

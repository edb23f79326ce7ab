//! Columns with their widths: what fits beside each other, and what gives way where it does not.
//!
//! Widths hold still from one answer to the next: columns have room for usual figures whatever they are now, and pairs
//! stand aligned at their slash. Pure.

use crate::cli::field::{Align, Field};
use crate::cli::row::Row;

/// A column with its cells and the widths it takes (before and after the slash, if it is aligned at one).
pub(super) struct Column {
    pub(super) field: &'static Field,
    pub(super) cells: Vec<String>,
    left: usize,
    right: usize,
}

impl Column {
    pub(super) fn new(field: &'static Field, rows: &[Row], full: bool) -> Column {
        let cells: Vec<String> = rows.iter().map(|row| (field.cell)(row, full)).collect();
        let (mut left, mut right) = match field.align {
            Align::Slash(left, right) => (left, right),
            _ => (field.room, 0),
        };
        for text in cells.iter().map(|cell| &**cell).chain([field.heading]) {
            match (field.align, text.split_once('/')) {
                (Align::Slash(..), Some((before, after))) => {
                    left = left.max(length(before));
                    right = right.max(length(after));
                }
                (Align::Slash(..), None) => left = left.max(length(text).saturating_sub(1 + right)),
                _ => left = left.max(length(text)),
            }
        }
        Column { field, cells, left, right }
    }

    fn width(&self) -> usize {
        match self.field.align {
            Align::Slash(..) => self.left + 1 + self.right,
            _ => self.left,
        }
    }

    /// The least it can be cut to.
    fn floor(&self) -> usize {
        match self.field.align {
            Align::Name(floor) | Align::Bars(floor) => self.width().min(floor),
            _ => self.width(),
        }
    }

    pub(super) fn heading(&self) -> String {
        match self.field.align {
            Align::Bars(_) => format!("{:>1$}", cut(self.field.heading, Some(self.width())), self.width()),
            _ => self.padded(self.field.heading),
        }
    }

    pub(super) fn padded(&self, text: &str) -> String {
        let (left, right, width) = (self.left, self.right, self.width());
        match (self.field.align, text.split_once('/')) {
            (Align::Slash(..), Some((before, after))) => format!("{before:>left$}/{after:<right$}"),
            (Align::Slash(..) | Align::Right, _) => format!("{text:>width$}"),
            (Align::Bars(_), _) => {
                // Its newest values stand at its right end.
                let rest = length(text).saturating_sub(width);
                format!("{:>width$}", text.chars().skip(rest).collect::<String>())
            }
            (Align::Name(_) | Align::Left, _) => format!("{:<width$}", shortened(text, width)),
        }
    }
}

/// Leaves out columns and cuts names until the width suffices: what is left, the gap between them, and what is not.
pub(super) fn fit(mut columns: Vec<Column>, width: Option<usize>) -> (Vec<Column>, usize, Vec<&'static str>) {
    /// Between columns: docker stats', and where that is too much.
    const GAPS: (usize, usize) = (3, 2);
    let Some(width) = width else { return (columns, GAPS.0, vec![]) };
    let taken = |columns: &[Column], gap, of: fn(&Column) -> usize| {
        columns.iter().map(of).sum::<usize>() + gap * columns.len().saturating_sub(1)
    };
    let mut hidden = vec![];
    while taken(&columns, GAPS.1, Column::floor) > width {
        let last = columns.iter().enumerate().max_by_key(|(_, column)| column.field.gives_way);
        match last.map(|(i, column)| (i, column.field.gives_way)) {
            Some((i, 1..)) => hidden.push(columns.remove(i).field.heading),
            _ => break,
        }
    }
    if taken(&columns, GAPS.0, Column::width) <= width {
        return (columns, GAPS.0, hidden);
    }
    while taken(&columns, GAPS.1, Column::width) > width {
        let longest = columns.iter_mut().filter(|column| column.floor() < column.width()).max_by_key(|c| c.width());
        let Some(longest) = longest else { break };
        longest.left -= 1;
    }
    (columns, GAPS.1, hidden)
}

/// The text, or as much of it as fits with an ellipsis.
pub(super) fn cut(text: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if length(text) > width => {
            text.chars().take(width.saturating_sub(1)).chain((width > 0).then_some('…')).collect()
        }
        _ => text.to_owned(),
    }
}

/// A name, or its beginning and its end where `web.1` and `web.2` differ.
fn shortened(name: &str, width: usize) -> String {
    let (all, kept) = (length(name), width.saturating_sub(1));
    if all <= width {
        return name.to_owned();
    }
    let tail = kept / 3;
    let (head, tail) = (name.chars().take(kept - tail), name.chars().skip(all - tail));
    head.chain(['…']).chain(tail).collect()
}

/// In columns of the terminal: [`printable`](crate::cli::format::printable) leaves only characters of one.
pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_in_its_middle() {
        assert_eq!(shortened("mon_node-exporter.3", 12), "mon_node…r.3");
        assert_eq!(shortened("mon_node-exporter.3", 19), "mon_node-exporter.3");
        assert_eq!([2, 1, 0].map(|width| length(&shortened("web", width))), [2, 1, 1]);
    }
}

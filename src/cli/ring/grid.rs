//! A small table: columns as wide as their widest cell, of which some give way where the width does not suffice.

use crate::cli::table::{Line, Style};

/// A column.
#[derive(Clone, Copy)]
pub(super) struct Column {
    name: &'static str,
    figures: bool,
    /// The highest goes first; 0 stays.
    gives_way: u8,
}

/// A column of words.
pub(super) const fn words(name: &'static str, gives_way: u8) -> Column {
    Column { name, figures: false, gives_way }
}

/// A column of figures, which stand at its right.
pub(super) const fn figures(name: &'static str, gives_way: u8) -> Column {
    Column { name, figures: true, gives_way }
}

/// Between two columns.
const GAP: &str = "   ";

/// The heading, a line for each row, and a note of the columns that were too wide.
pub(super) fn lay_out(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Vec<Line> {
    let length = |text: &str| text.chars().count();
    let wide = |at: usize| rows.iter().map(|row| length(&row[at])).fold(length(columns[at].name), usize::max);
    let mut shown: Vec<(usize, usize)> = (0..columns.len()).map(|at| (at, wide(at))).collect();
    let mut hidden = Vec::new();
    let taken = |shown: &[(usize, usize)]| shown.iter().map(|(_, wide)| wide + GAP.len()).sum::<usize>() - GAP.len();
    while width.is_some_and(|width| taken(&shown) > width) {
        let first = (0..shown.len()).max_by_key(|place| columns[shown[*place].0].gives_way);
        let Some(place) = first.filter(|place| columns[shown[*place].0].gives_way > 0) else { break };
        hidden.push(columns[shown.remove(place).0].name);
    }
    let line = |style, cell: &dyn Fn(usize) -> String| {
        let padded = |(at, wide): &(usize, usize)| match columns[*at].figures {
            true => format!("{:>wide$}", cell(*at)),
            false => format!("{:<wide$}", cell(*at)),
        };
        let cells: Vec<String> = shown.iter().map(padded).collect();
        Line { text: cells.join(GAP).trim_end().to_owned(), style }
    };
    let mut lines = vec![line(Style::Heading, &|at| columns[at].name.to_owned())];
    lines.extend(rows.iter().map(|row| line(Style::Plain, &|at| row[at].clone())));
    if !hidden.is_empty() {
        lines.push(note(format!("too narrow for {}", hidden.join(", "))));
    }
    lines
}

/// A line of words.
pub(super) fn note(text: String) -> Line {
    Line { text, style: Style::Note }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(width: Option<usize>) -> Vec<String> {
        let columns = [words("MEMBER", 0), figures("TASKS", 0), words("ADDRESS", 1), words("PROCESS", 2)];
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [row(["c1", "7", "10.0.0.1:7770", "a69e4983"]), row(["collectord-2", "1044", "--", "--"])];
        lay_out(&columns, &rows, width).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn figures_stand_at_the_right_and_columns_give_way_in_their_order() {
        let whole = [
            "MEMBER         TASKS   ADDRESS         PROCESS",
            "c1                 7   10.0.0.1:7770   a69e4983",
            "collectord-2    1044   --              --",
        ];
        assert_eq!(drawn(None), whole);
        assert_eq!(drawn(Some(47)), whole);
        assert_eq!(
            drawn(Some(46)),
            [
                "MEMBER         TASKS   ADDRESS",
                "c1                 7   10.0.0.1:7770",
                "collectord-2    1044   --",
                "too narrow for PROCESS"
            ]
        );
        assert_eq!(drawn(Some(20)).last().unwrap(), "too narrow for PROCESS, ADDRESS");
    }
}

//! An answer as lines of a table that fits the space there is, with what is missing below it.
//!
//! The layout holds still from one answer to the next. Where the width does not suffice, whole columns give way (and a
//! note names them), then long names are cut; where the height does not, rows are counted instead of shown, so that what
//! is missing is always seen. Pure: no escape codes, which are [`screen`](super::screen)'s.

use crate::cli::answer::Answer;
use crate::cli::columns::Show;
use crate::cli::format::printable;
use crate::cli::row::{Coverage, Row};
use fit::{Column, cut, fit, length};

mod fit;

/// What a line is, for those who can show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Figures of all there is.
    Plain,
    /// Column headings.
    Heading,
    /// Figures of some tasks while others are not fresh.
    Partial,
    /// Figures that are not fresh.
    Stale,
    /// What is missing.
    Alarm,
    /// Anything else that is said.
    Note,
    /// The row that keys act on.
    Selected,
}

/// One line, without its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Printable characters only.
    pub text: String,
    /// What it is.
    pub style: Style,
}

/// How much can be shown; `None` is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// In characters.
    pub width: Option<usize>,
    /// In lines.
    pub height: Option<usize>,
}

/// Lays an answer out, whose rows are already in order; `trouble` is why there is no newer one.
pub fn lay_out(show: &Show, answer: &Answer, trouble: Option<&str>, space: Space) -> Vec<Line> {
    let columns = show.columns(&answer.rows);
    let columns = columns.into_iter().map(|field| Column::new(field, &answer.rows, show.no_trunc)).collect();
    let (columns, gap, hidden) = fit(columns, space.width);
    let mut footer = footer(show, answer, trouble, &hidden, space.width);
    let rows = room(answer.rows.len(), &mut footer, space);
    let gap = " ".repeat(gap);
    let line = |style, cell: &dyn Fn(&Column) -> String| {
        let cells: Vec<String> = columns.iter().map(cell).collect();
        Line { text: cells.join(&gap).trim_end().to_owned(), style }
    };
    let mut lines = vec![line(Style::Heading, &Column::heading)];
    for (i, row) in answer.rows.iter().take(rows).enumerate() {
        lines.push(line(style(row, trouble), &|column| column.padded(&column.cells[i])));
    }
    bounded(lines, footer, space)
}

/// Frames lines that are made otherwise (headings, then one a row) with what is said below a table.
pub fn framed(mut lines: Vec<Line>, show: &Show, answer: &Answer, trouble: Option<&str>, space: Space) -> Vec<Line> {
    let mut footer = footer(show, answer, trouble, &[], space.width);
    lines.truncate(1 + room(lines.len().saturating_sub(1), &mut footer, space));
    bounded(lines, footer, space)
}

/// How many of so many rows are shown; the rest is counted in the footer.
fn room(rows: usize, footer: &mut Vec<Line>, space: Space) -> usize {
    let Some(height) = space.height else { return rows };
    shorten(footer, height / 3);
    let room = height.saturating_sub(1 + footer.len());
    if rows <= room {
        return rows;
    }
    let shown = room.saturating_sub(1);
    let rest = format!("… {} more; name some, or use --no-stream", rows - shown);
    footer.insert(0, Line { text: rest, style: Style::Note });
    shown
}

fn style(row: &Row, trouble: Option<&str>) -> Style {
    let all = |tasks: Coverage| tasks.fresh >= tasks.known.max(tasks.desired.unwrap_or(0));
    if trouble.is_some() || row.stale().is_some() {
        Style::Stale
    } else if row.tasks.is_none_or(all) {
        Style::Plain
    } else {
        Style::Partial
    }
}

fn bounded(mut lines: Vec<Line>, footer: Vec<Line>, space: Space) -> Vec<Line> {
    lines.extend(footer);
    lines.truncate(space.height.unwrap_or(usize::MAX)); // of 4 lines or fewer
    for line in &mut lines {
        if space.width.is_some_and(|width| length(&line.text) > width) {
            line.text = cut(&line.text, space.width);
        }
    }
    lines
}

/// What is said below the table; an empty line first if there is anything.
fn footer(show: &Show, answer: &Answer, trouble: Option<&str>, hidden: &[&str], width: Option<usize>) -> Vec<Line> {
    let mut said: Vec<(Style, String)> = vec![];
    said.extend(trouble.map(|trouble| (Style::Alarm, trouble.to_owned())));
    said.extend(answer.missing.iter().map(|missing| (Style::Alarm, format!("incomplete: {missing}"))));
    if !answer.complete && answer.missing.is_empty() {
        said.push((Style::Alarm, "incomplete: the router does not say what is missing".into()));
    }
    said.extend(answer.warnings.iter().map(|warning| (Style::Note, format!("warning: {warning}"))));
    let what = show.view.what().plural();
    match (answer.rows.is_empty(), answer.filtered) {
        (false, _) => {}
        (true, 0) => said.push((Style::Note, format!("no {what}"))),
        (true, filtered) => said.push((Style::Note, format!("no {what} pass the filters; {filtered} do not"))),
    }
    said.extend(answer.notes.iter().map(|note| (Style::Note, note.clone())));
    if !hidden.is_empty() {
        said.push((Style::Note, format!("too narrow for {}", hidden.join(", "))));
    }
    let mut lines = vec![];
    for (style, text) in said {
        lines.extend(wrapped(&printable(&text), width).into_iter().map(|text| Line { text, style }));
    }
    if !lines.is_empty() {
        lines.insert(0, Line { text: String::new(), style: Style::Note });
    }
    lines
}

/// Keeps so many lines (two at least: the empty one and one that speaks).
fn shorten(lines: &mut Vec<Line>, most: usize) {
    let most = most.max(3);
    if lines.len() > most {
        let rest = lines.len() - (most - 1);
        lines.truncate(most - 1);
        lines.push(Line { text: format!("… {rest} more lines"), style: Style::Note });
    }
}

/// Breaks a text at its spaces; further lines are indented.
fn wrapped(text: &str, width: Option<usize>) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if width.is_none_or(|width| length(line) + 1 + length(word) <= width) {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("  {word}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::row::Figures;
    use crate::cli::view::View;

    fn space(width: usize, height: usize) -> Space {
        Space { width: Some(width), height: Some(height) }
    }
    fn show(view: View) -> Show {
        Show { view, ..Show::default() }
    }
    const NO_BOUND: Space = Space { width: None, height: None };

    /// Wide figures, and no limit.
    fn busy() -> Figures {
        Figures {
            cpu_percent: Some(1175.2),
            memory_used_bytes: Some(352 << 20),
            memory_limit_bytes: None,
            memory_percent: None,
            network_receive_bytes: Some(999_500),
            network_transmit_bytes: Some(1_234_000_000),
            block_read_bytes: Some(56_000_000_000),
            block_written_bytes: Some(4096),
            pids: Some(12_345),
            ..Figures::default()
        }
    }

    fn group(name: &str, fresh: u64, known: u64, figures: Figures) -> Row {
        let tasks = Some(Coverage { fresh, known, desired: None });
        Row { name: Some(name.into()), tasks, figures, age_seconds: Some(12.3), ..Row::default() }
    }

    fn task(name: &str, id: &str, node: &str, state: &str, figures: Figures) -> Row {
        Row {
            id: Some(id.into()),
            name: Some(format!("{name}.{id}")),
            node_id: Some("7hqkfs2m1x0a7hqkfs2m1x0a7".into()),
            node_name: (!node.is_empty()).then(|| node.into()),
            state: Some(state.into()),
            age_seconds: Some(150.0),
            figures,
            ..Row::default()
        }
    }

    fn services() -> Answer {
        Answer {
            complete: false,
            missing: vec![
                "node worker-3: its shipper has sent nothing for 12 s, 1 task of shop_api is not counted".into(),
            ],
            warnings: vec!["two services are called cache".into()],
            rows: vec![
                group("shop_api", 2, 3, busy()),
                group("shop_frontend-with-a-long-name", 3, 3, Figures::documented()),
                group("web", 0, 12, Figures::default()),
            ],
            ..Answer::joined([])
        }
    }

    fn text(view: View, answer: &Answer, space: Space) -> String {
        lay_out(&show(view), answer, None, space).into_iter().map(|line| line.text + "\n").collect()
    }

    #[test]
    fn services_at_200_columns() {
        assert_eq!(
            text(View::Service, &services(), space(200, 50)),
            "\
NAME                             TASKS      CPU %   MEM USAGE / LIMIT       MEM %      NET I/O         BLOCK I/O          PIDS   AGE
shop_api                          2/3    1175.20%      352MiB / --             --   1e+03kB / 1.23GB     56GB / 4.1kB    12345
shop_frontend-with-a-long-name    3/3       0.03%    2.352MiB / 982.5MiB    0.24%     539kB / 606kB        0B / 13.3kB       2
web                               0/12         --          -- / --             --        -- / --           -- / --          --   12s

incomplete: node worker-3: its shipper has sent nothing for 12 s, 1 task of shop_api is not counted
warning: two services are called cache
"
        );
    }

    #[test]
    fn services_at_80_columns() {
        assert_eq!(
            text(View::Service, &services(), space(80, 24)),
            "\
NAME                          TASKS     CPU %  MEM USAGE / LIMIT      PIDS  AGE
shop_api                       2/3   1175.20%     352MiB / --        12345
shop_frontend-with…long-name   3/3      0.03%   2.352MiB / 982.5MiB      2
web                            0/12        --         -- / --           --  12s

incomplete: node worker-3: its shipper has sent nothing for 12 s, 1 task of
  shop_api is not counted
warning: two services are called cache
too narrow for BLOCK I/O, MEM %, NET I/O
"
        );
    }

    #[test]
    fn at_80_columns_a_node_shows_its_machine() {
        let mut row = group("worker-1", 2, 2, Figures::documented());
        row.status = Some("ready".into());
        row.machine.figures.cpu_percent_of_node = Some(42.5);
        row.machine.figures.memory_used_bytes = Some(3 << 30);
        row.machine.figures.memory_limit_bytes = Some(8 << 30);
        let said = text(View::Node, &Answer { rows: vec![row], ..Answer::joined([]) }, space(80, 24));
        assert!(said.starts_with("NAME       STATUS   TASKS   NODE CPU    NODE MEM / TOTAL "), "{said}");
        assert!(said.contains("42.50%        3GiB / 8GiB "), "{said}");
    }

    fn tasks() -> Answer {
        let rows = vec![
            task("web.1", "9mnpnzenvg8p8tdbtq4wvbkcz", "worker-1", "running", Figures::documented()),
            task("web.2", "0kz7nzenvg8p8tdbtq4wvbkcz", "worker-with-a-long-name", "stale", busy()),
            task("mon.7hqkfs2m1x0a7hqkfs2m1x0a7", "1kz7nzenvg8p8tdbtq4wvbkcz", "", "ended", Figures::default()),
        ];
        Answer { complete: true, missing: vec![], rows, ..Answer::joined([]) }
    }

    #[test]
    fn tasks_without_bounds() {
        assert_eq!(
            text(View::Task, &tasks(), NO_BOUND),
            "\
TASK ID        NAME    NODE                         CPU %   MEM USAGE / LIMIT       MEM %      NET I/O         BLOCK I/O          PIDS   AGE
9mnpnzenvg8p   web.1   worker-1                     0.03%    2.352MiB / 982.5MiB    0.24%     539kB / 606kB        0B / 13.3kB       2
0kz7nzenvg8p   web.2   worker-with-a-long-name   1175.20%      352MiB / --             --   1e+03kB / 1.23GB     56GB / 4.1kB    12345   2m
1kz7nzenvg8p   mon     7hqkfs2m1x0a                    --          -- / --             --        -- / --           -- / --          --   ended 2m
"
        );
    }

    #[test]
    fn a_table_without_rows_says_so() {
        let nothing = Answer::joined([]);
        assert_eq!(
            text(View::Node, &nothing, NO_BOUND),
            "\
NAME   TASKS     CPU %   MEM USAGE / LIMIT       MEM %     NET I/O         BLOCK I/O         PIDS

no nodes
"
        );
    }

    #[test]
    fn incomplete_is_said_even_without_a_reason() {
        let answer = Answer { complete: false, ..Answer::joined([]) };
        assert!(text(View::Stack, &answer, NO_BOUND).contains("\nincomplete: "));
    }

    #[test]
    fn nothing_ever_exceeds_the_space_and_what_is_missing_is_always_seen() {
        let mut answer = tasks();
        answer.complete = false;
        answer.missing = (0..50).map(|n| format!("task t{n}: {}", "unheard of ".repeat(9))).collect();
        answer.rows = (0..100).flat_map(|_| answer.rows.clone()).collect();
        for view in [View::Service, View::Task] {
            for (width, height) in (1..220).step_by(7).zip((4..60).cycle()) {
                let lines = lay_out(&show(view), &answer, Some("no answer"), space(width, height));
                assert!(lines.len() <= height, "{} lines in {width} × {height}", lines.len());
                assert!(lines.iter().all(|line| length(&line.text) <= width), "in {width} × {height}: {lines:?}");
                assert!(lines.iter().any(|line| line.style == Style::Alarm), "in {width} × {height}: {lines:?}");
            }
        }
    }

    #[test]
    fn rows_that_do_not_fit_are_counted() {
        let mut answer = services();
        answer.rows = (0..30).map(|n| group(&format!("s{n}"), 1, 1, Figures::documented())).collect();
        let lines = text(View::Service, &answer, space(200, 10));
        assert!(lines.contains("\n… 25 more; "), "1 heading + 5 rows + this line + 3 of the footer: {lines}");
        assert_eq!(lines.lines().count(), 10);
    }

    #[test]
    fn lines_tell_what_they_are() {
        let styles = |trouble| -> Vec<Style> {
            lay_out(&show(View::Service), &services(), trouble, NO_BOUND).iter().map(|line| line.style).collect()
        };
        use Style::{Alarm, Heading, Note, Partial, Plain, Stale};
        assert_eq!(styles(None), [Heading, Partial, Plain, Stale, Note, Alarm, Note]);
        assert_eq!(styles(Some("no answer")), [Heading, Stale, Stale, Stale, Note, Alarm, Alarm, Note]);
    }

    #[test]
    fn names_from_the_network_reach_no_terminal_as_they_are() {
        let mut answer = services();
        answer.rows[0].name = Some("evil\x1b[2J\u{9b}31m\nroot".into());
        answer.warnings = vec!["\x1b]0;title\x07".into()];
        assert!(
            lay_out(&show(View::Service), &answer, None, NO_BOUND).iter().all(|l| !l.text.contains(char::is_control))
        );
    }
}

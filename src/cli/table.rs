//! An answer as lines of a table that fits the space there is, with what is missing below it.
//!
//! The layout holds still from one answer to the next: columns have room for usual figures whatever they are now, and
//! pairs stand aligned at their slash. Where the width does not suffice, whole columns give way (and a note names
//! them), then long names are cut; where the height does not, rows are counted instead of shown, so that what is
//! missing is always seen. Pure: no escape codes, which are [`screen`](super::screen)'s.

use crate::cli::answer::{Answer, Row};
use crate::cli::format::{ABSENT, age, io, memory, percent, printable};
use crate::json::What;

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

/// Lays an answer out; `trouble` is why there is no newer one.
pub fn lay_out(view: What, answer: &Answer, trouble: Option<&str>, space: Space) -> Vec<Line> {
    let (columns, gap, hidden) = fit(columns(view, answer), space.width);
    let mut footer = footer(view, answer, trouble, &hidden, space.width);
    let mut rows = answer.rows.len();
    if let Some(height) = space.height {
        shorten(&mut footer, height / 3);
        let room = height.saturating_sub(1 + footer.len());
        if rows > room {
            rows = room.saturating_sub(1);
            let rest = format!("… {} more; name some, or use --no-stream", answer.rows.len() - rows);
            footer.insert(0, Line { text: rest, style: Style::Note });
        }
    }
    let line = |style, cell: &dyn Fn(&Column) -> String| {
        let cells: Vec<String> = columns.iter().map(cell).collect();
        Line { text: cut(cells.join(&" ".repeat(gap)).trim_end(), space.width), style }
    };
    let mut lines = vec![line(Style::Heading, &|column| column.padded(column.kind.heading))];
    for (i, row) in answer.rows.iter().take(rows).enumerate() {
        let style = if trouble.is_some() || row.stale().is_some() {
            Style::Stale
        } else if row.tasks.is_some_and(|tasks| tasks.fresh < tasks.known) {
            Style::Partial
        } else {
            Style::Plain
        };
        lines.push(line(style, &|column| column.padded(&column.cells[i])));
    }
    for note in &mut footer {
        note.text = cut(&note.text, space.width);
    }
    lines.extend(footer);
    lines.truncate(space.height.unwrap_or(usize::MAX)); // of 4 lines or fewer
    lines
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    /// Names: to the left; cut down to this many characters if need be.
    Name(usize),
    /// To the left, never cut.
    Left,
    /// To the right.
    Right,
    /// At the slash, with room for so many characters before and after it.
    Slash(usize, usize),
}

struct Kind {
    heading: &'static str,
    align: Align,
    /// At least so many characters wide.
    room: usize,
    /// The higher, the sooner it is left out; 0 stays.
    gives_way: u8,
    cell: fn(&Row) -> String,
}

const TASK_ID: Kind =
    Kind { heading: "TASK ID", align: Align::Left, room: 12, gives_way: 0, cell: |row| short_id(row.id.as_deref()) };
const NAME: Kind = Kind { heading: "NAME", align: Align::Name(12), room: 4, gives_way: 0, cell: short_name };
const NODE: Kind = Kind { heading: "NODE", align: Align::Name(12), room: 4, gives_way: 0, cell: node };
const TASKS: Kind = Kind {
    heading: "TASKS",
    align: Align::Slash(2, 2),
    room: 5,
    gives_way: 0,
    cell: |row| row.tasks.map_or(ABSENT.into(), |tasks| format!("{}/{}", tasks.fresh, tasks.known)),
};
const AGE: Kind = Kind {
    heading: "AGE",
    align: Align::Left,
    room: 4,
    gives_way: 0,
    cell: |row| match (row.stale(), row.age_seconds.map(age)) {
        (None, _) => String::new(),
        (Some("stale"), Some(age)) => age,
        (Some(state), age) => format!("{state} {}", age.unwrap_or_default()),
    },
};
/// docker stats' columns, in its order.
const FIGURES: [Kind; 6] = [
    Kind {
        heading: "CPU %",
        align: Align::Right,
        room: 7,
        gives_way: 0,
        cell: |row| shown(row.figures.cpu_percent, percent),
    },
    Kind {
        heading: "MEM USAGE / LIMIT",
        align: Align::Slash(10, 9),
        room: 0,
        gives_way: 0,
        cell: |row| pair(row.figures.memory_used_bytes, row.figures.memory_limit_bytes, memory),
    },
    Kind {
        heading: "MEM %",
        align: Align::Right,
        room: 6,
        gives_way: 3,
        cell: |row| shown(row.figures.memory_percent, percent),
    },
    Kind {
        heading: "NET I/O",
        align: Align::Slash(7, 7),
        room: 0,
        gives_way: 2,
        cell: |row| pair(row.figures.network_receive_bytes, row.figures.network_transmit_bytes, io),
    },
    Kind {
        heading: "BLOCK I/O",
        align: Align::Slash(7, 7),
        room: 0,
        gives_way: 4,
        cell: |row| pair(row.figures.block_read_bytes, row.figures.block_written_bytes, io),
    },
    Kind {
        heading: "PIDS",
        align: Align::Right,
        room: 4,
        gives_way: 1,
        cell: |row| row.figures.pids.map_or(ABSENT.into(), |pids| pids.to_string()),
    },
];

fn shown(value: Option<f64>, format: fn(f64) -> String) -> String {
    value.map_or(ABSENT.into(), format)
}

fn pair(left: Option<u64>, right: Option<u64>, format: fn(f64) -> String) -> String {
    let half = |value: Option<u64>| shown(value.map(|value| value as f64), format);
    format!("{} / {}", half(left), half(right))
}

/// The 12 characters by which Docker shows an id.
fn short_id(id: Option<&str>) -> String {
    id.map_or(ABSENT.into(), |id| id.chars().take(12).collect())
}

/// A task's name without the ids that have columns of their own: `web.1`, as `docker service ps` shows it.
fn short_name(row: &Row) -> String {
    let Some(mut name) = row.name.as_deref() else { return short_id(row.id.as_deref()) };
    for id in [&row.id, &row.node_id].into_iter().flatten() {
        let rest = name.strip_suffix(&**id).and_then(|name| name.strip_suffix('.'));
        name = rest.filter(|rest| !rest.is_empty()).unwrap_or(name);
    }
    name.into()
}

fn node(row: &Row) -> String {
    row.node_name.clone().unwrap_or_else(|| short_id(row.node_id.as_deref()))
}

/// A column with its cells and the widths it takes (before and after the slash, if it is aligned at one).
struct Column {
    kind: &'static Kind,
    cells: Vec<String>,
    left: usize,
    right: usize,
}

impl Column {
    fn new(kind: &'static Kind, rows: &[Row]) -> Column {
        let cells: Vec<String> = rows.iter().map(|row| printable(&(kind.cell)(row))).collect();
        let (mut left, mut right) = match kind.align {
            Align::Slash(left, right) => (left, right),
            _ => (kind.room, 0),
        };
        for text in cells.iter().map(|cell| &**cell).chain([kind.heading]) {
            match (kind.align, text.split_once('/')) {
                (Align::Slash(..), Some((before, after))) => {
                    left = left.max(length(before));
                    right = right.max(length(after));
                }
                (Align::Slash(..), None) => left = left.max(length(text).saturating_sub(1 + right)),
                _ => left = left.max(length(text)),
            }
        }
        Column { kind, cells, left, right }
    }

    fn width(&self) -> usize {
        match self.kind.align {
            Align::Slash(..) => self.left + 1 + self.right,
            _ => self.left,
        }
    }

    /// The least it can be cut to.
    fn floor(&self) -> usize {
        match self.kind.align {
            Align::Name(floor) => self.width().min(floor),
            _ => self.width(),
        }
    }

    fn padded(&self, text: &str) -> String {
        let (left, right, width) = (self.left, self.right, self.width());
        match (self.kind.align, text.split_once('/')) {
            (Align::Slash(..), Some((before, after))) => format!("{before:>left$}/{after:<right$}"),
            (Align::Slash(..) | Align::Right, _) => format!("{text:>width$}"),
            (Align::Name(_) | Align::Left, _) => format!("{:<width$}", shortened(text, width)),
        }
    }
}

fn columns(view: What, answer: &Answer) -> Vec<Column> {
    let leading: &[&'static Kind] = match view {
        What::Tasks => &[&TASK_ID, &NAME, &NODE],
        What::Services | What::Nodes | What::Stacks => &[&NAME, &TASKS],
    };
    let stale = answer.rows.iter().any(|row| row.stale().is_some());
    let kinds = leading.iter().copied().chain(&FIGURES).chain(stale.then_some(&AGE));
    kinds.map(|kind| Column::new(kind, &answer.rows)).collect()
}

/// Leaves out columns and cuts names until the width suffices: what is left, the gap between them, and what is not.
fn fit(mut columns: Vec<Column>, width: Option<usize>) -> (Vec<Column>, usize, Vec<&'static str>) {
    /// Between columns: docker stats', and where that is too much.
    const GAPS: (usize, usize) = (3, 2);
    let Some(width) = width else { return (columns, GAPS.0, vec![]) };
    let taken = |columns: &[Column], gap, of: fn(&Column) -> usize| {
        columns.iter().map(of).sum::<usize>() + gap * columns.len().saturating_sub(1)
    };
    let mut hidden = vec![];
    while taken(&columns, GAPS.1, Column::floor) > width {
        let last = columns.iter().enumerate().max_by_key(|(_, column)| column.kind.gives_way);
        match last.map(|(i, column)| (i, column.kind.gives_way)) {
            Some((i, 1..)) => hidden.push(columns.remove(i).kind.heading),
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

/// What is said below the table; an empty line first if there is anything.
fn footer(view: What, answer: &Answer, trouble: Option<&str>, hidden: &[&str], width: Option<usize>) -> Vec<Line> {
    let mut said: Vec<(Style, String)> = vec![];
    said.extend(trouble.map(|trouble| (Style::Alarm, trouble.to_owned())));
    said.extend(answer.missing.iter().map(|missing| (Style::Alarm, format!("incomplete: {missing}"))));
    if !answer.complete && answer.missing.is_empty() {
        said.push((Style::Alarm, "incomplete: the router does not say what is missing".into()));
    }
    said.extend(answer.warnings.iter().map(|warning| (Style::Note, format!("warning: {warning}"))));
    if answer.rows.is_empty() {
        said.push((Style::Note, format!("no {}", view.plural())));
    }
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

/// The text, or as much of it as fits with an ellipsis.
fn cut(text: &str, width: Option<usize>) -> String {
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

/// In columns of the terminal: [`printable`] leaves only characters of one.
fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::answer::{Coverage, Figures};

    fn space(width: usize, height: usize) -> Space {
        Space { width: Some(width), height: Some(height) }
    }
    const NO_BOUND: Space = Space { width: None, height: None };

    /// A row of docker stats' documentation: `0.03%  2.352MiB / 982.5MiB  0.24%  539kB / 606kB  0B / 13.3kB  2`.
    fn documented() -> Figures {
        Figures {
            cpu_percent: Some(0.03),
            memory_used_bytes: Some(2_466_251),
            memory_limit_bytes: Some(1_030_225_920),
            memory_percent: Some(0.239_4),
            network_receive_bytes: Some(539_000),
            network_transmit_bytes: Some(606_000),
            block_read_bytes: Some(0),
            block_written_bytes: Some(13_300),
            pids: Some(2),
        }
    }

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
        }
    }

    fn group(name: &str, fresh: u64, known: u64, figures: Figures) -> Row {
        let tasks = Some(Coverage { fresh, known });
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
                group("shop_frontend-with-a-long-name", 3, 3, documented()),
                group("web", 0, 12, Figures::default()),
            ],
        }
    }

    fn text(view: What, answer: &Answer, space: Space) -> String {
        lay_out(view, answer, None, space).into_iter().map(|line| line.text + "\n").collect()
    }

    #[test]
    fn services_at_200_columns() {
        assert_eq!(
            text(What::Services, &services(), space(200, 50)),
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
            text(What::Services, &services(), space(80, 24)),
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

    fn tasks() -> Answer {
        let rows = vec![
            task("web.1", "9mnpnzenvg8p8tdbtq4wvbkcz", "worker-1", "running", documented()),
            task("web.2", "0kz7nzenvg8p8tdbtq4wvbkcz", "worker-with-a-long-name", "stale", busy()),
            task("mon.7hqkfs2m1x0a7hqkfs2m1x0a7", "1kz7nzenvg8p8tdbtq4wvbkcz", "", "ended", Figures::default()),
        ];
        Answer { complete: true, missing: vec![], warnings: vec![], rows }
    }

    #[test]
    fn tasks_without_bounds() {
        assert_eq!(
            text(What::Tasks, &tasks(), NO_BOUND),
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
            text(What::Nodes, &nothing, NO_BOUND),
            "\
NAME   TASKS     CPU %   MEM USAGE / LIMIT       MEM %     NET I/O         BLOCK I/O         PIDS

no nodes
"
        );
    }

    #[test]
    fn incomplete_is_said_even_without_a_reason() {
        let answer = Answer { complete: false, ..Answer::joined([]) };
        assert!(text(What::Stacks, &answer, NO_BOUND).contains("\nincomplete: "));
    }

    #[test]
    fn nothing_ever_exceeds_the_space_and_what_is_missing_is_always_seen() {
        let mut answer = tasks();
        answer.complete = false;
        answer.missing = (0..50).map(|n| format!("task t{n}: {}", "unheard of ".repeat(9))).collect();
        answer.rows = (0..100).flat_map(|_| answer.rows.clone()).collect();
        for view in [What::Services, What::Tasks] {
            for (width, height) in (1..220).step_by(7).zip((4..60).cycle()) {
                let lines = lay_out(view, &answer, Some("no answer"), space(width, height));
                assert!(lines.len() <= height, "{} lines in {width} × {height}", lines.len());
                assert!(lines.iter().all(|line| length(&line.text) <= width), "in {width} × {height}: {lines:?}");
                assert!(lines.iter().any(|line| line.style == Style::Alarm), "in {width} × {height}: {lines:?}");
            }
        }
    }

    #[test]
    fn rows_that_do_not_fit_are_counted() {
        let mut answer = services();
        answer.rows = (0..30).map(|n| group(&format!("s{n}"), 1, 1, documented())).collect();
        let lines = text(What::Services, &answer, space(200, 10));
        assert!(lines.contains("\n… 25 more; "), "1 heading + 5 rows + this line + 3 of the footer: {lines}");
        assert_eq!(lines.lines().count(), 10);
    }

    #[test]
    fn lines_tell_what_they_are() {
        let styles = |trouble| -> Vec<Style> {
            lay_out(What::Services, &services(), trouble, NO_BOUND).iter().map(|line| line.style).collect()
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
        assert!(lay_out(What::Services, &answer, None, NO_BOUND).iter().all(|l| !l.text.contains(char::is_control)));
    }

    #[test]
    fn a_name_is_cut_in_its_middle() {
        assert_eq!(shortened("mon_node-exporter.3", 12), "mon_node…r.3");
        assert_eq!(shortened("mon_node-exporter.3", 19), "mon_node-exporter.3");
        assert_eq!([2, 1, 0].map(|width| length(&shortened("web", width))), [2, 1, 1]);
    }
}

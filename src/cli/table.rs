//! An answer as lines of a table that fits the space there is, with what is missing below it.
//!
//! The layout holds still from one answer to the next: columns have room for usual figures whatever they are now, and
//! pairs stand aligned at their slash. Where the width does not suffice, whole columns give way (and a note names
//! them), then long names are cut; where the height does not, rows are counted instead of shown, so that what is
//! missing is always seen. Pure: no escape codes, which are [`screen`](super::screen)'s.

use crate::cli::{
    answer::{Answer, Row},
    args::View,
    format::{ABSENT, age, io, memory, percent, printable},
};

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
pub fn lay_out(view: View, answer: &Answer, trouble: Option<&str>, space: Space) -> Vec<Line> {
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
const NAME: Kind = Kind { heading: "NAME", align: Align::Name(16), room: 4, gives_way: 0, cell: short_name };
const NODE: Kind = Kind { heading: "NODE", align: Align::Name(10), room: 4, gives_way: 0, cell: node };
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
    room: 9,
    gives_way: 0,
    cell: |row| match (row.stale(), row.age_seconds) {
        (None, _) => String::new(),
        (Some(state), None) => state.to_owned(),
        (Some(state), Some(seconds)) => format!("{state} {}", age(seconds)),
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
    let mut name = &*row.name;
    for id in [&row.id, &row.node_id].into_iter().flatten() {
        let rest = name.strip_suffix(&**id).and_then(|name| name.strip_suffix('.'));
        name = rest.filter(|rest| !rest.is_empty()).unwrap_or(name);
    }
    if name.is_empty() { ABSENT.into() } else { name.into() }
}

fn node(row: &Row) -> String {
    match row.node_name.as_deref() {
        None | Some("") => short_id(row.node_id.as_deref()),
        Some(name) => name.into(),
    }
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
            (Align::Name(_) | Align::Left, _) => format!("{:<width$}", cut(text, Some(width))),
        }
    }
}

fn columns(view: View, answer: &Answer) -> Vec<Column> {
    let leading: &[&'static Kind] = match view {
        View::Task => &[&TASK_ID, &NAME, &NODE],
        View::Service | View::Node | View::Stack => &[&NAME, &TASKS],
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
fn footer(view: View, answer: &Answer, trouble: Option<&str>, hidden: &[&str], width: Option<usize>) -> Vec<Line> {
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

/// In columns of the terminal: [`printable`] leaves only characters of one.
fn length(text: &str) -> usize {
    text.chars().count()
}

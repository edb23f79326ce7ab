//! The catalogue of what can be shown of a row: columns and placeholders are the same things.
//!
//! Each has docker stats' name where docker stats has it. A text that is absent is [`ABSENT`]. Which of them a view
//! shows is [`columns`](super::columns)'s, where they stand [`table`](super::table)'s. Pure.

#![allow(missing_docs, reason = "a field's heading says what it is")]

use crate::cli::format::{ABSENT, age, io, memory, percent, printable};
use crate::cli::history;
use crate::cli::row::Row;

/// How a column's cells stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Names: to the left; their middle is cut down to this many characters if need be.
    Name(usize),
    /// To the left, never cut.
    Left,
    /// To the right.
    Right,
    /// At the slash, with room for so many characters before and after it.
    Slash(usize, usize),
    /// Lines of bars: to the right; their beginning is cut down to this many characters if need be.
    Bars(usize),
}

/// One thing to show of a row.
#[derive(Debug)]
pub struct Field {
    /// Its name in templates: `{{.Name}}`.
    pub placeholder: &'static str,
    /// Above its column.
    pub heading: &'static str,
    /// How its column stands.
    pub align: Align,
    /// Its column is at least so many characters wide.
    pub room: usize,
    /// The higher, the sooner a column is left out where there is no room; 0 stays.
    pub gives_way: u8,
    /// Its text, printable; the flag asks for ids and names in full.
    pub cell: fn(&Row, bool) -> String,
}

type Cell = fn(&Row, bool) -> String;

const fn left(placeholder: &'static str, heading: &'static str, room: usize, gives_way: u8, cell: Cell) -> Field {
    Field { placeholder, heading, align: Align::Left, room, gives_way, cell }
}
const fn right(placeholder: &'static str, heading: &'static str, room: usize, gives_way: u8, cell: Cell) -> Field {
    Field { placeholder, heading, align: Align::Right, room, gives_way, cell }
}
const fn slash(
    placeholder: &'static str,
    heading: &'static str,
    room: (usize, usize),
    gives_way: u8,
    cell: Cell,
) -> Field {
    Field { placeholder, heading, align: Align::Slash(room.0, room.1), room: 0, gives_way, cell }
}
const fn name(placeholder: &'static str, heading: &'static str, gives_way: u8, cell: Cell) -> Field {
    Field { placeholder, heading, align: Align::Name(12), room: 4, gives_way, cell }
}

/// docker stats' own placeholders, always in `{{json .}}`.
pub const DOCKERS: [&str; 9] =
    ["BlockIO", "CPUPerc", "Container", "ID", "MemPerc", "MemUsage", "Name", "NetIO", "PIDs"];

pub static NAME: Field = name("Name", "NAME", 0, |row, full| {
    let name = if full { row.name.as_deref() } else { row.short_name() };
    name.map_or_else(|| id(row.id.as_deref(), full), printable)
});
pub static ID: Field = left("ID", "ID", 12, 0, |row, full| id(row.id.as_deref(), full));
pub static TASK_ID: Field = left("TaskID", "TASK ID", 12, 0, |row, full| id(row.id.as_deref(), full));
pub static NODE: Field = name("Node", "NODE", 0, |row, full| {
    row.node_name.as_deref().map_or_else(|| id(row.node_id.as_deref(), full), printable)
});
pub static TASKS: Field = slash("Tasks", "TASKS", (2, 2), 0, |row, _| {
    let Some(tasks) = row.tasks else { return ABSENT.into() };
    let mut text = format!("{}/{}", tasks.fresh, tasks.known);
    if let Some(desired) = tasks.desired.filter(|desired| *desired != tasks.known) {
        text += &format!(" of {desired}");
    }
    if let (Some(completed), Some(total)) = (row.completed, row.total_completions) {
        text += &format!(" ({completed}/{total} completed)"); // as `docker service ls` tells of a job
    }
    text
});
pub static STATE: Field = left("State", "STATE", 7, 0, |row, _| match (row.state_word(), row.age_seconds) {
    (Some("stale"), Some(seconds)) => format!("stale {}", age(seconds)),
    (word, _) => text(word),
});
pub static HEALTH: Field = left("Health", "HEALTH", 7, 3, |row, _| text(row.health.as_deref()));
pub static UP: Field = right("Up", "UP", 4, 2, |row, _| shown(row.up_seconds(), age));
/// Only where figures are not fresh: how old they are, and why.
pub static AGE: Field = left("Stale", "AGE", 4, 0, |row, _| match (row.stale(), row.age_seconds.map(age)) {
    (None, _) => String::new(),
    (Some("stale"), Some(age)) => age,
    (Some(state), age) => format!("{} {}", printable(state), age.unwrap_or_default()).trim_end().to_owned(),
});
pub static EXIT: Field = left("Exit", "EXIT", 4, 0, |row, _| match (row.exit_code, row.figures.oom_kills) {
    (None, _) if row.ended() => ABSENT.into(),
    (None, _) => String::new(),
    (Some(code), Some(1..)) => format!("{code} OOM"),
    (Some(code), _) => code.to_string(),
});

pub static CPU: Field = right("CPUPerc", "CPU %", 7, 0, |row, _| shown(row.figures.cpu_percent, percent));
pub static CPU_OF_NODE: Field =
    right("CPUPercOfNode", "CPU % (of node)", 7, 0, |row, _| shown(row.figures.cpu_percent_of_node, percent));
pub static CPU_OF_LIMIT: Field =
    right("CPUPercOfLimit", "CPU % (of limit)", 7, 0, |row, _| shown(row.figures.cpu_percent_of_limit, percent));
pub static MEM: Field = slash("MemUsage", "MEM USAGE / LIMIT", (10, 9), 0, |row, _| {
    pair(row.figures.memory_used_bytes, row.figures.memory_limit_bytes, memory)
});
/// The same beside what is used of the whole machine, which matters more.
pub static MEM_ON_NODE: Field = Field { gives_way: 1, ..MEM };
pub static MEM_PERCENT: Field = right("MemPerc", "MEM %", 6, 4, |row, _| shown(row.figures.memory_percent, percent));
pub static NET: Field = slash("NetIO", "NET I/O", (7, 7), 3, |row, _| {
    pair(row.figures.network_receive_bytes, row.figures.network_transmit_bytes, io)
});
pub static NET_RATE: Field = slash("NetRate", "NET I/O PER S", (7, 7), 3, |row, _| {
    rates(row.figures.network_receive_bytes_per_second, row.figures.network_transmit_bytes_per_second)
});
pub static BLOCK: Field = slash("BlockIO", "BLOCK I/O", (7, 7), 5, |row, _| {
    pair(row.figures.block_read_bytes, row.figures.block_written_bytes, io)
});
pub static BLOCK_RATE: Field = slash("BlockRate", "BLOCK I/O PER S", (7, 7), 5, |row, _| {
    rates(row.figures.block_read_bytes_per_second, row.figures.block_written_bytes_per_second)
});
pub static PIDS: Field = right("PIDs", "PIDS", 4, 2, |row, _| count(row.figures.pids));

pub static CPU_HISTORY: Field = Field {
    align: Align::Bars(8),
    ..left("CPUHistory", "CPU HISTORY", 11, 0, |row, _| history::line(&row.history.cpu))
};
pub static MEM_HISTORY: Field = Field {
    align: Align::Bars(8),
    ..left("MemHistory", "MEM HISTORY", 11, 0, |row, _| history::line(&row.history.memory))
};

pub static SWAP: Field = right("Swap", "SWAP", 7, 7, |row, _| bytes(row.figures.memory_swap_bytes));
pub static THROTTLED: Field =
    right("Throttled", "THROTTLED", 7, 7, |row, _| shown(row.figures.cpu_throttled_percent, percent));
pub static PSI_CPU: Field = right("PSICPU", "PSI CPU", 7, 8, |row, _| shown(row.figures.pressure_cpu_percent, percent));
pub static PSI_MEM: Field =
    right("PSIMem", "PSI MEM", 7, 8, |row, _| shown(row.figures.pressure_memory_percent, percent));
pub static PSI_IO: Field = right("PSIIO", "PSI IO", 7, 8, |row, _| shown(row.figures.pressure_io_percent, percent));
pub static OOM: Field = right("OOMKills", "OOM", 4, 6, |row, _| count(row.figures.oom_kills));
pub static RESTARTS: Field = right("Restarts", "RESTARTS", 4, 6, |row, _| count(row.figures.restarts));

pub static STATUS: Field =
    left("Status", "STATUS", 6, 0, |row, _| match (row.status.as_deref(), row.availability.as_deref()) {
        (Some("ready"), Some("active")) => "ready".into(),
        (Some("ready"), Some(availability)) => printable(availability),
        (status, _) => text(status),
    });
pub static NODE_CPU: Field =
    right("NodeCPU", "NODE CPU", 7, 0, |row, _| shown(row.machine.figures.cpu_percent_of_node, percent));
pub static NODE_MEM: Field = slash("NodeMem", "NODE MEM / TOTAL", (10, 9), 0, |row, _| {
    pair(row.machine.figures.memory_used_bytes, row.machine.figures.memory_limit_bytes, memory)
});
pub static RESERVED_CPU: Field = slash("ReservedCPU", "RESERVED CPU", (4, 4), 4, |row, _| {
    halves(row.reserved.cpu_cores.map(cores), row.capacity.cpu_cores.map(cores))
});
pub static RESERVED_MEM: Field = slash("ReservedMem", "RESERVED MEM", (10, 9), 4, |row, _| {
    pair(row.reserved.memory_bytes, row.capacity.memory_bytes, memory)
});
pub static LOAD: Field =
    right("Load", "LOAD", 5, 6, |row, _| shown(row.machine.figures.load1, |load| format!("{load:.2}")));
pub static NODE_SWAP: Field = slash("NodeSwap", "NODE SWAP", (10, 9), 7, |row, _| {
    pair(row.machine.figures.swap_used_bytes, row.machine.figures.swap_limit_bytes, memory)
});
pub static DISK: Field = slash("Disk", "DISK USED / SIZE", (10, 9), 6, |row, _| {
    pair(row.machine.figures.filesystem_used_bytes, row.machine.figures.filesystem_size_bytes, memory)
});

pub static NODE_NET: Field = slash("NodeNet", "NODE NET PER S", (7, 7), 7, |row, _| {
    let figures = &row.machine.figures;
    rates(figures.network_receive_bytes_per_second, figures.network_transmit_bytes_per_second)
});
pub static NODE_BLOCK: Field = slash("NodeBlock", "NODE BLOCK PER S", (7, 7), 7, |row, _| {
    let figures = &row.machine.figures;
    rates(figures.block_read_bytes_per_second, figures.block_written_bytes_per_second)
});
pub static NODE_PSI_CPU: Field =
    right("NodePSICPU", "NODE PSI CPU", 7, 8, |row, _| shown(row.machine.figures.pressure_cpu_percent, percent));
pub static NODE_PSI_MEM: Field =
    right("NodePSIMem", "NODE PSI MEM", 7, 8, |row, _| shown(row.machine.figures.pressure_memory_percent, percent));
pub static NODE_PSI_IO: Field =
    right("NodePSIIO", "NODE PSI IO", 7, 8, |row, _| shown(row.machine.figures.pressure_io_percent, percent));

pub static CONTAINER: Field = left("Container", "CONTAINER", 12, 0, |row, full| match row.container_id.as_deref() {
    None => (NAME.cell)(row, full),
    container => id(container, full),
});
pub static SERVICE: Field =
    name("Service", "SERVICE", 0, |row, _| text(row.service_name.as_deref().or(row.service_id.as_deref())));
pub static STACK: Field = name("Stack", "STACK", 0, |row, _| text(row.stack.as_deref()));
pub static IMAGE: Field = name("Image", "IMAGE", 0, |row, _| text(row.image.as_deref()));
pub static LABELS: Field = left("Labels", "LABELS", 6, 0, |row, _| {
    let pairs: Vec<String> = row.labels.iter().map(|(name, value)| printable(&format!("{name}={value}"))).collect();
    if pairs.is_empty() { ABSENT.into() } else { pairs.join(",") }
});
pub static FIGURES_AGE: Field = right("Age", "AGE", 4, 0, |row, _| shown(row.age_seconds, age));
pub static SINCE: Field = left("Since", "SINCE", 5, 0, |row, _| text(row.since.as_deref()));
pub static MODE: Field = left("Mode", "MODE", 4, 6, |row, _| text(row.mode.as_deref()));
pub static UPDATE: Field = left("Update", "UPDATE", 6, 6, |row, _| text(row.update.as_deref()));
pub static ROLE: Field = left("Role", "ROLE", 4, 6, |row, _| text(row.role.as_deref()));
pub static AVAILABILITY: Field = left("Availability", "AVAILABILITY", 6, 6, |row, _| text(row.availability.as_deref()));
pub static MEM_OF_NODE: Field =
    right("MemPercOfNode", "MEM % (of node)", 6, 0, |row, _| shown(row.figures.memory_percent_of_node, percent));
pub static WORKING_SET: Field =
    right("WorkingSet", "WORKING SET", 7, 0, |row, _| bytes(row.figures.memory_working_set_bytes));
pub static ANON: Field = right("MemAnon", "MEM ANON", 7, 0, |row, _| bytes(row.figures.memory_anon_bytes));
pub static FILE: Field = right("MemFile", "MEM FILE", 7, 0, |row, _| bytes(row.figures.memory_file_bytes));
pub static SHMEM: Field = right("MemShmem", "MEM SHMEM", 7, 0, |row, _| bytes(row.figures.memory_shmem_bytes));

/// All of them, for templates.
pub static FIELDS: &[&Field] = &[
    &NAME,
    &ID,
    &CONTAINER,
    &SERVICE,
    &NODE,
    &STACK,
    &TASKS,
    &STATE,
    &HEALTH,
    &UP,
    &FIGURES_AGE,
    &AGE,
    &EXIT,
    &SINCE,
    &IMAGE,
    &LABELS,
    &MODE,
    &UPDATE,
    &ROLE,
    &STATUS,
    &AVAILABILITY,
    &CPU,
    &CPU_OF_NODE,
    &CPU_OF_LIMIT,
    &MEM,
    &MEM_PERCENT,
    &MEM_OF_NODE,
    &WORKING_SET,
    &ANON,
    &FILE,
    &SHMEM,
    &SWAP,
    &NET,
    &NET_RATE,
    &BLOCK,
    &BLOCK_RATE,
    &PIDS,
    &THROTTLED,
    &PSI_CPU,
    &PSI_MEM,
    &PSI_IO,
    &OOM,
    &RESTARTS,
    &CPU_HISTORY,
    &MEM_HISTORY,
    &NODE_CPU,
    &NODE_MEM,
    &LOAD,
    &NODE_SWAP,
    &DISK,
    &NODE_NET,
    &NODE_BLOCK,
    &NODE_PSI_CPU,
    &NODE_PSI_MEM,
    &NODE_PSI_IO,
    &RESERVED_CPU,
    &RESERVED_MEM,
];

fn text(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).map_or_else(|| ABSENT.into(), printable)
}

fn shown(value: Option<f64>, format: fn(f64) -> String) -> String {
    value.map_or_else(|| ABSENT.into(), format)
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| ABSENT.into(), |value| value.to_string())
}

fn bytes(value: Option<u64>) -> String {
    shown(value.map(|value| value as f64), memory)
}

fn cores(cores: f64) -> String {
    format!("{:.2}", cores).trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn halves(left: Option<String>, right: Option<String>) -> String {
    let half = |half: Option<String>| half.unwrap_or_else(|| ABSENT.into());
    format!("{} / {}", half(left), half(right))
}

fn pair(left: Option<u64>, right: Option<u64>, format: fn(f64) -> String) -> String {
    let half = |value: Option<u64>| value.map(|value| format(value as f64));
    halves(half(left), half(right))
}

fn rates(left: Option<f64>, right: Option<f64>) -> String {
    halves(left.map(io), right.map(io))
}

/// The 12 characters by which Docker shows an id, or all.
fn id(id: Option<&str>, full: bool) -> String {
    id.map_or_else(
        || ABSENT.into(),
        |id| printable(&id.chars().take(if full { usize::MAX } else { 12 }).collect::<String>()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::row::Coverage;

    #[test]
    fn placeholders_are_unique_and_dockers_are_all_there() {
        let mut names: Vec<&str> = FIELDS.iter().map(|field| field.placeholder).collect();
        for dockers in DOCKERS {
            assert!(names.contains(&dockers), "{dockers}");
        }
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_row_of_nothing_shows_nothing_as_nought() {
        for field in FIELDS {
            let cell = (field.cell)(&Row::default(), false);
            assert!(["--", "-- / --", ""].contains(&&*cell), "{}: {cell}", field.placeholder);
        }
    }

    #[test]
    fn what_swarm_wants_is_shown_where_it_is_not_what_there_is() {
        let tasks = |fresh, known, desired| {
            (TASKS.cell)(&Row { tasks: Some(Coverage { fresh, known, desired }), ..Row::default() }, false)
        };
        assert_eq!(tasks(2, 3, None), "2/3");
        assert_eq!(tasks(3, 3, Some(3)), "3/3");
        assert_eq!(tasks(5, 5, Some(1)), "5/5 of 1");
        let tasks = Some(Coverage { fresh: 1, known: 1, desired: None });
        let job = Row { tasks, completed: Some(3), total_completions: Some(10), ..Row::default() };
        assert_eq!((TASKS.cell)(&job, false), "1/1 (3/10 completed)", "docker service ls");
    }

    #[test]
    fn an_ended_task_says_how() {
        let exit = |code, kills| {
            let figures = crate::cli::row::Figures { oom_kills: kills, ..Default::default() };
            (EXIT.cell)(&Row { state: Some("ended".into()), exit_code: code, figures, ..Row::default() }, false)
        };
        assert_eq!(
            [exit(Some(0), None), exit(Some(137), Some(1)), exit(Some(137), Some(0)), exit(None, None)],
            ["0", "137 OOM", "137", "--"]
        );
    }

    #[test]
    fn ids_are_dockers_twelve_characters_or_all() {
        let row = Row {
            id: Some("9mnpnzenvg8p8tdbtq4wvbkcz".into()),
            name: Some("web.1.9mnpnzenvg8p8tdbtq4wvbkcz".into()),
            ..Row::default()
        };
        assert_eq!([(ID.cell)(&row, false), (ID.cell)(&row, true)], ["9mnpnzenvg8p", "9mnpnzenvg8p8tdbtq4wvbkcz"]);
        assert_eq!([(NAME.cell)(&row, false), (NAME.cell)(&row, true)], ["web.1", "web.1.9mnpnzenvg8p8tdbtq4wvbkcz"]);
    }
}

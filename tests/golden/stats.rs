//! `docs/stats.md`: every stat and every figure, made from the catalogue and kept true. `UPDATE=1 cargo test --test
//! golden` writes it anew.

use std::path::Path;
use swarmstats::figures::{FIGURES, MACHINE_FIGURES, Shown};
use swarmstats::model::bits;
use swarmstats::source::files::{BLOCK, Cgroup, NETWORK, ROWS};
use swarmstats::stat::source::{SOURCES, Source};
use swarmstats::stat::{Group, Kind, Level, Of, Unit};

const HEAD: &str = "\
<!-- Made from src/stat.rs, src/stat/source.rs, src/figures/table.rs and src/figures/machine.rs: UPDATE=1 cargo test --test golden -->

# Stats and figures

A **stat** is read; a **figure** is made of stats where an answer is given. Whatever could not be read is absent: `null` in
JSON, no series in Prometheus, `--` in the table, never 0.

## Stats

In JSON a stat has the name below (`stats`, and the counters also under `totals`). In Prometheus it is
`swarmstats_task_<name>`, `swarmstats_service_<name>` and, of the machine, `swarmstats_node_<name>` at a collectord, and
`swarmstats_node_service_<name>`, a service's part on one node, at that node's shipper. Levels hold each other: `docker` is what `docker stats` shows, `standard` the
default, `all` everything; a machine tells its CPUs and memory at each of them. Under *v1*, *v2* and *machine* stand the files and keys; cgroup files by their name alone.
";

const FIGURES_HEAD: &str = "
## Figures

Of a task's newest reading and the one before: Δ is the difference between the two, t the monotonic clock of the machine. A
decrease is a reset and gives no figure. What cannot be (more CPU time than the node's CPUs can give in Δt, a twentieth and a
tick more; a share of time above its whole) gives none either, and a warning names the task.

While a task's CPU time stands still, its other files are read once in three rounds. What a counter rose by since is told over
the rounds in between, at the rate at which it rose: its rates are means over up to three rounds, and as late. Groups are services, nodes and stacks; of
a group's tasks those with a fresh sample count.
";

const MACHINES_HEAD: &str = "
## A node's machine

`machine.figures` of a node, from its own stats (of whom: nodes or both) and so never a sum over its tasks; all absent while
the node's shipper is not fresh.
";

const REST: &str = "
## Beside the figures

| key | what it is | source |
|---|---|---|
| `age_seconds` | age of the newest reading; of a group, of its oldest fresh task | the shipper's and the collector's monotonic clocks |
| `since` | a task: when its container was started; a group: since when no ended task is missing in `totals` | the engine: State.StartedAt; the shippers' starts |
| `state` | `running`, `paused`, `stale` (no reading for three intervals) or `ended` | stat `paused`; freshness; the engine's events |
| `health` | `starting`, `healthy`, `unhealthy`; absent without a health check | stat `health_status` |
| `exit_code` | of an ended task | stat `exit_code` |
| `tasks` | `fresh` tasks are those counted, of `known` running ones; `desired` is Swarm's | rows; a manager's engine, as `docker service ls` counts |
| `capacity` | CPUs and memory of a node, once | a manager's engine, else stats `cpu_limit_cores`, `memory_limit_bytes` |
| `reserved` | sum of the reservations of a node's tasks | a manager's engine |
";

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "seconds",
        Unit::Nanocores => "CPUs",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
        Unit::Thousandths => "number",
    }
}

fn document() -> String {
    let mut text = HEAD.to_string();
    text += "\n| no. | name | unit | kind | level | of | of a group | help | v1 | v2 | machine |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|---|\n";
    for Source { stat, v1, v2, machine } in SOURCES {
        let row = stat.row();
        let kind = if row.kind == Kind::Counter { "counter" } else { "gauge" };
        let level = match row.level {
            Level::Docker => "docker",
            Level::Standard => "standard",
            Level::All => "all",
        };
        let of = match row.of {
            Of::Tasks => "tasks",
            Of::Nodes => "nodes",
            Of::Both => "both",
        };
        let group = match row.group {
            Group::Sum => "sum",
            Group::SumIfAll => "sum, if all have it",
            Group::SumPerNetns => "sum, a shared network namespace once",
            Group::Never => "-",
        };
        let (number, name, unit, help) = (stat.number(), row.name, unit(row.unit), row.help);
        let (v1, v2) = (cell(v1), cell(v2));
        text += &format!(
            "| {number} | `{name}` | {unit} | {kind} | {level} | {of} | {group} | {help} | {v1} | {v2} | {machine} |\n"
        );
    }
    text += FIGURES_HEAD;
    text += "\n| figure | of a task | base or unit | of a group | source |\n|---|---|---|---|---|\n";
    for figure in FIGURES {
        let base = match figure.shown {
            Shown::Percent => format!("% of {}", figure.base),
            Shown::Integer => figure.base.to_string(),
        };
        let (name, formula, group, source) = (figure.name, figure.formula, figure.group, figure.source);
        text += &format!("| `{name}` | {formula} | {base} | {group} | {source} |\n");
    }
    text += MACHINES_HEAD;
    text += "\n| figure | of a machine | base or unit |\n|---|---|---|\n";
    for figure in MACHINE_FIGURES {
        text += &format!("| `{}` | {} | {} |\n", figure.name, figure.formula, figure.base);
    }
    text += REST;
    text
}

/// Bars would end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_documentation_of_stats_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/stats.md");
    let made = document();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let lines = made.lines().zip(kept.lines()).find(|(made, kept)| made != kept);
    assert!(made == kept, "docs/stats.md is not true any more: UPDATE=1 cargo test --test golden\n{lines:#?}");
}

#[test]
fn sources_name_the_files_that_are_read() {
    for row in ROWS {
        for stat in bits(row.gives) {
            let source = &SOURCES[stat.number()];
            let told = if row.cgroup == Cgroup::V1 { source.v1 } else { source.v2 };
            assert!(told.contains(row.name), "{stat:?} is read from {}, said to be from {told}", row.name);
        }
    }
    for stat in bits(NETWORK) {
        assert!(SOURCES[stat.number()].v1.contains("net/dev"), "{stat:?}");
    }
    assert!(bits(BLOCK).all(|stat| SOURCES[stat.number()].v1.starts_with("blkio.")));
}

#[test]
fn formulas_name_stats_that_are_there() {
    for figure in FIGURES {
        let words = figure.formula.split([' ', 'Δ']).filter(|word| word.contains('_') && !word.ends_with("_percent"));
        for word in words {
            assert!(SOURCES.iter().any(|source| source.stat.name() == word), "{}: {word}", figure.name);
        }
    }
}

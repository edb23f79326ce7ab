//! Every figure of every container, beside the kernel's files, `docker stats` and the engine's records.

use crate::docker::{pair, percent};
use crate::kernel;
use crate::record::{Container, Record, judge};
use serde_json::Value;
use std::fs;

const MIB: f64 = 1048576.0;

/// A look before, ours, a look after: twice.
const ROUNDS: [(u8, u8, u8); 2] = [(1, 1, 2), (2, 2, 3)];

/// Tasks in the host's network or in none: the host's figures are nobody's.
const NO_NETWORK: [&str; 6] = ["burn", "oom", "tmpfs", "custom", "nested", "delegated"];

/// Tasks that start and end processes all the time.
const RESTLESS: [&str; 3] = ["caller", "oom", "sink"];

#[test]
fn every_stat_lies_between_the_kernels_reads_around_it() {
    let mut wrong = Vec::new();
    for record in Record::all() {
        for (before, ask, after) in ROUNDS {
            let ours = record.asked(ask);
            for container in &record.containers {
                let task = &ours[&container.name];
                println!("{} {} {}, ask {ask}:", record.machine, container.name, container.cgroup);
                stats_of(&record, container, task, (before, after), &mut wrong);
            }
        }
    }
    judge(&wrong);
}

fn stats_of(record: &Record, container: &Container, task: &Value, looks: (u8, u8), wrong: &mut Vec<String>) {
    let (before, after) = (record.look(looks.0, container), record.look(looks.1, container));
    let (before, after) = (kernel::stats(&before), kernel::stats(&after));
    for (stat, (file, low)) in before {
        let (low, high, ours) = (low, after[stat].1, task["stats"][stat].as_f64());
        let none = NO_NETWORK.contains(&&*container.name) && stat.starts_with("network_");
        let good = match (low, high, ours) {
            (None, None, None) => continue,
            (Some(low), Some(high), Some(ours)) if !none => within(&container.name, stat, low, high, ours),
            (.., None) => none,
            _ => false,
        };
        let shown = |value: Option<f64>| value.map_or("--".to_owned(), |value| format!("{value}"));
        let line = format!("{stat:38} {file} {} .. {}, ours {}", shown(low), shown(high), shown(ours));
        println!("  {line}");
        if !good {
            wrong.push(format!("{} {}: {line}", record.machine, container.name));
        }
    }
}

/// Whether ours may have been read between two readings of the kernel's.
fn within(container: &str, stat: &str, low: f64, high: f64, ours: f64) -> bool {
    let memory = stat.starts_with("memory_") && !stat.contains("limit");
    let (gauge, counter) = (!stat.ends_with("_total"), 1e-6);
    let slack = match stat {
        // Gone up and come down in between.
        "pids" if RESTLESS.contains(&container) => return true,
        _ if memory && gauge && container == "oom" => return true,
        // The kernel's books of memory lack what each CPU has not handed in yet.
        _ if memory && gauge => MIB,
        _ => counter,
    };
    low.min(high) - slack <= ours && ours <= low.max(high) + slack
}

#[test]
fn the_columns_agree_with_docker_stats() {
    let mut wrong = Vec::new();
    for record in Record::all() {
        println!(
            "{} ({}): docker stats before | ours | docker stats after",
            record.machine,
            record.text("kernel").trim()
        );
        for (before, ask, after) in ROUNDS {
            let (earlier, ours, later) = (record.docker(before), record.asked(ask), record.docker(after));
            for container in &record.containers {
                let (earlier, later) = (&earlier[&container.id], &later[&container.id]);
                columns(&record, container, (earlier, &ours[&container.name], later), &mut wrong);
            }
        }
    }
    judge(&wrong);
}

fn columns(
    record: &Record,
    container: &Container,
    (earlier, ours, later): (&Value, &Value, &Value),
    wrong: &mut Vec<String>,
) {
    let text = |column: &str| {
        let (earlier, later) = (earlier[column].as_str().unwrap(), later[column].as_str().unwrap());
        if earlier == later { earlier.to_owned() } else { format!("{earlier} .. {later}") }
    };
    let figure = |name: &str| ours["figures"][name].as_f64();
    let shown = |name: &str| figure(name).map_or("--".to_owned(), |value| format!("{value}"));
    println!(
        "  {:10} CPU {} ({})  MEM {} ({} / {})  NET {} ({} / {})  BLOCK {} ({} / {})  PIDS {} ({})",
        container.name,
        text("CPUPerc"),
        shown("cpu_percent"),
        text("MemUsage"),
        shown("memory_used_bytes"),
        shown("memory_limit_bytes"),
        text("NetIO"),
        shown("network_receive_bytes"),
        shown("network_transmit_bytes"),
        text("BlockIO"),
        shown("block_read_bytes"),
        shown("block_written_bytes"),
        text("PIDs"),
        shown("pids"),
    );
    let mut check = |name: &str, low: f64, high: f64, slack: f64| {
        // docker stats shows 0 for what is not there: the host's network, block I/O without its controller.
        let container = container.name.as_str();
        let absent = NO_NETWORK.contains(&container) && name.starts_with("network_")
            || container == "delegated" && name.starts_with("block_");
        let good = match figure(name) {
            None => absent && low == 0.0 && high == 0.0,
            // docker rounds to three digits, memory to four.
            Some(ours) => !absent && low.min(high) * 0.995 - slack <= ours && ours <= low.max(high) * 1.005 + slack,
        };
        if !good {
            wrong.push(format!("{} {container}: {name} {} is not in {low} .. {high}", record.machine, shown(name)));
        }
    };
    let columns = [
        ("NetIO", "network_receive_bytes", "network_transmit_bytes"),
        ("BlockIO", "block_read_bytes", "block_written_bytes"),
    ];
    for (column, first, second) in columns {
        let (low, high) = (pair(&earlier[column]), pair(&later[column]));
        check(first, low.0, high.0, 0.5);
        check(second, low.1, high.1, 0.5);
    }
    // oom's memory goes up and down all the time.
    if container.name != "oom" {
        check("memory_used_bytes", pair(&earlier["MemUsage"]).0, pair(&later["MemUsage"]).0, MIB);
    }
    if !RESTLESS.contains(&&*container.name) {
        check("pids", percent(&earlier["PIDs"]), percent(&later["PIDs"]), 0.0);
    }
}

/// CPU over a window of its own: by our points, by the engine's records and their stamps, and by what was let loose.
#[test]
fn cpu_over_half_a_minute_agrees_with_the_engines_records_and_the_known_load() {
    let mut wrong = Vec::new();
    for record in Record::all() {
        let asked = record.asked(2);
        for (name, known) in [("burn", Some(10.0)), ("nested", Some(10.0)), ("caller", None)] {
            let container = record.container(name);
            let (ours, seconds) = by_points(&asked[name]);
            let (engine, engine_seconds) = by_engine(&record, container);
            let docker = [1, 2, 3].map(|look| percent(&record.docker(look)[&container.id]["CPUPerc"]));
            let line = format!(
                "{} {name}: engine {engine:.3} % over {engine_seconds:.1} s, ours {ours:.3} % over {seconds:.1} s, \
                 let loose {known:?}, docker stats {docker:?}",
                record.machine
            );
            println!("{line}");
            // caller is no steady load. A busy computer lets the emulated machine wait, which throttles too late then.
            let near = |reference: f64, bound: f64| (ours - reference).abs() <= f64::max(0.5, bound * reference);
            let steady = if known.is_some() { 0.1 } else { 0.3 };
            if seconds < 15.0 || !near(engine, steady) || !known.is_none_or(|known| near(known, 0.3)) {
                wrong.push(line);
            }
        }
    }
    judge(&wrong);
}

/// Per cent of one CPU from the oldest point to the newest, and how long that was.
fn by_points(task: &Value) -> (f64, f64) {
    let cpu = |item: &Value| item["stats"]["cpu_seconds_total"].as_f64().unwrap();
    let before = |point: &&Value| point["seconds_before"].as_f64().unwrap();
    let points = task["points"].as_array().unwrap();
    let oldest = points.iter().max_by(|a, b| before(a).total_cmp(&before(b))).unwrap();
    let seconds = before(&oldest);
    (100.0 * (cpu(task) - cpu(oldest)) / seconds, seconds)
}

fn by_engine(record: &Record, container: &Container) -> (f64, f64) {
    let reading = |look: u8| {
        let text = fs::read_to_string(record.look(look, container).join("engine.json")).unwrap();
        let stats: Value = serde_json::from_str(&text).unwrap();
        let read = swarmstats::source::parse::rfc3339(stats["read"].as_str().unwrap()).expect("a time");
        (read as f64 / 1e9, stats["cpu_stats"]["cpu_usage"]["total_usage"].as_f64().unwrap() / 1e9)
    };
    let (from, to) = (reading(1), reading(3));
    (100.0 * (to.1 - from.1) / (to.0 - from.0), to.0 - from.0)
}

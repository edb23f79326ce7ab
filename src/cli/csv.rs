//! Rows as comma-separated values: a header, then numbers in base units under the names that the JSON has.
//!
//! All views have the same columns. The first is the time of the answer, by which the rounds of a stream can be told
//! apart; what the JSON nests has its path as its name, `machine_load1`. Absent is empty. A field is quoted where RFC 4180 wants it. Pure.

use crate::cli::format::visible;
use crate::cli::row::{Row, whole};
use crate::json::rfc3339;
use std::time::SystemTime;

type Texts = [(&'static str, fn(&Row) -> Option<&str>); 17];
type Numbers = [(&'static str, fn(&Row) -> Option<f64>); 59];

const TEXTS: Texts = [
    ("id", |row| row.id.as_deref()),
    ("name", |row| row.name.as_deref()),
    ("stack", |row| row.stack.as_deref()),
    ("service_id", |row| row.service_id.as_deref()),
    ("service_name", |row| row.service_name.as_deref()),
    ("node_id", |row| row.node_id.as_deref()),
    ("node_name", |row| row.node_name.as_deref()),
    ("container_id", |row| row.container_id.as_deref()),
    ("image", |row| row.image.as_deref()),
    ("state", |row| row.state.as_deref()),
    ("health", |row| row.health.as_deref()),
    ("since", |row| row.since.as_deref()),
    ("mode", |row| row.mode.as_deref()),
    ("update", |row| row.update.as_deref()),
    ("status", |row| row.status.as_deref()),
    ("availability", |row| row.availability.as_deref()),
    ("role", |row| row.role.as_deref()),
];

const NUMBERS: Numbers = [
    ("exit_code", |row| row.exit_code.map(|code| code as f64)),
    ("tasks_fresh", |row| whole(row.tasks.map(|tasks| tasks.fresh))),
    ("tasks_known", |row| whole(row.tasks.map(|tasks| tasks.known))),
    ("tasks_desired", |row| whole(row.tasks.and_then(|tasks| tasks.desired))),
    ("age_seconds", |row| row.age_seconds),
    ("cpu_percent", |row| row.figures.cpu_percent),
    ("memory_used_bytes", |row| whole(row.figures.memory_used_bytes)),
    ("memory_limit_bytes", |row| whole(row.figures.memory_limit_bytes)),
    ("memory_percent", |row| row.figures.memory_percent),
    ("network_receive_bytes", |row| whole(row.figures.network_receive_bytes)),
    ("network_transmit_bytes", |row| whole(row.figures.network_transmit_bytes)),
    ("block_read_bytes", |row| whole(row.figures.block_read_bytes)),
    ("block_written_bytes", |row| whole(row.figures.block_written_bytes)),
    ("pids", |row| whole(row.figures.pids)),
    ("cpu_percent_of_node", |row| row.figures.cpu_percent_of_node),
    ("cpu_percent_of_limit", |row| row.figures.cpu_percent_of_limit),
    ("memory_percent_of_node", |row| row.figures.memory_percent_of_node),
    ("memory_working_set_bytes", |row| whole(row.figures.memory_working_set_bytes)),
    ("memory_anon_bytes", |row| whole(row.figures.memory_anon_bytes)),
    ("memory_file_bytes", |row| whole(row.figures.memory_file_bytes)),
    ("memory_shmem_bytes", |row| whole(row.figures.memory_shmem_bytes)),
    ("memory_swap_bytes", |row| whole(row.figures.memory_swap_bytes)),
    ("network_receive_bytes_per_second", |row| row.figures.network_receive_bytes_per_second),
    ("network_transmit_bytes_per_second", |row| row.figures.network_transmit_bytes_per_second),
    ("block_read_bytes_per_second", |row| row.figures.block_read_bytes_per_second),
    ("block_written_bytes_per_second", |row| row.figures.block_written_bytes_per_second),
    ("cpu_throttled_percent", |row| row.figures.cpu_throttled_percent),
    ("pressure_cpu_percent", |row| row.figures.pressure_cpu_percent),
    ("pressure_memory_percent", |row| row.figures.pressure_memory_percent),
    ("pressure_io_percent", |row| row.figures.pressure_io_percent),
    ("oom_kills", |row| whole(row.figures.oom_kills)),
    ("restarts", |row| whole(row.figures.restarts)),
    ("up_seconds", |row| row.up_seconds().map(f64::round)),
    ("completed", |row| whole(row.completed)),
    ("total_completions", |row| whole(row.total_completions)),
    ("machine_cpu_percent", |row| row.machine.figures.cpu_percent),
    ("machine_cpu_percent_of_node", |row| row.machine.figures.cpu_percent_of_node),
    ("machine_load1", |row| row.machine.figures.load1),
    ("machine_load5", |row| row.machine.figures.load5),
    ("machine_load15", |row| row.machine.figures.load15),
    ("machine_memory_used_bytes", |row| whole(row.machine.figures.memory_used_bytes)),
    ("machine_memory_limit_bytes", |row| whole(row.machine.figures.memory_limit_bytes)),
    ("machine_memory_percent", |row| row.machine.figures.memory_percent),
    ("machine_swap_used_bytes", |row| whole(row.machine.figures.swap_used_bytes)),
    ("machine_swap_limit_bytes", |row| whole(row.machine.figures.swap_limit_bytes)),
    ("machine_filesystem_used_bytes", |row| whole(row.machine.figures.filesystem_used_bytes)),
    ("machine_filesystem_size_bytes", |row| whole(row.machine.figures.filesystem_size_bytes)),
    ("machine_filesystem_available_bytes", |row| whole(row.machine.figures.filesystem_available_bytes)),
    ("machine_network_receive_bytes_per_second", |row| row.machine.figures.network_receive_bytes_per_second),
    ("machine_network_transmit_bytes_per_second", |row| row.machine.figures.network_transmit_bytes_per_second),
    ("machine_block_read_bytes_per_second", |row| row.machine.figures.block_read_bytes_per_second),
    ("machine_block_written_bytes_per_second", |row| row.machine.figures.block_written_bytes_per_second),
    ("machine_pressure_cpu_percent", |row| row.machine.figures.pressure_cpu_percent),
    ("machine_pressure_memory_percent", |row| row.machine.figures.pressure_memory_percent),
    ("machine_pressure_io_percent", |row| row.machine.figures.pressure_io_percent),
    ("capacity_cpu_cores", |row| row.capacity.cpu_cores),
    ("capacity_memory_bytes", |row| whole(row.capacity.memory_bytes)),
    ("reserved_cpu_cores", |row| row.reserved.cpu_cores),
    ("reserved_memory_bytes", |row| whole(row.reserved.memory_bytes)),
];

/// The header line.
pub fn header() -> String {
    let names =
        std::iter::once("time").chain(TEXTS.iter().map(|(name, _)| *name)).chain(NUMBERS.iter().map(|(name, _)| *name));
    names.collect::<Vec<_>>().join(",") + "\n"
}

/// One line a row of an answer that came at that moment.
pub fn lines(rows: &[Row], at: SystemTime) -> String {
    let since_1970 = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = rfc3339(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX));
    let line = |row: &Row| {
        let texts = TEXTS.iter().map(|(_, of)| of(row).map_or_else(String::new, quoted));
        let numbers = NUMBERS.iter().map(|(_, of)| of(row).map_or_else(String::new, |number| number.to_string()));
        std::iter::once(time.clone()).chain(texts).chain(numbers).collect::<Vec<_>>().join(",") + "\n"
    };
    rows.iter().map(line).collect()
}

fn quoted(text: &str) -> String {
    let text = visible(text);
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::row::Figures;

    #[test]
    fn a_line_has_the_headers_fields_in_base_units() {
        let figures =
            Figures { cpu_percent: Some(0.03), memory_used_bytes: Some(9_007_199_254_740_991), ..Figures::default() };
        let row = Row { id: Some("t1".into()), name: Some("a \"b\", 漢\n".into()), figures, ..Row::default() };
        let text = header() + &lines(&[row], SystemTime::UNIX_EPOCH);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1].matches(',').count(), lines[0].matches(',').count() + 1, "one stands in quotes");
        assert!(lines[1].starts_with(r#"1970-01-01T00:00:00.000Z,t1,"a ""b"", 漢\u{a}",,"#), "{text}");
        assert!(lines[1].contains(",0.03,9007199254740991,,"), "absent is empty: {text}");
    }
}

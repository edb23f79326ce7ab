//! The kernel's files of a container on cgroup v2, as they were recorded, under the names of our stats.

use std::{collections::BTreeMap, fs, path::Path};

/// Where in its file a number is.
enum At {
    /// The file is the number.
    Whole,
    /// `NAME NUMBER` is a line.
    Line(&'static str),
    /// `NAME … total=NUMBER` is a line.
    Pressure(&'static str),
    /// `NAME=NUMBER` in each line, added up.
    Io(&'static str),
    /// That column of each interface but lo, added up; the first after the colon is 0.
    Net(usize),
    /// `QUOTA PERIOD`, as quota over period.
    Quota,
    /// The least of several lines.
    Least,
}
use At::{Io, Least, Line, Net, Pressure, Quota, Whole};

/// Stat, file, place in it, and how many of the file's units make one of ours.
const PLACES: [(&str, &str, At, f64); 41] = [
    ("cpu_seconds_total", "cpu.stat", Line("usage_usec"), 1e6),
    ("cpu_user_seconds_total", "cpu.stat", Line("user_usec"), 1e6),
    ("cpu_system_seconds_total", "cpu.stat", Line("system_usec"), 1e6),
    ("cpu_periods_total", "cpu.stat", Line("nr_periods"), 1.0),
    ("cpu_throttled_periods_total", "cpu.stat", Line("nr_throttled"), 1.0),
    ("cpu_throttled_seconds_total", "cpu.stat", Line("throttled_usec"), 1e6),
    ("cpu_limit_cores", "cpu.max", Quota, 1.0),
    ("memory_usage_bytes", "memory.current", Whole, 1.0),
    ("memory_limit_bytes", "memory.max", Least, 1.0),
    ("memory_peak_bytes", "memory.peak", Whole, 1.0),
    ("memory_swap_bytes", "memory.swap.current", Whole, 1.0),
    ("memory_anon_bytes", "memory.stat", Line("anon"), 1.0),
    ("memory_file_bytes", "memory.stat", Line("file"), 1.0),
    ("memory_shmem_bytes", "memory.stat", Line("shmem"), 1.0),
    ("memory_kernel_bytes", "memory.stat", Line("kernel"), 1.0),
    ("memory_mapped_file_bytes", "memory.stat", Line("file_mapped"), 1.0),
    ("memory_inactive_file_bytes", "memory.stat", Line("inactive_file"), 1.0),
    ("memory_active_file_bytes", "memory.stat", Line("active_file"), 1.0),
    ("memory_page_faults_total", "memory.stat", Line("pgfault"), 1.0),
    ("memory_major_page_faults_total", "memory.stat", Line("pgmajfault"), 1.0),
    ("memory_oom_kills_total", "memory.events", Line("oom_kill"), 1.0),
    ("memory_limit_hits_total", "memory.events", Line("max"), 1.0),
    ("block_read_bytes_total", "io.stat", Io("rbytes"), 1.0),
    ("block_written_bytes_total", "io.stat", Io("wbytes"), 1.0),
    ("block_reads_total", "io.stat", Io("rios"), 1.0),
    ("block_writes_total", "io.stat", Io("wios"), 1.0),
    ("pids", "pids.current", Whole, 1.0),
    ("pids_limit", "pids.max", Least, 1.0),
    ("pressure_cpu_waiting_seconds_total", "cpu.pressure", Pressure("some"), 1e6),
    ("pressure_cpu_stalled_seconds_total", "cpu.pressure", Pressure("full"), 1e6),
    ("pressure_memory_waiting_seconds_total", "memory.pressure", Pressure("some"), 1e6),
    ("pressure_memory_stalled_seconds_total", "memory.pressure", Pressure("full"), 1e6),
    ("pressure_io_waiting_seconds_total", "io.pressure", Pressure("some"), 1e6),
    ("pressure_io_stalled_seconds_total", "io.pressure", Pressure("full"), 1e6),
    ("network_receive_bytes_total", "net.dev", Net(0), 1.0),
    ("network_receive_packets_total", "net.dev", Net(1), 1.0),
    ("network_receive_errors_total", "net.dev", Net(2), 1.0),
    ("network_receive_dropped_total", "net.dev", Net(3), 1.0),
    ("network_transmit_bytes_total", "net.dev", Net(8), 1.0),
    ("network_transmit_packets_total", "net.dev", Net(9), 1.0),
    ("network_transmit_dropped_total", "net.dev", Net(11), 1.0),
];

/// Every stat that the kernel has of a container, and where it is; `None` where there is no file, line or limit.
pub(crate) fn stats(look: &Path) -> BTreeMap<&'static str, (&'static str, Option<f64>)> {
    let place = |(stat, file, at, unit): &(&'static str, &'static str, At, f64)| {
        let text = fs::read_to_string(look.join(file)).ok();
        (*stat, (*file, text.and_then(|text| number(&text, at)).map(|number| number / unit)))
    };
    let mut stats: BTreeMap<_, _> = PLACES.iter().map(place).collect();
    // docker stats' rule.
    let used =
        stats["memory_usage_bytes"].1.zip(stats["memory_inactive_file_bytes"].1).map(|(usage, file)| usage - file);
    stats.insert("memory_used_bytes", ("memory.current", used));
    stats
}

fn number(text: &str, at: &At) -> Option<f64> {
    let lines = || text.lines().map(str::trim);
    let parse = |word: &str| word.parse::<f64>().ok();
    match at {
        Whole => parse(text.trim()),
        Least => lines().filter_map(parse).min_by(f64::total_cmp),
        Line(name) => lines().find_map(|line| parse(line.strip_prefix(name)?.strip_prefix(' ')?)),
        Pressure(name) => {
            lines().find(|line| line.starts_with(name)).and_then(|line| parse(line.split_once("total=")?.1))
        }
        Io(name) => {
            let pair = |word: &str| word.strip_prefix(name)?.strip_prefix('=').and_then(parse);
            Some(text.split_whitespace().filter_map(pair).fold(0.0, |sum, number| sum + number))
        }
        Net(column) => {
            let interfaces = lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| *name != "lo");
            let column = |(_, numbers): (&str, &str)| parse(numbers.split_whitespace().nth(*column)?);
            Some(interfaces.filter_map(column).fold(0.0, |sum, number| sum + number))
        }
        Quota => {
            let (quota, period) = text.trim().split_once(' ')?;
            Some(parse(quota)? / parse(period)?)
        }
    }
}

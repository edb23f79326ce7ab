//! What the kernel says of this process, for the `process_…` metrics that every exporter has.

use std::fs;
use std::time::Duration;

/// This process at this moment; a figure that could not be read is absent.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ProcessFigures {
    /// CPU time used so far, all threads.
    pub(super) cpu: Option<Duration>,
    /// Resident memory in bytes.
    pub(super) resident: Option<u64>,
    /// Open file descriptors.
    pub(super) open_fds: Option<u64>,
    /// Unix time of the start.
    pub(super) started: Option<Duration>,
}

/// Reads `/proc/self`.
pub(super) fn read() -> ProcessFigures {
    let ticks = rustix::param::clock_ticks_per_second();
    let stat = fs::read_to_string("/proc/self/stat").ok();
    let stat = stat.as_deref().map(fields).unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let boot = fs::read_to_string("/proc/stat").ok().and_then(|text| number_after(&text, "btime "));
    let open_fds = fs::read_dir("/proc/self/fd").ok().and_then(|entries| u64::try_from(entries.count()).ok());
    ProcessFigures {
        // proc(5): fields 14 utime, 15 stime, 22 starttime, in clock ticks.
        cpu: field(&stat, 14).zip(field(&stat, 15)).map(|(user, system)| of_ticks(user + system, ticks)),
        resident: number_after(&status, "VmRSS:").map(|kib| kib * 1024),
        open_fds,
        started: field(&stat, 22).zip(boot).map(|(start, boot)| of_ticks(start, ticks) + Duration::from_secs(boot)),
    }
}

/// The fields of `/proc/<pid>/stat` from the third on; the second is a name in brackets that may hold anything.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(") ").map(|(_, rest)| rest.split_ascii_whitespace().collect()).unwrap_or_default()
}

/// A field by its number in proc(5).
fn field(fields: &[&str], number: usize) -> Option<u64> {
    fields.get(number - 3)?.parse().ok()
}

/// The number at the end of the line that begins with `key`, a unit aside.
fn number_after(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn of_ticks(n: u64, per_second: u64) -> Duration {
    Duration::from_nanos(n.saturating_mul(1_000_000_000 / per_second.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_moves_no_field() {
        // `cat /proc/<pid>/stat` of a process that named itself "a) (b 1".
        let stat = "77 (a) (b 1) S 1 77 77 0 -1 4194560 95 0 0 0 150 50 0 0 20 0 1 0 123456 2617344 224";
        let fields = fields(stat);
        assert_eq!((field(&fields, 14), field(&fields, 15), field(&fields, 22)), (Some(150), Some(50), Some(123_456)));
        assert_eq!(of_ticks(200, 100), Duration::from_secs(2));
    }

    #[test]
    fn this_process_is_there() {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap();
        let ProcessFigures { cpu, resident, open_fds, started } = read();
        assert!(cpu.is_some());
        assert!(resident.unwrap() > 1 << 20);
        assert!(open_fds.unwrap() >= 3);
        let age = now.saturating_sub(started.unwrap());
        assert!(age < Duration::from_secs(3600), "started {age:?} ago");
    }
}

//! The kernel's text files, as bytes, into figures.
//!
//! Pure and without allocation: these run for every container at every sample. A line that makes no sense is passed
//! over and counted ([`Bad`]); a last line without its newline is torn, and passed over as well. What a file does not
//! say stays absent. It deliberately opens nothing and knows no paths.

pub mod machine;

use crate::{
    model::{Nanos, Values},
    stat::{self, Stat},
};

/// How many lines or rows of a file made no sense.
pub type Bad = u64;

/// A tick of `cpuacct.stat`: the kernel counts in USER_HZ, which is 100 on every architecture Docker runs on.
const TICK: Nanos = 10_000_000;

/// The complete lines of a file, without their newlines, and whether something torn is left behind them.
fn lines(bytes: &[u8]) -> (impl Iterator<Item = &[u8]>, Bad) {
    let end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let torn = Bad::from(!bytes[end..].trim_ascii().is_empty());
    (bytes[..end].split(|b| *b == b'\n').filter(|line| !line.is_empty()), torn)
}

/// The words of a line.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// Splits at the first byte that is `at`.
fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|b| *b == at)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

/// Decimal digits and nothing else, within 64 bits.
pub fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |n, b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// A file that holds a single number and a newline.
pub fn number(bytes: &[u8]) -> Option<u64> {
    digits(bytes.strip_suffix(b"\n")?.trim_ascii())
}

/// A file that holds a single number or `max` (no limit, hence `Some(None)`).
pub fn number_or_max(bytes: &[u8]) -> Option<Option<u64>> {
    if bytes == b"max\n" { Some(None) } else { number(bytes).map(Some) }
}

/// A file that holds a single number, into its stat.
pub fn single(bytes: &[u8], stat: Stat, values: &mut Values) -> Bad {
    let value = number(bytes);
    values.put(stat, value);
    Bad::from(value.is_none())
}

/// Lines of `key number`; a line without a number is bad and the others count.
fn pairs<'a>(bytes: &'a [u8], mut each: impl FnMut(&'a [u8], u64)) -> Bad {
    let (lines, mut bad) = lines(bytes);
    for line in lines {
        match split_once(line, b' ').and_then(|(key, value)| Some((key, digits(value.trim_ascii())?))) {
            Some((key, value)) => each(key, value),
            None => bad += 1,
        }
    }
    bad
}

/// `cpu.stat` of either version: v2 counts in µs and has usage as well, v1 has the throttled time in ns.
pub fn cpu_stat(bytes: &[u8], values: &mut Values) -> Bad {
    pairs(bytes, |key, value| match key {
        b"usage_usec" => values.set(stat::CPU, value.saturating_mul(1000)),
        b"user_usec" => values.set(stat::CPU_USER, value.saturating_mul(1000)),
        b"system_usec" => values.set(stat::CPU_SYSTEM, value.saturating_mul(1000)),
        b"nr_periods" => values.set(stat::CPU_PERIODS, value),
        b"nr_throttled" => values.set(stat::THROTTLED_PERIODS, value),
        b"throttled_usec" => values.set(stat::THROTTLED, value.saturating_mul(1000)),
        b"throttled_time" => values.set(stat::THROTTLED, value),
        _ => {}
    })
}

/// v1 `cpuacct.stat`: ticks, which the kernel scales so that both add up to `cpuacct.usage`
/// (`cpuacct.usage_all` is in ns but only sampled, and adds up to nothing).
pub fn cpuacct_stat(bytes: &[u8], values: &mut Values) -> Bad {
    pairs(bytes, |key, value| match key {
        b"user" => values.set(stat::CPU_USER, value.saturating_mul(TICK)),
        b"system" => values.set(stat::CPU_SYSTEM, value.saturating_mul(TICK)),
        _ => {}
    })
}

/// What of the page cache `docker stats` does not count as used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inactive {
    /// v1 `total_inactive_file`: of the cgroup and all below it.
    pub hierarchical: Option<u64>,
    /// `inactive_file`: on v2 of the cgroup and all below it, on v1 of the cgroup alone.
    pub plain: Option<u64>,
}

/// MEM USAGE as the docker CLI has it (since 20.10): usage less the inactive page cache, where that is less than usage.
pub fn memory_used(usage: u64, inactive: Inactive) -> u64 {
    inactive
        .hierarchical
        .and_then(|file| usage.checked_sub(file).filter(|used| *used > 0))
        .or_else(|| usage.checked_sub(inactive.plain.unwrap_or(0)).filter(|used| *used > 0))
        .unwrap_or(usage)
}

/// The working set as cAdvisor and the kubelet have it: usage less the inactive page cache, never below 0.
pub fn working_set(usage: u64, inactive: Inactive) -> u64 {
    usage.saturating_sub(inactive.hierarchical.or(inactive.plain).unwrap_or(0))
}

/// v1 `memory.stat`: the `total_` keys, for those without are of the cgroup alone. Also the effective limit.
pub fn memory_stat_v1(bytes: &[u8], values: &mut Values, inactive: &mut Inactive, limit: &mut Option<u64>) -> Bad {
    pairs(bytes, |key, value| match key {
        b"total_cache" => values.set(stat::MEMORY_FILE, value),
        b"total_rss" => values.set(stat::MEMORY_ANON, value),
        b"total_shmem" => values.set(stat::MEMORY_SHMEM, value),
        b"total_swap" => values.set(stat::MEMORY_SWAP, value),
        b"total_pgfault" => values.set(stat::PAGE_FAULTS, value),
        b"total_pgmajfault" => values.set(stat::MAJOR_PAGE_FAULTS, value),
        b"total_mapped_file" => values.set(stat::MEMORY_MAPPED, value),
        b"total_dirty" => values.set(stat::MEMORY_DIRTY, value),
        b"total_writeback" => values.set(stat::MEMORY_WRITEBACK, value),
        b"total_active_file" => values.set(stat::MEMORY_ACTIVE_FILE, value),
        b"total_inactive_file" => {
            values.set(stat::MEMORY_INACTIVE_FILE, value);
            inactive.hierarchical = Some(value);
        }
        b"inactive_file" => inactive.plain = Some(value),
        b"hierarchical_memory_limit" => *limit = Some(value),
        _ => {}
    })
}

/// v2 `memory.stat`. Kernels before 5.18 have no `kernel`: there it is made of its parts.
pub fn memory_stat_v2(bytes: &[u8], values: &mut Values, inactive: &mut Inactive) -> Bad {
    let mut kernel_parts = None;
    let bad = pairs(bytes, |key, value| match key {
        b"anon" => values.set(stat::MEMORY_ANON, value),
        b"file" => values.set(stat::MEMORY_FILE, value),
        b"shmem" => values.set(stat::MEMORY_SHMEM, value),
        b"kernel" => values.set(stat::MEMORY_KERNEL, value),
        b"kernel_stack" | b"pagetables" | b"percpu" | b"vmalloc" | b"slab" => {
            kernel_parts = Some(kernel_parts.unwrap_or(0u64).saturating_add(value));
        }
        b"pgfault" => values.set(stat::PAGE_FAULTS, value),
        b"pgmajfault" => values.set(stat::MAJOR_PAGE_FAULTS, value),
        b"file_mapped" => values.set(stat::MEMORY_MAPPED, value),
        b"file_dirty" => values.set(stat::MEMORY_DIRTY, value),
        b"file_writeback" => values.set(stat::MEMORY_WRITEBACK, value),
        b"active_file" => values.set(stat::MEMORY_ACTIVE_FILE, value),
        b"inactive_file" => {
            values.set(stat::MEMORY_INACTIVE_FILE, value);
            inactive.plain = Some(value);
        }
        _ => {}
    });
    if values.get(stat::MEMORY_KERNEL).is_none() {
        values.put(stat::MEMORY_KERNEL, kernel_parts);
    }
    bad
}

/// v2 `memory.events` and v1 `memory.oom_control`: kills by the kernel (v1 since 4.13), and on v2 hits of the limit.
pub fn memory_events(bytes: &[u8], values: &mut Values) -> Bad {
    pairs(bytes, |key, value| match key {
        b"oom_kill" => values.set(stat::OOM_KILLS, value),
        b"max" => values.set(stat::MEMORY_LIMIT_HITS, value),
        _ => {}
    })
}

/// v2 `cpu.max`: quota and period in µs; `None` where it says `max`.
pub fn cpu_max(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut words = words(bytes.strip_suffix(b"\n")?);
    Some((digits(words.next()?)?, digits(words.next()?)?))
}

/// A quota within a period, as nanocores. On v1 a quota of −1 says "none" and is no [`number`].
pub fn nanocores(quota: u64, period: u64) -> Option<u64> {
    quota.checked_mul(1_000_000_000)?.checked_div(period)
}

/// A pressure file: how long some and how long all of the kernel tasks waited.
pub fn pressure(bytes: &[u8], some: Stat, full: Stat, values: &mut Values) -> Bad {
    let (lines, mut bad) = lines(bytes);
    for line in lines {
        let total = words(line).find_map(|word| digits(word.strip_prefix(b"total=")?));
        match (words(line).next(), total) {
            (Some(b"some"), Some(micros)) => values.set(some, micros.saturating_mul(1000)),
            (Some(b"full"), Some(micros)) => values.set(full, micros.saturating_mul(1000)),
            _ => bad += 1,
        }
    }
    bad
}

/// A block device by its numbers.
pub type Device = (u32, u32);

fn device(word: &[u8]) -> Option<Device> {
    let (major, minor) = split_once(word, b':')?;
    Some((u32::try_from(digits(major)?).ok()?, u32::try_from(digits(minor)?).ok()?))
}

/// What a device's line says so far of bytes and operations, each read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Io {
    /// Bytes read, written.
    pub bytes: [Option<u64>; 2],
    /// Operations, reads and writes.
    pub ops: [Option<u64>; 2],
}

/// v2 `io.stat`, one call of `each` per device: keys in any order, unknown ones passed over.
///
/// The kernel writes the name of a device without figures and no newline after it, so a line may hold several names:
/// the keys are the last one's. A name that is no device (`(unknown)`) spoils what follows it up to the next name.
pub fn io_stat(bytes: &[u8], mut each: impl FnMut(Device, Io)) -> Bad {
    let (lines, mut bad) = lines(bytes);
    for line in lines {
        let mut current: Option<(Device, Io)> = None;
        for word in words(line) {
            let Some((key, value)) = split_once(word, b'=') else {
                if let Some((device, io)) = current.take() {
                    each(device, io);
                }
                current = device(word).map(|device| (device, Io::default()));
                bad += Bad::from(current.is_none());
                continue;
            };
            let Some((_, io)) = &mut current else { continue };
            let cell = match key {
                b"rbytes" => &mut io.bytes[0],
                b"wbytes" => &mut io.bytes[1],
                b"rios" => &mut io.ops[0],
                b"wios" => &mut io.ops[1],
                _ => continue,
            };
            *cell = digits(value);
            bad += Bad::from(cell.is_none());
        }
        if let Some((device, io)) = current {
            bad += Bad::from(io == Io::default());
            each(device, io);
        }
    }
    bad
}

/// A v1 blkio file, one call of `each` per Read and Write row of a device; Sync, Async, Discard and Total are left out.
pub fn blkio(bytes: &[u8], mut each: impl FnMut(Device, [Option<u64>; 2])) -> Bad {
    let (lines, mut bad) = lines(bytes);
    for line in lines {
        let mut words = words(line);
        let (name, op, value) = (words.next(), words.next(), words.next());
        let Some(value) = value else {
            // The last line is `Total <sum>`; anything else of two words is torn.
            bad += Bad::from(name != Some(b"Total"));
            continue;
        };
        match (name.and_then(device), op.and_then(|op| op.first()), digits(value)) {
            (Some(device), Some(b'R' | b'r'), Some(n)) => each(device, [Some(n), None]),
            (Some(device), Some(b'W' | b'w'), Some(n)) => each(device, [None, Some(n)]),
            (Some(_), Some(_), Some(_)) => {}
            _ => bad += 1,
        }
    }
    bad
}

/// Whether a v1 blkio file counts anything at all.
pub fn blkio_has_data(bytes: &[u8]) -> bool {
    let mut any = false;
    blkio(bytes, |_, row| any |= row.into_iter().flatten().any(|n| n > 0));
    any
}

/// A network interface's name, padded with zeros.
pub type Interface = [u8; 16];

/// The stats of a line of `net/dev`, in the order of [`net_dev`]'s numbers.
pub const NETWORK: [Stat; 8] = [
    stat::RX_BYTES,
    stat::RX_PACKETS,
    stat::RX_ERRORS,
    stat::RX_DROPPED,
    stat::TX_BYTES,
    stat::TX_PACKETS,
    stat::TX_ERRORS,
    stat::TX_DROPPED,
];

/// `/proc/PID/net/dev`, one call of `each` per interface but `lo`. Old kernels leave no blank after the colon.
pub fn net_dev(bytes: &[u8], mut each: impl FnMut(Interface, [Option<u64>; 8])) -> Bad {
    let (lines, mut bad) = lines(bytes);
    // Two lines of headings, which have no colon.
    for line in lines {
        let Some(colon) = line.iter().rposition(|b| *b == b':') else { continue };
        let (name, numbers) = (line[..colon].trim_ascii(), &line[colon + 1..]);
        if name == b"lo" {
            continue;
        }
        let mut interface = [0; 16];
        let mut row = [None; 8];
        for (place, word) in words(numbers).enumerate() {
            match place {
                0..4 => row[place] = digits(word),
                8..12 => row[place - 4] = digits(word),
                _ => {}
            }
        }
        match interface.get_mut(..name.len()) {
            Some(start) if row.iter().all(Option::is_some) => {
                start.copy_from_slice(name);
                each(interface, row);
            }
            _ => bad += 1,
        }
    }
    bad
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
pub fn memory_total(bytes: &[u8]) -> Option<u64> {
    lines(bytes).0.find_map(|line| {
        let mut words = words(line.strip_prefix(b"MemTotal:")?);
        digits(words.next()?)?.checked_mul(1024)
    })
}

/// An RFC 3339 moment as nanoseconds since the Unix epoch; `None` for what is before it, as the engine's "never" is.
pub fn rfc3339(text: &str) -> Option<Nanos> {
    let bytes = text.as_bytes();
    let field = |from: usize, to: usize| digits(bytes.get(from..to)?).map(|n| n as i64);
    let (year, month, day) = (field(0, 4)?, field(5, 7)?, field(8, 10)?);
    let (hour, minute, second) = (field(11, 13)?, field(14, 16)?, field(17, 19)?);
    if !(1..=12).contains(&month) {
        return None;
    }
    let mut rest = bytes.get(19..)?;
    let mut nanos = 0;
    if let Some(after) = rest.strip_prefix(b".") {
        let end = after.iter().position(|b| !b.is_ascii_digit())?;
        nanos = digits(after.get(..end.min(9))?)? * 10u64.pow(9 - end.min(9) as u32);
        rest = &after[end..];
    }
    let offset = match rest {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let minutes = digits(&[*h1, *h2])? as i64 * 60 + digits(&[*m1, *m2])? as i64;
            if *sign == b'+' { minutes * 60 } else { -minutes * 60 }
        }
        _ => return None,
    };
    // Days of the proleptic Gregorian calendar, with years that begin in March so that leap days come last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::fake::recording;

    fn values(parse: impl FnOnce(&mut Values) -> Bad) -> (Vec<(Stat, u64)>, Bad) {
        let mut values = Values::default();
        let bad = parse(&mut values);
        (values.iter().collect(), bad)
    }

    #[test]
    fn a_number_is_digits_and_a_newline() {
        assert_eq!(number(b"22704128\n"), Some(22_704_128));
        assert_eq!(number(b"18446744073709551615\n"), Some(u64::MAX));
        for wrong in ["", "\n", "12", "-1\n", "1 2\n", "18446744073709551616\n", "max\n", "0x1\n"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert_eq!(number_or_max(b"max\n"), Some(None));
        assert_eq!(number_or_max(b"50\n"), Some(Some(50)));
        assert_eq!(number_or_max(b"50"), None);
    }

    #[test]
    fn cpu_time_is_nanoseconds_in_both_versions() {
        // Linux 6.12, cgroup v2: usage_usec 10393872, user_usec 7890907, system_usec 2502965, throttled_usec 6944845.
        let (v2, bad) = values(|v| cpu_stat(&recording("v2_linux_6.12/cpu.stat"), v));
        let expected = [
            (stat::CPU, 10_393_872_000),
            (stat::CPU_USER, 7_890_907_000),
            (stat::CPU_SYSTEM, 2_502_965_000),
            (stat::CPU_PERIODS, 197),
            (stat::THROTTLED_PERIODS, 158),
            (stat::THROTTLED, 6_944_845_000),
        ];
        assert_eq!((v2.as_slice(), bad), (expected.as_slice(), 0));
        // v1: throttled_time 3073634204 is in ns already; user 819 and system 7 are ticks of 10 ms.
        let (v1, bad) = values(|v| cpu_stat(&recording("v1/cpu/cpu.stat"), v));
        let expected = [(stat::CPU_PERIODS, 171), (stat::THROTTLED_PERIODS, 145), (stat::THROTTLED, 3_073_634_204)];
        assert_eq!((v1.as_slice(), bad), (expected.as_slice(), 0));
        let (ticks, _) = values(|v| cpuacct_stat(&recording("v1/cpuacct/cpuacct.stat"), v));
        assert_eq!(ticks, [(stat::CPU_USER, 8_190_000_000), (stat::CPU_SYSTEM, 70_000_000)]);
    }

    #[test]
    fn a_bad_line_spoils_only_itself() {
        let (read, bad) =
            values(|v| cpu_stat(b"usage_usec 7\nuser_usec\nsystem_usec x\nnr_periods 3\nnr_throttled 1", v));
        assert_eq!(read, [(stat::CPU, 7_000), (stat::CPU_PERIODS, 3)], "the last line is torn");
        assert_eq!(bad, 3);
    }

    #[test]
    fn b059_the_working_set_is_clamped_where_docker_stats_shows_the_whole_usage() {
        let v1 = Inactive { hierarchical: Some(100), plain: Some(40) };
        let v2 = Inactive { hierarchical: None, plain: Some(12 << 20) };
        assert_eq!((memory_used(100, v1), working_set(100, v1)), (60, 0));
        assert_eq!((memory_used(10 << 20, v2), working_set(10 << 20, v2)), (10 << 20, 0));
    }

    #[test]
    fn b034_b040_b050_b058_memory_used_follows_the_docker_cli() {
        let v1 = |usage, hierarchical, plain| memory_used(usage, Inactive { hierarchical: Some(hierarchical), plain });
        let v2 = |usage, plain| memory_used(usage, Inactive { hierarchical: None, plain });
        assert_eq!(v1(500, 400, None), 100);
        assert_eq!(v1(100, 100, Some(40)), 60, "not below usage: falls through to the plain key");
        assert_eq!(v1(100, 120, Some(110)), 100, "then to usage itself, never below 0");
        assert_eq!(v2(10 << 20, Some(12 << 20)), 10 << 20);
        assert_eq!(v2(100, None), 100);
        assert_eq!(v2(0, Some(0)), 0);
    }

    #[test]
    fn b055_b056_the_page_cache_that_is_first_to_go_is_not_used() {
        // Shown as 1.8 GiB raw where docker stats says 77.23 MiB; and 784.8 MiB where it says 329.6.
        let mib = |usage: u64, file: u64| {
            let inactive = Inactive { hierarchical: None, plain: Some(file) };
            format!("{:.2}", memory_used(usage, inactive) as f64 / f64::from(1 << 20))
        };
        assert_eq!(mib(1_932_735_283, 1_851_753_923), "77.23");
        assert_eq!(mib(822_935_552, 477_356_032), "329.57");
    }

    #[test]
    fn b047_kernel_memory_is_told_apart_from_that_of_processes() {
        // 500 MB charged, of which processes have 20.
        let (mut values, mut inactive) = Default::default();
        memory_stat_v2(b"anon 20971520\nfile 0\nkernel 503316480\nslab 503300000\n", &mut values, &mut inactive);
        assert_eq!((values.get(stat::MEMORY_ANON), values.get(stat::MEMORY_KERNEL)), (Some(20 << 20), Some(480 << 20)));
        assert_eq!(memory_used(500 << 20, inactive), 500 << 20);
    }

    #[test]
    fn b052_a_key_that_newer_kernels_split_is_no_stat_that_could_stand_still_at_0() {
        let (mut values, mut inactive) = Default::default();
        let bad = memory_stat_v2(
            b"anon 1\nworkingset_refault_anon 5\nworkingset_refault_file 6\n",
            &mut values,
            &mut inactive,
        );
        assert_eq!((values.iter().collect::<Vec<_>>(), bad), (vec![(stat::MEMORY_ANON, 1)], 0));
        assert!(Stat::all().all(|stat| !stat.name().contains("refault")));
    }

    #[test]
    fn b041_b049_b055_memory_used_is_what_docker_stats_printed_beside_the_recordings() {
        let used = |usage: &str, stat: &str, v1: bool| {
            let (mut values, mut inactive, mut limit) = (Values::default(), Inactive::default(), None);
            let stat = recording(stat);
            let bad = match v1 {
                true => memory_stat_v1(&stat, &mut values, &mut inactive, &mut limit),
                false => memory_stat_v2(&stat, &mut values, &mut inactive),
            };
            assert_eq!(bad, 0);
            memory_used(number(&recording(usage)).unwrap(), inactive)
        };
        // `9.141MiB`, and `1.062MiB`, to four digits.
        let v1 = used("v1/memory/memory.usage_in_bytes", "v1/memory/memory.stat", true);
        assert_eq!(format!("{:.3}", v1 as f64 / 1048576.0), "9.141");
        let v2 = used("v2_linux_6.12/memory.current", "v2_linux_6.12/memory.stat", false);
        assert_eq!(format!("{:.4}", v2 as f64 / 1048576.0), "1.0625");
    }

    #[test]
    fn b035_tmpfs_counts_as_used() {
        let (mut values, mut inactive, mut limit) = (Values::default(), Inactive::default(), None);
        memory_stat_v1(&recording("v1/memory/memory.stat"), &mut values, &mut inactive, &mut limit);
        let used = memory_used(28_459_008, inactive);
        assert_eq!(values.get(stat::MEMORY_SHMEM), Some(8 << 20), "8 MiB were written to /dev/shm");
        assert!(used > 8 << 20 && used < 20 << 20, "and the 20 MiB of page cache were not counted: {used}");
    }

    #[test]
    fn b043_b059_memory_stat_of_either_version_fills_the_same_columns() {
        let (mut v1, mut v2, mut inactive, mut limit) = Default::default();
        memory_stat_v1(&recording("v1/memory/memory.stat"), &mut v1, &mut inactive, &mut limit);
        memory_stat_v2(&recording("v2_linux_6.12/memory.stat"), &mut v2, &mut inactive);
        let columns = [
            (stat::MEMORY_ANON, 61_440, 61_440),
            (stat::MEMORY_FILE, 27_267_072, 21_590_016),
            (stat::MEMORY_SHMEM, 8_388_608, 0),
            (stat::PAGE_FAULTS, 1748, 1165),
            (stat::MAJOR_PAGE_FAULTS, 0, 0),
            (stat::MEMORY_DIRTY, 4096, 217_088),
            (stat::MEMORY_ACTIVE_FILE, 4096, 0),
            (stat::MEMORY_INACTIVE_FILE, 18_874_368, 21_590_016),
        ];
        for (stat, in_v1, in_v2) in columns {
            assert_eq!((v1.get(stat), v2.get(stat)), (Some(in_v1), Some(in_v2)), "{stat:?}");
        }
        assert_eq!(limit, Some(64 << 20));
        assert_eq!(v2.get(stat::MEMORY_KERNEL), Some(917_504));
        assert_eq!(v1.get(stat::MEMORY_SWAP), Some(0), "total_swap, where swap is accounted");
    }

    #[test]
    fn v1_keys_without_total_are_of_the_cgroup_alone_and_not_taken() {
        let (mut values, mut inactive, mut limit) = Default::default();
        memory_stat_v1(b"rss 1\ncache 2\npgfault 3\ninactive_file 4\n", &mut values, &mut inactive, &mut limit);
        assert!(values.is_empty());
        assert_eq!(inactive, Inactive { hierarchical: None, plain: Some(4) });
    }

    #[test]
    fn kernels_before_5_18_have_kernel_memory_in_parts() {
        let (mut values, mut inactive) = Default::default();
        memory_stat_v2(b"kernel_stack 10\npagetables 20\npercpu 3\nslab 400\nsock 9\n", &mut values, &mut inactive);
        assert_eq!(values.get(stat::MEMORY_KERNEL), Some(433));
    }

    #[test]
    fn b053_b115_limit_hits_are_max_and_kills_are_oom_kill() {
        let events = b"low 0\nhigh 0\nmax 17\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(values(|v| memory_events(events, v)).0, [(stat::OOM_KILLS, 2), (stat::MEMORY_LIMIT_HITS, 17)]);
        let v1 = values(|v| memory_events(&recording("v1/memory/memory.oom_control"), v)).0;
        assert_eq!(v1, [(stat::OOM_KILLS, 0)]);
        let before_4_13 = values(|v| memory_events(b"oom_kill_disable 0\nunder_oom 0\n", v)).0;
        assert_eq!(before_4_13, [], "absent, not 0");
    }

    #[test]
    fn b026_a_quota_of_minus_one_is_no_limit() {
        assert_eq!(number(b"-1\n"), None);
        assert_eq!(cpu_max(b"max 100000\n"), None);
        assert_eq!(cpu_max(b"50000 100000\n").and_then(|(quota, period)| nanocores(quota, period)), Some(500_000_000));
        assert_eq!(nanocores(250_000, 100_000), Some(2_500_000_000));
        assert_eq!(nanocores(1, 0), None);
    }

    #[test]
    fn pressure_is_the_total_in_nanoseconds() {
        let bytes = recording("v2_linux_6.12/cpu.pressure");
        let (read, bad) = values(|v| pressure(&bytes, stat::CPU_WAITING, stat::CPU_STALLED, v));
        assert_eq!(read, [(stat::CPU_WAITING, 6_787_577_000), (stat::CPU_STALLED, 6_521_557_000)]);
        assert_eq!(bad, 0);
        // Kernels before 5.13 have no `full` line for cpu.
        let some = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        let (read, _) = values(|v| pressure(some, stat::CPU_WAITING, stat::CPU_STALLED, v));
        assert_eq!(read, [(stat::CPU_WAITING, 5_000)]);
    }

    type IoRow = (Device, [Option<u64>; 2], [Option<u64>; 2]);

    fn io(text: &str) -> (Vec<IoRow>, Bad) {
        let mut rows = Vec::new();
        let bad = io_stat(text.as_bytes(), |device, io| rows.push((device, io.bytes, io.ops)));
        (rows, bad)
    }

    #[test]
    fn io_stat_of_a_recording() {
        let text = String::from_utf8(recording("v2_linux_6.12/io.stat")).unwrap();
        let expected = ((254, 0), [Some(618_496), Some(20_754_432)], [Some(16), Some(234)]);
        assert_eq!(io(&text), (vec![expected], 0));
    }

    #[test]
    fn b067_b068_keys_in_any_order_and_unknown_ones_passed_over() {
        let (rows, bad) = io("8:16 cost.usage=9 wios=4 rbytes=1 dios=7 wbytes=2 rios=3 new\n");
        assert_eq!(rows[0], ((8, 16), [Some(1), Some(2)], [Some(3), Some(4)]));
        assert_eq!(bad, 1, "`new` is the name of no device");
    }

    #[test]
    fn b070_an_unknown_device_spoils_only_its_line() {
        let (rows, bad) = io("(unknown) rbytes=5 wbytes=5 rios=1 wios=1\n8:0 rbytes=1 wbytes=2 rios=3 wios=4\n");
        assert_eq!(rows, [((8, 0), [Some(1), Some(2)], [Some(3), Some(4)])]);
        assert_eq!(bad, 1);
    }

    #[test]
    fn b073_b074_a_torn_line_is_a_device_without_figures() {
        let (rows, bad) = io("252:0 \n8:0 rbytes=1 wbytes=2 rios=3 wios=4\n9:0 rby");
        assert_eq!(rows, [((252, 0), [None; 2], [None; 2]), ((8, 0), [Some(1), Some(2)], [Some(3), Some(4)])]);
        assert_eq!(bad, 2);
    }

    #[test]
    fn several_devices_on_a_line_and_the_figures_are_the_last_ones() {
        let (rows, bad) = io("7:7 7:6 7:5 7:4 rbytes=10 wbytes=0 rios=1 wios=0\n");
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[3], ((7, 4), [Some(10), Some(0)], [Some(1), Some(0)]));
        assert!(rows[..3].iter().all(|(_, bytes, _)| *bytes == [None; 2]));
        assert_eq!(bad, 0);
    }

    type V1Row = (Device, [Option<u64>; 2]);

    fn v1_io(text: &[u8]) -> (Vec<V1Row>, Bad) {
        let mut rows = Vec::new();
        let bad = blkio(text, |device, row| rows.push((device, row)));
        (rows, bad)
    }

    #[test]
    fn b062_v1_block_io_is_reads_and_writes_of_every_device() {
        let (rows, bad) = v1_io(&recording("v1/blkio/blkio.throttle.io_service_bytes_recursive"));
        assert_eq!(rows, [((254, 0), [Some(0), None]), ((254, 0), [None, Some(20_979_712)])]);
        assert_eq!(bad, 0);
        let (rows, _) = v1_io(b"8:0 Read 5\n8:16 Read 7\nTotal 12\n");
        assert_eq!(rows, [((8, 0), [Some(5), None]), ((8, 16), [Some(7), None])]);
    }

    #[test]
    fn b071_an_unknown_row_is_passed_over() {
        let (rows, bad) = v1_io(b"(unknown) Read 9\n(unknown) Write 9\n259:0 Read 4096\n259:0 Write 0\nTotal 4096\n");
        assert_eq!(rows, [((259, 0), [Some(4096), None]), ((259, 0), [None, Some(0)])]);
        assert_eq!(bad, 2);
    }

    #[test]
    fn b079_an_operation_is_told_by_its_first_letter_in_either_case() {
        let (rows, _) = v1_io(b"8:0 read 1\n8:0 WRITE 2\n8:0 Sync 3\n8:0 Async 3\n8:0 Discard 4\n8:0 Total 3\n");
        assert_eq!(rows, [((8, 0), [Some(1), None]), ((8, 0), [None, Some(2)])]);
    }

    #[test]
    fn b061_which_v1_file_has_data() {
        assert!(!blkio_has_data(&recording("v1/blkio/blkio.bfq.io_service_bytes_recursive")), "Total 0");
        assert!(!blkio_has_data(b"8:0 Read 0\n8:0 Write 0\nTotal 0\n"));
        assert!(!blkio_has_data(b""));
        assert!(blkio_has_data(&recording("v1/blkio/blkio.throttle.io_service_bytes_recursive")));
    }

    fn network(text: &[u8]) -> (Vec<(String, [u64; 8])>, Bad) {
        let mut rows = Vec::new();
        let bad = net_dev(text, |name, row| {
            let name = String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned();
            rows.push((name, row.map(|n| n.unwrap())));
        });
        (rows, bad)
    }

    #[test]
    fn net_dev_of_a_recording_without_lo() {
        let expected = ("eth0".to_owned(), [1182, 13, 0, 0, 0, 0, 0, 0]);
        assert_eq!(network(&recording("v1/net_dev")), (vec![expected], 0));
    }

    #[test]
    fn b083_b091_b094_interfaces_are_all_taken_in_64_bits_also_without_a_blank() {
        let (rows, bad) = network(
            b"    lo:1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n  eth0:5182362668 2 3 4 0 0 0 0 6 7 8 9 0 0 0 0\n  eth1: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n",
        );
        assert_eq!(rows[0], ("eth0".into(), [5_182_362_668, 2, 3, 4, 6, 7, 8, 9]));
        assert_eq!(rows[1], ("eth1".into(), [10, 1, 0, 0, 20, 2, 0, 0]));
        assert_eq!(bad, 0);
    }

    #[test]
    fn an_interface_line_that_is_cut_spoils_only_itself() {
        let (rows, bad) = network(b"eth0: 1 2 3\neth1: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\neth2: 1 1 1");
        assert_eq!((rows.len(), bad), (1, 2));
    }

    #[test]
    fn memory_total_is_in_bytes() {
        assert_eq!(memory_total(b"MemTotal:       24684084 kB\nMemFree: 1 kB\n"), Some(25_276_502_016));
        assert_eq!(memory_total(b"MemFree: 1 kB\n"), None);
    }

    #[test]
    fn moments_of_the_engine() {
        // `date -u -d 2026-11-30T16:56:09Z +%s` says 1796057769.
        assert_eq!(rfc3339("2026-11-30T16:56:09.363414303Z"), Some(1_796_057_769_363_414_303));
        assert_eq!(rfc3339("2026-11-30T15:56:46.68614297Z"), Some(1_796_054_206_686_142_970));
        assert_eq!(rfc3339("2026-11-30T18:56:09+02:00"), Some(1_796_057_769_000_000_000));
        assert_eq!(rfc3339("2024-02-29T00:00:00Z"), Some(1_709_164_800_000_000_000));
        assert_eq!(rfc3339("0001-01-01T00:00:00Z"), None, "never");
        for wrong in ["", "2026-11-30", "2026-13-30T16:56:09Z", "2026-11-30T16:56:09", "2026-11-30T16:56:09.Z", "äöü"]
        {
            assert_eq!(rfc3339(wrong), None, "{wrong:?}");
        }
    }
}

//! The kernel's text files, as bytes, into figures.
//!
//! Pure and without allocation: these run for every container at every sample. A line that makes no sense is passed
//! over and counted ([`Bad`]); a last line without its newline is torn, and passed over as well. What a file does not
//! say stays absent. It deliberately opens nothing and knows no paths.

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

/// How many CPUs are online: the `cpu<n>` lines at the head of `/proc/stat`. What follows them is not looked at.
pub fn online_cpus(bytes: &[u8]) -> Option<u64> {
    let cpus = lines(bytes)
        .0
        .map_while(|line| line.strip_prefix(b"cpu"))
        .filter(|rest| rest.first().is_some_and(u8::is_ascii_digit))
        .count();
    (cpus > 0).then_some(cpus as u64)
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

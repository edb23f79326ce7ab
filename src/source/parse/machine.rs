//! The kernel's files of the whole machine, into the figures of a node.
//!
//! As in [`super`]: pure, a line that makes no sense is counted and spoils only itself, what a file does not say stays
//! absent. The machine's counters begin at its start and never fall, so where the kernel's do (`iowait` may), the
//! highest is kept.

use super::{Bad, Device, digits, lines, pairs, pressure, split_once, words};
use crate::{
    model::{Nanos, Values},
    stat::{self, Stat},
};

fn rise(values: &mut Values, stat: Stat, to: u64) {
    values.set(stat, to.max(values.or_zero(stat)));
}

/// Whether the `cpu` lines at the head of `/proc/stat` are all there. What follows may be long: a line of one number
/// for every interrupt there can be.
pub fn cpu_lines_end(bytes: &[u8]) -> bool {
    bytes.split(|b| *b == b'\n').any(|line| !b"cpu".starts_with(&line[..line.len().min(3)]))
}

/// The head of `/proc/stat`: CPU times in ticks, of all CPUs together, and how many are online.
///
/// CPU = user + nice + system + irq + softirq, so that it is what the cgroups of the machine add up to: guests are in
/// user and nice already; idle and iowait are no work; stolen time is none of this machine's.
pub fn cpu_times(bytes: &[u8], tick: Nanos, values: &mut Values) -> Bad {
    let (mut bad, mut online) = (0, 0u64);
    for line in lines(bytes).0.map_while(|line| line.strip_prefix(b"cpu")) {
        if line.first().is_some_and(u8::is_ascii_digit) {
            online += 1;
            continue;
        }
        let mut times = [None; 8];
        times.iter_mut().zip(words(line)).for_each(|(time, word)| *time = digits(word));
        let [user, nice, system, _idle, iowait, irq, softirq, steal] = times;
        match (user, nice, system) {
            (Some(user), Some(nice), Some(system)) => {
                let user = user.saturating_add(nice).saturating_mul(tick);
                let system = system.saturating_add(irq.unwrap_or(0)).saturating_add(softirq.unwrap_or(0));
                let system = system.saturating_mul(tick);
                rise(values, stat::CPU, user.saturating_add(system));
                rise(values, stat::CPU_USER, user);
                rise(values, stat::CPU_SYSTEM, system);
            }
            _ => bad += 1,
        }
        for (stat, time) in [(stat::CPU_IOWAIT, iowait), (stat::CPU_STEAL, steal)] {
            time.into_iter().for_each(|time| rise(values, stat, time.saturating_mul(tick)));
        }
    }
    values.put(stat::CPU_LIMIT, (online > 0).then(|| online.saturating_mul(1_000_000_000)));
    bad
}

/// `btime` of `/proc/stat`: when the machine was started, nanoseconds since the Unix epoch.
pub fn boot_time(bytes: &[u8]) -> Option<Nanos> {
    lines(bytes).0.find_map(|line| digits(line.strip_prefix(b"btime ")?.trim_ascii())?.checked_mul(1_000_000_000))
}

/// `/proc/loadavg`: three averages, and how many kernel tasks there are.
pub fn load(bytes: &[u8], values: &mut Values) -> Bad {
    let mut words = words(bytes);
    let mut bad = 0;
    for stat in [stat::LOAD1, stat::LOAD5, stat::LOAD15] {
        let load = words.next().and_then(thousandths);
        values.put(stat, load);
        bad += Bad::from(load.is_none());
    }
    let tasks = words.next().and_then(|word| digits(split_once(word, b'/')?.1));
    values.put(stat::PIDS, tasks);
    bad + Bad::from(tasks.is_none())
}

/// `0.60` as 600.
fn thousandths(word: &[u8]) -> Option<u64> {
    let (whole, fraction) = split_once(word, b'.')?;
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 3)?;
    digits(whole)?.checked_mul(1000)?.checked_add(digits(fraction)? * 10u64.pow(3 - places))
}

/// `/proc/meminfo`. What is used is what new work cannot have; kernels before 3.14 do not say.
///
/// Kernel memory leaves out `VmallocUsed`, which has the kernel's stacks in it again.
pub fn memory(bytes: &[u8], values: &mut Values) -> Bad {
    let (mut total, mut available, mut swap, mut swap_free) = (None, None, None, None);
    let (mut file, mut kernel) = (None, None);
    let add = |sum: &mut Option<u64>, bytes: u64| *sum = Some(sum.unwrap_or(0).saturating_add(bytes));
    let (lines, mut bad) = lines(bytes);
    for line in lines {
        let read = split_once(line, b':').and_then(|(key, rest)| Some((key, digits(words(rest).next()?)?)));
        let Some((key, number)) = read else {
            bad += 1;
            continue;
        };
        let bytes = number.saturating_mul(1024);
        match key {
            b"MemTotal" => total = Some(bytes),
            b"MemAvailable" => available = Some(bytes),
            b"SwapTotal" => swap = Some(bytes),
            b"SwapFree" => swap_free = Some(bytes),
            b"AnonPages" => values.set(stat::MEMORY_ANON, bytes),
            b"Shmem" => values.set(stat::MEMORY_SHMEM, bytes),
            b"Cached" | b"Buffers" => add(&mut file, bytes),
            b"Slab" | b"KernelStack" | b"PageTables" | b"SecPageTables" | b"Percpu" => add(&mut kernel, bytes),
            _ => {}
        }
    }
    let less = |whole: Option<u64>, part| Some(whole?.saturating_sub(part?));
    values.put(stat::MEMORY_LIMIT, total);
    values.put(stat::MEMORY_USED, less(total, available));
    values.put(stat::MEMORY_SWAP_LIMIT, swap);
    values.put(stat::MEMORY_SWAP, less(swap, swap_free));
    values.put(stat::MEMORY_FILE, file);
    values.put(stat::MEMORY_KERNEL, kernel);
    bad
}

/// `/proc/vmstat`: faults, and kills for want of memory (Linux 4.13).
pub fn events(bytes: &[u8], values: &mut Values) -> Bad {
    pairs(bytes, |key, value| match key {
        b"pgfault" => rise(values, stat::PAGE_FAULTS, value),
        b"pgmajfault" => rise(values, stat::MAJOR_PAGE_FAULTS, value),
        b"oom_kill" => rise(values, stat::OOM_KILLS, value),
        _ => {}
    })
}

/// `/proc/pressure/cpu`. The time in which all wait for a CPU means nothing for a whole machine: the kernel says 0.
pub fn cpu_pressure(bytes: &[u8], values: &mut Values) -> Bad {
    let bad = pressure(bytes, stat::CPU_WAITING, stat::CPU_STALLED, values);
    values.clear(stat::CPU_STALLED);
    bad
}

/// The stats of a line of `diskstats`, in the order of [`disks`]' numbers.
pub const DISK: [Stat; 4] = [stat::BLOCK_READ, stat::BLOCK_WRITTEN, stat::BLOCK_READS, stat::BLOCK_WRITES];

/// `/proc/diskstats`, one call of `each` per device with its name. A sector is 512 bytes here, whatever the disk's is.
pub fn disks(bytes: &[u8], mut each: impl FnMut(Device, &[u8], [Option<u64>; 4])) -> Bad {
    let (lines, mut bad) = lines(bytes);
    for line in lines {
        let mut words = words(line);
        let mut number = || words.next().and_then(digits).and_then(|n| u32::try_from(n).ok());
        let device = number().zip(number());
        let name = words.next();
        let mut fields = [None; 7];
        fields.iter_mut().zip(words).for_each(|(field, word)| *field = digits(word));
        let [reads, _, sectors_read, _, writes, _, sectors_written] = fields;
        match (device, name, reads.zip(sectors_read).zip(writes.zip(sectors_written))) {
            (Some(device), Some(name), Some(((reads, read), (writes, written)))) => {
                let row = [read.saturating_mul(512), written.saturating_mul(512), reads, writes];
                each(device, name, row.map(Some));
            }
            _ => bad += 1,
        }
    }
    bad
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::fake::recording;

    const TICK: Nanos = 10_000_000;

    fn values(parse: impl FnOnce(&mut Values) -> Bad) -> (Vec<(Stat, u64)>, Bad) {
        let mut values = Values::default();
        let bad = parse(&mut values);
        (values.iter().collect(), bad)
    }

    #[test]
    fn b001_cpu_time_and_cpus_are_of_the_lines_at_the_head() {
        // Linux 6.18, recorded; the sums are awk's.
        let expected = [
            (stat::CPU, 22_200_780_000_000),
            (stat::CPU_USER, 19_605_430_000_000),
            (stat::CPU_SYSTEM, 2_595_350_000_000),
            (stat::CPU_LIMIT, 2_000_000_000),
            (stat::CPU_IOWAIT, 55_040_000_000),
            (stat::CPU_STEAL, 8_610_000_000),
        ];
        let recorded = recording("machine/stat");
        assert_eq!(values(|v| cpu_times(&recorded, TICK, v)), (expected.to_vec(), 0));
        assert_eq!(boot_time(&recorded), Some(1_796_062_267_000_000_000));
    }

    #[test]
    fn b013_a_line_of_64_kib_behind_the_cpus_disturbs_nothing() {
        let head = "cpu  10 1 5 80 4 2 3 1 7 0\ncpu0 5 0 3 40 2 1 1 0 3 0\ncpu1 5 1 2 40 2 1 2 1 4 0\n";
        let long = format!("{head}intr 1{}\nctxt 5\nbtime 7\n", " 0".repeat(40_000));
        let expected = [
            (stat::CPU, 210_000_000), // 10 + 1 + 5 + 2 + 3 ticks: guests are in user already
            (stat::CPU_USER, 110_000_000),
            (stat::CPU_SYSTEM, 100_000_000),
            (stat::CPU_LIMIT, 2_000_000_000),
            (stat::CPU_IOWAIT, 40_000_000),
            (stat::CPU_STEAL, 10_000_000),
        ];
        for bytes in [&long[..], &long[..70_000], head, &long[..head.len() + 3]] {
            assert_eq!(values(|v| cpu_times(bytes.as_bytes(), TICK, v)), (expected.to_vec(), 0), "{}", bytes.len());
        }
        assert!(cpu_lines_end(&long.as_bytes()[..4096]) && cpu_lines_end(&long.as_bytes()[..head.len() + 1]));
        assert!(!cpu_lines_end(&long.as_bytes()[..head.len() - 4]) && !cpu_lines_end(head.as_bytes()));
        assert_eq!(boot_time(long.as_bytes()), Some(7_000_000_000));
    }

    #[test]
    fn an_old_kernel_has_fewer_times_and_iowait_that_falls_stays() {
        let (old, bad) = values(|v| cpu_times(b"cpu  10 1 5 80\ncpu0 10 1 5 80\n", TICK, v));
        let expected = [
            (stat::CPU, 160_000_000),
            (stat::CPU_USER, 110_000_000),
            (stat::CPU_SYSTEM, 50_000_000),
            (stat::CPU_LIMIT, 1_000_000_000),
        ];
        assert_eq!((old, bad), (expected.to_vec(), 0));
        let (falls, _) = values(|v| {
            cpu_times(b"cpu  1 0 0 0 9 0 0 0\ncpu0 1\n", TICK, v)
                + cpu_times(b"cpu  1 0 0 9 7 0 0 0\ncpu0 1\n", TICK, v)
        });
        assert!(falls.contains(&(stat::CPU_IOWAIT, 90_000_000)), "{falls:?}");
        assert_eq!(values(|v| cpu_times(b"cpu  x 0 0 0\n", TICK, v)), (vec![], 1));
    }

    #[test]
    fn load_memory_and_events_are_as_recorded() {
        let load_of = |bytes: &[u8]| values(|v| load(bytes, v));
        let expected = [(stat::PIDS, 310), (stat::LOAD1, 7570), (stat::LOAD5, 8410), (stat::LOAD15, 7130)];
        assert_eq!(load_of(&recording("machine/loadavg")), (expected.to_vec(), 0));
        assert_eq!(load_of(b"12.05 x 3.00\n"), (vec![(stat::LOAD1, 12_050), (stat::LOAD15, 3000)], 2));
        let expected = [
            (stat::MEMORY_USED, 1_472_303_104), // MemTotal − MemAvailable
            (stat::MEMORY_ANON, 812_875_776),
            (stat::MEMORY_FILE, 13_336_539_136), // Cached + Buffers
            (stat::MEMORY_KERNEL, 768_385_024),  // Slab + KernelStack + PageTables + SecPageTables + Percpu
            (stat::MEMORY_SHMEM, 9_084_928),
            (stat::MEMORY_SWAP, 0),
            (stat::MEMORY_LIMIT, 25_276_502_016),
            (stat::MEMORY_SWAP_LIMIT, 0),
        ];
        assert_eq!(values(|v| memory(&recording("machine/meminfo"), v)), (expected.to_vec(), 0));
        let expected = [(stat::PAGE_FAULTS, 494_582_036), (stat::MAJOR_PAGE_FAULTS, 123_827), (stat::OOM_KILLS, 0)];
        let mut expected = expected.to_vec();
        expected.sort_by_key(|(stat, _)| *stat);
        assert_eq!(values(|v| events(&recording("machine/vmstat"), v)), (expected, 0));
    }

    #[test]
    fn what_a_machine_does_not_say_is_absent() {
        // Linux before 3.14 has no MemAvailable; a line is spoilt.
        let (old, bad) = values(|v| memory(b"MemTotal:  1000 kB\nCached:  x kB\nSwapTotal: 8 kB\nSwapFree: 3 kB\n", v));
        let expected = [(stat::MEMORY_SWAP, 5120), (stat::MEMORY_LIMIT, 1_024_000), (stat::MEMORY_SWAP_LIMIT, 8192)];
        assert_eq!((old, bad), (expected.to_vec(), 1));
        let expected = vec![(stat::CPU_WAITING, 9_707_696_723_000)];
        assert_eq!(values(|v| cpu_pressure(&recording("machine/pressure_cpu"), v)), (expected, 0));
    }

    #[test]
    fn disks_are_read_in_sectors_of_512_bytes() {
        let vda_row = [52_250_604_544, 150_598_791_168, 2_931_346, 1_107_176];
        let mut vda = None;
        let bad = disks(&recording("machine/diskstats"), |device, name, row| {
            if name == b"vda" {
                vda = Some((device, row));
            }
        });
        assert_eq!((vda, bad), (Some(((254, 0), vda_row.map(Some))), 0));
        // Linux 2.6 wrote four numbers for a partition, as some lines still may be short.
        assert_eq!(disks(b"   8       1 sda1 12 345 6 7\n", |_, _, _| panic!("spoilt")), 1);
    }
}

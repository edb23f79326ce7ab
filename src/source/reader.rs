//! One task's figures, read from the kernel through descriptors held open.
//!
//! Where the CPU counter stands still, most other figures do too: then only that counter is read every round, and the
//! rest once in [`IDLE_ROUNDS`]. The ages this allows: CPU time none; limits [`LIMIT_ROUNDS`] rounds; everything else
//! none while the task runs and up to [`IDLE_ROUNDS`] rounds while it is idle. A read allocates nothing.
//! A Reader is of one incarnation, whose counters it keeps; it deliberately knows no names.

use super::{
    Fault, Faults,
    cgroup::{Host, Place, Target},
    files::{self, Around, BLKIO_BYTES, BLKIO_OPS, Cgroup, Controller, Figures, NET_DEV, Row, When},
    limits::Limits,
    parse,
};
use crate::{
    model::Values,
    stat::{self, Level},
};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// At most this many rounds lie between two readings of a figure of an idle task: as many as a sample may be old and
/// still be fresh (LEDGER 20).
pub const IDLE_ROUNDS: u64 = 3;

/// Limits are read once in this many rounds, and when the engine says that they were changed ([`Reader::hurry`]).
pub const LIMIT_ROUNDS: u64 = 30;

/// The largest kernel file taken; what is beyond is cut off, and counted as a torn line.
const BUFFER: usize = 64 * 1024;

/// The kernel gives a file of several records in pieces of at most a page, none cut within a record: a shorter piece
/// than this is the last one, and asking for another is saved.
const SURELY_LAST: usize = 3584;

/// Why a task cannot be read from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unseen {
    /// No directory of it in any mount.
    #[error(
        "no cgroup of the container can be seen: mount the host's /proc and /sys/fs/cgroup and name them in host_proc and host_sys"
    )]
    Nowhere,
    /// Its files may not be read.
    #[error("permission denied on the container's cgroup files: run as root or with read access to /sys/fs/cgroup")]
    Denied,
    /// The process has too few descriptors.
    #[error("no descriptor left for the container's files: raise the limit of open files (ulimit -n)")]
    OpenFiles,
}

/// The cgroup went away: the container ended, or was started anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the container's cgroup is gone")]
pub struct Gone;

/// What all readers of a node share: one buffer, the node's devices, and the count of faults.
#[derive(Debug)]
pub struct Scratch {
    buffer: Box<[u8]>,
    /// Devices and faults.
    pub around: Around,
}

impl Scratch {
    /// For the containers of a machine.
    pub fn new(host: &Host) -> Scratch {
        let around = Around { devices: host.devices(), faults: Faults::default() };
        Scratch { buffer: vec![0; BUFFER].into(), around }
    }

    /// A small file's bytes, opened for this once; `None` if it cannot be read, which is counted unless it is not there.
    pub fn read_path(&mut self, path: &Path) -> Option<&[u8]> {
        match File::open(path).and_then(|file| slurp(&file, &mut self.buffer)) {
            Ok(n) => Some(&self.buffer[..n]),
            Err(error) => {
                let fault = files::fault(&error);
                if fault != Fault::Gone {
                    self.around.faults.count(fault);
                }
                None
            }
        }
    }
}

/// Reads a kernel file from its start; gives how many bytes it has.
fn slurp(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    loop {
        match file.read_at(&mut buffer[n..], n as u64) {
            Ok(piece) => {
                n += piece;
                if piece < SURELY_LAST || n == buffer.len() {
                    return Ok(n);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A task's files, held open, and what they said.
#[derive(Debug)]
pub struct Reader {
    files: Vec<(&'static Row, File)>,
    blkio: Vec<(File, PathBuf)>,
    limits: Limits,
    figures: Figures,
    mask: u64,
    memory_total: Option<u64>,
    /// Shifts the rounds in which an idle task is read, so that not all are read in the same one.
    phase: u64,
    moved: bool,
    limits_due: bool,
}

impl Reader {
    /// Opens what a level needs of a container's files. `phase`: any number, best another for each container.
    ///
    /// # Errors
    /// If nothing of it can be seen; single files that are missing only leave their stats absent.
    pub fn open(
        host: &Host,
        target: &Target,
        level: Level,
        phase: u64,
        scratch: &mut Scratch,
    ) -> Result<Reader, Unseen> {
        // The network file before the check of whose process it is: a process id that passed on meanwhile is noticed.
        let mask = level.mask();
        let net_dev = host.process_file(target.pid, NET_DEV.name);
        let net_dev = if target.network && mask & NET_DEV.gives != 0 { open(&net_dev, scratch)? } else { None };
        let (place, ours) = host.place(target);
        if place.is_empty() {
            return Err(Unseen::Nowhere);
        }
        let mut files = Vec::new();
        let denied = scratch.around.faults.of(Fault::Denied);
        for row in files::ROWS {
            let Some((cgroup, directory)) = place.of(row.controller) else { continue };
            if row.cgroup == cgroup && row.gives & mask != 0 {
                let file = open(&directory.join(row.name), scratch)?;
                files.extend(file.filter(|file| !is_switched_off(file, scratch)).map(|file| (row, file)));
            }
        }
        match net_dev {
            Some(file) if ours => files.push((&NET_DEV, file)),
            Some(_) => scratch.around.faults.count(Fault::OtherProcess),
            None => {}
        }
        let blkio = if mask & BLKIO_BYTES.gives != 0 { v1_blkio(&place, scratch)? } else { Vec::new() };
        if files.is_empty() {
            let denied = scratch.around.faults.of(Fault::Denied) > denied;
            return Err(if denied { Unseen::Denied } else { Unseen::Nowhere });
        }
        let limits = Limits::new(host, &place, mask);
        let mut figures = Figures::default();
        figures.values.set(stat::START_TIME, target.started_at);
        let memory_total = host.memory_total();
        Ok(Reader { files, blkio, limits, figures, mask, memory_total, phase, moved: true, limits_due: true })
    }

    /// One sample. `round` counts the node's rounds.
    ///
    /// # Errors
    /// If the cgroup is gone; [`Reader::last`] then has what was known before.
    pub fn read(&mut self, round: u64, scratch: &mut Scratch) -> Result<&Values, Gone> {
        let due = round.wrapping_add(self.phase);
        let before = self.figures.values.get(stat::CPU);
        self.read_files(When::Always, scratch)?;
        let now = self.figures.values.get(stat::CPU);
        // One more reading after it came to rest: the last one may have been before the last change.
        let moves = now.is_none() || now != before;
        if moves || self.moved || due.is_multiple_of(IDLE_ROUNDS) {
            self.read_files(When::Moving, scratch)?;
            self.read_undecided_blkio(scratch);
        }
        if std::mem::take(&mut self.limits_due) || due.is_multiple_of(LIMIT_ROUNDS) {
            self.limits.read(&mut self.figures, scratch);
        }
        self.moved = moves;
        Ok(self.finish())
    }

    /// The last sample of a task that is ending: every file that can still be read; the others keep what they said
    /// before. Also whether all could be read.
    pub fn read_last(&mut self, scratch: &mut Scratch) -> (&Values, bool) {
        let mut whole = true;
        for (row, file) in &self.files {
            match slurp(file, &mut scratch.buffer) {
                Ok(n) => parse_row(row, &scratch.buffer[..n], &mut self.figures, &mut scratch.around),
                Err(_) => whole = false,
            }
        }
        self.read_undecided_blkio(scratch);
        (self.finish(), whole)
    }

    /// What the last reading said.
    pub fn last(&self) -> &Values {
        &self.figures.values
    }

    /// Has everything read in the next round: something happened that the CPU counter does not show.
    pub fn hurry(&mut self) {
        (self.moved, self.limits_due) = (true, true);
    }

    fn finish(&mut self) -> &Values {
        self.figures.derive(self.memory_total);
        self.figures.values.retain(self.mask);
        &self.figures.values
    }

    fn read_files(&mut self, when: When, scratch: &mut Scratch) -> Result<(), Gone> {
        for (row, file) in self.files.iter().filter(|(row, _)| row.when == when) {
            match slurp(file, &mut scratch.buffer) {
                Ok(n) => parse_row(row, &scratch.buffer[..n], &mut self.figures, &mut scratch.around),
                Err(error) => {
                    let fault = files::fault(&error);
                    if fault == Fault::Gone && self.is_gone(&mut scratch.buffer) {
                        return Err(Gone);
                    }
                    scratch.around.faults.count(fault);
                    self.figures.lose(row.gives);
                }
            }
        }
        Ok(())
    }

    /// Whether the whole cgroup went, and not just one controller of it.
    fn is_gone(&self, buffer: &mut [u8]) -> bool {
        let cpu = self.files.first().map(|(_, file)| slurp(file, buffer));
        cpu.is_some_and(|read| read.is_err_and(|error| files::fault(&error) == Fault::Gone))
    }

    /// v1 block I/O until the file that the kernel fills is known: that one is kept, its sibling opened.
    fn read_undecided_blkio(&mut self, scratch: &mut Scratch) {
        if self.blkio.is_empty() {
            return;
        }
        let found = self.blkio.iter().enumerate().find_map(|(place, (file, _))| {
            let n = slurp(file, &mut scratch.buffer).ok()?;
            parse::blkio_has_data(&scratch.buffer[..n]).then_some((place, n))
        });
        let Some((place, n)) = found else {
            // Read, and nothing there yet: zeros, as an empty file of the chosen ones would say.
            for row in [&BLKIO_BYTES, &BLKIO_OPS] {
                parse_row(row, b"", &mut self.figures, &mut scratch.around);
            }
            return;
        };
        let (bytes, ops) = self.blkio.swap_remove(place);
        self.blkio.clear();
        parse_row(&BLKIO_BYTES, &scratch.buffer[..n], &mut self.figures, &mut scratch.around);
        self.files.push((&BLKIO_BYTES, bytes));
        self.figures.lose(BLKIO_OPS.gives);
        if self.mask & BLKIO_OPS.gives != 0
            && let Ok(file) = File::open(ops)
            && let Ok(n) = slurp(&file, &mut scratch.buffer)
        {
            parse_row(&BLKIO_OPS, &scratch.buffer[..n], &mut self.figures, &mut scratch.around);
            self.files.push((&BLKIO_OPS, file));
        }
    }
}

fn parse_row(row: &Row, bytes: &[u8], figures: &mut Figures, around: &mut Around) {
    figures.lose(row.gives);
    let bad = (row.parse)(bytes, figures, around);
    around.faults.add(Fault::Malformed, bad);
}

/// Opens a file to hold. One that is not there is `None`, so is one that may not be read, which is counted.
fn open(path: &Path, scratch: &mut Scratch) -> Result<Option<File>, Unseen> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) => match files::fault(&error) {
            Fault::OpenFiles => Err(Unseen::OpenFiles),
            Fault::Gone => Ok(None),
            fault => {
                scratch.around.faults.count(fault);
                Ok(None)
            }
        },
    }
}

/// Whether a file is there but the kernel was told not to fill it, as it may be with pressure.
fn is_switched_off(file: &File, scratch: &mut Scratch) -> bool {
    slurp(file, &mut scratch.buffer).is_err_and(|error| files::is_switched_off(&error))
}

/// The v1 block I/O files that may come to have data, each with its sibling's path.
fn v1_blkio(place: &Place, scratch: &mut Scratch) -> Result<Vec<(File, PathBuf)>, Unseen> {
    let Some((Cgroup::V1, directory)) = place.of(Controller::Blkio) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    let [whole @ .., own] = files::V1_BLKIO;
    for (bytes, ops) in whole {
        found.extend(open(&directory.join(bytes), scratch)?.map(|file| (file, directory.join(ops))));
    }
    // Where there is a recursive throttle file, the plain one shows nothing that it lacks.
    if !directory.join(files::V1_BLKIO[2].0).exists() {
        found.extend(open(&directory.join(own.0), scratch)?.map(|file| (file, directory.join(own.1))));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::bits,
        source::fake::{ID, Layout, MEMORY_TOTAL, Machine, PID, STARTED_AT, recording, target},
        stat::Stat,
    };

    struct Rig {
        machine: Machine,
        scratch: Scratch,
        reader: Reader,
        round: u64,
    }

    fn open(machine: Machine, target: &Target, level: Level) -> Result<Rig, Unseen> {
        let host = machine.host();
        let mut scratch = Scratch::new(&host);
        let reader = Reader::open(&host, target, level, 0, &mut scratch)?;
        Ok(Rig { machine, scratch, reader, round: 0 })
    }

    /// A reader of the recorded container under `/docker`, at level `all`.
    fn rig(layout: Layout) -> Rig {
        let machine = Machine::new(layout);
        machine.container(&format!("/docker/{ID}"));
        open(machine, &target(), Level::All).unwrap()
    }

    impl Rig {
        fn read(&mut self) -> Values {
            self.round += 1;
            self.reader.read(self.round, &mut self.scratch).unwrap().clone()
        }
        fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
            self.machine.write(&format!("sys/fs/cgroup/{file}"), bytes);
        }
        fn faults(&self) -> Vec<(Fault, u64)> {
            self.scratch.around.faults.iter().filter(|(_, n)| *n > 0).collect()
        }
    }

    /// What the engine's own record said of the paused container, and `docker stats`: 9.141MiB / 64MiB, 1.18kB / 0B,
    /// 0B / 21MB, 1.
    const RECORDED_V1: &[(Stat, u64)] = &[
        (stat::CPU, 8_274_898_924),
        (stat::CPU_USER, 8_190_000_000),
        (stat::CPU_SYSTEM, 70_000_000),
        (stat::MEMORY_USED, 9_584_640),
        (stat::MEMORY_USAGE, 28_459_008),
        (stat::RX_BYTES, 1182),
        (stat::TX_BYTES, 0),
        (stat::RX_PACKETS, 13),
        (stat::PIDS, 1),
        (stat::BLOCK_READ, 0),
        (stat::BLOCK_WRITTEN, 20_979_712),
        (stat::BLOCK_READS, 0),
        (stat::BLOCK_WRITES, 8),
        (stat::MEMORY_ANON, 61_440),
        (stat::CPU_PERIODS, 171),
        (stat::THROTTLED_PERIODS, 145),
        (stat::THROTTLED, 3_073_634_204),
        (stat::MEMORY_KERNEL, 823_296),
        (stat::MEMORY_PEAK, 31_948_800),
        (stat::MEMORY_SWAP, 0),
        (stat::OOM_KILLS, 0),
        (stat::MEMORY_LIMIT, 64 << 20),
        (stat::CPU_LIMIT, 500_000_000),
        (stat::PIDS_LIMIT, 50),
        (stat::START_TIME, STARTED_AT),
    ];

    fn pressures(values: &Values) -> usize {
        let all = [stat::CPU_WAITING, stat::CPU_STALLED, stat::MEMORY_WAITING, stat::IO_WAITING];
        all.into_iter().filter(|stat| values.get(*stat).is_some()).count()
    }

    #[test]
    fn v1_however_mounted_gives_what_the_engine_and_docker_stats_said() {
        for layout in [Layout::V1Apart, Layout::V1Together, Layout::Hybrid] {
            let mut rig = rig(layout);
            let values = rig.read();
            for (stat, expected) in RECORDED_V1 {
                assert_eq!(values.get(*stat), Some(*expected), "{stat:?}, {layout:?}");
            }
            assert_eq!(pressures(&values), if layout == Layout::Hybrid { 2 } else { 0 }, "absent without v2");
            assert_eq!(rig.faults(), []);
        }
    }

    #[test]
    fn v2_under_either_driver_gives_what_was_recorded() {
        for place in [format!("/docker/{ID}"), format!("/system.slice/docker-{ID}.scope")] {
            let machine = Machine::new(Layout::V2);
            machine.container(&place);
            let mut rig = open(machine, &target(), Level::All).unwrap();
            let values = rig.read();
            for (stat, expected) in [
                (stat::CPU, 10_393_872_000),
                (stat::MEMORY_USED, 22_704_128 - 21_590_016),
                (stat::MEMORY_LIMIT, 64 << 20),
                (stat::MEMORY_PEAK, 23_846_912),
                (stat::MEMORY_SWAP, 0),
                (stat::BLOCK_READ, 618_496),
                (stat::BLOCK_WRITES, 234),
                (stat::CPU_LIMIT, 500_000_000),
                (stat::CPU_WAITING, 6_787_577_000),
                (stat::OOM_KILLS, 0),
                (stat::PIDS, 1),
            ] {
                assert_eq!(values.get(stat), Some(expected), "{stat:?}, {place}");
            }
            assert_eq!(values.get(stat::PIDS_LIMIT), None, "pids.max says max");
            assert_eq!(rig.faults(), []);
        }
    }

    #[test]
    fn the_same_state_gives_the_same_columns_in_both_versions() {
        let mut v1 = rig(Layout::V1Apart);
        let mut v2 = rig(Layout::V2);
        // The v1 recording's state, as a v2 kernel would write it; the counts of ticks and µs are whole ones.
        let d = format!("docker/{ID}");
        v1.write(&format!("cpuacct/{d}/cpuacct.usage"), "8270000000\n");
        v2.write(
            &format!("{d}/cpu.stat"),
            "usage_usec 8270000\nuser_usec 8190000\nsystem_usec 70000\nnr_periods 171\nnr_throttled 145\nthrottled_usec 3073634\n",
        );
        v1.write(&format!("cpu/{d}/cpu.stat"), "nr_periods 171\nnr_throttled 145\nthrottled_time 3073634000\n");
        v2.write(&format!("{d}/memory.current"), "28459008\n");
        v2.write(
            &format!("{d}/memory.stat"),
            "anon 61440\nfile 27267072\nkernel 823296\nshmem 8388608\nfile_mapped 0\nfile_dirty 4096\nfile_writeback 0\n\
             inactive_file 18874368\nactive_file 4096\npgfault 1748\npgmajfault 0\n",
        );
        v2.write(&format!("{d}/memory.peak"), "31948800\n");
        v2.write(&format!("{d}/pids.max"), "50\n");
        v2.write(&format!("{d}/io.stat"), "254:0 rbytes=0 wbytes=20979712 rios=0 wios=8 dbytes=0 dios=0\n");
        let (mut one, mut other) = (v1.read(), v2.read());
        let pressure = stat::CPU_WAITING.bit() | stat::CPU_STALLED.bit();
        for values in [&mut one, &mut other] {
            values.retain(!pressure);
        }
        assert_eq!(one, other);
        assert_eq!(bits(one.present()).count(), crate::stat::N_STATS - 6, "all but pressure");
    }

    #[test]
    fn a_level_opens_what_it_needs_and_gives_no_more() {
        let machine = Machine::new(Layout::V1Apart);
        machine.container(&format!("/docker/{ID}"));
        let mut rig = open(machine, &target(), Level::Docker).unwrap();
        assert_eq!(rig.read().present(), Level::Docker.mask());
        let names: Vec<_> = rig.reader.files.iter().map(|(row, _)| row.name).collect();
        let expected =
            ["cpuacct.usage", "memory.usage_in_bytes", "memory.stat", "pids.current", "net/dev", "blkio bytes"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_missing_or_garbled_file_spoils_only_its_own_fields() {
        let machine = Machine::new(Layout::V1Apart);
        machine.container(&format!("/docker/{ID}"));
        let d = format!("docker/{ID}");
        machine.remove(&format!("sys/fs/cgroup/pids/{d}/pids.current"));
        machine.remove(&format!("sys/fs/cgroup/memory/{d}/memory.kmem.usage_in_bytes"));
        machine.write(&format!("sys/fs/cgroup/memory/{d}/memory.usage_in_bytes"), "28459");
        machine.write(&format!("sys/fs/cgroup/cpu/{d}/cpu.cfs_quota_us"), "\u{fffd}\n");
        let mut rig = open(machine, &target(), Level::All).unwrap();
        let values = rig.read();
        let lost = [stat::PIDS, stat::MEMORY_KERNEL, stat::MEMORY_USAGE, stat::MEMORY_USED, stat::CPU_LIMIT];
        for (stat, expected) in RECORDED_V1 {
            let expected = (!lost.contains(stat)).then_some(*expected);
            assert_eq!(values.get(*stat), expected, "{stat:?}");
        }
        assert_eq!(rig.faults(), [(Fault::Malformed, 1)], "the torn number; a missing file is no fault");
    }

    #[test]
    fn b037_a_limit_that_limits_nothing_is_absent() {
        let stat = String::from_utf8(recording("v1/memory/memory.stat")).unwrap();
        let with = |limit: u64| stat.replace("limit 67108864", &format!("limit {limit}"));
        for (limit, expected) in [
            (9_223_372_036_854_771_712, None),
            (MEMORY_TOTAL + 4096, None),
            (MEMORY_TOTAL, Some(MEMORY_TOTAL)),
            (1 << 30, Some(1 << 30)),
        ] {
            let mut rig = rig(Layout::V1Apart);
            rig.write(&format!("memory/docker/{ID}/memory.stat"), with(limit));
            assert_eq!(rig.read().get(stat::MEMORY_LIMIT), expected);
        }
    }

    #[test]
    fn on_v2_the_tightest_limit_above_counts() {
        for (own, parent, top, expected) in [
            ("max", "max", "max", None),
            ("67108864", "max", "max", Some(64 << 20)),
            ("max", "33554432", "max", Some(32 << 20)),
            ("67108864", "max", "16777216", Some(16 << 20)),
        ] {
            let machine = Machine::new(Layout::V2);
            machine.container(&format!("/a/b/{ID}"));
            for (path, limit) in [(format!("a/b/{ID}"), own), ("a/b".into(), parent), ("a".into(), top)] {
                machine.write(&format!("sys/fs/cgroup/{path}/memory.max"), format!("{limit}\n"));
            }
            let mut rig = open(machine, &target(), Level::Docker).unwrap();
            assert_eq!(rig.read().get(stat::MEMORY_LIMIT), expected);
        }
    }

    #[test]
    fn b065_b064_a_volume_on_a_disk_does_not_count_beside_the_disk() {
        let mut rig = rig(Layout::V2);
        rig.write(
            &format!("docker/{ID}/io.stat"),
            "253:0 rbytes=100 wbytes=100 rios=1 wios=1\n254:0 rbytes=100 wbytes=104 rios=1 wios=2\n",
        );
        let values = rig.read();
        assert_eq!((values.get(stat::BLOCK_READ), values.get(stat::BLOCK_WRITTEN)), (Some(100), Some(104)));
    }

    #[test]
    fn b061_the_v1_file_that_has_data_is_taken_in_order_of_preference() {
        let mut rig = rig(Layout::V1Apart);
        let file = |name: &str| format!("blkio/docker/{ID}/blkio.{name}");
        rig.write(&file("throttle.io_service_bytes_recursive"), "Total 0\n");
        let values = rig.read();
        assert_eq!((values.get(stat::BLOCK_READ), values.get(stat::BLOCK_WRITES)), (Some(0), Some(0)));
        rig.write(&file("bfq.io_service_bytes_recursive"), "254:0 Read 5\n254:0 Write 0\nTotal 5\n");
        rig.write(&file("bfq.io_serviced_recursive"), "254:0 Read 1\n254:0 Write 0\nTotal 1\n");
        rig.write(&file("throttle.io_service_bytes_recursive"), "254:0 Read 6\nTotal 6\n");
        rig.reader.hurry();
        let values = rig.read();
        assert_eq!((values.get(stat::BLOCK_READ), values.get(stat::BLOCK_READS)), (Some(5), Some(1)));
        // From here on it stays with that one.
        rig.write(&file("bfq.io_service_bytes_recursive"), "254:0 Read 9\n254:0 Write 0\nTotal 9\n");
        rig.reader.hurry();
        assert_eq!(rig.read().get(stat::BLOCK_READ), Some(9));
    }

    #[test]
    fn counters_never_fall_when_an_interface_goes_or_a_device_is_unplugged() {
        let mut rig = rig(Layout::V2);
        let before = rig.read();
        rig.machine.write(&format!("proc/{PID}/net/dev"), "  lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
        rig.write(&format!("docker/{ID}/io.stat"), "");
        for _ in 0..4 {
            rig.reader.hurry();
            let after = rig.read();
            for stat in [stat::RX_BYTES, stat::RX_PACKETS, stat::BLOCK_READ, stat::BLOCK_WRITTEN, stat::BLOCK_WRITES] {
                assert_eq!(after.get(stat), before.get(stat), "{stat:?}");
            }
        }
        // A new interface counts from its beginning.
        rig.machine.write(&format!("proc/{PID}/net/dev"), " eth1: 18 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n");
        rig.reader.hurry();
        assert_eq!(rig.read().get(stat::RX_BYTES), Some(1182 + 18));
    }

    #[test]
    fn b082_b085_b086_without_a_network_of_its_own_network_figures_are_absent() {
        let machine = Machine::new(Layout::V1Apart);
        machine.container(&format!("/docker/{ID}"));
        let mut rig = open(machine, &Target { network: false, ..target() }, Level::All).unwrap();
        assert_eq!(rig.read().present() & files::NETWORK, 0);
    }

    #[test]
    fn another_process_network_is_not_taken_for_the_containers() {
        let machine = Machine::new(Layout::V1Apart);
        machine.container(&format!("/docker/{ID}"));
        machine.write(&format!("proc/{PID}/cgroup"), "4:memory:/user.slice\n");
        let mut rig = open(machine, &target(), Level::All).expect("its cgroup is where the driver puts it");
        let values = rig.read();
        assert_eq!(values.present() & files::NETWORK, 0);
        assert_eq!(values.get(stat::CPU), Some(8_274_898_924));
        assert_eq!(rig.faults(), [(Fault::OtherProcess, 1)]);
    }

    #[test]
    fn an_idle_tasks_other_figures_are_at_most_idle_rounds_old() {
        let mut rig = rig(Layout::V1Apart);
        rig.read();
        rig.read();
        let pids = format!("pids/docker/{ID}/pids.current");
        let mut ages = Vec::new();
        for n in 2..30u64 {
            // A figure that changes each round, of a task whose CPU counter stands still.
            rig.write(&pids, format!("{n}\n"));
            ages.push(n - rig.read().get(stat::PIDS).unwrap());
        }
        assert_eq!(ages.iter().max(), Some(&(IDLE_ROUNDS - 1)));
        assert_eq!(ages.iter().filter(|age| **age == 0).count() as u64, 28 / IDLE_ROUNDS + 1);
    }

    #[test]
    fn a_running_tasks_figures_are_all_of_this_round_and_of_the_one_after() {
        let mut rig = rig(Layout::V1Apart);
        let (cpu, pids) = (format!("cpuacct/docker/{ID}/cpuacct.usage"), format!("pids/docker/{ID}/pids.current"));
        for n in 1..10u64 {
            rig.write(&cpu, format!("{}\n", 9_000_000_000 + n));
            rig.write(&pids, format!("{n}\n"));
            assert_eq!(rig.read().get(stat::PIDS), Some(n));
        }
        rig.write(&pids, "77\n");
        assert_eq!(rig.read().get(stat::PIDS), Some(77), "it came to rest after the last reading");
    }

    #[test]
    fn limits_are_at_most_limit_rounds_old() {
        let mut rig = rig(Layout::V2);
        rig.read();
        rig.write(&format!("docker/{ID}/cpu.max"), "max 100000\n");
        rig.write(&format!("docker/{ID}/pids.max"), "7\n");
        let fresh_after = (1..100).find(|_| rig.read().get(stat::PIDS_LIMIT) == Some(7)).unwrap();
        assert!(fresh_after <= LIMIT_ROUNDS);
        assert_eq!(rig.reader.last().get(stat::CPU_LIMIT), None);
        rig.write(&format!("docker/{ID}/pids.max"), "8\n");
        assert_eq!(rig.read().get(stat::PIDS_LIMIT), Some(7));
        rig.reader.hurry();
        assert_eq!(rig.read().get(stat::PIDS_LIMIT), Some(8), "the engine said that it was changed");
    }

    #[test]
    fn a_container_that_cannot_be_seen_is_said_so() {
        let result = open(Machine::new(Layout::V1Apart), &target(), Level::All);
        assert_eq!(result.err(), Some(Unseen::Nowhere));
    }

    #[test]
    fn b028_b038_a_controller_that_is_off_leaves_its_figures_absent_and_no_others() {
        let machine = Machine::new(Layout::V2);
        machine.container(&format!("/docker/{ID}"));
        for file in ["current", "stat", "max", "peak", "events", "swap.current"] {
            machine.remove(&format!("sys/fs/cgroup/docker/{ID}/memory.{file}"));
        }
        let mut rig = open(machine, &target(), Level::All).unwrap();
        let values = rig.read();
        assert!(values.iter().all(|(stat, _)| !stat.name().starts_with("memory")), "{values:?}");
        assert_eq!((values.get(stat::PIDS), values.get(stat::CPU)), (Some(1), Some(10_393_872_000)));
        assert_eq!(rig.faults(), []);
    }

    #[test]
    fn a_file_of_many_interfaces_is_read_to_its_end() {
        let mut rig = rig(Layout::V1Apart);
        let line = |n: usize| format!("veth{n:04}: 1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0\n");
        rig.machine.write(&format!("proc/{PID}/net/dev"), (0..200).map(line).collect::<String>());
        let values = rig.read();
        assert_eq!((values.get(stat::RX_BYTES), values.get(stat::TX_BYTES)), (Some(200), Some(400)));
    }
}

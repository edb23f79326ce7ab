//! One task's figures, read from the kernel through descriptors held open.
//!
//! Where the CPU counter stands still, most other figures do too: then only that counter is read every round, and the
//! rest once in [`IDLE_ROUNDS`]. The ages this allows: CPU time none; limits [`LIMIT_ROUNDS`] rounds; everything else
//! none while the task runs and up to [`IDLE_ROUNDS`] rounds while it is idle. Counters that rates are made of are told as
//! [`super::spread`] says, so that a rate is never that of several rounds. A read allocates nothing.
//! A Reader is of one incarnation, whose counters it keeps; it deliberately knows no names.

use super::{
    Fault, Faults,
    cgroup::{Host, Place, Target},
    files::{self, Around, BLKIO_BYTES, BLKIO_OPS, Cgroup, Controller, Figures, NET_DEV, Row, When},
    limits::Limits,
    parse,
    spread::Spread,
};
use crate::{
    model::{Nanos, Values},
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
pub(super) fn slurp(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
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
    spread: Spread,
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
        let mask = level.mask() & stat::TASKS;
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
        let off = Controller::ALL.into_iter().filter(|controller| {
            let row = |row: &&Row| row.controller == *controller && row.gives & mask != 0;
            let wanted =
                files::ROWS.iter().filter(row).any(|row| place.of(*controller).is_none_or(|at| at.0 == row.cgroup));
            let found = files.iter().any(|(row, _)| row.controller == *controller);
            *controller != Controller::Pressure && wanted && !found
        });
        scratch.around.faults.add(Fault::NoController, off.count() as u64);
        let limits = Limits::new(host, &place, mask);
        let mut figures = Figures::default();
        figures.values.set(stat::START_TIME, target.started_at);
        let seldom = files
            .iter()
            .filter(|(row, _)| row.when == When::Moving)
            .fold(BLKIO_BYTES.gives, |m, (row, _)| m | row.gives);
        let (spread, memory_total) = (Spread::new(seldom), host.memory_total());
        Ok(Reader { files, blkio, limits, figures, spread, mask, memory_total, phase, moved: true, limits_due: true })
    }

    /// One sample. `round` counts the node's rounds, `now` is their clock.
    ///
    /// # Errors
    /// If the cgroup is gone; [`Reader::last`] then has what was known before.
    pub fn read(&mut self, round: u64, now: Nanos, scratch: &mut Scratch) -> Result<&Values, Gone> {
        let due = round.wrapping_add(self.phase);
        let before = self.figures.values.get(stat::CPU);
        self.read_files(When::Always, scratch)?;
        let used = self.figures.values.get(stat::CPU);
        // One more reading after it came to rest: the last one may have been before the last change.
        let moves = used.is_none() || used != before;
        if moves || self.moved || due.is_multiple_of(IDLE_ROUNDS) {
            self.read_files(When::Moving, scratch)?;
            self.read_undecided_blkio(scratch);
            self.spread.read(now, &mut self.figures.values);
        } else {
            self.spread.tell(now, &mut self.figures.values);
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
        self.spread.settle(&mut self.figures.values);
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
        let mut unread = 0;
        let found =
            self.blkio.iter().enumerate().find_map(|(place, (file, _))| match slurp(file, &mut scratch.buffer) {
                Ok(n) => parse::blkio_has_data(&scratch.buffer[..n]).then_some((place, n)),
                Err(error) => {
                    unread += 1;
                    scratch.around.faults.count(files::fault(&error));
                    None
                }
            });
        let Some((place, n)) = found else {
            if unread > 0 {
                return self.figures.lose(files::BLOCK);
            }
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
mod tests;

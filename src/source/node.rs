//! The machine's own figures, from the host's `/proc` and `/sys` and the file system of the engine's data.
//!
//! One reader a node, its files held open; the kernel takes some 25 µs for a round of them, and more where there are
//! many interfaces. What is counted: of the network namespace of the engine the **network cards**, that is interfaces with
//! a device; where there is none (an LXC container, a node in a namespace) those that no container engine makes. Bonds,
//! VLANs, bridges and tunnels hand their traffic to cards, where it counts once. Of the disks **whole leaf disks**: no
//! partitions, nothing stacked on others (LVM, md, dm-crypt), no loop and RAM disks. Sums never fall when one goes.
//!
//! A file that is missing or spoilt leaves its own stats absent. It deliberately knows no containers.

mod filesystem;

use super::{
    Fault, Faults,
    files::{self, Devices},
    parse::{self, Bad, Device, Interface, machine},
    reader::slurp,
    sums::{MAX_KEYS, Sums},
};
use crate::{
    model::{Nanos, Values, bits},
    stat::{self, Level, Stat},
};
use filesystem::Filesystem;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// What hardly changes is looked at once in this many rounds.
pub const SELDOM: u64 = 10;

/// The largest kernel file taken; what is beyond is cut off, and counted as a torn line.
const LARGEST: usize = 1 << 20;

/// How long the engine's socket may take to say whose it is.
const PEER_DEADLINE: Duration = Duration::from_secs(1);

/// Reads a machine. See the head of this file.
#[derive(Debug)]
pub struct Machine {
    proc_: PathBuf,
    /// `/proc/PID/net` of the network namespace whose cards count.
    network: PathBuf,
    files: Vec<(Row, File)>,
    mask: u64,
    round: u64,
    buffer: Vec<u8>,
    figures: Figures,
    filesystem: Option<Filesystem>,
    faults: Faults,
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct Places {
    /// The host's `/proc`.
    pub proc_: PathBuf,
    /// The host's `/sys`; where it lacks something, this process's own is asked.
    pub sys: PathBuf,
    /// A process in the network namespace whose cards count, by its number in the host's `/proc`.
    pub network_of: u32,
    /// A file of the file system that has the engine's data, if one can be seen from here.
    pub data: Option<PathBuf>,
}

/// What the files said so far.
#[derive(Debug)]
struct Figures {
    values: Values,
    tick: Nanos,
    disks: Sums<Device, 4>,
    cards: Sums<Interface, 8>,
    /// The lines of this pass over the interfaces.
    interfaces: Vec<(Interface, [Option<u64>; 8])>,
    known: Known,
    /// Interfaces that are made of others, looked at once in [`SELDOM`] rounds.
    stacked: Vec<Interface>,
    bounds: u64,
}

/// What sysfs says of disks and interfaces, kept until [`Known::forget`].
#[derive(Debug)]
struct Known {
    sys: Vec<PathBuf>,
    devices: Devices,
    disks: Vec<(Device, bool)>,
    cards: Vec<(Interface, bool)>,
}

/// A file below `/proc` and what it gives.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    gives: &'static [Stat],
    /// How much of it is read at first, and whether that was enough; it never is where all is wanted.
    size: usize,
    enough: fn(&[u8]) -> bool,
    parse: fn(&[u8], &mut Figures) -> Bad,
}

const WHOLE: Row = Row { name: "", gives: &[], size: 64 * 1024, enough: |_| false, parse: |_, _| 0 };

const ROWS: [Row; 8] = [
    Row {
        name: "stat",
        gives: &[stat::CPU, stat::CPU_USER, stat::CPU_SYSTEM, stat::CPU_IOWAIT, stat::CPU_STEAL, stat::CPU_LIMIT],
        size: 4096,
        enough: machine::cpu_lines_end,
        parse: |bytes, f| machine::cpu_times(bytes, f.tick, &mut f.values),
    },
    Row {
        name: "loadavg",
        gives: &[stat::LOAD1, stat::LOAD5, stat::LOAD15, stat::PIDS],
        parse: |bytes, f| machine::load(bytes, &mut f.values),
        ..WHOLE
    },
    Row {
        name: "meminfo",
        gives: &[
            stat::MEMORY_USED,
            stat::MEMORY_LIMIT,
            stat::MEMORY_ANON,
            stat::MEMORY_FILE,
            stat::MEMORY_SHMEM,
            stat::MEMORY_KERNEL,
            stat::MEMORY_SWAP,
            stat::MEMORY_SWAP_LIMIT,
        ],
        parse: |bytes, f| machine::memory(bytes, &mut f.values),
        ..WHOLE
    },
    Row {
        name: "vmstat",
        gives: &[stat::PAGE_FAULTS, stat::MAJOR_PAGE_FAULTS, stat::OOM_KILLS],
        parse: |bytes, f| machine::events(bytes, &mut f.values),
        ..WHOLE
    },
    Row { name: "diskstats", gives: &machine::DISK, parse: disks, ..WHOLE },
    Row {
        name: "pressure/cpu",
        gives: &[stat::CPU_WAITING],
        parse: |bytes, f| machine::cpu_pressure(bytes, &mut f.values),
        ..WHOLE
    },
    Row {
        name: "pressure/memory",
        gives: &[stat::MEMORY_WAITING, stat::MEMORY_STALLED],
        parse: |bytes, f| parse::pressure(bytes, stat::MEMORY_WAITING, stat::MEMORY_STALLED, &mut f.values),
        ..WHOLE
    },
    Row {
        name: "pressure/io",
        gives: &[stat::IO_WAITING, stat::IO_STALLED],
        parse: |bytes, f| parse::pressure(bytes, stat::IO_WAITING, stat::IO_STALLED, &mut f.values),
        ..WHOLE
    },
];

/// Below `/proc/PID`.
const NETWORK: Row = Row { name: "net/dev", gives: &parse::NETWORK, parse: cards, ..WHOLE };

fn gives(row: &Row) -> u64 {
    row.gives.iter().fold(0, |mask, stat| mask | stat.bit())
}

impl Machine {
    /// Opens what a level needs. A file that is not there leaves its stats absent.
    pub fn new(places: Places, level: Level) -> Machine {
        let Places { proc_, sys, network_of, data } = places;
        let sys = vec![sys, "/sys".into()];
        let devices = Devices::new(sys.clone());
        let mut machine = Machine {
            files: Vec::new(),
            mask: (level.mask() | stat::CAPACITY) & stat::NODES,
            round: 0,
            buffer: vec![0; WHOLE.size],
            figures: Figures {
                values: Values::default(),
                tick: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1),
                disks: Sums::default(),
                cards: Sums::default(),
                interfaces: Vec::new(),
                known: Known { sys, devices, disks: Vec::new(), cards: Vec::new() },
                stacked: Vec::new(),
                bounds: 0,
            },
            filesystem: data.map(Filesystem::new),
            faults: Faults::default(),
            network: proc_.join(network_of.to_string()).join("net"),
            proc_,
        };
        for row in ROWS {
            machine.open(row, machine.proc_.join(row.name));
        }
        machine.open(NETWORK, machine.proc_.join(network_of.to_string()).join(NETWORK.name));
        let started = fs::read(machine.proc_.join("stat")).ok();
        machine.figures.values.put(stat::START_TIME, started.and_then(|bytes| machine::boot_time(&bytes)));
        machine
    }

    fn open(&mut self, row: Row, path: PathBuf) {
        if gives(&row) & self.mask == 0 {
            return;
        }
        match File::open(path) {
            Ok(file) => self.files.push((row, file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.faults.count(files::fault(&error)),
        }
    }

    /// One sample. Waits for nothing but the kernel's own files.
    pub fn read(&mut self) -> Values {
        let seldom = self.round.is_multiple_of(SELDOM);
        self.round += 1;
        if seldom {
            self.figures.known.forget();
            self.read_limits();
            self.figures.stacked = stacked(&self.network);
        }
        for at in 0..self.files.len() {
            self.read_file(at);
        }
        if let Some(filesystem) = &mut self.filesystem {
            filesystem.read(seldom, &mut self.figures.values);
        }
        let mut values = self.figures.values.clone();
        values.retain(self.mask);
        values
    }

    /// What could not be read or understood since the beginning.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    fn read_file(&mut self, at: usize) {
        let (row, file) = &self.files[at];
        let mut size = row.size;
        let read = loop {
            if self.buffer.len() < size {
                self.buffer.resize(size, 0);
            }
            match slurp(file, &mut self.buffer[..size]) {
                Ok(n) if n == size && size < LARGEST && !(row.enough)(&self.buffer[..n]) => size *= 2,
                read => break read,
            }
        };
        match read {
            Ok(n) => {
                let bad = (row.parse)(&self.buffer[..n], &mut self.figures);
                self.faults.add(Fault::Malformed, bad);
                self.faults.add(Fault::Bounds, std::mem::take(&mut self.figures.bounds));
            }
            Err(error) => {
                bits(gives(row)).for_each(|stat| self.figures.values.clear(stat));
                if !files::is_switched_off(&error) {
                    self.faults.count(files::fault(&error));
                }
            }
        }
    }

    /// The lower of the kernel's two limits of tasks.
    fn read_limits(&mut self) {
        if self.mask & stat::PIDS_LIMIT.bit() != 0 {
            let limit = |name: &str| parse::number(&fs::read(self.proc_.join("sys/kernel").join(name)).ok()?);
            let lowest = ["pid_max", "threads-max"].into_iter().filter_map(limit).min();
            self.figures.values.put(stat::PIDS_LIMIT, lowest);
        }
    }
}

fn disks(bytes: &[u8], f: &mut Figures) -> Bad {
    f.disks.begin();
    let bad = machine::disks(bytes, |device, name, row| {
        if f.known.is_disk(device, name) && !f.disks.row(device, row) {
            f.bounds += 1;
        }
    });
    for (stat, sum) in machine::DISK.into_iter().zip(f.disks.end(bad == 0)) {
        f.values.set(stat, sum);
    }
    bad
}

fn cards(bytes: &[u8], f: &mut Figures) -> Bad {
    f.interfaces.clear();
    let bad = parse::net_dev(bytes, |interface, row| {
        if !is_engines(&interface) {
            f.interfaces.push((interface, row));
        }
    });
    let any = f.interfaces.iter().any(|(interface, _)| f.known.is_card(interface));
    f.cards.begin();
    for (interface, row) in &f.interfaces {
        let counts = if any { f.known.is_card(interface) } else { !f.stacked.contains(interface) };
        if counts && !f.cards.row(*interface, *row) {
            f.bounds += 1;
        }
    }
    for (stat, sum) in parse::NETWORK.into_iter().zip(f.cards.end(bad == 0)) {
        f.values.set(stat, sum);
    }
    bad
}

/// Whether an interface is one that engines and kernels make for containers and tunnels: no network card has such a name.
fn is_engines(interface: &Interface) -> bool {
    const PREFIXES: [&[u8]; 14] = [
        b"veth", b"docker", b"br-", b"vx-", b"vxlan", b"ov-", b"ovs", b"virbr", b"cni", b"cali", b"flannel", b"ifb",
        b"dummy", b"tunl",
    ];
    PREFIXES.iter().any(|prefix| interface.starts_with(prefix))
}

/// Interfaces that hand their traffic to others: bonds and VLANs as the kernel lists them, and bridges and teams, which
/// it lists in sysfs alone, by the names that they are given.
fn stacked(network: &Path) -> Vec<Interface> {
    let entries = fs::read_dir(network.join("bonding")).into_iter().flatten().flatten();
    let bonds = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // Two lines of head, then `eth0.7 | 7 | eth0`.
    let vlans = fs::read_to_string(network.join("vlan/config")).unwrap_or_default();
    let vlans = vlans.lines().skip(2).filter_map(|line| Some(line.split_once('|')?.0.trim().to_owned()));
    let devices = fs::read_to_string(network.join("dev")).unwrap_or_default();
    let names = devices.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    let conventional = names.filter(|name| {
        let number = ["vmbr", "lxcbr", "br", "team"].iter().find_map(|kind| name.strip_prefix(kind));
        number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    bonds.chain(vlans).chain(conventional).take(MAX_KEYS).map(|name| interface(&name)).collect()
}

fn interface(name: &str) -> Interface {
    let mut interface = Interface::default();
    let len = name.len().min(interface.len());
    interface[..len].copy_from_slice(&name.as_bytes()[..len]);
    interface
}

impl Known {
    /// Names and numbers are given to others after a device was unplugged.
    fn forget(&mut self) {
        self.devices.forget();
        self.disks.clear();
        self.cards.clear();
    }

    fn is_disk(&mut self, device: Device, name: &[u8]) -> bool {
        if let Some((_, disk)) = self.disks.iter().find(|(known, _)| *known == device) {
            return *disk;
        }
        let (major, minor) = device;
        let path = format!("dev/block/{major}:{minor}");
        let folder = self.sys.iter().map(|sys| sys.join(&path)).find(|path| path.exists());
        // Linux numbers RAM disks 1 and loop devices 7; what is stored there is memory, or is in a file of a disk.
        let disk = !matches!(major, 1 | 7)
            && !name.starts_with(b"zram")
            && !folder.is_some_and(|folder| folder.join("partition").exists())
            && self.devices.is_leaf(device);
        self.disks.truncate(MAX_KEYS);
        self.disks.push((device, disk));
        disk
    }

    /// A card that is part of another one (a cloud's fast path beside its slow one) counts there.
    fn is_card(&mut self, interface: &Interface) -> bool {
        if let Some((_, card)) = self.cards.iter().find(|(known, _)| known == interface) {
            return *card;
        }
        let name = String::from_utf8_lossy(interface);
        let path = Path::new("class/net").join(name.trim_end_matches('\0'));
        let card = |path: PathBuf| path.join("device").exists() && !path.join("master/device").exists();
        let folder = self.sys.iter().map(|sys| sys.join(&path)).find(|path| path.exists());
        let card = folder.is_some_and(card);
        self.cards.truncate(MAX_KEYS);
        self.cards.push((*interface, card));
        card
    }
}

/// A process in the engine's network namespace: the engine itself, which its socket tells, where that is seen in the
/// host's `/proc`; else the host's first process.
pub async fn engine_process(socket: &str, proc_: &Path) -> u32 {
    let path = socket.strip_prefix("unix://").unwrap_or(socket);
    let connected = tokio::time::timeout(PEER_DEADLINE, tokio::net::UnixStream::connect(path)).await;
    let peer = connected.ok().and_then(Result::ok).and_then(|stream| stream.peer_cred().ok()?.pid());
    let pid = peer.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(1);
    // A proxy's process, or the number in another numbering, would be somebody else's network.
    let is_engine = fs::read(proc_.join(pid.to_string()).join("comm")).is_ok_and(|name| name == b"dockerd\n");
    if is_engine { pid } else { 1 }
}

/// A file of the file system that has the engine's data: the data itself, or in a container of that engine the host
/// name's file, which is mounted from there.
pub fn data_of_engine(root_dir: &str) -> Option<PathBuf> {
    if root_dir.is_empty() {
        return None;
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path = PathBuf::from(if is_host_name_of(root_dir, &mounts) { HOST_NAME } else { root_dir });
    path.exists().then_some(path)
}

const HOST_NAME: &str = "/etc/hostname";

/// Whether a mount table has the host name's file out of an engine's data. Where the data is all of a file system the
/// table does not say whose it is: absent.
fn is_host_name_of(root_dir: &str, mountinfo: &str) -> bool {
    mountinfo.lines().any(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let data = root.split_once("/containers/").filter(|(_, rest)| rest.ends_with("/hostname"));
        point == HOST_NAME && data.is_some_and(|(data, _)| !data.is_empty() && root_dir.ends_with(data))
    })
}

#[cfg(test)]
mod tests;

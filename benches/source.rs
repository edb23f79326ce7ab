//! What a shipper costs, reading alone and end to end, against raw reads of the same files held open, in the same run.
//!
//! End to end is a tick over the node's containers, the outbox, a batch made, coded and sent over gRPC to a collectord
//! on loopback, and its answer taken: all on this thread, the collectord on another.
//!
//! Makes plain cgroups with a process each (named like containers, below `swarmstats-bench-PID`, removed at the end), so it
//! needs root and no engine. Both sides are measured in CPU time of this thread, taking turns in who is first.
//! Budgets (DESIGN §9): 1.5 × with all busy, 0.8 × with 9 of 10 idle.

mod common;

use common::served::{Served, runtime, start};
use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};
use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fs::{self, File},
    hint::black_box,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use swarmstats::{
    clock,
    grpc::{self, UpdateStream},
    model::NodeId,
    outbox::{Outbox, OutboxConfig, Reading},
    source::{
        self, Node,
        cgroup::{Host, Target},
        describe::Container,
        engine::api::Labels,
        node::{Machine, Places},
        table::Table,
    },
    stat::Level,
    wire::Answer,
};

const CONTAINERS: usize = 60;
const ROUNDS: usize = 30;
const PAUSE: Duration = Duration::from_millis(300);
/// A Prometheus' 15 s at a sample a second.
const SCRAPED_EVERY: usize = 15;
const ROLE: &str = "SWARMSTATS_BENCH_ROLE";

fn main() -> Result<(), Box<dyn Error>> {
    match env::var(ROLE).as_deref() {
        Ok("busy") => loop {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(200) {}
            sleep(Duration::from_millis(20));
        },
        Ok(_) => loop {
            sleep(Duration::from_secs(3600));
        },
        Err(_) => {}
    }
    if !rustix::process::geteuid().is_root() {
        return Err("making cgroups needs root: run this bench as root".into());
    }
    let served = start(1).remove(0);
    println!("µs of CPU per container and sample, {CONTAINERS} containers");
    for (what, every, budget) in [("all busy", 1, 1.5), ("9 of 10 idle", 10, 0.8)] {
        let Cost { reading, sending, raw, files } = measure(every, &served)?;
        let ratio = (reading + sending) / raw;
        let verdict = if ratio <= budget { "met" } else { "NOT MET" };
        println!(
            "{what:13} reading {reading:6.2}, outbox and sending {sending:6.2}; raw reads of the {files} files {raw:6.2}: \
             reading {:.2} ×, end to end {ratio:.2} ×   ≤ {budget} {verdict}",
            reading / raw
        );
    }
    println!("the machine's own figures {:6.2} µs a round", machine());
    Ok(())
}

/// µs per round of the machine's own figures, without the containers'.
fn machine() -> f64 {
    let places = Places { proc_: "/proc".into(), sys: "/sys".into(), network_of: 1, data: Some("/".into()) };
    let mut machine = Machine::new(places, Level::Standard);
    let begun = cpu_time();
    for _ in 0..ROUNDS {
        black_box(machine.read());
    }
    (cpu_time() - begun) as f64 / 1e3 / ROUNDS as f64
}

/// µs per container and sample, and how many files a container has.
struct Cost {
    reading: f64,
    sending: f64,
    raw: f64,
    files: usize,
}

/// One container of `every` is busy.
fn measure(every: usize, served: &Served) -> Result<Cost, Box<dyn Error>> {
    let group = Group::new(every)?;
    let mut table = Table::new(Host::new("/proc", "/sys")?, Level::Standard, CONTAINERS);
    let before = descriptors()?;
    for (number, (id, process)) in group.containers.iter().enumerate() {
        let labels = labels(number, id);
        let container = Container { id, name: id, image: "", labels: &labels, started_at: 0, shares_netns: false };
        let target = Target {
            container_id: id.clone(),
            pid: process.id(),
            cgroup_parent: String::new(),
            network: true,
            started_at: 0,
        };
        table.started(container.task(&node()?, &[])?, target, source::Life::default(), 0);
    }
    let files = opened(&before)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut shipping = Shipping::open(served)?;
    let (mut reading, mut sending, mut raw) = (0, 0, 0);
    for round in 0..ROUNDS {
        sleep(PAUSE);
        if round % SCRAPED_EVERY == 0 {
            let (mut page, mark) = served.collector.page().ok_or("it serves no pages")?;
            page.by_ref().for_each(drop);
            served.collector.scraped(mark, true, page.n_series());
        }
        for turn in [round % 2, 1 - round % 2] {
            let begun = cpu_time();
            if turn == 0 {
                let sampled = table.sample();
                let read = cpu_time();
                shipping.send(sampled)?;
                reading += read - begun;
                sending += cpu_time() - read;
            } else {
                for file in &files {
                    black_box(file.read_at(&mut buffer, 0)?);
                }
                raw += cpu_time() - begun;
            }
        }
    }
    let per = |nanos: u64| nanos as f64 / 1000.0 / (ROUNDS * CONTAINERS) as f64;
    Ok(Cost { reading: per(reading), sending: per(sending), raw: per(raw), files: files.len() / CONTAINERS })
}

/// What a shipper does with a round: the outbox, and a stream to the one member there is.
struct Shipping<'a> {
    outbox: Outbox,
    served: &'a Served,
    runtime: tokio::runtime::Runtime,
    stream: UpdateStream,
    k: u64,
}

impl Shipping<'_> {
    fn open(served: &Served) -> Result<Shipping<'_>, Box<dyn Error>> {
        let cfg = OutboxConfig {
            node_id: NodeId::new("bench")?,
            node_name: "bench".into(),
            started: clock::wall(),
            started_monotonic: clock::monotonic(),
            nonce: clock::process_nonce(),
            stats: Level::Standard.mask(),
            interval: common::SECOND,
            lease: 3 * common::SECOND,
            overlap: 10 * common::SECOND,
            row_keep: 86_400 * common::SECOND,
            max_catch_up: 120 * common::SECOND,
        };
        let (mut outbox, runtime) = (Outbox::new(cfg, common::ring(1)), runtime());
        let hello = outbox.hello(&served.member);
        let (stream, answer) = runtime.block_on(async {
            let channel = grpc::connect(&served.address()).await?;
            let mut stream = UpdateStream::open(channel, &hello, 8 << 20).await?;
            let answer = stream.next().await?;
            Ok::<_, Box<dyn Error>>((stream, answer))
        })?;
        let Answer::Greeting(greeting) = answer else { return Err("no greeting".into()) };
        outbox.greeted(&served.member, hello.k, &greeting, clock::monotonic(), clock::wall());
        Ok(Shipping { outbox, served, runtime, stream, k: hello.k })
    }

    fn send(&mut self, round: source::Round) -> Result<(), Box<dyn Error>> {
        let readings = round.readings.into_iter().map(|(meta, reading)| match reading {
            source::Reading::Fresh(values) => Reading { meta, values: Some(values), age: 0 },
            source::Reading::Aged { values, age } => Reading { meta, values: Some(values), age },
            source::Reading::Unread(_) => Reading { meta, values: None, age: 0 },
        });
        self.outbox.observe(round.monotonic, round.machine, readings, None);
        let member = &self.served.member;
        let batch = self.outbox.next_batch(member, clock::monotonic()).ok_or("no batch is due")?;
        let answer = self.runtime.block_on(async {
            self.stream.send(&batch).await?;
            self.stream.next().await
        })?;
        let Answer::Ack(ack) = answer else { return Err("no ack".into()) };
        self.outbox.acked(member, self.k, &ack, clock::monotonic());
        Ok(())
    }
}

/// Swarm's, three tasks of each service.
fn labels(number: usize, task: &str) -> Labels {
    let service = format!("shop_service{}", number / 3);
    let label = |name: &str, value: &str| (format!("com.docker.swarm.{name}"), value.to_string());
    let name = format!("{service}.{}.{task}", number % 3 + 1);
    [label("task.id", task), label("task.name", &name), label("service.id", &service), label("service.name", &service)]
        .into()
}

fn node() -> Result<Node, Box<dyn Error>> {
    Ok(Node { node_id: NodeId::new("bench")?, node_name: "bench".into() })
}

fn cpu_time() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

fn descriptors() -> Result<BTreeSet<PathBuf>, Box<dyn Error>> {
    Ok(fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.path()).collect())
}

/// The files that the table opened, opened once more: exactly the same ones.
fn opened(before: &BTreeSet<PathBuf>) -> Result<Vec<File>, Box<dyn Error>> {
    let new = descriptors()?;
    let paths = new.difference(before).filter_map(|descriptor| fs::read_link(descriptor).ok());
    Ok(paths.filter(|path| path.is_file()).map(File::open).collect::<Result<_, _>>()?)
}

/// Cgroups in every hierarchy, each with a process.
struct Group {
    folders: Vec<PathBuf>,
    containers: Vec<(String, Child)>,
}

impl Group {
    fn new(every: usize) -> Result<Group, Box<dyn Error>> {
        let top = Path::new("/sys/fs/cgroup");
        let unified = top.join("cgroup.controllers").exists();
        let mut folders: Vec<PathBuf> = if unified {
            vec![top.to_owned()]
        } else {
            // Mounted apart or together, under whatever name; `cpuset` takes no process without being set up first.
            let mounted = fs::read_dir(top)?.flatten().map(|entry| entry.path());
            let wanted = |path: &PathBuf| !path.ends_with("cpuset") && path.join("cgroup.procs").exists();
            mounted.filter(wanted).collect()
        };
        let own = format!("swarmstats-bench-{}", std::process::id());
        folders.iter_mut().for_each(|folder| folder.push(&own));
        let mut group = Group { folders, containers: Vec::new() };
        for folder in &group.folders {
            fs::create_dir_all(folder)?;
            if unified {
                fs::write(folder.join("cgroup.subtree_control"), "+cpu +memory +io +pids")?;
            }
        }
        for n in 0..CONTAINERS {
            let role = if n % every == 0 { "busy" } else { "idle" };
            // A network namespace of its own, as a container has.
            let mut command = Command::new("unshare");
            let process = command.arg("--net").arg(env::current_exe()?).env(ROLE, role).stdin(Stdio::null()).spawn()?;
            let (id, pid) = (format!("{n:064x}"), process.id().to_string());
            group.containers.push((id.clone(), process));
            for folder in group.folders.iter().map(|folder| folder.join(&id)) {
                fs::create_dir_all(&folder)?;
                fs::write(folder.join("cgroup.procs"), &pid)?;
            }
        }
        sleep(Duration::from_secs(1));
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for (_, process) in &mut self.containers {
            kill_process(Pid::from_child(process), Signal::KILL).ok();
            process.wait().ok();
        }
        for folder in &self.folders {
            for (id, _) in &self.containers {
                fs::remove_dir(folder.join(id)).ok();
            }
            fs::remove_dir(folder).ok();
        }
    }
}

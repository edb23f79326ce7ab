//! One long look at the lab under steady load, that several tests judge: two minutes, in which the windows overlap.
//!
//! | seconds | what |
//! |---|---|
//! | 0 – 122 | two Prometheus servers scrape; the kernel's CPU counters at both ends |
//! | 0 – 10 | memory, docker stats and our table |
//! | 10 – 35 | the engine's own CPU records at both ends |
//! | 36 – 99 | the third engine (dockerd and containerd) is stopped |

use crate::env::{Finally, Lab, items, lab, now, output, signal, stat, text};
use crate::kernel::{Kernel, cpu_of_service};
use crate::servers::SERVERS;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    process::Command,
    sync::LazyLock,
    thread::{scope, sleep},
    time::{Duration, Instant},
};
use swarmstats::source::parse;

/// Made when a test first needs it.
pub(crate) static OBSERVATION: LazyLock<Observation> = LazyLock::new(observe);

/// The node whose engine is frozen, counted from 0.
pub(crate) const FROZEN: usize = 2;
/// Services that burn CPU all the time.
pub(crate) const BUSY: [&str; 2] = ["lab_burn", "lab_traffic"];

pub(crate) struct Observation {
    pub(crate) cpu: Vec<CpuWindow>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) docker: Vec<Beside>,
    pub(crate) frozen: Vec<Frozen>,
    pub(crate) increases: Vec<Increase>,
}

/// CPU of one task over a window: per cent of one CPU, and the window's own length.
pub(crate) struct CpuWindow {
    pub(crate) task: String,
    pub(crate) engine: (f64, f64),
    pub(crate) ours: (f64, f64),
    /// How far the windows' ends lie apart, at most, in seconds.
    pub(crate) apart: f64,
}

/// Memory of one task between the kernel's extremes around it, in bytes.
pub(crate) struct Memory {
    pub(crate) task: String,
    pub(crate) lowest: f64,
    pub(crate) ours: f64,
    pub(crate) highest: f64,
}

/// docker stats' columns of one task, before and after ours.
pub(crate) struct Beside {
    pub(crate) task: String,
    pub(crate) earlier: Value,
    pub(crate) ours: Value,
    pub(crate) later: Value,
}

/// A task's counter between two readings of the kernel, while its engine was frozen.
pub(crate) struct Frozen {
    pub(crate) after: f64,
    pub(crate) task: String,
    pub(crate) state: String,
    pub(crate) earlier: f64,
    pub(crate) ours: f64,
    pub(crate) later: f64,
}

/// CPU of a service over two minutes: by the kernel, and by each Prometheus.
pub(crate) struct Increase {
    pub(crate) service: &'static str,
    pub(crate) kernel: f64,
    pub(crate) prometheus: Vec<f64>,
}

fn observe() -> Observation {
    let lab = lab();
    LazyLock::force(&SERVERS);
    // So that the manager does not take the frozen node for dead; nodes hear of it with their next heartbeat.
    lab.docker(0, "swarm update --dispatcher-heartbeat 60s");
    let _heartbeat = Finally(|| drop(lab.docker(0, "swarm update --dispatcher-heartbeat 5s")));
    let began = Instant::now();
    let cpu_before = BUSY.map(|service| cpu_of_service(&lab, service).0);
    let memory = memory(&lab);
    let docker = beside_docker(&lab);
    let cpu = cpu_windows(&lab);
    let frozen = frozen(&lab);
    sleep(Duration::from_secs(120).saturating_sub(began.elapsed()));
    let (end, cpu_after) = (now(), BUSY.map(|service| cpu_of_service(&lab, service).0));
    let seconds = began.elapsed().as_secs_f64();
    sleep(Duration::from_secs(1));
    let increase = |(place, service): (usize, &'static str)| {
        let of_service = |server: &crate::servers::Server| {
            let series = format!("swarmstats_service_cpu_seconds_total{{service_name=\"{service}\"}}");
            let query = format!("sum by (service_name) (increase({series}[{seconds:.0}s]))");
            server.query(&query, Some(end)).first().map_or(f64::NAN, |(_, value)| *value)
        };
        let prometheus = SERVERS.iter().map(of_service).collect();
        Increase { service, kernel: cpu_after[place] - cpu_before[place], prometheus }
    };
    let increases = BUSY.into_iter().enumerate().map(increase).collect();
    Observation { cpu, memory, docker, frozen, increases }
}

fn memory(lab: &Lab) -> Vec<Memory> {
    let steady = |task: &Value| ["lab_hold", "lab_tmpfs", "lab_burn"].contains(&text(task, "service_name"));
    let mut seen: BTreeMap<String, (f64, f64, f64)> = BTreeMap::new();
    let mut look = |tasks: &[Value]| {
        for task in tasks.iter().filter(|task| steady(task)) {
            let (used, ours) = (Kernel::of(task).memory_used(), stat(task, "memory_used_bytes").unwrap());
            let (lowest, highest, newest) = seen.entry(text(task, "name").into()).or_insert((used, used, ours));
            (*lowest, *highest, *newest) = (lowest.min(used), highest.max(used), ours);
        }
    };
    let mut tasks = lab.tasks(0);
    for round in 0..10 {
        // Our reading is the one of the middle, at most an interval old: the kernel was read before it and after it.
        if round <= 6 {
            tasks = lab.tasks(0);
        }
        look(&tasks);
        sleep(Duration::from_millis(250));
    }
    seen.into_iter().map(|(task, (lowest, highest, ours))| Memory { task, lowest, ours, highest }).collect()
}

fn beside_docker(lab: &Lab) -> Vec<Beside> {
    let earlier = docker_stats(lab);
    // Longer than the counters of an idle task may be old: read once in three rounds, and told over as many.
    sleep(Duration::from_secs(6));
    let tasks = lab.tasks(0);
    let table = Command::new(env!("CARGO_BIN_EXE_docker-swarmstats"))
        .args(["task", "--no-stream", "--host", &lab.routers()[0]])
        .output()
        .unwrap();
    let later = docker_stats(lab);
    println!("docker swarmstats task --no-stream:\n{}", String::from_utf8_lossy(&table.stdout));
    let beside = |ours: Value| {
        let id = text(&ours, "container_id");
        let line = |stats: &BTreeMap<String, Value>| stats.get(id).cloned().unwrap_or_default();
        Beside { task: text(&ours, "name").into(), earlier: line(&earlier), later: line(&later), ours }
    };
    tasks.into_iter().map(beside).collect()
}

/// `docker stats --no-stream` of every engine, by container id.
fn docker_stats(lab: &Lab) -> BTreeMap<String, Value> {
    let stats = |node: usize| {
        let mut docker = Command::new("docker");
        docker.arg("-H").arg(format!("unix://{}", lab.engine(node).display()));
        docker.args(["stats", "--no-stream", "--no-trunc", "--format", "{{json .}}"]);
        output(docker)
    };
    let all: Vec<String> = scope(|scope| {
        let threads: Vec<_> = (0..lab.nodes().len()).map(|node| scope.spawn(move || stats(node))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let lines = all.iter().flat_map(|text| text.lines());
    let by_id = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        (text(&line, "ID").to_owned(), line)
    };
    lines.map(by_id).collect()
}

/// A CPU counter: when it was read, in seconds since the Unix epoch, and the seconds used.
type Reading = (f64, f64);

/// The engine's record and our figure of each task, twice.
fn cpu_windows(lab: &Lab) -> Vec<CpuWindow> {
    let tasks = lab.tasks(0);
    let first = engine_and_ours(lab, &tasks);
    sleep(Duration::from_secs(23));
    let last = engine_and_ours(lab, &tasks);
    let percent = |from: Reading, to: Reading| (100.0 * (to.1 - from.1) / (to.0 - from.0), to.0 - from.0);
    let window = |place: usize| {
        let ((engine_first, ours_first), (engine_last, ours_last)) = (first[place], last[place]);
        CpuWindow {
            task: text(&tasks[place], "name").into(),
            engine: percent(engine_first, engine_last),
            ours: percent(ours_first, ours_last),
            apart: (engine_first.0 - ours_first.0).abs().max((engine_last.0 - ours_last.0).abs()),
        }
    };
    (0..tasks.len()).map(window).collect()
}

/// Of each task the engine's record, and of our readings around it the nearest.
fn engine_and_ours(lab: &Lab, tasks: &[Value]) -> Vec<(Reading, Reading)> {
    let mut ours = vec![our_cpu(lab, tasks)];
    let mut look = || {
        sleep(Duration::from_millis(200));
        ours.push(our_cpu(lab, tasks));
    };
    let engine = scope(|scope| {
        let engine = scope.spawn(|| engine_cpu(lab, tasks));
        while !engine.is_finished() {
            look();
        }
        engine.join().unwrap()
    });
    (0..4).for_each(|_| look());
    let nearest = |(place, engine): (usize, Reading)| {
        let apart = |reading: &Reading| (reading.0 - engine.0).abs();
        let readings = ours.iter().map(|readings| readings[place]);
        (engine, readings.min_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap())
    };
    engine.into_iter().enumerate().map(nearest).collect()
}

/// By the engine's own records and their `read` stamps. It takes its time for each, so all are asked at once.
fn engine_cpu(lab: &Lab, tasks: &[Value]) -> Vec<Reading> {
    let record = |task: &Value| {
        let record = lab.record(lab.node(text(task, "node_name")), text(task, "container_id"));
        let read = parse::rfc3339(text(&record, "read")).expect("a time") as f64 / 1e9;
        (read, record["cpu_stats"]["cpu_usage"]["total_usage"].as_f64().unwrap() / 1e9)
    };
    scope(|scope| {
        let threads: Vec<_> = tasks.iter().map(|task| scope.spawn(move || record(task))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// By the router: the newest reading of each task.
fn our_cpu(lab: &Lab, tasks: &[Value]) -> Vec<Reading> {
    let ours = lab.tasks(0);
    let asked = now();
    let reading = |task: &Value| {
        let ours = ours.iter().find(|ours| ours["id"] == task["id"]).unwrap();
        (asked - ours["age_seconds"].as_f64().unwrap(), stat(ours, "cpu_seconds_total").unwrap())
    };
    tasks.iter().map(reading).collect()
}

fn frozen(lab: &Lab) -> Vec<Frozen> {
    let node = &lab.nodes()[FROZEN];
    let pids = [format!("n{}/engine.pid", FROZEN + 1), format!("n{}/exec/containerd/containerd.pid", FROZEN + 1)];
    let pids = pids.map(|name| lab.pid(&name));
    let thaw = Finally(|| pids.into_iter().for_each(|pid| signal(pid, "CONT")));
    pids.into_iter().for_each(|pid| signal(pid, "STOP"));
    let began = Instant::now();
    let mut seen = Vec::new();
    let on_node = |router: usize| -> Vec<Value> {
        let tasks = items(&lab.ask(router, "/v1/tasks"), "tasks");
        tasks.into_iter().filter(|task| task["node_name"] == **node && task["state"] != "ended").collect()
    };
    for after in [5, 20, 40, 60] {
        sleep(Duration::from_secs(after).saturating_sub(began.elapsed()));
        let cpu = |tasks: &[Value]| tasks.iter().map(|task| Kernel::of(task).cpu()).collect::<Vec<_>>();
        let before = on_node(0);
        let earlier = cpu(&before);
        sleep(Duration::from_millis(2500)); // a sample and its way are in it
        let tasks = on_node(0);
        let later = cpu(&tasks);
        for (task, (earlier, later)) in tasks.iter().zip(earlier.iter().zip(&later)) {
            let (name, state) = (text(task, "name").into(), text(task, "state").into());
            let ours = stat(task, "cpu_seconds_total").unwrap_or(f64::NAN);
            let after = began.elapsed().as_secs_f64();
            seen.push(Frozen { after, task: name, state, earlier: *earlier, ours, later: *later });
        }
    }
    drop(thaw);
    seen
}

//! The reader on a real kernel under a real engine: its figures against the engine's own, and what happens when
//! containers come and go and the engine freezes or dies.
//!
//! Starts an engine of its own (socket, data and containers in a temporary folder) and ends it. Needs root, and the
//! programs that [`engine::Engine::start`] names; it installs nothing.

#![allow(clippy::unwrap_used, reason = "a test's helpers may")]

mod engine;

use engine::Engine;
use std::time::{Duration, Instant};
use swarmstats::{
    model::Values,
    source::{
        Config, Docker, Ended, Fault, Reading, Round,
        cgroup::{Host, Target},
        describe::Include,
        ending::Ending,
        engine::{Engine as Client, api::Stats},
        files::Controller,
        parse,
    },
    stat::{self, Level, Stat},
};
use tokio::task::JoinHandle;

/// A shipper's source beside an engine.
struct Source {
    docker: Docker,
    ended: Vec<Ended>,
    discovery: JoinHandle<()>,
}

impl Drop for Source {
    fn drop(&mut self) {
        self.discovery.abort();
    }
}

impl Source {
    async fn beside(engine: &Engine, change: impl FnOnce(Config) -> Config) -> Source {
        let config = Config {
            socket: engine.socket(),
            include: Include::All,
            level: Level::All,
            relist: Duration::from_secs(2),
            ..Config::default()
        };
        let (docker, discovery) = Docker::connect(change(config)).await.expect("the engine answers");
        let run = discovery.run(|| std::iter::repeat(Duration::from_millis(100)));
        let discovery = tokio::spawn(async move { panic!("{}", run.await) });
        Source { docker, ended: Vec::new(), discovery }
    }

    fn sample(&mut self) -> Round {
        let mut round = self.docker.sample();
        self.ended.append(&mut round.ended);
        round
    }

    /// Samples every 50 ms until `found` finds what it looks for.
    async fn until<T>(&mut self, what: &str, mut found: impl FnMut(&Round, &[Ended]) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            let round = self.sample();
            if let Some(found) = found(&round, &self.ended) {
                return found;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "not within 20 s: {what}; last {round:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn values(&mut self, name: &str) -> Values {
        self.until(name, |round, _| fresh(round, name)).await
    }
}

fn fresh(round: &Round, name: &str) -> Option<Values> {
    round.readings.iter().find(|(meta, _)| &*meta.task_name == name).and_then(|(_, reading)| match reading {
        Reading::Fresh(values) => Some(values.clone()),
        _ => None,
    })
}

fn ended(ended: &[Ended], name: &str) -> Option<Ended> {
    ended.iter().find(|ended| &*ended.meta.task_name == name).cloned()
}

/// The engine's record of a container.
async fn record(engine: &Engine, name: &str) -> Stats {
    let client = Client::new(&engine.socket(), None).unwrap();
    client.negotiate(false).await.unwrap();
    client.stats(name).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_and_lives_of_containers_under_a_real_engine() {
    let mut engine = Engine::start();
    figures_are_the_engines(&engine).await;
    cpu_time_over_a_window_is_the_engines(&engine).await;
    networks_are_whose_they_are(&engine).await;
    lives_are_told(&engine).await;
    without_the_kernel_the_engine_is_asked(&engine).await;
    an_engine_that_freezes_or_dies_stops_no_reading(&mut engine).await;
}

/// A paused container stands still, so that every figure must be the same to the digit.
async fn figures_are_the_engines(engine: &Engine) {
    engine.run("still", "--network lab -m 64m --cpus 0.5 --pids-limit 50 --shm-size 64m", BURN);
    tokio::time::sleep(Duration::from_secs(2)).await;
    engine.docker("pause still");
    let mut source = Source::beside(engine, |config| config).await;
    let (ours, theirs) = at_rest(&mut source, engine, "still").await;
    let cpu = &theirs.cpu_stats;
    let memory = &theirs.memory_stats;
    let (eth0, stats) = (&theirs.networks.as_ref().unwrap()["eth0"], |key: &str| memory.stats.get(key).copied());
    let either = |v1: &str, v2: &str| stats(v1).or(stats(v2));
    let same: &[(Stat, Option<u64>)] = &[
        (stat::CPU, cpu.cpu_usage.total_usage),
        (stat::CPU_USER, cpu.cpu_usage.usage_in_usermode),
        (stat::CPU_SYSTEM, cpu.cpu_usage.usage_in_kernelmode),
        (stat::CPU_PERIODS, cpu.throttling_data.periods),
        (stat::THROTTLED_PERIODS, cpu.throttling_data.throttled_periods),
        (stat::THROTTLED, cpu.throttling_data.throttled_time),
        (stat::MEMORY_USAGE, memory.usage),
        (stat::MEMORY_USED, memory.usage.zip(either("total_inactive_file", "inactive_file")).map(|(u, i)| u - i)),
        (stat::MEMORY_ANON, either("total_rss", "anon")),
        (stat::MEMORY_FILE, either("total_cache", "file")),
        (stat::PAGE_FAULTS, either("total_pgfault", "pgfault")),
        (stat::MEMORY_LIMIT, Some(64 << 20)),
        (stat::CPU_LIMIT, Some(500_000_000)),
        (stat::PIDS, theirs.pids_stats.current),
        (stat::PIDS_LIMIT, Some(50)),
        (stat::RX_BYTES, Some(eth0.rx_bytes)),
        (stat::RX_PACKETS, Some(eth0.rx_packets)),
        (stat::TX_BYTES, Some(eth0.tx_bytes)),
    ];
    for (stat, expected) in same {
        assert!(expected.is_some(), "the engine has {stat:?}");
        assert_eq!(ours.get(*stat), *expected, "{stat:?}");
    }
    let block = |letter: &str| {
        let rows = theirs.blkio_stats.io_service_bytes_recursive.iter();
        rows.filter(|row| row.op.to_lowercase().starts_with(letter)).map(|row| row.value).sum::<u64>()
    };
    assert_eq!((ours.get(stat::BLOCK_READ), ours.get(stat::BLOCK_WRITTEN)), (Some(block("r")), Some(block("w"))));
    // 8 MiB in /dev/shm count as used.
    assert!(ours.or_zero(stat::MEMORY_USED) > 8 << 20);
    assert!(ours.or_zero(stat::START_TIME).abs_diff(parse::rfc3339(&theirs.read).unwrap()) < 60_000_000_000);
    println!("docker stats of the paused container:\n{}\nours: {ours:?}", engine.docker("stats --no-stream still"));
    engine.docker("rm -f still");
}

/// Our figures of a container between two records of the engine that say the same: the kernel moves a page, or a
/// frame comes in, now and then even where nothing runs. Such a counter is read within [`IDLE_ROUNDS`] rounds, and told
/// over as much time as passed since it was read before: longer than that is waited for.
///
/// [`IDLE_ROUNDS`]: swarmstats::source::reader::IDLE_ROUNDS
async fn at_rest(source: &mut Source, engine: &Engine, name: &str) -> (Values, Stats) {
    loop {
        let begun = std::time::Instant::now();
        for _ in 0..=swarmstats::source::reader::IDLE_ROUNDS {
            source.values(name).await; // read before this moment, and maybe risen since a reading of before that
        }
        let before = record(engine, name).await;
        for _ in 0..swarmstats::source::reader::IDLE_ROUNDS {
            source.values(name).await;
        }
        tokio::time::sleep(begun.elapsed()).await;
        let ours = source.values(name).await;
        let after = record(engine, name).await;
        if before == (Stats { read: before.read.clone(), ..after.clone() }) {
            return (ours, after);
        }
    }
}

/// Writes 8 MiB to memory, then spins.
const BURN: &str = "dd if=/dev/zero of=/dev/shm/y bs=1M count=8; while :; do :; done";

/// Both divide by their own elapsed time: theirs from the record's stamps.
async fn cpu_time_over_a_window_is_the_engines(engine: &Engine) {
    engine.run("burn", "--cpus 0.4", "while :; do :; done");
    let mut source = Source::beside(engine, |config| config).await;
    source.values("burn").await;
    let stamp =
        |record: &Stats| (parse::rfc3339(&record.read).unwrap(), record.cpu_stats.cpu_usage.total_usage.unwrap());
    let mut both = Vec::new();
    for _ in 0..2 {
        let round = source.sample();
        both.push((
            (round.monotonic, fresh(&round, "burn").unwrap().or_zero(stat::CPU)),
            stamp(&record(engine, "burn").await),
        ));
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let share = |(t0, cpu0): (u64, u64), (t1, cpu1): (u64, u64)| (cpu1 - cpu0) as f64 / (t1 - t0) as f64 * 100.0;
    let (ours, theirs) = (share(both[0].0, both[1].0), share(both[0].1, both[1].1));
    println!("CPU % over 10 s: ours {ours:.2}, the engine's {theirs:.2}");
    assert!((ours - theirs).abs() < (theirs * 0.02).max(0.5), "{ours} against {theirs}");
    engine.docker("rm -f burn");
}

async fn networks_are_whose_they_are(engine: &Engine) {
    engine.run("owner", "--network lab", "sleep 1000");
    engine.run("guest", "--network container:owner", "sleep 1000");
    engine.run("host", "--network host", "sleep 1000");
    engine.run("by-way-of-host", "--network container:host", "sleep 1000");
    engine.run("none", "--network none", "sleep 1000");
    let mut source = Source::beside(engine, |config| config).await;
    let round = source.until("five containers", |round, _| {
        let fresh = round.readings.iter().filter(|(_, reading)| matches!(reading, Reading::Fresh(_))).count();
        (fresh == 5).then(|| Round {
            monotonic: 0,
            machine: Values::default(),
            readings: round.readings.clone(),
            ended: Vec::new(),
        })
    });
    let round = round.await;
    let of = |name: &str| {
        let (meta, _) = round.readings.iter().find(|(meta, _)| &*meta.task_name == name).unwrap();
        (fresh(&round, name).unwrap().get(stat::RX_BYTES), meta.shares_netns)
    };
    let (bytes, shares) = of("owner");
    assert!(bytes.is_some() && !shares);
    assert_eq!(of("guest"), (bytes, true));
    assert_eq!(of("host").0, None);
    assert_eq!(of("none"), (None, false));
    // A guest met before its owner is known does not know better; it never counts in sums.
    let guest_of_host = of("by-way-of-host");
    assert!(guest_of_host.0.is_none() || guest_of_host.1, "{guest_of_host:?}");
    engine.docker("rm -f owner guest host by-way-of-host none");
}

async fn lives_are_told(engine: &Engine) {
    let mut source = Source::beside(engine, |config| config).await;

    // Over within a tick: no sample is taken in between. It says itself how long it was on a CPU, in ns.
    engine.run("short", "", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; cat /proc/1/schedstat; exit 7");
    engine.docker("wait short");
    let said: u64 = engine.docker("logs short").split(' ').next().unwrap().parse().unwrap();
    let short = source.until("the short one's end", |_, all| ended(all, "short")).await;
    assert_eq!(short.exit.code, Some(7));
    let seen = short.last.as_ref().map_or(0, |last| last.or_zero(stat::CPU));
    println!("short: {seen} ns of {said} seen, unseen tail {:?}", short.unseen_tail);
    match short.unseen_tail {
        // The rest is the runtime's part in starting it, and its own ending.
        None => assert!(seen >= said && seen < said + 200_000_000, "{seen} of {said}"),
        Some(_) => assert!(source.docker.faults().of(Fault::UnseenTail) > 0),
    }

    engine.run("burn", "", "while :; do :; done");
    source.values("burn").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seen = source.values("burn").await;
    engine.docker("kill burn");
    let burn = source.until("the end of burn", |_, all| ended(all, "burn")).await;
    let last = burn.last.unwrap();
    println!(
        "burn: last {:?} after {:?}, unseen tail {:?}",
        last.get(stat::CPU),
        seen.get(stat::CPU),
        burn.unseen_tail
    );
    assert_eq!(burn.exit.code, Some(137));
    assert!(last.get(stat::CPU) >= seen.get(stat::CPU));

    the_kernel_tells_the_end(engine).await;

    // Started again in place: the same container, another incarnation, counters from 0.
    engine.docker("start burn");
    let again = source.until("burn again", |round, _| {
        fresh(round, "burn")
            .zip(round.readings.iter().find(|(meta, _)| &*meta.task_name == "burn").map(|(meta, _)| meta.clone()))
    });
    let (values, meta) = again.await;
    assert!(!meta.same_incarnation(&burn.meta) && meta.container_id == burn.meta.container_id);
    assert!(values.or_zero(stat::CPU) < last.or_zero(stat::CPU));
    engine.docker("restart -t 0 burn");
    source
        .until("the second end of burn", |_, all| {
            all.iter().filter(|ended| &*ended.meta.task_name == "burn").nth(1).cloned()
        })
        .await;

    // A limit that is changed shows at once.
    engine.docker("update --cpus 0.7 burn");
    source
        .until("the new limit", |round, _| (fresh(round, "burn")?.get(stat::CPU_LIMIT)? == 700_000_000).then_some(()))
        .await;

    // Paused is alive; an interface that is detached takes nothing with it.
    engine.docker("network connect lab burn");
    tokio::time::sleep(Duration::from_secs(1)).await;
    engine.docker("pause burn");
    let before = source.values("burn").await;
    engine.docker("unpause burn");
    engine.docker("network disconnect lab burn");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = source.values("burn").await;
    for stat in [stat::RX_BYTES, stat::RX_PACKETS, stat::TX_BYTES] {
        assert!(before.get(stat).is_some() && after.get(stat) >= before.get(stat), "{stat:?}: {before:?} {after:?}");
    }

    engine.docker("rm -f burn");
    source.until("nobody left", |round, _| round.readings.is_empty().then_some(())).await;
    let ends = source.ended.iter().filter(|ended| &*ended.meta.task_name == "burn").count();
    assert_eq!(ends, 3, "each incarnation is told to be over once: {:?}", source.ended);
    assert_eq!(source.docker.faults().of(Fault::Malformed), 0);
}

/// Where the first process cannot be seen, as from inside a container, `cgroup.events` tells; where there is no v2
/// cgroup either, nothing is awaited.
async fn the_kernel_tells_the_end(engine: &Engine) {
    engine.run("ending", "", "sleep 2");
    let container_id = engine.docker("inspect -f {{.Id}} ending").trim().to_owned();
    let pid = engine.docker("inspect -f {{.State.Pid}} ending").trim().parse().unwrap();
    let target = Target { container_id, pid, cgroup_parent: String::new(), network: true, started_at: 0 };
    let place = Host::new("/proc", "/sys").unwrap().place(&target).0;
    let unified = place.of(Controller::Pressure).map(|(_, directory)| directory);
    assert!(matches!(Ending::of(&target, unified), Some(Ending::Process(_))));
    let hidden = Ending::of(&Target { pid: 0, ..target }, unified);
    assert_eq!(hidden.is_some(), unified.is_some());
    if let Some(ending) = hidden {
        let begun = Instant::now();
        tokio::time::timeout(Duration::from_secs(10), ending.come()).await.expect("the kernel tells of the end");
        assert!(begun.elapsed() > Duration::from_millis(500), "and not before it");
    }
    engine.docker("rm -f ending");
}

async fn without_the_kernel_the_engine_is_asked(engine: &Engine) {
    engine.run("unseen", "--network lab -m 64m", "while :; do sleep 1; done");
    let mut source = Source::beside(engine, |config| Config { host_sys: "/nonexistent".into(), ..config }).await;
    let values = source.until("the engine's record", |round, _| match &round.readings.first()?.1 {
        Reading::Aged { values, age } if *age < 3_000_000_000 => Some(values.clone()),
        _ => None,
    });
    let values = values.await;
    assert_eq!(values.get(stat::MEMORY_LIMIT), Some(64 << 20));
    assert!(values.or_zero(stat::CPU) > 0 && values.get(stat::RX_BYTES).is_some() && values.get(stat::PIDS).is_some());
    assert_eq!(source.docker.faults().of(Fault::Unseen), 1);
    engine.docker("rm -f unseen");
    source.until("its end", |_, all| ended(all, "unseen")).await;
}

async fn an_engine_that_freezes_or_dies_stops_no_reading(engine: &mut Engine) {
    engine.run("steady", "--network lab", "while :; do :; done");
    let mut source = Source::beside(engine, |config| config).await;
    source.values("steady").await;
    let advances = async |source: &mut Source, what: &str| {
        let before = source.values("steady").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let round = source.sample();
        let after = fresh(&round, "steady").unwrap_or_else(|| panic!("{what}: {round:?}"));
        assert!(after.or_zero(stat::CPU) > before.or_zero(stat::CPU) + 50_000_000, "{what}");
    };
    engine.freeze();
    for _ in 0..4 {
        advances(&mut source, "frozen").await;
    }
    engine.thaw();
    engine.run("after", "", "sleep 1000");
    source.values("after").await;

    engine.kill();
    for _ in 0..2 {
        advances(&mut source, "dead").await;
    }
    engine.start_again();
    engine.run("new", "", "sleep 1000");
    source.values("new").await;
    advances(&mut source, "back").await;
    assert!(source.ended.is_empty(), "the engine keeps its containers over its own death: {:?}", source.ended);
    assert!(source.docker.faults().of(Fault::Engine) > 0);
    engine.docker("rm -f steady after new");
    source.until("all over", |round, _| round.readings.is_empty().then_some(())).await;
    assert_eq!(source.ended.len(), 3);
}

//! What is done to whom, and when: made from a seed alone, so that a seed is the whole schedule.

use crate::env::{Lab, root, signal};
use crate::rng::Rng;
use crate::tier::{COLLECTORS, SHIPPERS, Tier, node_of};
use std::{
    collections::BTreeMap,
    fs,
    process::Command,
    thread::{scope, sleep},
    time::{Duration, Instant},
};

/// A disturbance that heals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// SIGKILL, and a start.
    Kill(String),
    /// SIGSTOP and SIGCONT.
    Freeze(String),
    /// SIGTERM, waited for, and a start.
    Restart(String),
    /// SIGKILL of dockerd, and a start: its containers end with it.
    KillEngine(usize),
    FreezeEngine(usize),
    /// The link of a node down.
    Cut(usize),
    /// What the first node sends to the second is lost.
    OneWay(usize, usize),
    /// Tasks end and begin.
    Scale(&'static str, u64),
}

/// An act: when, for how long.
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) act: Act,
}

/// The schedule of a seed; the last heals at `length`. Where shippers are spared, what would end one freezes it.
pub(crate) fn plan(seed: u64, length: Duration, spare_shippers: bool) -> Vec<Planned> {
    let (mut rng, mut plan, mut at) = (Rng::new(seed), Vec::new(), 1000);
    let mut busy: BTreeMap<String, u64> = BTreeMap::new();
    let end = u64::try_from(length.as_millis()).unwrap();
    let processes: Vec<String> = COLLECTORS.iter().chain(&SHIPPERS).map(|name| (*name).to_owned()).collect();
    loop {
        let lasts = rng.between(300, 8000);
        let (name, node) = (rng.pick(&processes).unwrap(), usize::try_from(rng.below(3)).unwrap());
        let spared = spare_shippers && name.starts_with('s');
        let act = match rng.below(16) {
            0..4 | 7..9 if spared => Act::Freeze(name),
            0..4 => Act::Kill(name),
            4..7 => Act::Freeze(name),
            7..9 => Act::Restart(name),
            9 => Act::KillEngine(node),
            10 => Act::FreezeEngine(node),
            11 | 12 => Act::Cut(node),
            13 => Act::OneWay(node, (node + 1 + usize::try_from(rng.below(2)).unwrap()) % 3),
            14 => Act::Scale("lab_burn", rng.between(2, 8)),
            _ => Act::Scale("lab_hold", rng.between(2, 7)),
        };
        // What was hit has to have come back before it is hit again; an engine takes its time.
        let target = match &act {
            Act::Kill(name) | Act::Freeze(name) | Act::Restart(name) => name.clone(),
            Act::KillEngine(node) | Act::FreezeEngine(node) => format!("engine {node}"),
            Act::Cut(node) | Act::OneWay(node, _) => format!("link {node}"),
            Act::Scale(service, _) => (*service).to_owned(),
        };
        let back = if matches!(act, Act::KillEngine(_)) { 30_000 } else { 12_000 };
        if at + lasts > end {
            return plan;
        }
        if busy.get(&target).is_none_or(|until| *until <= at) {
            busy.insert(target, at + lasts + back);
            plan.push(Planned { at: Duration::from_millis(at), lasts: Duration::from_millis(lasts), act });
            at += rng.between(700, 3500);
        } else {
            at += 100;
        }
    }
}

/// Does all of it, and has healed all of it in the end.
pub(crate) fn carry_out(plan: &[Planned], tier: &Tier, lab: &Lab) {
    let began = Instant::now();
    scope(|scope| {
        for planned in plan {
            sleep(planned.at.saturating_sub(began.elapsed()));
            println!("{:6.1} s: {:?} for {:.1?}", began.elapsed().as_secs_f64(), planned.act, planned.lasts);
            scope.spawn(|| carry_out_one(planned, tier, lab));
        }
    });
}

fn carry_out_one(planned: &Planned, tier: &Tier, lab: &Lab) {
    let hit = match &planned.act {
        Act::Kill(name) | Act::Freeze(name) | Act::Restart(name) => vec![name.clone()],
        Act::Cut(node) => on(*node),
        Act::KillEngine(node) | Act::FreezeEngine(node) => vec![format!("engine {node}")],
        Act::OneWay(from, _) => vec![format!("link {from}")],
        Act::Scale(service, _) => vec![(*service).to_owned()],
    };
    tier.trouble(&hit);
    match &planned.act {
        Act::Kill(name) => {
            tier.kill(name);
            sleep(planned.lasts);
            tier.begin(name);
        }
        Act::Freeze(name) => {
            let pid = tier.pid(name);
            frozen(pid, planned.lasts);
        }
        Act::Restart(name) => {
            tier.end(name);
            tier.begin(name);
        }
        Act::KillEngine(node) => {
            signal(engine(*node), "KILL");
            sleep(planned.lasts);
            lab.start(&format!("n{}", node + 1));
        }
        Act::FreezeEngine(node) => frozen(engine(*node), planned.lasts),
        Act::Cut(node) => {
            let link = format!("swarmstats-v{}", node + 1);
            run("ip", &["link", "set", &link, "down"]);
            sleep(planned.lasts);
            run("ip", &["link", "set", &link, "up"]);
        }
        Act::OneWay(from, to) => {
            let rule = |verb| drop_rule(*from, verb, &format!("10.77.0.1{}", to + 1), None);
            rule("-I");
            sleep(planned.lasts);
            rule("-D");
        }
        Act::Scale(service, n) => drop(docker_scale(service, *n)),
    }
    tier.over(&hit);
}

/// The collectors and the shipper of a node.
fn on(node: usize) -> Vec<String> {
    COLLECTORS.iter().chain(&SHIPPERS).filter(|name| node_of(name) == node).map(|name| (*name).to_owned()).collect()
}

fn frozen(pid: u32, lasts: Duration) {
    signal(pid, "STOP");
    sleep(lasts);
    signal(pid, "CONT");
}

/// dockerd itself, as its pid file says.
fn engine(node: usize) -> u32 {
    let place = root().join(format!("target/lab/n{}/engine.pid", node + 1));
    fs::read_to_string(place).unwrap().trim().parse().unwrap()
}

/// `-I` or `-D`: an address gets nothing from a node, or from one group's processes there.
pub(crate) fn drop_rule(node: usize, verb: &str, to: &str, group: Option<u32>) {
    let pid = fs::read_to_string(root().join(format!("target/lab/n{}/node.pid", node + 1))).unwrap();
    let owner = group.map(|group| format!("-m owner --gid-owner {group} ")).unwrap_or_default();
    let words = format!("-t {} --net iptables -w {verb} OUTPUT -p tcp -d {to} {owner}-j DROP", pid.trim());
    run("nsenter", &words.split(' ').collect::<Vec<_>>());
}

/// A manager that is away scales nothing: then nothing happens, and that is no fault.
fn docker_scale(service: &str, n: u64) -> bool {
    let socket = format!("unix://{}", root().join("target/lab/n1/docker.sock").display());
    let scale = Command::new("timeout")
        .args(["5", "docker", "-H", &socket, "service", "scale", "--detach", &format!("{service}={n}")])
        .output();
    scale.is_ok_and(|output| output.status.success())
}

fn run(program: &str, words: &[&str]) {
    let status = Command::new(program).args(words).status().unwrap();
    assert!(status.success(), "{program} {words:?}: {status}");
}

#[test]
fn a_seed_is_the_whole_schedule_and_soon_has_every_kind() {
    let length = Duration::from_secs(90);
    let said = |seed| {
        plan(seed, length, false).iter().map(|p| format!("{:?} {:?} {:?}", p.at, p.lasts, p.act)).collect::<Vec<_>>()
    };
    assert_eq!(said(7), said(7));
    assert_ne!(said(7), said(8));
    let kinds: std::collections::BTreeSet<String> = (0..20)
        .flat_map(said)
        .map(|line| line.split(' ').nth(2).unwrap().split('(').next().unwrap().to_owned())
        .collect();
    assert_eq!(kinds.len(), 8, "{kinds:?}");
    assert!(plan(3, length, false).iter().all(|planned| planned.at + planned.lasts <= length));
    let ends_a_shipper = |act: &Act| matches!(act, Act::Kill(name) | Act::Restart(name) if name.starts_with('s'));
    let n_ended = |spare| (0..20).flat_map(|seed| plan(seed, length, spare)).filter(|p| ends_a_shipper(&p.act)).count();
    assert!(n_ended(false) > 20);
    assert_eq!(n_ended(true), 0);
}

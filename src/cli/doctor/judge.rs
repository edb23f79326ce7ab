//! What was seen → findings: this node, and the tier as a whole. Pure.
//!
//! One cause gives one finding where it can be told: what follows from it (a closed metrics port of a daemon that is
//! not there) is not said again.

use super::finding::{Finding, Part};
use super::seen::{Answer, Engine, Seen, Spot};
use crate::message::HASH_VERSION;
use crate::source::engine::api::Info;
use crate::status::{Machine, Status};

/// Clocks this far apart are worth a word: a `Date` tells whole seconds, and some servers are one behind.
const CLOCKS_APART: f64 = 5.0;
/// Files a shipper holds open for a task, and beside them.
const FILES_PER_TASK: u64 = 15;
const FILES_BESIDES: u64 = 256;

/// Everything that can be said of the whole.
pub fn judge(seen: &Seen) -> Vec<Finding> {
    [
        engine(seen),
        machine(&seen.machine),
        router(seen),
        super::tier::ring(seen),
        super::tier::nodes(seen),
        clocks(seen),
        ports(seen),
    ]
    .concat()
}

fn engine(seen: &Seen) -> Vec<Finding> {
    const WHY: &str = "the shipper of this node learns from the engine which tasks run here";
    let part = Part::Engine;
    let (socket, info, api, swarm) = match &seen.engine {
        Engine::Elsewhere(place) => {
            let what = format!("the engine {place} is not on a socket of this machine, so it was not asked");
            let why = "only what routers, collectors and shippers answer was examined";
            return vec![Finding::warn(
                part,
                "engine_elsewhere",
                what,
                why,
                "run doctor on a node of the swarm as well",
            )];
        }
        Engine::Trouble(code, said) => {
            let remedy = match *code {
                "engine_missing" => {
                    "start dockerd, or name its socket with --engine or DOCKER_HOST=unix://PATH; in a container, mount it"
                }
                "engine_denied" => {
                    "run as root, or as a member of the group that owns the socket (usually docker); in a container: user: root"
                }
                "engine_refused" => "start dockerd: the socket file is there, but nobody listens on it",
                "engine_frozen" => {
                    "look at dockerd's log, its memory and its disk; restart it with live-restore, and tasks run on"
                }
                "engine_old" => "upgrade the engine, or unset DOCKER_API_VERSION",
                _ => "is that socket really dockerd's? see its log",
            };
            return vec![Finding::fail(part, code, said.clone(), WHY, remedy)];
        }
        Engine::Answers { socket, info, api, swarm } => (socket, info, api, swarm),
    };
    let cgroup = if info.cgroup_version.is_empty() { String::new() } else { format!(" v{}", info.cgroup_version) };
    let mut found = vec![Finding::ok(
        part,
        "engine",
        format!(
            "Docker {} answers at {socket}: API {api}, cgroup{cgroup} by the {} driver",
            info.server_version, info.cgroup_driver
        ),
    )];
    found.push(part_in_swarm(seen, info));
    if let Some(Err(said)) = swarm {
        let why = "which nodes and tasks there should be is not known, so nodes that never reported are not found";
        found.push(Finding::warn(
            part,
            "swarm_silent",
            format!("this manager does not list its nodes: {said}"),
            why,
            "is there a quorum of managers? docker node ls",
        ));
    }
    found
}

fn part_in_swarm(seen: &Seen, info: &Info) -> Finding {
    let part = Part::Engine;
    let state = &*info.swarm.local_node_state;
    match state {
        "active" => {
            let role = if info.swarm.control_available { "a manager" } else { "a worker" };
            Finding::ok(
                part,
                "swarm",
                format!("it is {role} of the swarm, node {} ({})", info.swarm.node_id, info.name),
            )
        }
        "" | "inactive" if own_tasks(seen) > 0 => {
            let what = format!("this engine is in no swarm; its shipper reads {} other containers", own_tasks(seen));
            Finding::ok(part, "no_swarm", what)
        }
        "" | "inactive" => Finding::warn(
            part,
            "no_swarm",
            "this engine is in no swarm",
            "it runs no tasks; a shipper with `include: swarm` then has nothing to report",
            "docker swarm init, or docker swarm join on it; for plain and Compose containers set `include: all` in shipper.yaml",
        ),
        state => Finding::fail(
            part,
            "swarm_state",
            format!("this engine's part in the swarm is {state:?}"),
            "it neither gets tasks nor keeps its identity",
            if state == "locked" {
                "docker swarm unlock"
            } else {
                "docker info says more; docker swarm leave and join again if it stays so"
            },
        ),
    }
}

/// How many tasks this node's shipper reads.
fn own_tasks(seen: &Seen) -> u64 {
    let status = seen.shippers.first().and_then(|spot| spot.answer.status());
    status.and_then(|status| status.shipper.as_ref()).map_or(0, |of| of.tasks)
}

/// What a machine lets see: of this one, and of each shipper's own.
pub(super) fn machine(machine: &Machine) -> Vec<Finding> {
    let (part, mut found) = (Part::Machine, vec![]);
    let Machine { proc_path, sys_path, .. } = machine;
    if let Some(trouble) = &machine.mounts_trouble {
        let what = format!("{proc_path}/self/mountinfo cannot be read: {trouble}");
        let why = "without the mount table no cgroup is found, and the shipper does not start reading";
        let remedy =
            "mount the host's /proc into the shipper's container (/proc:/host/proc:ro) and set host_proc to that path";
        return vec![Finding::fail(part, "machine_proc", what, why, remedy)];
    }
    let versions = match &machine.cgroups[..] {
        [] => {
            let what = format!("no cgroup of the host can be seen below {sys_path}/fs/cgroup");
            let why = "every figure has to come from the engine instead: later, fewer, and at 50 times the cost";
            let remedy = "mount the host's /sys/fs/cgroup into the shipper's container (/sys/fs/cgroup:/host/sys/fs/cgroup:ro) and set host_sys to /host/sys";
            return vec![Finding::warn(part, "machine_cgroup", what, why, remedy)];
        }
        [only] => format!("cgroup v{only}"),
        _ => "cgroup v1 and v2 (hybrid)".to_owned(),
    };
    found.push(Finding::ok(
        part,
        "cgroup",
        format!("{versions} is mounted below {sys_path}/fs/cgroup and can be read"),
    ));
    if !machine.memory_controller {
        let why = "the kernel counts no memory by container, so MEM is absent (--), as it is in docker stats";
        let remedy = "on a Raspberry Pi add cgroup_enable=memory cgroup_memory=1 to cmdline.txt, elsewhere cgroup_enable=memory to the kernel's command line; restart";
        found.push(Finding::warn(part, "memory_controller", "the kernel's memory controller is off", why, remedy));
    }
    if !machine.pressure {
        let why = "pressure (PSI) is absent (--); all else is there";
        found.push(Finding::ok(
            part,
            "pressure",
            format!("the kernel tells no pressure: {why}; psi=1 on its command line turns it on"),
        ));
    }
    found
}

fn router(seen: &Seen) -> Vec<Finding> {
    const WHY: &str = "docker swarmstats asks a router; without one nothing is shown";
    let (part, place) = (Part::Router, &seen.router.place);
    match &seen.router.answer {
        Answer::Closed(error) => {
            let remedy = "start a collectord there, or name another with --host or SWARMSTATS_HOST; a collectord listens on 127.0.0.1 only, unless api.listen says otherwise";
            vec![Finding::fail(part, "router_absent", format!("nobody answers at {place}: {error}"), WHY, remedy)]
        }
        Answer::Silent(after) => {
            let what = format!("{place} takes connections, but did not answer within {after:?}");
            vec![Finding::fail(
                part,
                "router_silent",
                what,
                WHY,
                "that process is frozen or overloaded: look at its log and its CPU, or restart it",
            )]
        }
        Answer::Foreign(what) => {
            let what = format!("what listens at {place} is no router: {what}");
            let remedy = "another program has that port: move one of the two (api.listen in collectord.yaml), or name the router's with --host";
            vec![Finding::fail(part, "router_foreign", what, WHY, remedy)]
        }
        Answer::Ours(status, _) => {
            let roles = status.roles.join(", ");
            let mut found = vec![Finding::ok(
                part,
                "router",
                format!("{} ({roles}), version {}, answers at {place}", status.member, status.version),
            )];
            if !status.roles.iter().any(|role| role == "router") {
                let what = format!("{place} answers for itself alone: its roles are {roles}");
                let why = "what it shows is its own part, not the swarm";
                found.push(Finding::fail(
                    part,
                    "not_a_router",
                    what,
                    why,
                    "name one with role router: --host or SWARMSTATS_HOST",
                ));
            }
            for reason in &status.not_ready {
                let remedy = "see members: in its config, and its log";
                found.push(Finding::fail(part, "router_not_ready", format!("it is not ready: {reason}"), WHY, remedy));
            }
            if let Some(nodes) = &seen.nodes {
                for missing in nodes.missing.iter().filter(|missing| missing.starts_with("member ")) {
                    let why = "what that member alone holds is not shown";
                    let remedy = "see the finding about that member below; if there is none, it answers doctor but not the router: compare their networks";
                    found.push(Finding::warn(
                        part,
                        "router_incomplete",
                        format!("its answers are incomplete: {missing}"),
                        why,
                        remedy,
                    ));
                }
            }
            found
        }
    }
}

fn all_ours(seen: &Seen) -> Vec<(&Spot, &Status, Option<f64>)> {
    let spots = [&seen.router].into_iter().chain(&seen.members).chain(&seen.shippers);
    let ours = spots.filter_map(|spot| match &spot.answer {
        Answer::Ours(status, ahead) => Some((spot, &**status, *ahead)),
        _ => None,
    });
    let mut all: Vec<(&Spot, &Status, Option<f64>)> = vec![];
    for (spot, status, ahead) in ours {
        // The router is a member too, most times.
        if !all.iter().any(|(_, known, _)| known.process == status.process && !status.process.is_empty()) {
            all.push((spot, status, ahead));
        }
    }
    all
}

fn clocks(seen: &Seen) -> Vec<Finding> {
    let clocks: Vec<(&Spot, f64)> =
        all_ours(seen).into_iter().filter_map(|(spot, _, ahead)| Some((spot, ahead?))).collect();
    let off = clocks.iter().filter(|(_, ahead)| ahead.abs() > CLOCKS_APART);
    let found: Vec<Finding> = off
        .map(|(spot, ahead)| {
            let way = if *ahead > 0.0 { "ahead of" } else { "behind" };
            Finding::warn(
                Part::Clocks,
                "clock",
                format!("the clock of {} is {:.0} s {way} this machine's", spot.place, ahead.abs()),
                "start and end times are wrong by as much, and Swarm's certificates may be refused; rates and ages are not touched",
                "synchronise both clocks: timedatectl set-ntp true, or chronyd",
            )
        })
        .collect();
    if found.is_empty() && !clocks.is_empty() {
        let n = clocks.len();
        let text = format!("the clocks of {n} {} and this machine agree", if n == 1 { "process" } else { "processes" });
        return vec![Finding::ok(Part::Clocks, "clocks", text)];
    }
    found
}

fn ports(seen: &Seen) -> Vec<Finding> {
    let (part, mut found) = (Part::Ports, vec![]);
    for (spot, expected) in &seen.metrics {
        let place = &spot.place;
        match &spot.answer {
            Answer::Foreign(what) => {
                let why = "Prometheus gets something else there, or nothing";
                let remedy = "move one of the two: metrics.listen in collectord.yaml or shipper.yaml";
                found.push(Finding::fail(
                    part,
                    "port_foreign",
                    format!("{place} is not one of ours: {what}"),
                    why,
                    remedy,
                ));
            }
            Answer::Closed(error) if *expected => {
                let why = "the process says that it listens there, so something is between: Prometheus does not reach it either";
                found.push(Finding::warn(
                    part,
                    "port_closed",
                    format!("{place} is closed: {error}"),
                    why,
                    "look for a firewall or a container's network between",
                ));
            }
            Answer::Silent(after) => {
                let why = "Prometheus waits there in vain";
                found.push(Finding::warn(
                    part,
                    "port_silent",
                    format!("{place} did not answer within {after:?}"),
                    why,
                    "that process is frozen or overloaded",
                ));
            }
            Answer::Ours(..) => {
                found.push(Finding::ok(part, "metrics", format!("{place} is where Prometheus scrapes")))
            }
            Answer::Closed(_) => {}
        }
    }
    for (spot, status, _) in all_ours(seen) {
        found.extend(open_files(spot, status));
    }
    found.extend(insecure(seen));
    found
}

/// One finding of all of them: there is one remedy.
fn insecure(seen: &Seen) -> Option<Finding> {
    let mut open = vec![];
    for (spot, status, _) in all_ours(seen) {
        let listens = status.listens.iter().filter(|listens| !listens.address.ip().is_loopback());
        let listens: Vec<String> =
            listens.map(|listens| format!("{} ({})", listens.address, listens.endpoint)).collect();
        if !listens.is_empty() {
            open.push(format!("{} on {}", spot.place, listens.join(" and ")));
        }
    }
    (!open.is_empty()).then(|| {
        let what = format!("without TLS, and not on 127.0.0.1 alone, listens {}", open.join("; "));
        let why = "whoever reaches that address reads the figures, and a collector takes figures from anyone";
        let remedy = "keep it on a network of its own (an encrypted overlay, a firewall), or on 127.0.0.1";
        Finding::warn(Part::Ports, "insecure", what, why, remedy)
    })
}

fn open_files(spot: &Spot, status: &Status) -> Option<Finding> {
    let (shipper, limit) = (status.shipper.as_ref()?, status.open_files_limit?);
    let need = shipper.tasks * FILES_PER_TASK + FILES_BESIDES;
    (limit < need).then(|| {
        let what = format!(
            "the shipper at {} may open {limit} files, its {} tasks need about {need}",
            spot.place, shipper.tasks
        );
        let why = "the tasks beyond have no figures";
        let remedy = "raise it: LimitNOFILE in its unit, ulimits in its stack file, ulimit -Hn in its shell";
        Finding::fail(Part::Nodes, "open_files", what, why, remedy)
    })
}

/// A process that sees the world otherwise than the router: version, hash and replicas.
pub(super) fn differences(spot: &Spot, status: &Status, version: &str, replicas: Option<u32>) -> Vec<Finding> {
    let (part, place, mut found) = (Part::Ring, &spot.place, vec![]);
    if status.hash_version != HASH_VERSION {
        let what = format!("{place} has hash version {}, this program {HASH_VERSION}", status.hash_version);
        let why = "they cut the tasks among the members differently, so each refuses the other";
        found.push(Finding::fail(part, "hash_differs", what, why, "run one version of swarmstats everywhere"));
    }
    if let Some(replicas) = replicas.filter(|replicas| *replicas != status.replicas) {
        let what = format!("{place} has replicas: {}, the router {replicas}", status.replicas);
        let why = "processes with other replicas are refused: it takes no part";
        found.push(Finding::fail(
            part,
            "replicas_differ",
            what,
            why,
            "write the same replicas: into every collectord.yaml and shipper.yaml",
        ));
    }
    if status.version != version {
        let what = format!("{place} is version {}, the router {version}", status.version);
        let why = "they understand each other, but figures that only the newer one knows are absent";
        found.push(Finding::warn(part, "version_differs", what, why, "upgrade the older one"));
    }
    found
}

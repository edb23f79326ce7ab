//! What was seen → findings about the ring's members and each node's shipper. Pure.

use super::finding::{Finding, Part, Severity};
use super::judge::{differences, machine};
use super::seen::{Answer, Item, Listing, Seen, Spot, SwarmNode};
use crate::status::Status;

/// Whether all see the ring as the router does.
pub(super) fn ring(seen: &Seen) -> Vec<Finding> {
    let Some(ring) = &seen.ring else { return vec![] };
    let version = seen.router.answer.status().map_or("", |status| &status.version);
    let mut found = vec![];
    for spot in &seen.members {
        let status = match &spot.answer {
            Answer::Ours(status, _) => status,
            other => {
                found.push(silent_member(seen, spot, other));
                continue;
            }
        };
        found.extend(differences(spot, status, version, Some(ring.replicas)));
        let named = spot.place.split(' ').next().unwrap_or_default();
        if status.member != named {
            let what = format!("at the address of {} answers member {}", spot.place, status.member);
            let why = "what is sent to the one goes to the other, which refuses it";
            found.push(Finding::fail(
                Part::Ring,
                "member_other",
                what,
                why,
                "correct the address or the id under members:",
            ));
        }
        found.extend(other_ring(spot, status, &ring.ring_id));
    }
    for spot in &seen.shippers {
        if let Answer::Ours(status, _) = &spot.answer {
            found.extend(differences(spot, status, version, Some(ring.replicas)));
            found.extend(other_ring(spot, status, &ring.ring_id));
        }
    }
    if found.iter().all(|finding| finding.severity == Severity::Ok) {
        let n = ring.members.len();
        let text = format!(
            "all {n} of the ring's members answer and agree: ring {}, replicas {}",
            ring.ring_id, ring.replicas
        );
        found.push(Finding::ok(Part::Ring, "ring", text));
    }
    found
}

fn silent_member(seen: &Seen, spot: &Spot, answer: &Answer) -> Finding {
    const WHY: &str = "the tasks it owns are missing from every answer, unless a copy is elsewhere";
    let place = &spot.place;
    let id = place.split(' ').next().unwrap_or_default();
    let named = |missing: &String| missing.contains(&format!("member {id}"));
    match answer {
        // In an overlay network, only the router reaches it; where a connection is refused, the machine was reached.
        Answer::Closed(error)
            if !error.contains("refused")
                && seen.nodes.as_ref().is_some_and(|listing| !listing.missing.iter().any(named)) =>
        {
            let what = format!(
                "member {place} answers the router; from here it cannot be reached ({error}), so it was not examined"
            );
            Finding::ok(Part::Ring, "member", what)
        }
        Answer::Closed(error) => Finding::fail(
            Part::Ring,
            "member_dead",
            format!("member {place} cannot be reached: {error}"),
            WHY,
            "start that collectord, or take it out of members:; if it runs, it listens elsewhere (api.listen) or a firewall is between",
        ),
        Answer::Silent(after) => Finding::fail(
            Part::Ring,
            "member_silent",
            format!("member {place} takes connections, but did not answer within {after:?}"),
            WHY,
            "that process is frozen or overloaded: look at its log and its CPU, or restart it",
        ),
        Answer::Foreign(what) => Finding::fail(
            Part::Ring,
            "member_foreign",
            format!("what listens at the address of member {place} is no collectord: {what}"),
            WHY,
            "correct its address under members:, or move the other program",
        ),
        Answer::Ours(..) => Finding::ok(Part::Ring, "member", format!("member {place} answers")),
    }
}

fn other_ring(spot: &Spot, status: &Status, ring_id: &str) -> Option<Finding> {
    let why =
        "each sends and looks for tasks where the other does not: some are shown late, twice asked for, or not at all";
    let remedy = "give every process the same members: (ids count, and a static list must name all); with dns or a file, wait a few seconds and look again";
    match status.ring_id.as_deref() {
        Some(id) if id == ring_id => None,
        Some(id) => {
            let what = format!("{} sees ring {id}, the router ring {ring_id}", spot.place);
            Some(Finding::fail(Part::Ring, "ring_differs", what, why, remedy))
        }
        None => {
            let what = format!("{} knows no member of the ring yet", spot.place);
            Some(Finding::fail(
                Part::Ring,
                "ring_unknown",
                what,
                why,
                "see members: in its config; its /readyz says what keeps it",
            ))
        }
    }
}

/// Which nodes report, and what this node's shipper can see.
pub(super) fn nodes(seen: &Seen) -> Vec<Finding> {
    let mut found = vec![];
    if let Some(listing) = &seen.nodes {
        found.extend(reports(seen, listing));
    }
    for (place, spot) in seen.shippers.iter().enumerate() {
        match &spot.answer {
            Answer::Ours(status, _) => found.extend(shipper(spot, status)),
            other if place == 0 => found.extend(own_shipper(seen, spot, other)),
            _ => {} // other nodes' shippers listen on their own loopback, as they should
        }
    }
    found.extend(two_shippers(seen));
    found.extend(refused_shippers(seen));
    found
}

/// Whether the router says that it lacks a node.
fn is_named(node: &Item, missing: &str) -> bool {
    let is_its = |word: &str| word == node.id || node.name.as_deref() == Some(word);
    let what = missing.split(": ").next().and_then(|what| what.strip_prefix("node "));
    what.is_some_and(|what| what.split([' ', '(', ')', ',', ':']).any(is_its))
}

pub(super) fn is_silent(node: &Item, listing: &Listing) -> bool {
    (node.tasks.known > 0 && node.tasks.fresh == 0) || listing.missing.iter().any(|missing| is_named(node, missing))
}

fn reports(seen: &Seen, listing: &Listing) -> Vec<Finding> {
    let (part, mut found) = (Part::Nodes, vec![]);
    let swarm = seen.engine.nodes();
    for node in &listing.items {
        let known = swarm.and_then(|nodes| nodes.iter().find(|known| known.id == node.id));
        let label = node.name.as_deref().unwrap_or(&node.id);
        if !is_silent(node, listing) {
            if swarm.is_some() && known.is_none() {
                found.push(foreign_node(label));
            }
            continue;
        }
        if known.is_some_and(is_down) {
            continue; // told below
        }
        let age = node.age_seconds.map_or_else(String::new, |age| format!(" for {age:.0} s"));
        let gone = if swarm.is_some() && known.is_none() { "; Swarm does not know that node any more" } else { "" };
        let what = format!("node {label} has sent nothing{age}{gone}");
        let why = "its tasks are stale: shown with their age, and counted in no sum";
        let remedy = format!(
            "on {label}: does the shipper run (docker ps, systemctl status)? can it reach the members (its log, curl 127.0.0.1:7773/readyz)?"
        );
        found.push(Finding::fail(part, "node_silent", what, why, remedy));
    }
    if swarm.is_none() && listing.swarm_told {
        found.extend(listing.missing.iter().filter(|missing| is_of_nodes(listing, missing)).map(|missing| {
            let why = "none of their tasks is shown";
            let remedy = "start a shipper there; if it runs, its log says what it lacks. doctor on a manager says more";
            let what = format!("the router lacks {missing}");
            let down = missing.contains("is not available");
            (if down { Finding::warn } else { Finding::fail })(part, "node_missing", what, why, remedy)
        }));
    }
    for node in swarm.unwrap_or_default() {
        let label = node.label();
        if is_down(node) {
            let what = format!("node {label} is {} for Swarm", node.status.state);
            let why = "its tasks are started elsewhere, and its shipper is not expected to be heard";
            found.push(Finding::warn(
                part,
                "node_down",
                what,
                why,
                format!("start its dockerd or repair its network; docker node rm {label} if it will not come back"),
            ));
        } else if !listing.items.iter().any(|item| item.id == node.id) {
            let what = format!("node {label} ({}) is ready, but its shipper has never reported", node.id);
            let why = "none of its tasks is shown, and nothing else would say so";
            let remedy = format!(
                "start a shipper on {label}; a stack has one everywhere with `deploy: {{mode: global}}` and no placement constraint. If it runs, its log says what it lacks"
            );
            found.push(Finding::fail(part, "node_never", what, why, remedy));
        }
    }
    if found.is_empty() {
        let n = listing.items.len();
        found.push(match (n, swarm) {
            (0, _) => Finding::warn(
                part,
                "no_nodes",
                "no node has reported to this ring",
                "there is nothing to show",
                "start a shipper on every node, with the same members: as the collectors",
            ),
            (_, Some(all)) => {
                let here = all.iter().filter(|node| listing.items.iter().any(|item| item.id == node.id)).count();
                Finding::ok(part, "nodes", format!("{here} of Swarm's {} nodes report", all.len()))
            }
            (_, None) if listing.swarm_told => {
                let here = listing.items.iter().filter(|item| item.status.is_some()).count();
                let text = format!("{here} of Swarm's nodes report; the router, which has Swarm's list, misses none");
                Finding::ok(part, "nodes", text)
            }
            (n, None) => Finding::ok(
                part,
                "nodes",
                format!("{n} nodes report; only a manager's engine can say whether that is all"),
            ),
        });
    }
    found
}

/// A node that reports and that Swarm has removed, or that is another swarm's.
fn foreign_node(label: &str) -> Finding {
    let what = format!("node {label} reports, but Swarm does not know it");
    let why = "its tasks are shown and counted beside those of this swarm";
    let remedy = "if the node was removed, stop its shipper; if it is another swarm's, give that its own members";
    Finding::warn(Part::Nodes, "node_foreign", what, why, remedy)
}

/// Whether a gap that the router tells is of nodes that it does not list.
fn is_of_nodes(listing: &Listing, missing: &str) -> bool {
    let what = missing.split(": ").next().unwrap_or_default();
    what.ends_with(" nodes") || what.starts_with("node ") && !listing.items.iter().any(|node| is_named(node, missing))
}

fn is_down(node: &SwarmNode) -> bool {
    !matches!(&*node.status.state, "" | "ready")
}

/// This node's shipper, where none answers.
fn own_shipper(seen: &Seen, spot: &Spot, answer: &Answer) -> Option<Finding> {
    let node = seen.engine.node_id();
    // Where this machine's node is not known, it may be none that needs a shipper.
    let severity = if node.is_some() { Severity::Fail } else { Severity::Warn };
    let place = &spot.place;
    let listing = seen.nodes.as_ref();
    let reports =
        listing.is_some_and(|all| all.items.iter().any(|item| Some(&*item.id) == node && !is_silent(item, all)));
    let why = "the tasks on this node are not read by anyone";
    match answer {
        Answer::Foreign(what) => {
            let what = format!("what listens at {place} is no shipper: {what}");
            let remedy = "another program has that port: move one of the two (api.listen in shipper.yaml), or name the shipper's with --shipper";
            Some(Finding { severity, ..Finding::fail(Part::Ports, "port_foreign", what, why, remedy) })
        }
        Answer::Silent(after) => {
            let what = format!("the shipper at {place} takes connections, but did not answer within {after:?}");
            Some(Finding::fail(
                Part::Nodes,
                "shipper_silent",
                what,
                why,
                "that process is frozen or overloaded: restart it",
            ))
        }
        Answer::Closed(_) if reports => Some(Finding::ok(
            Part::Nodes,
            "shipper",
            format!("this node reports; its shipper does not answer at {place} (in a container, it answers there)"),
        )),
        Answer::Closed(error) => {
            let what = format!("no shipper answers on this node, at {place}: {error}");
            let remedy =
                "start one: shipper --config /etc/swarmstats/shipper.yaml; if one runs, name its api with --shipper";
            Some(Finding { severity, ..Finding::fail(Part::Nodes, "shipper_absent", what, why, remedy) })
        }
        Answer::Ours(..) => None,
    }
}

fn shipper(spot: &Spot, status: &Status) -> Vec<Finding> {
    let (part, place) = (Part::Nodes, &spot.place);
    let Some(of) = &status.shipper else {
        let what = format!("what answers at {place} is a {}, no shipper", status.roles.join(", "));
        let why = "the tasks on this node may not be read by anyone";
        return vec![Finding::fail(
            part,
            "shipper_other",
            what,
            why,
            "name the shipper's api with --shipper; its default port is 7773",
        )];
    };
    let mut found = vec![];
    for reason in &status.not_ready {
        let why = "it reads or sends nothing before that is put right";
        let remedy = "what it says names the cause; its engine: and members: are in shipper.yaml";
        found.push(Finding::fail(
            part,
            "shipper_not_ready",
            format!("the shipper at {place} is not ready: {reason}"),
            why,
            remedy,
        ));
    }
    if of.streams == 0 && status.ring_id.is_some() {
        let why = "nothing of this node arrives anywhere";
        let remedy = "can it reach the members' addresses? its log says why streams end; two shippers of one node end each other's";
        found.push(Finding::warn(
            part,
            "shipper_no_stream",
            format!("the shipper at {place} has no stream to any collector"),
            why,
            remedy,
        ));
    }
    // What it sees, unless all is well with it.
    let sees = machine(&of.machine).into_iter().filter(|finding| finding.severity > Severity::Ok);
    found.extend(sees.map(|finding| Finding {
        what: format!("the shipper at {place}: {}", finding.what),
        part,
        ..finding
    }));
    found.extend(faults(place, status));
    if found.is_empty() {
        let tasks = if of.tasks == 1 { "1 task".into() } else { format!("{} tasks", of.tasks) };
        found.push(Finding::ok(
            part,
            "shipper",
            format!("the shipper at {place} reads {tasks} and has {} streams open", of.streams),
        ));
    }
    found
}

/// What a shipper could not read, where that says what to do.
fn faults(place: &str, status: &Status) -> Vec<Finding> {
    const KNOWN: [(&str, &str, &str, &str); 5] = [
        (
            "denied",
            "may not read kernel files",
            "those figures are absent",
            "run it as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
        ),
        (
            "open_files",
            "had no file descriptor left",
            "tasks beyond have no figures",
            "raise LimitNOFILE, or ulimits in the stack file",
        ),
        (
            "other_process",
            "found other processes where its tasks' should be",
            "network figures are absent",
            "mount the host's /proc (/proc:/host/proc:ro) and set host_proc, or run it with pid: host",
        ),
        (
            "bounds",
            "left out what exceeds its limits",
            "some tasks are not read",
            "raise limits.max_tasks in shipper.yaml",
        ),
        (
            "identity",
            "met containers with names no figure can be shown under",
            "those tasks are not shown",
            "see its log for which; rename them",
        ),
    ];
    let told = KNOWN.iter().filter_map(|(reason, did, why, remedy)| {
        let times = status.faults.get(*reason)?;
        let what = format!("the shipper at {place} {did} ({times} times since it began)");
        Some(Finding::warn(Part::Nodes, "shipper_faults", what, why, *remedy))
    });
    told.collect()
}

fn two_shippers(seen: &Seen) -> Option<Finding> {
    let all: Vec<(&Spot, &Status)> = seen
        .shippers
        .iter()
        .filter_map(|spot| Some((spot, spot.answer.status()?)))
        .filter(|(_, status)| status.node_id.is_some())
        .collect();
    all.iter().enumerate().find_map(|(i, (spot, status))| {
        let other = all[..i].iter().find(|(_, other)| other.node_id == status.node_id && other.process != status.process)?;
        let what = format!("two shippers speak for node {}: at {} and {}", status.node_id.as_deref().unwrap_or_default(), other.0.place, spot.place);
        let why = "collectors take the newer one, and each ends the other's streams: figures jump or stand still";
        let remedy = "stop one of them; after cloning a machine, give the copy its own identity (docker swarm leave, remove the engine's key)";
        Some(Finding::fail(Part::Nodes, "two_shippers", what, why, remedy))
    })
}

fn refused_shippers(seen: &Seen) -> Vec<Finding> {
    let mut found = vec![];
    for spot in &seen.members {
        let Some(status) = spot.answer.status() else { continue };
        for (reason, n) in &status.faults {
            let (why, remedy) = match &**reason {
                "hello_incompatible" => (
                    "a shipper with other replicas, stats or hash version is not let in",
                    "give it the members' version and replicas",
                ),
                "hello_full" => (
                    "nodes beyond the limits are not let in",
                    "raise limits.max_nodes and limits.max_streams in collectord.yaml",
                ),
                "hello_malformed" | "hello_silent" => {
                    ("something else than a shipper knocks there", "see the collectord's log for its address")
                }
                _ => continue, // "old" is how a restarted shipper learns its number
            };
            let what = format!(
                "member {} refused a shipper {n} times since it began: {}",
                spot.place,
                reason.trim_start_matches("hello_")
            );
            found.push(Finding::warn(Part::Nodes, "shipper_refused", what, why, remedy));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::seen::{Coverage, Engine, Member, NodeDescription, NodeSpec, NodeStatus, Ring};
    use super::*;
    use crate::source::engine::api::{Info, Swarm};
    use crate::status::Machine;

    fn ours(status: Status) -> Answer {
        Answer::Ours(Box::new(Status { version: "1".into(), replicas: 1, hash_version: 1, ..status }), Some(0.0))
    }

    fn node(id: &str, state: &str) -> SwarmNode {
        SwarmNode {
            id: id.into(),
            spec: NodeSpec { availability: "active".into() },
            description: NodeDescription { hostname: format!("host-{id}") },
            status: NodeStatus { state: state.into(), addr: String::new() },
        }
    }

    fn item(id: &str, fresh: u64) -> Item {
        Item { id: id.into(), name: Some(format!("host-{id}")), tasks: Coverage { fresh, known: 1 }, ..Item::default() }
    }

    /// A manager n1 of these nodes, a router c1 that knows these.
    fn seen(swarm: Vec<SwarmNode>, known: Vec<Item>) -> Seen {
        let state = "active".to_owned();
        let info = Info {
            swarm: Swarm { node_id: "n1".into(), local_node_state: state, control_available: true },
            ..Info::default()
        };
        let ring_id = Some("r".to_owned());
        let spot = |place: &str, answer| Spot { place: place.into(), answer };
        let c1 =
            || ours(Status { member: "c1".into(), process: "1".into(), ring_id: ring_id.clone(), ..Status::default() });
        Seen {
            engine: Engine::Answers {
                socket: "s".into(),
                info: Box::new(info),
                api: "1.41".into(),
                swarm: Some(Ok(swarm)),
            },
            machine: Machine::default(),
            router: spot("http://r:7770", c1()),
            ring: Some(Ring {
                ring_id: "r".into(),
                replicas: 1,
                members: vec![Member { id: "c1".into(), address: None }],
                key: None,
            }),
            nodes: Some(Listing { items: known, missing: vec![], swarm_told: false }),
            members: vec![spot("c1 at r:7770", c1())],
            shippers: vec![spot("http://127.0.0.1:7773", Answer::Closed("refused".into()))],
            metrics: vec![],
        }
    }

    #[test]
    fn a_node_that_swarm_removed_is_told_and_a_name_is_no_beginning_of_another() {
        let swarm = vec![node("n1", "ready"), node("n10", "ready")];
        let mut seen = seen(swarm.clone(), vec![item("n1", 1), item("n10", 1), item("n9", 1)]);
        assert_eq!(codes(&nodes(&seen)), ["node_foreign", "shipper"]);
        seen.nodes.as_mut().unwrap().missing = vec!["node host-n10 (n10): no sample for 9 s".into()];
        let found = nodes(&seen);
        assert_eq!(codes(&found), ["node_silent", "node_foreign", "shipper"]);
        assert!(found[0].what.contains("host-n10"), "{found:#?}");
    }

    #[test]
    fn without_a_manager_the_routers_list_of_the_swarm_says_whether_that_is_all() {
        let mut seen = seen(vec![], vec![Item { status: Some("ready".into()), ..item("n1", 1) }]);
        let Engine::Answers { swarm, .. } = &mut seen.engine else { unreachable!() };
        *swarm = None;
        assert!(nodes(&seen)[0].what.contains("only a manager's engine"));
        seen.nodes.as_mut().unwrap().swarm_told = true;
        assert!(nodes(&seen)[0].what.contains("misses none"));
        seen.nodes.as_mut().unwrap().missing = vec!["node host-n2: its shipper has never reported".into()];
        assert_eq!(codes(&nodes(&seen)), ["node_missing", "shipper"]);
    }

    #[test]
    fn where_this_machines_node_is_not_known_an_absent_shipper_is_a_warning() {
        let mut seen = seen(vec![], vec![]);
        seen.engine = Engine::Trouble("engine_denied", String::new());
        let found = nodes(&seen);
        assert_eq!(codes(&found), ["no_nodes", "shipper_absent"]);
        assert!(found.iter().all(|finding| finding.severity == Severity::Warn), "{found:#?}");
        seen.shippers[0].answer = Answer::Silent(std::time::Duration::from_secs(1));
        assert_eq!(nodes(&seen)[1].severity, Severity::Fail, "something hangs there, whoever it is");
    }

    fn codes(findings: &[Finding]) -> Vec<&'static str> {
        findings.iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn nodes_that_report_nothing_are_named_each_by_its_cause() {
        let swarm = vec![node("n1", "ready"), node("n2", "ready"), node("n3", "down"), node("n4", "ready")];
        let found = nodes(&seen(swarm, vec![item("n1", 1), item("n3", 0), item("n4", 0), item("n9", 0)]));
        assert_eq!(codes(&found), ["node_silent", "node_silent", "node_never", "node_down", "shipper"]);
        assert!(found[0].what.contains("host-n4") && found[2].what.contains("host-n2"), "{found:#?}");
        assert!(found[1].what.contains("Swarm does not know"), "{found:#?}");
    }

    #[test]
    fn a_shipper_in_a_container_is_known_by_its_reports() {
        let found = nodes(&seen(vec![node("n1", "ready")], vec![item("n1", 1)]));
        assert_eq!(codes(&found), ["nodes", "shipper"]);
        assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:#?}");
    }

    #[test]
    fn a_member_that_only_the_router_reaches_is_no_fault() {
        let mut seen = seen(vec![], vec![]);
        seen.members.push(Spot { place: "c2 at 10.0.1.5:7770".into(), answer: Answer::Closed("no route".into()) });
        assert!(ring(&seen).iter().all(|finding| finding.severity == Severity::Ok));
        seen.nodes = Some(Listing { missing: vec!["member c2: did not answer".into()], ..Listing::default() });
        assert_eq!(codes(&ring(&seen)), ["member_dead"]);
    }
}

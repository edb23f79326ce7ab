//! One task, followed from Swarm to the screen: the first link that is broken, or that none is. Pure.

use super::finding::{Finding, Part, Severity};
use super::seen::{Answer, Item, Owner, Seen, SwarmTask, Trail, followed};

/// At most so many tasks of a service are told one by one.
const TOLD: usize = 20;
const PART: Part = Part::Task;

/// What there is to say of a task or service.
pub fn follow(seen: &Seen, trail: &Trail) -> Vec<Finding> {
    let name = &trail.name;
    let wanted: &[SwarmTask] = match &trail.swarm {
        Some(Ok(tasks)) if tasks.is_empty() => {
            let what = format!("Swarm knows no task or service {name:?}");
            let why = "only what Swarm runs is shown (and, with include: all, other containers)";
            return vec![Finding::fail(
                PART,
                "task_unknown",
                what,
                why,
                "docker service ls and docker service ps SERVICE list what there is; ids may be shortened to 4 characters",
            )];
        }
        Some(Ok(tasks)) => tasks,
        Some(Err(_)) | None => &[],
    };
    let mut found = match &trail.swarm {
        Some(Ok(_)) => vec![],
        Some(Err(said)) => vec![Finding::warn(
            PART,
            "swarm_silent",
            format!("Swarm does not say what it knows of {name:?}: {said}"),
            "whether it should run is not known",
            "ask on a manager with a quorum",
        )],
        // Then the router says what Swarm wants and is not there.
        None if trail.router.as_ref().is_ok_and(|listing| listing.swarm_told) => vec![],
        None => vec![Finding::warn(
            PART,
            "swarm_unasked",
            format!("no manager's engine is at hand to say whether {name:?} should run"),
            "what follows is what the router knows",
            "run doctor on a manager",
        )],
    };
    if wanted.is_empty() {
        found.extend(without_swarm(seen, trail));
        return found;
    }
    let live = followed(wanted);
    if live.is_empty() {
        let done = wanted.iter().filter(|task| task.is_done()).count();
        if done > 0 {
            let what = format!("{name} is a job, and none of its tasks is left to be done: {done} completed");
            found.push(Finding::ok(PART, "task_done", what));
            return found;
        }
        let what = format!("Swarm wants no task of {name:?} to run");
        found.push(Finding::fail(
            PART,
            "task_unwanted",
            what,
            "what has ended is shown only when asked for by name",
            format!("docker service ps {name} says what ended it; docker service scale {name}=N starts some"),
        ));
        return found;
    }
    let all = live.len();
    let examined = live.into_iter().filter(|task| is_examined(trail, &task.id));
    let told: Vec<Finding> = examined.map(|task| chain(seen, trail, task)).collect();
    let n = told.len();
    found.extend(unexamined(name, all - n));
    if n <= TOLD {
        found.extend(told);
        return found;
    }
    let broken = told.iter().filter(|finding| finding.severity == Severity::Fail).count();
    let what =
        format!("{broken} of the {n} tasks of {name} are not shown as they should be; the first {TOLD} are told");
    found.push(if broken == 0 {
        Finding::ok(PART, "task", format!("all {n} tasks of {name} that were examined are shown"))
    } else {
        Finding::fail(PART, "tasks", what, "see below", "see below")
    });
    found.extend(told.into_iter().filter(|finding| finding.severity > Severity::Ok).take(TOLD));
    found
}

fn is_examined(trail: &Trail, id: &str) -> bool {
    trail.owners.iter().any(|(of, _)| of == id)
}

/// A word about tasks that there were too many of, or that the router was too slow to tell about.
fn unexamined(name: &str, n: usize) -> Option<Finding> {
    (n > 0).then(|| {
        let what = format!("{n} of the tasks of {name} were not examined");
        let why = "so many are asked about, and for so long, that doctor takes less than 5 s";
        Finding::warn(PART, "task_unexamined", what, why, "name one: docker swarmstats doctor SERVICE.SLOT")
    })
}

/// Link by link.
fn chain(seen: &Seen, trail: &Trail, task: &SwarmTask) -> Finding {
    let slot = task.slot.to_string();
    let label = match trail.name.rsplit_once('.') {
        _ if trail.name.contains(&task.id) => trail.name.clone(),
        Some((_, end)) if end == slot => format!("{} ({})", trail.name, short(&task.id)),
        _ if task.slot > 0 => format!("{}.{slot} ({})", trail.name, short(&task.id)),
        _ => format!("task {}", short(&task.id)),
    };
    if task.is_done() {
        return Finding::ok(PART, "task_done", format!("{label} is a job's, and has completed"));
    }
    if let Some(broken) = swarm_side(seen, &label, task) {
        return broken;
    }
    let node = seen.engine.nodes().and_then(|nodes| nodes.iter().find(|node| node.id == task.node_id));
    let node_label = node.map_or(&*task.node_id, |node| node.label());
    if let Some(broken) = shipper_side(seen, &label, &task.node_id, node_label) {
        return broken;
    }
    held(seen, trail, &label, &task.id, node_label)
}

fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Does it run at all?
fn swarm_side(seen: &Seen, label: &str, task: &SwarmTask) -> Option<Finding> {
    let said = [&*task.status.err, &*task.status.message]
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or("no reason given");
    let state = &*task.status.state;
    if task.node_id.is_empty() {
        let what = format!("{label} has not been scheduled: {said}");
        let remedy = "no node fits: see its placement constraints and reservations (docker service inspect), and docker node ls for nodes that are drained or down";
        return Some(Finding::fail(PART, "task_unscheduled", what, "it runs nowhere, so nothing can be read", remedy));
    }
    let node = seen.engine.nodes().and_then(|nodes| nodes.iter().find(|node| node.id == task.node_id));
    if let Some(node) = node.filter(|node| !matches!(&*node.status.state, "" | "ready")) {
        let what = format!("{label} is on node {}, which is {} for Swarm", node.label(), node.status.state);
        return Some(Finding::fail(
            PART,
            "task_node_down",
            what,
            "whether it runs there is not known to anyone",
            "start that node's dockerd or repair its network",
        ));
    }
    (state != "running").then(|| {
        let what = format!("{label} is {state}, not running: {said}");
        let remedy = format!(
            "docker service ps --no-trunc, and docker service logs, say more; docker inspect {} has the whole record",
            short(&task.id)
        );
        Finding::fail(PART, "task_not_running", what, "figures are of what runs", remedy)
    })
}

/// Is it read?
fn shipper_side(seen: &Seen, label: &str, node_id: &str, node: &str) -> Option<Finding> {
    let listing = seen.nodes.as_ref()?;
    let remedy =
        format!("on {node}: does the shipper run, and can it reach the members (its log, curl 127.0.0.1:7773/readyz)?");
    match listing.items.iter().find(|item| item.id == node_id) {
        None => {
            let what = format!("{label} runs on {node}, whose shipper has never reported");
            Some(Finding::fail(PART, "task_no_shipper", what, "nobody reads it", remedy))
        }
        Some(item) if super::tier::is_silent(item, listing) => {
            let age = item.age_seconds.map_or_else(String::new, |age| format!(" for {age:.0} s"));
            let what = format!("{label} runs on {node}, whose shipper has sent nothing{age}");
            Some(Finding::fail(
                PART,
                "task_shipper_silent",
                what,
                "its last figures are shown as stale, and counted in no sum",
                remedy,
            ))
        }
        Some(_) => None,
    }
}

/// Does its owner have it, is it fresh, and does the router show it?
fn held(seen: &Seen, trail: &Trail, label: &str, id: &str, node: &str) -> Finding {
    if let Answer::Closed(_) | Answer::Silent(_) | Answer::Foreign(_) = seen.router.answer {
        let what = format!("{label} runs on {node}, but no router answers");
        return Finding::fail(
            PART,
            "task_no_router",
            what,
            "nobody can say who holds its figures",
            "see the findings under Router",
        );
    }
    let owner = trail.owners.iter().find_map(|(of, owner)| owner.as_ref().filter(|_| of == id));
    let Some(Owner { member, holds }) = owner else {
        let what = format!("{label} runs on {node}, but the router does not say which member owns it");
        return Finding::fail(
            PART,
            "task_no_owner",
            what,
            "nobody is asked for it",
            "see the findings under Router and Ring",
        );
    };
    let shown = trail.router.as_ref().ok().and_then(|listing| listing.items.iter().find(|shown| shown.id == id));
    let item = match (holds, shown) {
        (Ok(Some(item)), _) => item,
        // In an overlay network, only the router reaches the member.
        (Err(_), Some(item)) => item,
        (Err(error), None) => {
            let what = format!("{label} belongs to member {member}, which does not answer: {error}");
            let remedy = "start or free that collectord, or take it out of members: everywhere";
            return Finding::fail(PART, "task_owner_silent", what, "its figures are there and nowhere else", remedy);
        }
        // A copy is as good, or the owner was started a moment ago.
        (Ok(None), Some(item)) if matches!(item.state.as_deref(), Some("running" | "paused")) => {
            let age = item.age_seconds.unwrap_or_default();
            let what = format!(
                "{label} is shown: it runs on {node}, its sample is {age:.1} s old; but {member}, which owns it, holds nothing of it"
            );
            let why = "another member holds it, and may drop it: its node's shipper sees another ring than the router";
            let remedy = "if it stays so for a minute, compare the ring ids above; after a restart or a change of members it ends by itself";
            return Finding::warn(PART, "task_elsewhere", what, why, remedy);
        }
        (Ok(None), _) => {
            let what = format!("{label} belongs to member {member}, which holds nothing of it");
            let why = "its node's shipper sends to others: it sees another ring, or left the task out";
            let remedy = format!(
                "compare the ring ids above; on {node}: swarmstats_shipper_faults_total, limits.max_tasks and include: of its shipper. A task of the last seconds comes by itself"
            );
            return Finding::fail(PART, "task_not_held", what, why, remedy);
        }
    };
    if let Some(stale) = not_fresh(label, member, item) {
        return stale;
    }
    match (&trail.router, shown) {
        (_, Some(_)) => {
            let age = item.age_seconds.unwrap_or_default();
            Finding::ok(
                PART,
                "task",
                format!("{label} is shown: it runs on {node}, {member} holds it, its sample is {age:.1} s old"),
            )
        }
        (Ok(_), None) => {
            let what = format!("{label} is held by {member}, but the router does not show it");
            let why = "the router asks other members, or did not hear this one in time";
            let remedy = "compare the ring ids above; raise query_deadline in collectord.yaml if members are slow";
            Finding::fail(PART, "task_not_shown", what, why, remedy)
        }
        (Err(error), None) => {
            let what = format!("{label} is held by {member}, but the router does not answer: {error}");
            Finding::fail(PART, "task_not_shown", what, "nothing is shown", "see the findings under Router")
        }
    }
}

fn not_fresh(label: &str, member: &str, item: &Item) -> Option<Finding> {
    let age = item.age_seconds.map_or_else(|| "of unknown age".to_owned(), |age| format!("{age:.0} s old"));
    match item.state.as_deref() {
        Some("ended") => {
            let what = format!("{label} has ended for its node's shipper, while Swarm wants it to run");
            Some(Finding::fail(
                PART,
                "task_ended",
                what,
                "its container is gone",
                "docker service ps --no-trunc says why; Swarm replaces it by itself",
            ))
        }
        Some("stale") => {
            let what = format!("{label} is held by {member}, but its sample is {age}");
            let why = "its shipper reads the node's other tasks, but not this one";
            Some(Finding::fail(
                PART,
                "task_stale",
                what,
                why,
                "that shipper's log and swarmstats_shipper_faults_total name what it could not read",
            ))
        }
        _ => None,
    }
}

/// What the router itself says that it lacks of what was asked.
fn missing<'a>(lacks: impl Iterator<Item = &'a String>) -> Vec<Finding> {
    let told = lacks.take(TOLD).map(|missing| {
        let why = "what is missing is shown nowhere, and counted in no sum";
        let remedy = "see the findings under Ring and Nodes; doctor on a manager says more";
        Finding::fail(PART, "task_missing", format!("the router lacks {missing}"), why, remedy)
    });
    told.collect()
}

/// What the router alone can tell.
fn without_swarm(seen: &Seen, trail: &Trail) -> Vec<Finding> {
    let name = &trail.name;
    match &trail.router {
        Err(error) => vec![Finding::fail(
            PART,
            "task_no_router",
            format!("the router says nothing of {name:?}: {error}"),
            "nobody else can be asked",
            "see the findings under Router; is the name right?",
        )],
        Ok(listing) if listing.items.is_empty() && !listing.missing.is_empty() => missing(listing.missing.iter()),
        Ok(listing) if listing.items.is_empty() => {
            let what = format!("the router knows no task or service {name:?}");
            let remedy =
                "docker swarmstats task lists what it knows; run doctor on a manager to see what there should be";
            vec![Finding::fail(PART, "task_unknown", what, "no shipper has reported it", remedy)]
        }
        Ok(listing) => {
            let examined = listing.items.iter().filter(|item| is_examined(trail, &item.id)).take(TOLD);
            let told = examined.map(|item| {
                let id = item.node_id.as_deref().unwrap_or("an unknown node");
                let known = seen.nodes.iter().flat_map(|nodes| &nodes.items).find(|node| node.id == id);
                let node = known.and_then(|node| node.name.as_deref()).unwrap_or(id);
                let label = item.name.clone().unwrap_or_else(|| item.id.clone());
                shipper_side(seen, &label, id, node).unwrap_or_else(|| held(seen, trail, &label, &item.id, node))
            });
            let mut told: Vec<Finding> = told.collect();
            told.extend(unexamined(name, listing.items.len() - told.len()));
            // What it lacks of nodes and members is told above.
            let of_tasks = |missing: &&String| missing.starts_with("task ") || missing.contains(" tasks of service ");
            told.extend(missing(listing.missing.iter().filter(of_tasks)));
            told
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::{Engine, Listing, Spot, TaskStatus};
    use super::*;
    use crate::status::{Machine, Status};

    fn record(slot: u64, desired: &str, state: &str) -> SwarmTask {
        SwarmTask {
            id: format!("{desired}{slot:04}"),
            node_id: "n1".into(),
            slot,
            desired_state: desired.into(),
            status: TaskStatus { state: state.into(), ..TaskStatus::default() },
            ..SwarmTask::default()
        }
    }

    fn item(id: &str) -> Item {
        Item { id: id.into(), state: Some("running".into()), age_seconds: Some(0.5), ..Item::default() }
    }

    fn seen() -> Seen {
        let node = Item { id: "n1".into(), ..Item::default() };
        Seen {
            engine: Engine::Elsewhere(String::new()),
            machine: Machine::default(),
            router: Spot { place: String::new(), answer: Answer::Ours(Box::<Status>::default(), None) },
            ring: None,
            nodes: Some(Listing { items: vec![node], ..Listing::default() }),
            members: vec![],
            shippers: vec![],
            metrics: vec![],
        }
    }

    /// Of these records, with this many running tasks held by their owner and shown by the router.
    fn told(records: Vec<SwarmTask>, examined: usize, held: bool) -> Vec<Finding> {
        let ids: Vec<String> = followed(&records).into_iter().take(examined).map(|task| task.id.clone()).collect();
        let owner = |id: &String| Some(Owner { member: "c1".into(), holds: Ok(Some(item(id)).filter(|_| held)) });
        let trail = Trail {
            name: "web".into(),
            swarm: Some(Ok(records)),
            router: Ok(Listing { items: ids.iter().map(|id| item(id)).collect(), ..Listing::default() }),
            owners: ids.iter().map(|id| (id.clone(), owner(id))).collect(),
        };
        follow(&seen(), &trail)
    }

    fn codes(found: &[Finding]) -> Vec<(Severity, &'static str)> {
        found.iter().map(|finding| (finding.severity, finding.code)).collect()
    }

    #[test]
    fn history_is_not_followed_and_what_was_not_examined_is_counted() {
        let mut records: Vec<SwarmTask> = (0..80).map(|slot| record(slot, "shutdown", "failed")).collect();
        records.extend((1..=60).map(|slot| record(slot, "running", "running")));
        let found = told(records, 50, true);
        assert_eq!(codes(&found), [(Severity::Warn, "task_unexamined"), (Severity::Ok, "task")]);
        assert!(found[0].what.starts_with("10 of") && found[1].what.starts_with("all 50"), "{found:#?}");
    }

    // Docker gives a job's tasks the desired state `complete` from the beginning.
    #[test]
    fn a_jobs_tasks_are_followed_while_they_run_and_done_is_well() {
        let done = record(2, "complete", "complete");
        let found = told(vec![record(1, "complete", "running"), done.clone()], 9, true);
        assert_eq!(codes(&found), [(Severity::Ok, "task")]);
        assert_eq!(codes(&told(vec![done.clone()], 9, true)), [(Severity::Ok, "task_done")]);
        assert_eq!(codes(&told(vec![done.clone(), done], 9, true)), [(Severity::Ok, "task_done")]);
        let stopped = vec![record(1, "shutdown", "shutdown"), record(2, "shutdown", "failed")];
        assert_eq!(codes(&told(stopped, 9, true)), [(Severity::Fail, "task_unwanted")]);
    }

    #[test]
    fn without_a_manager_the_router_says_what_is_missing() {
        let mut seen = seen();
        let mut trail = Trail {
            name: "web".into(),
            swarm: None,
            router: Ok(Listing { missing: vec!["task web.1: node n2: silent".into()], ..Listing::default() }),
            owners: vec![],
        };
        let of = |seen: &Seen, trail: &Trail| codes(&follow(seen, trail)).into_iter().map(|(_, code)| code).collect();
        let found: Vec<_> = of(&seen, &trail);
        assert_eq!(found, ["swarm_unasked", "task_missing"]);
        trail.router.as_mut().unwrap().swarm_told = true;
        seen.nodes = None;
        let found: Vec<_> = of(&seen, &trail);
        assert_eq!(found, ["task_missing"]);
    }

    #[test]
    fn a_fresh_task_that_its_owner_does_not_hold_is_shown_all_the_same() {
        let found = told(vec![record(1, "running", "running"), record(1, "shutdown", "failed")], 9, false);
        assert_eq!(codes(&found), [(Severity::Warn, "task_elsewhere")]);
    }
}

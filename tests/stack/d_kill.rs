//! A collector's container killed: its tasks are answered at once and emitted again soon, by its mirror.

use crate::env::{DEADLINE, INTERVAL, Lab, MARGIN, items, lab, text, wait_for};
use crate::tier::{Container, containers};
use crate::watch::emitted;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// `takeover_after` of the stack's shippers: the default.
const TAKEOVER: Duration = Duration::from_secs(3);

/// Every task that these emit, with how many do.
fn emit(lab: &Lab, collectors: &[Container]) -> BTreeMap<String, usize> {
    let mut emitting = BTreeMap::new();
    for page in collectors.iter().filter_map(|container| container.get(lab, 7771, "/metrics")) {
        emitted(&page).into_iter().for_each(|task| *emitting.entry(task).or_default() += 1);
    }
    emitting
}

fn running(lab: &Lab) -> BTreeSet<String> {
    lab.tasks(0).iter().map(|task| text(task, "id").to_owned()).collect()
}

#[test]
fn a_killed_collector_is_answered_for_at_once_and_its_series_go_on_elsewhere() {
    let lab = lab();
    let collectors = containers(&lab, "collectord");
    // Whole at first: a takeover may be under way from the test before.
    let all = wait_for("each task is emitted once", Duration::from_secs(20), || {
        let emitting = emit(&lab, &collectors);
        emitting.values().all(|n| *n == 1) && emitting.into_keys().collect::<BTreeSet<_>>() == running(&lab)
    });
    let victim = collectors[1].clone();
    let inspect = victim.inspect(&lab);
    let own = text(&inspect["Config"]["Labels"], "com.docker.swarm.task.id");
    let lost = emitted(&victim.get(&lab, 7771, "/metrics").unwrap());
    assert!(!lost.is_empty(), "it emits some task");
    // Its own task ends with it; Swarm begins another.
    let due: BTreeSet<String> = running(&lab).into_iter().filter(|id| id != own).collect();
    let others = [collectors[0].clone(), collectors[2].clone()];
    let began = Instant::now();
    lab.docker(victim.node, &format!("kill {}", victim.id));
    let first = crate::http::get(&format!("{}/v1/tasks", lab.routers()[0])).unwrap();
    let answered = first.took;
    assert!(answered <= DEADLINE + MARGIN, "{answered:?}");
    assert_eq!(first.json()["complete"], true, "{}", first.json()["missing"]);
    // Fresh ones, all of them: the lab's may be paused still, from the test before.
    let states: BTreeMap<String, String> = items(&first.json(), "tasks")
        .iter()
        .map(|task| (text(task, "id").to_owned(), text(task, "state").to_owned()))
        .collect();
    let fresh = |id: &&String| states.get(*id).is_some_and(|state| state == "running" || state == "paused");
    let lacking: Vec<_> = due.iter().filter(|id| !fresh(id)).map(|id| (id, states.get(id))).collect();
    assert!(lacking.is_empty(), "complete without {lacking:?}; it emitted {lost:?}");
    // A look takes its time: late is what a look that began too late did not find.
    let mut missed = Duration::ZERO;
    let again = wait_for("its tasks are emitted again", Duration::from_secs(20), || {
        let looked = began.elapsed();
        let by_others = emit(&lab, &others);
        assert!(by_others.values().all(|n| *n == 1), "a task is emitted twice: {by_others:?}");
        // What replaces it may have some of them back already.
        let back: Vec<Container> =
            containers(&lab, "collectord").into_iter().filter(|c| !collectors.contains(c)).collect();
        let emitting: BTreeSet<String> = by_others.into_keys().chain(emit(&lab, &back).into_keys()).collect();
        let all = emitting.is_superset(&due);
        if !all {
            missed = looked;
        }
        all
    });
    println!(
        "whole after {all:.1?}; killed {}, which emitted {} of {} tasks: the next answer was complete in {answered:.0?}; \
         emitted again after {again:.1?}, not yet {missed:.1?} after the kill",
        victim.name,
        lost.len(),
        due.len()
    );
    assert!(missed <= TAKEOVER + INTERVAL * 2, "not emitted {missed:?} after the kill");
    wait_for("Swarm has replaced it", Duration::from_secs(60), || containers(&lab, "collectord").len() == 3);
}

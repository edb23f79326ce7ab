//! Rules 1, 19 and 21: what readers are told.

use crate::fixture::*;
use crate::{emitting, needs, violated};
use std::collections::BTreeMap;
use swarmstats::join::{Answers, Bounds, Join};
use swarmstats::model::{MemberId, TaskId};
use swarmstats::outbox::Ended;
use swarmstats::rules::Rule;
use swarmstats::stat::CPU;
use swarmstats::view::{Ask, Holding, Selector};

/// What a reader without rows would make of some holdings: the newest of each running task, and the record of each ended
/// one, added up.
fn running_and_ended(holdings: &[Holding]) -> u64 {
    let (mut running, mut ended) = (BTreeMap::<TaskId, u64>::new(), BTreeMap::<TaskId, u64>::new());
    for task in holdings.iter().flat_map(|holding| &holding.tasks) {
        let of = if task.ended { &mut ended } else { &mut running };
        of.insert(task.meta.task_id.clone(), task.values.or_zero(CPU));
    }
    running.values().sum::<u64>() + ended.values().sum::<u64>()
}

/// And what rows say.
fn rows(holdings: Vec<Holding>, now: u64) -> u64 {
    let answers: Answers = holdings.into_iter().map(|holding| (holding.member.clone(), Ok(holding))).collect();
    let mut join = Join::new(Bounds { replicas: 2, ..Bounds::default() });
    let report = join.read(answers, &Ask::of(vec![Selector::everything()]), now);
    report.rows.iter().map(|row| row.values.or_zero(CPU)).sum()
}

/// The rule is in the structure: there is nothing to switch off. The counterexample is a reader that does without rows.
#[test]
fn rule_1_an_ended_task_counts_once_because_its_row_has_it() {
    let (mut swarm, burn) = (Swarm::with_replicas(&["a", "b"], 2), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    // Its end reaches one of its two collectors.
    let (b, last) = (member("b"), cpu(&burn, 100).values);
    swarm.observe(vec![], vec![Ended { meta: burn, values: last }]);
    swarm.tell_one(&b);
    let holdings = || vec![swarm.hold(&member("a")), swarm.hold(&b)];
    assert_eq!(rows(holdings(), swarm.now), 100);
    assert_eq!(running_and_ended(&holdings()), 200, "running at one, ended at the other: counted twice");
}

#[test]
fn rule_19_a_key_that_went_elsewhere_is_not_fresh_where_it_was() {
    needs(Rule::Moved, || {
        let (mut swarm, burn) = (Swarm::new(&["a", "b"]), task("t1", "burn", 1));
        swarm.round(vec![cpu(&burn, 100)]);
        let owner = emitting(&swarm, &swarmstats::model::Key::Task(burn.task_id.clone())).remove(0);
        let other = if owner == member("a") { member("b") } else { member("a") };
        // It leaves the ring; its stream goes on, for it is owed amounts. The new owner is away.
        swarm.outbox.set_ring(ring(&[other.as_str()]));
        for value in [101, 102, 103] {
            swarm.observe(vec![cpu(&burn, value)], vec![]);
            swarm.tell_one(&owner);
        }
        match swarm.task(&owner, "t1") {
            Some(view) if view.fresh && view.values.get(CPU) != Some(103) => {
                violated(format!("{owner} calls {:?} fresh, the task is at 103", view.values.get(CPU)))
            }
            _ => Ok(()),
        }
    });
}

#[test]
fn rule_21_a_total_does_not_fall_because_a_member_left_the_ring() {
    needs(Rule::Join, || {
        let (mut swarm, burn) = (Swarm::with_replicas(&["a", "b"], 2), task("t1", "burn", 1));
        swarm.round(vec![cpu(&burn, 100)]);
        // Only B hears the next ones.
        let (a, b) = (member("a"), member("b"));
        swarm.observe(vec![cpu(&burn, 150)], vec![]);
        swarm.tell_one(&b);
        let mut join = Join::new(Bounds { replicas: 2, ..Bounds::default() });
        let mut total = |members: &[&MemberId]| -> u64 {
            let answers: Answers = members.iter().map(|id| ((*id).clone(), Ok(swarm.hold(id)))).collect();
            let report = join.read(answers, &Ask::of(vec![Selector::everything()]), swarm.now);
            report.rows.iter().map(|row| row.values.or_zero(CPU)).sum()
        };
        let (before, after) = (total(&[&a, &b]), total(&[&a]));
        if before != 150 || after < before {
            return violated(format!("T: the total went from {before} to {after}"));
        }
        Ok(())
    });
}

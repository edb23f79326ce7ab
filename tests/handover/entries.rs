//! Tasks and rows at their collectors: fresh, moved, unreadable, over, and batches that do not fit.

use crate::fixture::*;
use swarmstats::aggregate::{BatchError, Stored};
use swarmstats::message::{Batch, Intro, Unread};
use swarmstats::model::{NodeId, Subject, TaskMeta};
use swarmstats::outbox::Ended;
use swarmstats::stat::CPU;

/// Two collectors, the owner of task t1 first.
fn with_owner() -> (Swarm, [swarmstats::model::MemberId; 2], std::sync::Arc<TaskMeta>) {
    let (mut swarm, burn) = (Swarm::new(&["a", "b"]), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    let [a, b] = [member("a"), member("b")];
    let pair = if swarm.task(&a, "t1").is_some() { [a, b] } else { [b, a] };
    (swarm, pair, burn)
}

#[test]
fn a_moved_key_is_stale_at_once_and_forgotten_when_its_new_owner_has_it() {
    let (mut swarm, [old, new], burn) = with_owner();
    assert!(swarm.task(&old, "t1").unwrap().fresh);
    swarm.outbox.set_ring(ring(&[new.as_str()]));
    swarm.observe(vec![cpu(&burn, 110)], vec![]);
    swarm.tell_one(&old);
    let left = swarm.task(&old, "t1").unwrap();
    assert_eq!((left.fresh, left.primary, left.values.get(CPU)), (false, false, Some(100)), "readable, but stale");
    swarm.tell_one(&new);
    assert!(swarm.task(&new, "t1").unwrap().fresh);
    swarm.observe(vec![cpu(&burn, 120)], vec![]);
    swarm.tell_one(&old);
    assert_eq!(swarm.task(&old, "t1"), None);
}

#[test]
fn a_key_that_moves_back_is_introduced_again_and_not_dropped_with_its_old_handle() {
    let (mut swarm, [old, new], burn) = with_owner();
    swarm.outbox.set_ring(ring(&[new.as_str()]));
    swarm.observe(vec![cpu(&burn, 110)], vec![]);
    swarm.tell_one(&old);
    swarm.outbox.set_ring(ring(&["a", "b"]));
    swarm.round(vec![cpu(&burn, 120)]);
    let back = swarm.task(&old, "t1").unwrap();
    assert_eq!((back.fresh, back.primary, back.values.get(CPU)), (true, true, Some(120)));
    assert_eq!(back.previous, Some((11 * SECOND, 100)), "the reading before, from before its move");
}

#[test]
fn a_moved_key_whose_new_owner_is_away_stays_until_its_shipper_drops_it() {
    let (mut swarm, [old, new], burn) = with_owner();
    swarm.outbox.set_ring(ring(&[new.as_str()]));
    for value in 110..900 {
        swarm.observe(vec![cpu(&burn, value)], vec![]);
        swarm.tell_one(&old);
        swarm.collectors.get_mut(&old).unwrap().expire(swarm.now);
    }
    assert!(swarm.task(&old, "t1").is_some_and(|left| !left.fresh), "long beyond stale_keep");
    swarm.cut(&new);
    swarm.round(vec![cpu(&burn, 900)]);
    swarm.round(vec![cpu(&burn, 901)]);
    assert_eq!((swarm.task(&old, "t1"), swarm.task(&new, "t1").map(|held| held.fresh)), (None, Some(true)));
}

#[test]
fn what_arrives_after_a_freeze_is_not_fresh_by_arriving() {
    let (mut swarm, [owner, _], burn) = with_owner();
    swarm.observe(vec![cpu(&burn, 110)], vec![]);
    let (stream, batch) = (swarm.stream(&owner), swarm.outbox.next_batch(&owner, swarm.now).unwrap());
    // The collector sleeps for ten seconds with the batch in its queue.
    swarm.now += 10 * SECOND;
    swarm.collectors.get_mut(&owner).unwrap().batch(&stream, &batch, swarm.now).unwrap();
    let held = swarm.task(&owner, "t1").unwrap();
    assert_eq!((held.values.get(CPU), held.fresh), (Some(110), false));
    assert!(held.age >= 10_000, "{} ms", held.age);
}

#[test]
fn a_task_that_cannot_be_read_is_not_fresh_and_its_age_goes_on() {
    let (mut swarm, [owner, _], burn) = with_owner();
    for _ in 0..5 {
        swarm.round(vec![unread(&burn)]);
    }
    let held = swarm.task(&owner, "t1").unwrap();
    assert_eq!((held.fresh, held.values.get(CPU), held.monotonic), (false, Some(100), 11 * SECOND));
    assert!(held.age >= 5_000, "{} ms", held.age);
    assert!(swarm.row(&owner, "burn").is_none_or(|row| row.fresh && row.counts.fresh == 0));
    swarm.round(vec![cpu(&burn, 160)]);
    let held = swarm.task(&owner, "t1").unwrap();
    assert_eq!((held.fresh, held.previous), (true, Some((11 * SECOND, 100))), "its rate is over the gap");
}

#[test]
fn an_idle_task_costs_nothing_in_a_batch() {
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    let tasks: Vec<_> = (0..50).map(|i| task(&format!("t{i}"), "idle", 1)).collect();
    let all = || tasks.iter().map(|meta| cpu(meta, 5)).collect::<Vec<_>>();
    swarm.round(all());
    swarm.observe(all(), vec![]);
    let batch = swarm.outbox.next_batch(&a, swarm.now).unwrap();
    assert!(batch.block.is_empty() && batch.intros.is_empty() && batch.unread.is_empty(), "{batch:?}");
}

#[test]
fn an_ended_task_is_remembered_for_a_while_with_its_last_values() {
    let (mut swarm, [owner, _], burn) = with_owner();
    swarm.observe(vec![], vec![Ended { meta: burn, values: None }]);
    swarm.tell();
    let over = swarm.task(&owner, "t1").unwrap();
    assert_eq!((over.ended, over.fresh, over.values.get(CPU)), (true, false, Some(100)));
    swarm.now += 600 * SECOND;
    swarm.collectors.get_mut(&owner).unwrap().expire(swarm.now);
    assert_eq!(swarm.task(&owner, "t1"), None);
}

#[test]
fn after_a_long_silence_a_stream_is_over_and_its_batch_is_refused_whole() {
    let (mut swarm, [owner, _], burn) = with_owner();
    swarm.now += 700 * SECOND;
    swarm.collectors.get_mut(&owner).unwrap().expire(swarm.now);
    assert_eq!(swarm.task(&owner, "t1"), None);
    swarm.observe(vec![cpu(&burn, 110)], vec![]);
    let (stream, batch) = (swarm.stream(&owner), swarm.outbox.next_batch(&owner, swarm.now).unwrap());
    let refused = swarm.collectors.get_mut(&owner).unwrap().batch(&stream, &batch, swarm.now);
    assert!(matches!(refused, Err(BatchError::Forgotten(_))));
    swarm.cut(&owner);
    swarm.tell();
    assert_eq!(swarm.task(&owner, "t1").unwrap().values.get(CPU), Some(110), "reconnecting is the keyframe");
}

/// A batch that would fit, and what makes it not fit; whatever it is, nothing of it is applied.
#[test]
fn a_batch_that_does_not_fit_changes_nothing() {
    type Spoil<'a> = (&'a str, &'a dyn Fn(&mut Batch));
    let foreign = |batch: &mut Batch| {
        let mut meta = (*task("t9", "burn", 1)).clone();
        meta.node_id = NodeId::new("n2").unwrap();
        batch.intros.push(Intro { handle: 9, subject: Subject::Task(meta.into()) });
    };
    let intro = |handle| Intro { handle, subject: Subject::Task(task("t9", "burn", 1)) };
    let spoils: [Spoil<'_>; 8] = [
        ("baselines", &|batch| batch.base ^= 1),
        ("bytes", &|batch| batch.block.push(0xff)),
        ("another node", &foreign),
        ("a handle in use", &|batch| batch.intros.push(intro(0))),
        ("a handle far away", &|batch| batch.intros.push(intro(5_000_000))),
        ("a handle twice", &|batch| batch.intros.extend([intro(3), intro(3)])),
        ("an unknown handle ended", &|batch| batch.ended.push(77)),
        ("an unknown handle unread", &|batch| batch.unread.push(Unread { handle: 77, age: 1 })),
    ];
    let (mut swarm, burn) = (Swarm::new(&["a"]), task("t1", "burn", 1));
    let a = member("a");
    swarm.round(vec![cpu(&burn, 100)]);
    swarm.observe(vec![cpu(&burn, 110)], vec![]);
    let (stream, good) = (swarm.stream(&a), swarm.outbox.next_batch(&a, swarm.now).unwrap());
    let (held, ledger) = (swarm.hold(&a), swarm.ledger(&a, "burn"));
    for (what, spoil) in spoils {
        let mut bad = good.clone();
        spoil(&mut bad);
        let refused = swarm.collectors.get_mut(&a).unwrap().batch(&stream, &bad, swarm.now);
        assert!(refused.is_err(), "{what}");
        assert_eq!((swarm.hold(&a), swarm.ledger(&a, "burn")), (held.clone(), ledger), "{what}");
    }
    let stored = swarm.collectors.get_mut(&a).unwrap().batch(&stream, &good, swarm.now);
    assert!(matches!(stored, Ok(Stored::Acked { repeat: false, .. })), "{stored:?}");
    assert_eq!(swarm.ledger(&a, "burn"), 110);
}

#[test]
fn tasks_beyond_the_bound_are_refused() {
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    let tasks: Vec<_> = (0..300).map(|i| task(&format!("t{i}"), "many", 1)).collect();
    swarm.observe(tasks.iter().map(|meta| cpu(meta, 1)).collect(), vec![]);
    swarm.open(&a).unwrap();
    let (stream, batch) = (swarm.stream(&a), swarm.outbox.next_batch(&a, swarm.now).unwrap());
    let refused = swarm.collectors.get_mut(&a).unwrap().batch(&stream, &batch, swarm.now);
    assert!(matches!(refused, Err(BatchError::Full(_))), "{refused:?}");
    assert_eq!(swarm.collectors[&a].sizes().tasks, 0);
}

#[test]
fn a_task_id_that_another_node_claims_belongs_to_the_last_who_did() {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    // A second host that reads the same engine, as in a lab.
    let mut meta = (*burn).clone();
    meta.node_id = NodeId::new("n2").unwrap();
    let mut other = Swarm::new(&["a"]);
    other.outbox = swarmstats::outbox::Outbox::new(shipper_of("n2", 2), ring(&["a"]));
    std::mem::swap(&mut other.collectors, &mut swarm.collectors);
    other.round(vec![cpu(&meta.into(), 200)]);
    std::mem::swap(&mut other.collectors, &mut swarm.collectors);
    assert_eq!(swarm.task(&a, "t1").map(|held| held.meta.node_id.to_string()), Some("n2".to_owned()));
    // The first one's next word about it does not touch the second one's.
    swarm.observe(vec![cpu(&burn, 110)], vec![]);
    let (stream, batch) = (swarm.stream(&a), swarm.outbox.next_batch(&a, swarm.now).unwrap());
    let refused = swarm.collectors.get_mut(&a).unwrap().batch(&stream, &batch, swarm.now);
    assert!(refused.is_err(), "it builds on what is not its own any more");
    assert_eq!(swarm.task(&a, "t1").unwrap().values.get(CPU), Some(200));
}

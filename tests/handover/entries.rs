//! Tasks and rows at their collectors: fresh, moved, unreadable, over, and batches that do not fit.

use crate::fixture::*;
use std::sync::Arc;
use swarmstats::aggregate::{BatchError, Stored, StreamId};
use swarmstats::message::{Batch, Bye, Intro, Refused, Unread};
use swarmstats::model::{Gen, NodeId, Subject, TaskMeta, Values};
use swarmstats::outbox::{Ended, Outbox, Reading};
use swarmstats::stat::{CPU, EXIT_CODE, PAUSED};
use swarmstats::view::{Ask, Selector};

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
    assert_eq!(back.previous, before(11 * SECOND, 100), "the reading before, from before its move");
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
    assert_eq!((held.fresh, held.previous), (true, before(11 * SECOND, 100)), "its rate is over the gap");
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

fn last(cpu: u64, exit_code: u64) -> Option<Values> {
    Some([(CPU, cpu), (EXIT_CODE, exit_code)].into_iter().collect())
}

#[test]
fn b100_b128_the_last_figures_and_the_exit_code_of_a_task_come_with_its_end() {
    let (mut swarm, [owner, _], burn) = with_owner();
    swarm.observe(vec![], vec![Ended { meta: burn, values: last(170, 137) }]);
    swarm.tell();
    let over = swarm.task(&owner, "t1").unwrap();
    assert!(over.ended && !over.fresh);
    assert_eq!((over.values.get(CPU), over.values.get(EXIT_CODE)), (Some(170), Some(137)));
}

#[test]
fn b109_a_task_that_came_and_went_between_two_batches_is_known_by_its_last_figures() {
    let (mut swarm, [owner, _], burn) = with_owner();
    let brief = task("t1", "brief", 2);
    swarm.outbox.set_ring(ring(&[owner.as_str()]));
    swarm.observe(vec![cpu(&burn, 110)], vec![]);
    let brief = TaskMeta { task_id: swarmstats::model::TaskId::new("t9").unwrap(), ..TaskMeta::clone(&brief) };
    swarm.observe(vec![cpu(&burn, 120)], vec![Ended { meta: brief.into(), values: last(7, 0) }]);
    swarm.tell();
    let over = swarm.task(&owner, "t9").unwrap();
    assert_eq!((over.ended, over.values.get(CPU), over.values.get(EXIT_CODE)), (true, Some(7), Some(0)));
    assert_eq!(swarm.row(&owner, "brief").unwrap().counts.ended, 1);
    let batch = swarm.outbox.next_batch(&owner, swarm.now);
    assert_eq!(batch, None, "told once");
    swarm.round(vec![cpu(&burn, 130)]);
    assert_eq!(swarm.hold(&owner).tasks.len(), 2);
}

#[test]
fn the_last_figures_of_an_incarnation_that_was_replaced_within_a_round_are_its_own() {
    let (mut swarm, [owner, _], burn) = with_owner();
    let again: std::sync::Arc<TaskMeta> =
        TaskMeta { container_id: "t1-2".into(), started_at: burn.started_at + 1000, ..TaskMeta::clone(&burn) }.into();
    swarm.observe(vec![cpu(&again, 5)], vec![Ended { meta: burn.clone(), values: last(170, 1) }]);
    swarm.tell();
    let views: Vec<_> = swarm.hold(&owner).tasks;
    let of = |id: &str| views.iter().find(|view| &*view.meta.container_id == id).unwrap();
    assert_eq!((of("t1-1").ended, of("t1-1").values.get(EXIT_CODE)), (true, Some(1)));
    assert_eq!((of("t1-2").ended, of("t1-2").values.get(CPU)), (false, Some(5)));
    // And of one that nobody but its successor saw end, none at all.
    let third: std::sync::Arc<TaskMeta> =
        TaskMeta { container_id: "t1-3".into(), started_at: burn.started_at + 2000, ..TaskMeta::clone(&burn) }.into();
    let fourth = TaskMeta { container_id: "t1-4".into(), started_at: burn.started_at + 3000, ..TaskMeta::clone(&burn) };
    swarm.observe(vec![cpu(&third, 9)], vec![]);
    swarm.observe(vec![cpu(&fourth.into(), 1)], vec![Ended { meta: third, values: last(12, 2) }]);
    swarm.tell();
    let views: Vec<_> = swarm.hold(&owner).tasks;
    let of = |id: &str| views.iter().find(|view| &*view.meta.container_id == id);
    assert_eq!(of("t1-2").map(|view| (view.ended, view.values.get(EXIT_CODE))), Some((true, None)));
    assert!(of("t1-4").is_some_and(|view| !view.ended));
}

/// CPU % between a reading and the one before.
fn cpu_percent(view: &swarmstats::view::TaskView) -> Option<u64> {
    let before = view.previous.as_ref()?;
    let elapsed = view.monotonic.checked_sub(before.monotonic).filter(|elapsed| *elapsed > 0)?;
    Some((view.values.get(CPU)? - before.get(CPU)?) * 100 / elapsed)
}

/// What an engine's record of two seconds' age says in rounds of one second: half a CPU all the time.
fn record(meta: &std::sync::Arc<TaskMeta>, at: u64, now: u64, paused: u64) -> Reading {
    let values = [(CPU, at / 2), (PAUSED, paused)].into_iter().collect();
    Reading { meta: meta.clone(), values: Some(values), age: now - at }
}

#[test]
fn b010_b022_cpu_percent_of_records_is_between_their_own_moments_whenever_rounds_are() {
    let (mut swarm, burn) = (Swarm::new(&["a"]), task("t1", "burn", -100));
    let a = member("a");
    let mut seen = Vec::new();
    for round in 0..12u64 {
        // A record every second or third round, read some time before the round.
        let now = swarm.now + SECOND;
        let at = [0, 0, 0, 3, 3, 5, 5, 5, 8, 8, 10, 10][round as usize] * SECOND + 10_400_000_000;
        swarm.round(vec![record(&burn, at, now, u64::from(round == 4))]);
        let view = swarm.task(&a, "t1").unwrap();
        assert_eq!((view.monotonic, view.version.q), (at, round + 1), "of its own moment, in every round");
        if round > 0 {
            assert_eq!(view.fresh, now - at <= 3 * SECOND, "round {round}");
            assert_eq!(view.age, (now - at) / 1_000_000);
        }
        seen.push(cpu_percent(&view));
        // The shipper itself says the same.
        let own = swarm.outbox.hold(
            &swarmstats::view::Ask::of(vec![swarmstats::view::Selector::everything()]),
            a.clone(),
            swarmstats::model::Gen(1),
            swarm.now,
        );
        assert_eq!((own.tasks[0].monotonic, cpu_percent(&own.tasks[0])), (at, cpu_percent(&view)));
        if round == 8 {
            swarm.cut(&a);
        }
    }
    assert!(seen[..3].iter().all(Option::is_none), "one record is no rate");
    assert!(seen[3..].iter().all(|percent| *percent == Some(50)), "{seen:?}");
}

#[test]
fn an_idle_task_read_by_the_engine_uses_no_cpu_and_one_read_by_the_kernel_again_goes_on() {
    let (mut swarm, burn) = (Swarm::new(&["a"]), task("t1", "burn", -100));
    let a = member("a");
    let same = |now: u64, at: u64| {
        let values = [(CPU, 7 * SECOND)].into_iter().collect();
        Reading { meta: burn.clone(), values: Some(values), age: now - at }
    };
    for at in [10_500_000_000, 10_500_000_000, 12_500_000_000] {
        let now = swarm.now + SECOND;
        swarm.round(vec![same(now, at)]);
    }
    let view = swarm.task(&a, "t1").unwrap();
    assert_eq!(
        (view.previous.as_ref().map(|before| before.monotonic), cpu_percent(&view)),
        (Some(10_500_000_000), Some(0))
    );
    swarm.round(vec![cpu(&burn, 7 * SECOND + 750_000_000)]);
    let view = swarm.task(&a, "t1").unwrap();
    assert_eq!((view.monotonic, cpu_percent(&view)), (14 * SECOND, Some(50)));
}

#[test]
fn a_record_that_is_older_than_a_sample_may_be_is_no_reading_of_the_round() {
    let (mut swarm, burn) = (Swarm::new(&["a"]), task("t1", "burn", -100));
    let at = swarm.now;
    for round in 1..=5 {
        let now = swarm.now + SECOND;
        swarm.round(vec![record(&burn, at, now, 0)]);
        let (view, row) = (swarm.task(&member("a"), "t1").unwrap(), swarm.row(&member("a"), "burn").unwrap());
        assert_eq!(row.counts.fresh, u64::from(round <= 3));
        assert_eq!(view.fresh && round > 1, (2..=3).contains(&round), "round {round}");
    }
}

#[test]
fn b095_what_waits_to_be_restarted_is_known_and_not_fresh_and_its_wait_ends_no_task() {
    let (mut swarm, [owner, _], burn) = with_owner();
    swarm.observe(vec![], vec![Ended { meta: burn.clone(), values: last(170, 1) }]);
    swarm.tell();
    swarm.round(vec![unread(&burn)]);
    let (view, row) = (swarm.task(&owner, "t1").unwrap(), swarm.row(&owner, "burn"));
    assert!(!view.fresh);
    let counts =
        row.or_else(|| swarm.row(&member(if owner == member("a") { "b" } else { "a" }), "burn")).unwrap().counts;
    assert_eq!((counts.running, counts.fresh, counts.ended), (1, 0, 1));
    let again = TaskMeta { started_at: burn.started_at + 1000, ..TaskMeta::clone(&burn) };
    swarm.observe(vec![cpu(&again.into(), 5)], vec![Ended { meta: burn, values: None }]);
    swarm.tell();
    let rows = [member("a"), member("b")].map(|id| swarm.row(&id, "burn"));
    assert_eq!(rows.into_iter().flatten().next().unwrap().counts.ended, 1);
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
fn a_renamed_task_is_told_under_its_new_name_and_its_figures_go_on() {
    let (mut swarm, a, old) = (Swarm::new(&["a"]), member("a"), task("t1", "web", 1));
    swarm.round(vec![cpu(&old, SECOND)]);
    let new = Arc::new(TaskMeta { task_name: "renamed".into(), ..TaskMeta::clone(&old) });
    for used in [2, 3, 4] {
        swarm.round(vec![cpu(&new, used * SECOND)]);
        let view = swarm.task(&a, "t1").unwrap();
        assert_eq!((&*view.meta.task_name, view.fresh, view.primary), ("renamed", true, true));
        assert_eq!(view.values.get(CPU), Some(used * SECOND));
        assert_eq!(view.previous, before(swarm.now - SECOND, (used - 1) * SECOND));
    }
    assert_eq!((swarm.row(&a, "web").unwrap().counts.running, swarm.hold(&a).tasks.len()), (1, 1));
    // The same texts made anew are no news.
    swarm.observe(vec![cpu(&Arc::new(TaskMeta::clone(&new)), 5 * SECOND)], vec![]);
    let batch = swarm.outbox.next_batch(&a, swarm.now).unwrap();
    assert!(batch.intros.is_empty() && batch.drop.is_empty());
}

/// A collector that cannot keep up advises longer intervals: what is fresh follows them.
#[test]
fn by_advice_a_shipper_reads_less_often_and_its_figures_stay_fresh() {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    swarm.outbox.set_pace(10 * SECOND);
    swarm.round(vec![cpu(&burn, 110)]);
    for _ in 0..29 {
        swarm.now += SECOND;
        swarm.tell();
        let own = swarm.outbox.hold(&Ask::of(vec![Selector::everything()]), a.clone(), Gen(1), swarm.now);
        let fresh = (swarm.task(&a, "t1").unwrap().fresh, swarm.row(&a, "burn").unwrap().fresh, own.tasks[0].fresh);
        assert_eq!(fresh, (true, true, true), "{} s after", swarm.now / SECOND);
    }
    // The advice is over: the bound is the interval's again.
    swarm.outbox.set_pace(SECOND);
    swarm.round(vec![cpu(&burn, 120)]);
    swarm.now += 5 * SECOND;
    assert!(!swarm.task(&a, "t1").unwrap().fresh);
}

#[test]
fn of_two_nodes_with_one_task_the_second_is_refused_while_the_first_lives() {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    let mut clone = Outbox::new(shipper_of("n2", 2), ring(&["a"]));
    let meta = Arc::new(TaskMeta { node_id: NodeId::new("n2").unwrap(), ..TaskMeta::clone(&burn) });
    clone.observe(swarm.now, Values::default(), [cpu(&meta, 7)], []);
    let mut offer = |swarm: &mut Swarm| {
        let hello = clone.hello(&a);
        let collector = swarm.collectors.get_mut(&a).unwrap();
        let hi = collector.hello(&hello, swarm.now).unwrap();
        clone.greeted(&a, hello.k, &Ok(hi), swarm.now, STARTED);
        let batch = clone.next_batch(&a, swarm.now).unwrap();
        collector.batch(&StreamId::of(&hello), &batch, swarm.now).map(|_| ())
    };
    let refused = offer(&mut swarm).unwrap_err();
    assert_eq!(refused, BatchError::Foreign("n2".into(), "n1".into()));
    swarm.round(vec![cpu(&burn, 101)]);
    assert_eq!(swarm.task(&a, "t1").unwrap().values.get(CPU), Some(101), "the first goes on");
    swarm.cut(&a);
    offer(&mut swarm).unwrap();
    assert_eq!(swarm.task(&a, "t1").unwrap().values.get(CPU), Some(7), "it is taken over once the first is away");
}

#[test]
fn a_goodbye_is_no_takeover() {
    let (mut swarm, burn) = (Swarm::with_replicas(&["a", "b"], 1), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    let primary = |swarm: &Swarm, id: &str| swarm.task(&member(id), "t1").is_some_and(|task| task.primary);
    let (first, second) = if primary(&swarm, "a") { ("a", "b") } else { ("b", "a") };
    let k = swarm.stream(&member(first)).k;
    swarm.outbox.bye(&member(first), k, &Bye::default());
    swarm.collectors.remove(&member(first));
    for value in 101..104 {
        swarm.round(vec![cpu(&burn, value)]);
    }
    assert!(primary(&swarm, second));
    assert_eq!(swarm.outbox.takeovers(), 0, "nobody was lost");
}

/// Whoever had the higher epoch may have granted the key elsewhere, and that lease lasts for L.
#[test]
fn after_a_refusal_no_role_is_granted_before_l_has_passed() {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    assert!(swarm.task(&a, "t1").unwrap().primary);
    let hello = swarm.outbox.hello(&a);
    let refused = Err(Refused { highest_epoch: STARTED + 5, reason: "older".to_owned() });
    swarm.outbox.greeted(&a, hello.k, &refused, swarm.now, STARTED);
    swarm.open(&a).unwrap();
    let mut primary = |value| {
        swarm.round(vec![cpu(&burn, value)]);
        swarm.task(&a, "t1").unwrap().primary
    };
    assert_eq!([101, 102, 103, 104].map(&mut primary), [false, false, false, true]);
}

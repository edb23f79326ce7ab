//! Public faults of tools like this one, each by its row of `tests/data/faults.txt`, between a shipper and its collectors.

use crate::fixture::*;
use std::sync::Arc;
use swarmstats::aggregate::BatchError;
use swarmstats::message::Intro;
use swarmstats::model::{NodeId, Subject, TaskMeta, Values};
use swarmstats::outbox::Ended;
use swarmstats::stat::{CPU, MEMORY_USED};

#[test]
fn b092_a_services_total_keeps_what_its_replaced_tasks_did() {
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    let [one, other] = ["t1", "t2"].map(|id| task(id, "web", 1));
    swarm.round(vec![cpu(&one, 100), cpu(&other, 50)]);
    // A redeploy: both are replaced, one after the other.
    let [third, fourth] = ["t3", "t4"].map(|id| task(id, "web", 20));
    swarm.observe(vec![cpu(&other, 60), cpu(&third, 1)], vec![Ended { meta: one, values: None }]);
    swarm.tell();
    let last = Some([(CPU, 70)].into_iter().collect());
    swarm.observe(vec![cpu(&third, 2), cpu(&fourth, 1)], vec![Ended { meta: other, values: last }]);
    swarm.tell();
    let row = swarm.row(&a, "web").unwrap();
    assert_eq!((row.values.get(CPU), row.counts.running, row.counts.ended), (Some(100 + 70 + 2 + 1), 2, 2));
}

#[test]
fn b104_b106_the_series_of_a_task_that_is_over_is_gone_with_the_next_scrape() {
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    let memory = |meta: &Arc<TaskMeta>| read(meta, &[(CPU, 1), (MEMORY_USED, 100)]);
    let shown = |swarm: &mut Swarm| {
        let scrape = swarm.collectors.get_mut(&a).unwrap().scrape(swarm.now);
        let memory: u64 = scrape.services.iter().map(|service| service.gauges.or_zero(MEMORY_USED)).sum();
        (scrape.tasks.iter().map(|task| task.meta.task_id.to_string()).collect::<Vec<_>>(), memory)
    };
    let old = task("t1", "web", 1);
    swarm.round(vec![memory(&old)]);
    swarm.round(vec![memory(&old)]);
    assert_eq!(shown(&mut swarm), (vec!["t1".into()], 100));
    // Restarted: memory is not there twice.
    let new = task("t2", "web", 5);
    swarm.observe(vec![memory(&new)], vec![Ended { meta: old, values: Some(Values::default()) }]);
    swarm.tell();
    swarm.round(vec![memory(&new)]);
    assert_eq!(shown(&mut swarm), (vec!["t2".into()], 100));
}

#[test]
fn p01_b110_what_nobody_reads_any_more_grows_old_is_stale_after_three_intervals_and_stays_to_be_seen() {
    let (mut swarm, a, web) = (Swarm::new(&["a"]), member("a"), task("t1", "web", 1));
    swarm.round(vec![read(&web, &[(CPU, 7), (MEMORY_USED, 100)])]);
    swarm.round(vec![read(&web, &[(CPU, 8), (MEMORY_USED, 100)])]);
    let read_at = swarm.now;
    for (later, fresh) in [(0, true), (2, true), (3, true), (5, false), (30, false)] {
        swarm.now = read_at + later * SECOND;
        let view = swarm.task(&a, "t1").unwrap();
        assert_eq!(view.fresh, fresh, "after {later} s");
        assert!(view.age >= later * 1000 && view.age <= later * 1000 + 1000, "after {later} s: {} ms", view.age);
        assert_eq!(view.values.get(MEMORY_USED), Some(100), "its last figures stay");
    }
}

#[test]
fn b125_after_a_gap_the_reading_before_is_the_last_good_one() {
    let (mut swarm, a, web) = (Swarm::new(&["a"]), member("a"), task("t1", "web", 1));
    swarm.round(vec![cpu(&web, SECOND)]);
    swarm.round(vec![cpu(&web, 2 * SECOND)]);
    let good = swarm.now;
    for _ in 0..8 {
        swarm.round(vec![unread(&web)]);
        assert_eq!(swarm.task(&a, "t1").unwrap().previous, None, "no rate meanwhile, and no 0");
    }
    swarm.round(vec![cpu(&web, 6 * SECOND + SECOND / 2)]);
    let view = swarm.task(&a, "t1").unwrap();
    let before = view.previous.unwrap();
    assert_eq!((before.monotonic, before.get(CPU)), (good, Some(2 * SECOND)), "4.5 s in 9 s is 50 %");
    assert_eq!(view.monotonic - before.monotonic, 9 * SECOND);
}

#[test]
fn p04_p14_a_stream_speaks_for_its_own_node_and_what_it_says_of_another_is_refused() {
    let (mut swarm, a, web) = (Swarm::new(&["a"]), member("a"), task("t1", "web", 1));
    swarm.round(vec![cpu(&web, 1)]);
    swarm.observe(vec![cpu(&web, 2)], vec![]);
    let (stream, mut batch) = (swarm.stream(&a), swarm.outbox.next_batch(&a, swarm.now).unwrap());
    let foreign = TaskMeta { node_id: NodeId::new("n2").unwrap(), ..TaskMeta::clone(&task("t9", "web", 1)) };
    batch.intros.push(Intro { handle: 9, subject: Subject::Task(foreign.into()) });
    let refused = swarm.collectors.get_mut(&a).unwrap().batch(&stream, &batch, swarm.now);
    assert_eq!(refused, Err(BatchError::Foreign("n1".into(), "n2".into())));
    assert!(swarm.hold(&a).tasks.iter().all(|task| task.meta.node_id == stream.node));
}

//! Increments on their way to ledgers: each is handed to exactly one process.

use crate::fixture::*;
use swarmstats::aggregate::{HelloError, Stored};
use swarmstats::message::Refused;
use swarmstats::outbox::{Ended, Outbox, OutboxConfig};
use swarmstats::stat::{BLOCK_READ, COUNTERS, CPU};

/// A swarm of one collector, with a task of 100 ns that the ledger has, shown and known to be.
fn settled() -> (Swarm, swarmstats::model::MemberId, std::sync::Arc<swarmstats::model::TaskMeta>) {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    assert_eq!(swarm.scrape(&a, "burn"), Some(0), "a series is born with 0");
    swarm.round(vec![cpu(&burn, 100)]);
    assert_eq!(swarm.scrape(&a, "burn"), Some(100));
    swarm.round(vec![cpu(&burn, 100)]);
    assert_eq!(swarm.outbox.sizes().unexposed, 0);
    (swarm, a, burn)
}

#[test]
fn a_task_older_than_the_shipper_counts_for_the_ledger_from_its_first_reading() {
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    let (old, young) = (task("t1", "old", -60), task("t2", "young", 1));
    swarm.round(vec![cpu(&old, 500), cpu(&young, 7)]);
    swarm.round(vec![cpu(&old, 530), cpu(&young, 9)]);
    assert_eq!((swarm.ledger(&a, "old"), swarm.ledger(&a, "young")), (30, 9));
    let total = |of| swarm.row(&a, of).unwrap().values.get(CPU);
    assert_eq!((total("old"), total("young")), (Some(530), Some(9)), "totals count it whole");
}

#[test]
fn a_task_that_could_not_be_read_at_first_counts_whole_once_it_can() {
    let (mut swarm, a, old) = (Swarm::new(&["a"]), member("a"), task("t1", "old", -60));
    swarm.round(vec![unread(&old)]);
    swarm.round(vec![cpu(&old, 500)]);
    assert_eq!((swarm.row(&a, "old").unwrap().values.get(CPU), swarm.ledger(&a, "old")), (Some(500), 0));
}

#[test]
fn a_stat_that_is_absent_for_a_while_goes_on_from_where_it_was() {
    let (mut swarm, a, young) = (Swarm::new(&["a"]), member("a"), task("t1", "young", 1));
    for reading in [vec![(CPU, 100), (BLOCK_READ, 7)], vec![(BLOCK_READ, 7)], vec![(CPU, 130), (BLOCK_READ, 7)]] {
        swarm.round(vec![read(&young, &reading)]);
    }
    assert_eq!((swarm.row(&a, "young").unwrap().values.get(CPU), swarm.ledger(&a, "young")), (Some(130), 130));
}

#[test]
fn a_stat_first_present_later_starts_at_zero_only_for_a_task_younger_than_the_shipper() {
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    let (old, young) = (task("t1", "old", -60), task("t2", "young", 1));
    swarm.round(vec![cpu(&old, 1), cpu(&young, 1)]);
    swarm.round(vec![read(&old, &[(CPU, 1), (BLOCK_READ, 4096)]), read(&young, &[(CPU, 1), (BLOCK_READ, 4096)])]);
    let total = |of| swarm.row(&a, of).unwrap().values.get(BLOCK_READ);
    assert_eq!((total("old"), total("young")), (Some(0), Some(4096)));
}

#[test]
fn a_counter_that_fell_is_a_reset_and_a_new_container_starts_over() {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    for value in [100, 40, 45] {
        swarm.round(vec![cpu(&burn, value)]);
    }
    assert_eq!(swarm.ledger(&a, "burn"), 105);
    let mut again = (*burn).clone();
    again.container_id = "t1-2".into();
    swarm.round(vec![cpu(&again.into(), 3)]);
    let row = swarm.row(&a, "burn").unwrap();
    assert_eq!((swarm.ledger(&a, "burn"), row.values.get(CPU), row.counts.ended), (108, Some(108), 1));
}

#[test]
fn a_container_restarted_in_place_within_a_round_counts_its_last_reading_and_its_successor_once() {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    let again: std::sync::Arc<_> =
        swarmstats::model::TaskMeta { started_at: burn.started_at + 500, ..(*burn).clone() }.into();
    let last = cpu(&burn, 101).values;
    swarm.observe(vec![cpu(&again, 5)], vec![Ended { meta: burn, values: last }]);
    swarm.tell();
    for _ in 0..2 {
        let row = swarm.row(&a, "burn").unwrap();
        let known = (swarm.ledger(&a, "burn"), row.values.get(CPU), row.counts.running, row.counts.ended);
        assert_eq!(known, (106, Some(106), 1, 1), "100 + 1 of the first, 5 of the second");
        swarm.round(vec![cpu(&again, 5)]);
    }
}

#[test]
fn an_end_told_late_does_not_end_the_container_that_came_after() {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    let (mut again, last) = ((*burn).clone(), [(CPU, 110)].into_iter().collect());
    (again.container_id, again.started_at) = ("t1-2".into(), burn.started_at + 5_000);
    let again = std::sync::Arc::new(again);
    swarm.round(vec![cpu(&again, 3)]);
    swarm.observe(vec![cpu(&again, 4)], vec![Ended { meta: burn, values: Some(last) }]);
    swarm.tell();
    assert_eq!((swarm.ledger(&a, "burn"), swarm.row(&a, "burn").unwrap().counts.running), (104, 1));
    // One that was never read itself ends what came before it.
    let mut third = (*again).clone();
    (third.container_id, third.started_at) = ("t1-3".into(), again.started_at + 5_000);
    swarm.observe(vec![], vec![Ended { meta: third.into(), values: None }]);
    swarm.tell();
    assert_eq!(swarm.row(&a, "burn").unwrap().counts.running, 0);
}

#[test]
fn a_batch_in_flight_comes_back_only_if_the_same_process_does_not_have_it() {
    for arrived in [false, true] {
        let (mut swarm, a, burn) = settled();
        swarm.observe(vec![cpu(&burn, 130)], vec![]);
        if arrived {
            assert!(matches!(swarm.send(&a), Some(Stored::Acked { repeat: false, .. })));
        } else {
            swarm.outbox.next_batch(&a, swarm.now).unwrap();
        }
        assert_eq!(swarm.pooled("burn"), 0, "it is on its way");
        swarm.cut(&a);
        swarm.open(&a).unwrap();
        assert_eq!(swarm.pooled("burn"), if arrived { 0 } else { 30 });
        swarm.tell();
        assert_eq!(swarm.ledger(&a, "burn"), 130);
    }
}

#[test]
fn a_batch_read_late_from_a_stream_given_up_counts_nothing() {
    let (mut swarm, a, burn) = settled();
    swarm.observe(vec![cpu(&burn, 130)], vec![]);
    let (old, late) = (swarm.stream(&a), swarm.outbox.next_batch(&a, swarm.now).unwrap());
    swarm.cut(&a);
    swarm.tell();
    assert_eq!(swarm.ledger(&a, "burn"), 130, "it was sent again on the new stream");
    let stored = swarm.collectors.get_mut(&a).unwrap().batch(&old, &late, swarm.now).unwrap();
    assert_eq!((stored, swarm.ledger(&a, "burn")), (Stored::Void, 130));
}

#[test]
fn the_same_bytes_again_are_acknowledged_and_not_counted() {
    let (mut swarm, a, burn) = settled();
    swarm.observe(vec![cpu(&burn, 130)], vec![]);
    let (stream, batch) = (swarm.stream(&a), swarm.outbox.next_batch(&a, swarm.now).unwrap());
    let collector = swarm.collectors.get_mut(&a).unwrap();
    let answers = [1, 2].map(|_| collector.batch(&stream, &batch, swarm.now).unwrap());
    let repeats = answers.map(|answer| match answer {
        Stored::Acked { ack, repeat, .. } => (ack.n == batch.n, repeat),
        Stored::Void => panic!("the stream is current"),
    });
    assert_eq!((repeats, swarm.ledger(&a, "burn")), ([(true, false), (true, true)], 130));
}

#[test]
fn what_a_dead_process_had_not_shown_goes_to_its_successor_and_the_rest_does_not() {
    let (mut swarm, a, burn) = settled();
    swarm.round(vec![cpu(&burn, 130)]);
    swarm.restart(&a, 2);
    swarm.open(&a).unwrap();
    assert_eq!(swarm.pooled("burn"), 30);
    swarm.round(vec![cpu(&burn, 135)]);
    assert_eq!(swarm.ledger(&a, "burn"), 35, "with the 100 its predecessor had shown: 135");
}

#[test]
fn a_scrape_counts_as_shown_once_it_is_written_and_for_what_it_showed() {
    let (mut swarm, a, burn) = settled();
    swarm.round(vec![cpu(&burn, 130)]);
    let body = swarm.collectors.get_mut(&a).unwrap().scrape(swarm.now);
    swarm.round(vec![cpu(&burn, 131)]);
    assert_eq!(swarm.outbox.sizes().unexposed, 2, "the body is not written yet");
    swarm.collectors.get_mut(&a).unwrap().scraped(&body.mark, swarm.now);
    swarm.round(vec![cpu(&burn, 131)]);
    assert_eq!(swarm.outbox.sizes().unexposed, 1, "the body did not have the second batch");
    swarm.restart(&a, 2);
    swarm.open(&a).unwrap();
    assert_eq!(swarm.pooled("burn"), 1);
}

#[test]
fn amounts_that_wait_for_their_series_zero_are_not_taken_for_shown() {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    assert_eq!(swarm.scrape(&a, "burn"), Some(0));
    swarm.round(vec![cpu(&burn, 100)]);
    swarm.restart(&a, 2);
    swarm.open(&a).unwrap();
    assert_eq!(swarm.pooled("burn"), 100);
}

#[test]
fn a_batch_in_flight_to_a_member_that_is_silent_for_too_long_is_given_up_and_counted() {
    let (mut swarm, a, burn) = settled();
    swarm.observe(vec![cpu(&burn, 130)], vec![]);
    swarm.outbox.next_batch(&a, swarm.now).unwrap();
    swarm.cut(&a);
    for _ in 0..130 {
        swarm.observe(vec![cpu(&burn, 130)], vec![]);
    }
    assert_eq!((swarm.pooled("burn"), swarm.dropped("burn")), (0, 30));
}

#[test]
fn what_bye_calls_shown_is_settled_and_the_rest_goes_to_the_successor() {
    let (mut swarm, a, burn) = settled();
    swarm.round(vec![cpu(&burn, 130)]);
    assert_eq!(swarm.scrape(&a, "burn"), Some(130));
    swarm.round(vec![cpu(&burn, 131)]);
    let stream = swarm.stream(&a);
    let bye = swarm.collectors[&a].bye(&stream);
    swarm.outbox.bye(&a, stream.k, &bye);
    assert_eq!((swarm.pooled("burn"), swarm.outbox.sizes().unexposed), (1, 0));
}

#[test]
fn a_member_that_left_the_ring_keeps_what_it_is_owed_until_it_is_settled() {
    let (mut swarm, burn) = (Swarm::new(&["a", "b"]), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    let owner = swarm.collectors.keys().find(|id| swarm.ledger(id, "burn") > 0).unwrap().clone();
    let other = swarm.collectors.keys().find(|id| **id != owner).unwrap().clone();
    swarm.outbox.set_ring(ring(&[other.as_str()]));
    swarm.round(vec![cpu(&burn, 130)]);
    assert_eq!((swarm.ledger(&owner, "burn"), swarm.ledger(&other, "burn")), (100, 30), "not in the ring is not dead");
    assert!(swarm.outbox.destinations().contains(&owner));
    for _ in 0..2 {
        swarm.scrape(&owner, "burn");
        swarm.round(vec![cpu(&burn, 130)]);
    }
    swarm.tell();
    assert_eq!(swarm.outbox.destinations(), [other]);
    assert_eq!(swarm.pooled("burn"), 0);
}

#[test]
fn amounts_that_wait_longer_than_max_catch_up_are_dropped_and_counted_and_none_before() {
    let (mut swarm, a, burn) = settled();
    swarm.cut(&a);
    swarm.observe(vec![cpu(&burn, 130)], vec![]);
    let read = swarm.now;
    while swarm.now < read + 120 * SECOND {
        swarm.observe(vec![cpu(&burn, 130)], vec![]);
    }
    assert_eq!((swarm.pooled("burn"), swarm.dropped("burn")), (30, 0));
    while swarm.now < read + 150 * SECOND {
        swarm.observe(vec![cpu(&burn, 130)], vec![]);
    }
    assert_eq!((swarm.pooled("burn"), swarm.dropped("burn")), (0, 30));
    swarm.tell();
    assert_eq!(swarm.row(&a, "burn").unwrap().values.get(CPU), Some(130), "the total has it all the same");
}

#[test]
fn what_nobody_scrapes_in_time_is_forgotten_but_not_dropped_for_the_ledger_has_it() {
    let (mut swarm, a, burn) = settled();
    for value in 130..300 {
        swarm.round(vec![cpu(&burn, value)]);
    }
    let unconfirmed = swarm.outbox.unconfirmed();
    // All but what is younger than max_catch_up and a quarter: each batch once, the first of 30 ns, the others of 1.
    assert!((20..=50).contains(&unconfirmed.batches), "{unconfirmed:?}");
    assert_eq!(unconfirmed.amounts.get(CPU), Some(unconfirmed.batches + 29));
    assert_eq!((swarm.ledger(&a, "burn"), swarm.dropped("burn")), (299, 0));
    assert!(swarm.outbox.sizes().unexposed <= 151, "at most max_catch_up and a quarter");
}

#[test]
fn a_refused_shipper_takes_a_higher_epoch_and_keeps_its_pool_and_its_totals() {
    let (mut swarm, a, burn) = settled();
    swarm.observe(vec![cpu(&burn, 130)], vec![]);
    let hello = swarm.outbox.hello(&a);
    let refused = Err(Refused { highest_epoch: STARTED + 5, reason: "older".to_owned() });
    let another = swarm.outbox.greeted(&a, hello.k, &refused, swarm.now, STARTED);
    assert!(another, "this process had accepted the shipper before: another one speaks for the node");
    assert!(swarm.outbox.version().epoch > STARTED + 5);
    swarm.open(&a).unwrap();
    swarm.tell();
    assert_eq!((swarm.ledger(&a, "burn"), swarm.row(&a, "burn").unwrap().values.get(CPU)), (130, Some(130)));
}

#[test]
fn a_shipper_alone_whose_clock_was_set_back_is_not_taken_for_two() {
    let mut swarm = Swarm::new(&["a", "b"]);
    for (id, epoch) in [("a", STARTED + 10), ("b", STARTED + 20)] {
        let hello = swarm.outbox.hello(&member(id));
        let refused = Err(Refused { highest_epoch: epoch, reason: "older".to_owned() });
        assert!(!swarm.outbox.greeted(&member(id), hello.k, &refused, swarm.now, STARTED));
    }
    assert!(swarm.outbox.version().epoch > STARTED + 20);
}

#[test]
fn two_shippers_with_one_epoch_are_told_apart() {
    let (mut swarm, a, _) = settled();
    let mut other = Outbox::new(shipper_of("n1", 2), ring(&["a"]));
    for _ in 0..9 {
        let hello = other.hello(&a);
        let answer = swarm.collectors.get_mut(&a).unwrap().hello(&hello, swarm.now);
        assert!(matches!(answer, Err(HelloError::Old(_))), "even where its stream number is the higher one");
    }
}

#[test]
fn each_series_of_a_service_is_born_with_zero() {
    let (mut swarm, a, burn) = settled();
    let shown = |swarm: &mut Swarm, confirmed| {
        let collector = swarm.collectors.get_mut(&a).unwrap();
        let scrape = collector.scrape(swarm.now);
        if confirmed {
            collector.scraped(&scrape.mark, swarm.now);
        }
        (scrape.services[0].counters.get(CPU), scrape.services[0].counters.get(BLOCK_READ))
    };
    assert_eq!(shown(&mut swarm, true), (Some(100), None));
    swarm.round(vec![read(&burn, &[(CPU, 110), (BLOCK_READ, 4096)])]);
    assert_eq!(shown(&mut swarm, false), (Some(110), Some(0)));
    assert_eq!(shown(&mut swarm, true), (Some(110), Some(0)), "the first body was not written in full");
    assert_eq!(shown(&mut swarm, true), (Some(110), Some(4096)));
    // What waits longest for its 0 is shown after 15 s, scraped or not.
    let (mut swarm, young) = (Swarm::new(&["a"]), task("t2", "young", 1));
    swarm.round(vec![cpu(&young, 7)]);
    assert_eq!(shown(&mut swarm, false).0, Some(0));
    swarm.now += 15 * SECOND;
    assert_eq!(shown(&mut swarm, false).0, Some(7));
}

#[test]
fn a_series_that_waits_for_its_zero_leaves_what_others_showed_exposed() {
    let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
    swarm.round(vec![cpu(&burn, 100)]);
    // A series comes between the scrape that shows the 0 of another and its confirmation.
    let first = swarm.collectors.get_mut(&a).unwrap().scrape(swarm.now);
    swarm.round(vec![read(&burn, &[(CPU, 110), (BLOCK_READ, 4096)])]);
    swarm.collectors.get_mut(&a).unwrap().scraped(&first.mark, swarm.now);
    assert_eq!(swarm.scrape(&a, "burn"), Some(110));
    swarm.round(vec![read(&burn, &[(CPU, 110), (BLOCK_READ, 4096)])]);
    // The process dies: the 100 were shown whole; of the batch after them something was not.
    swarm.restart(&a, 2);
    swarm.open(&a).unwrap();
    assert_eq!(swarm.pooled("burn"), 10);
}

#[test]
fn a_retired_row_leaves_the_node_row_and_moves_its_since() {
    let (mut swarm, a, burn) = settled();
    let last = swarm.row(&a, "burn").unwrap();
    assert_eq!(last.values.present() & COUNTERS, CPU.bit());
    swarm.observe(vec![], vec![Ended { meta: burn, values: None }]);
    swarm.tell();
    assert_eq!(swarm.row(&a, "burn").unwrap().counts.ended, 1);
    let node = |swarm: &Swarm| swarm.hold(&a).nodes[0].meta.clone();
    assert_eq!((node(&swarm).services.len(), node(&swarm).since), (1, STARTED));
    swarm.now += 3600 * SECOND;
    swarm.round(vec![]);
    assert_eq!((node(&swarm).services.len(), swarm.row(&a, "burn").map(|_| ())), (0, None));
    assert!(node(&swarm).since >= STARTED + 3_600_000);
}

/// A service stops while its row's owner is away, and its row is given up before its amounts are.
#[test]
fn what_a_retired_row_had_not_handed_over_is_dropped_and_counted() {
    let (mut swarm, a) = (Swarm::new(&["a"]), member("a"));
    swarm.outbox = Outbox::new(OutboxConfig { row_keep: 60 * SECOND, ..shipper_of("n1", 1) }, ring(&["a"]));
    let burn = task("t1", "burn", 1);
    swarm.round(vec![cpu(&burn, 100)]);
    swarm.cut(&a);
    swarm.observe(vec![cpu(&burn, 130)], vec![]);
    let ended = Ended { meta: burn.clone(), values: None };
    swarm.observe(vec![], vec![ended]);
    let dropped = |swarm: &Swarm| swarm.outbox.dropped_amounts().or_zero(CPU);
    for _ in 0..60 {
        assert_eq!((swarm.pooled("burn"), dropped(&swarm)), (30, 0));
        swarm.observe(vec![], vec![]);
    }
    assert_eq!((swarm.pooled("burn"), dropped(&swarm)), (0, 30));
    // And what comes back to a row that is gone.
    swarm.restart(&a, 2);
    swarm.tell();
    assert_eq!((swarm.ledger(&a, "burn"), dropped(&swarm)), (0, 130));
}

/// Found by the property of copies: one service's first 0 held back what a scrape had shown of the others.
#[test]
fn a_bye_hands_on_what_no_scrape_showed_and_nothing_else() {
    let (mut swarm, a, burn) = settled();
    let other = task("t2", "other", 20);
    // One batch: more of a series that is born, and the first of one that is not.
    swarm.round(vec![cpu(&burn, 130), cpu(&other, 7)]);
    assert_eq!(swarm.scrape(&a, "burn"), Some(130), "of the other a first 0");
    swarm.round(vec![cpu(&burn, 135), cpu(&other, 9)]);
    let (stream, bye) = (swarm.stream(&a), swarm.collectors[&a].bye(&swarm.stream(&a)));
    swarm.outbox.bye(&a, stream.k, &bye);
    assert_eq!((swarm.pooled("burn"), swarm.pooled("other")), (5, 9));
}

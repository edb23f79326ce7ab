//! Rules 4, 6, 9 and 11: each increment counts in exactly one ledger (L1).

use crate::fixture::*;
use crate::{Checked, needs, owners_of_row, violated};
use swarmstats::rules::Rule;

/// L1 for one service: what the ledgers say, live ones as they are, dead ones as last scraped, and what is read.
fn conserved(ledgers: u64, read: u64) -> Checked {
    if ledgers == read { Ok(()) } else { violated(format!("L1: ledgers have {ledgers} of {read} ns read")) }
}

#[test]
fn rule_4_an_older_stream_is_void_once_a_newer_hello_came() {
    needs(Rule::VoidOlderStreams, || {
        let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
        // A is frozen with a batch in its socket; the shipper gives the stream up and opens another.
        swarm.observe(vec![cpu(&burn, 100)], vec![]);
        swarm.open(&a).unwrap();
        let (old, late) = (swarm.stream(&a), swarm.outbox.next_batch(&a, swarm.now).unwrap());
        swarm.cut(&a);
        swarm.open(&a).unwrap();
        // A thaws and reads it from the old socket, after the newer Hello; the same amount comes again by the new one.
        drop(swarm.collectors.get_mut(&a).unwrap().batch(&old, &late, swarm.now));
        swarm.tell();
        conserved(swarm.ledger(&a, "burn"), 100)
    });
}

#[test]
fn rule_6_a_batch_that_comes_again_counts_once() {
    needs(Rule::Numbers, || {
        let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
        swarm.round(vec![cpu(&burn, 100)]);
        swarm.observe(vec![cpu(&burn, 130)], vec![]);
        let (stream, batch) = (swarm.stream(&a), swarm.outbox.next_batch(&a, swarm.now).unwrap());
        for _ in 0..2 {
            swarm.collectors.get_mut(&a).unwrap().batch(&stream, &batch, swarm.now).unwrap();
        }
        conserved(swarm.ledger(&a, "burn"), 130)
    });
}

#[test]
fn rule_9_what_no_scrape_has_shown_is_still_owed() {
    needs(Rule::Exposed, || {
        let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
        let mut scraped = 0;
        for _ in 0..3 {
            swarm.round(vec![cpu(&burn, 100)]);
            scraped = swarm.scrape(&a, "burn").unwrap();
        }
        assert_eq!(scraped, 100);
        // Acknowledged, and dead before anybody scraped it.
        swarm.round(vec![cpu(&burn, 130)]);
        swarm.restart(&a, 2);
        swarm.round(vec![cpu(&burn, 130)]);
        conserved(scraped + swarm.ledger(&a, "burn"), 130)
    });
}

#[test]
fn rule_9_what_a_scrape_showed_is_not_owed_any_more() {
    needs(Rule::TellExposed, || {
        let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
        let mut scraped = 0;
        for value in [100, 100, 130] {
            swarm.round(vec![cpu(&burn, value)]);
            scraped = swarm.scrape(&a, "burn").unwrap();
        }
        assert_eq!(scraped, 130);
        // The next answer tells of it, then the process dies: nothing is to be handed on.
        swarm.round(vec![cpu(&burn, 130)]);
        swarm.restart(&a, 2);
        swarm.round(vec![cpu(&burn, 130)]);
        conserved(scraped + swarm.ledger(&a, "burn"), 130)
    });
}

#[test]
fn rule_11_what_is_acknowledged_waits_for_a_scrape_until_it_is_too_old() {
    needs(Rule::KeepUnexposed, || {
        let (mut swarm, a, burn) = (Swarm::new(&["a"]), member("a"), task("t1", "burn", 1));
        let mut scraped = 0;
        for value in [100, 100, 100, 130, 130] {
            swarm.round(vec![cpu(&burn, value)]);
            if value == 100 {
                scraped = swarm.scrape(&a, "burn").unwrap();
            }
        }
        assert_eq!(scraped, 100);
        // It dies a round after it had acknowledged what nobody scraped.
        swarm.restart(&a, 2);
        swarm.round(vec![cpu(&burn, 130)]);
        conserved(scraped + swarm.ledger(&a, "burn"), 130)
    });
}

#[test]
fn rule_11_a_member_that_left_the_ring_is_not_dead() {
    needs(Rule::GoneIsNotDead, || {
        let (mut swarm, burn) = (Swarm::new(&["a", "b"]), task("t1", "burn", 1));
        swarm.observe(vec![cpu(&burn, 100)], vec![]);
        let (owner, other) = owners_of_row(&swarm, "burn");
        swarm.open(&owner).unwrap();
        // The batch is on its way when the ring changes.
        let (stream, batch) = (swarm.stream(&owner), swarm.outbox.next_batch(&owner, swarm.now).unwrap());
        swarm.outbox.set_ring(ring(&[other.as_str()]));
        swarm.tell_one(&other);
        swarm.collectors.get_mut(&owner).unwrap().batch(&stream, &batch, swarm.now).unwrap();
        swarm.observe(vec![cpu(&burn, 100)], vec![]);
        swarm.tell_one(&other);
        conserved(swarm.ledger(&owner, "burn") + swarm.ledger(&other, "burn"), 100)
    });
}

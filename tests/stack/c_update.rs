//! A rolling update of all collectors: with two copies nothing is missing at any moment, no amount is lost or doubled, and
//! nobody sees another ring.

use crate::accounts::{all, at_rest, conserved};
use crate::env::{Finally, lab, wait_for};
use crate::poller::Poller;
use crate::tier::{containers, ring, swarm};
use crate::watch::{all_whole, rings, scraper};
use std::time::Duration;

#[test]
fn a_rolling_update_of_all_collectors_loses_no_amount_and_leaves_every_query_answered() {
    let lab = lab();
    let (old, before) = (containers(&lab, "collectord"), ring(&lab, 0));
    let (scraper, rings) = (scraper(), rings());
    let _unpaused = Finally(|| all(&lab, "unpause"));
    wait_for("everything is scraped", Duration::from_secs(60), || scraper.rounds() >= 2 && rings.rounds() >= 2);
    let at_first = at_rest(&lab, &scraper);
    all(&lab, "unpause");
    let poller = Poller::start(&lab);
    swarm(&lab, "service update --detach --force swarmstats_collectord");
    let took = wait_for("every collector was replaced", Duration::from_secs(240), || {
        let now = containers(&lab, "collectord");
        now.len() == old.len() && now.iter().all(|container| !old.iter().any(|other| other.id == container.id))
    });
    println!("replaced one by one in {took:.0?}");
    let at_last = at_rest(&lab, &scraper);
    all_whole(poller);
    scraper.end();
    conserved(&at_first, &at_last);
    let rings = rings.end();
    assert_eq!(rings.len(), 2 * lab.nodes().len(), "a router and a shipper a node, the same from first to last");
    for (container, seen) in &rings {
        println!("  {}: saw {:?}, {} looks", container.name, seen.ids, seen.changes.len());
        assert_eq!(
            seen.ids,
            std::slice::from_ref(&before.0),
            "{}: a slot is a place on the ring: nothing moves",
            container.name
        );
        assert_eq!(seen.changes.first(), seen.changes.last(), "{}: its ring changed", container.name);
    }
}

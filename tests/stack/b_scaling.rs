//! `docker service scale swarmstats_collectord=5` and back under load: only the due keys move, nothing is missing
//! meanwhile, no point of a task's history either, nothing counts twice.

use crate::accounts::{all, at_rest, conserved, figure, of_shippers};
use crate::env::{Finally, Lab, lab, wait_for};
use crate::history::Histories;
use crate::moves::{Ways, emitted_where_due, keys, made, task};
use crate::poller::Poller;
use crate::tier::{containers, label, ring, series, swarm};
use crate::watch::{all_whole, scraper};
use std::collections::BTreeSet;
use std::time::Duration;
use swarmstats::shard::{Ring, SHARDS};

/// DESIGN §4: of a change by one member between members that stayed, at worst; and the most of the ideal share.
const NEEDLESS: f64 = 0.012;
const MOST: f64 = 1.20;

/// The shards that go over are the due ones.
fn few_shards_move(before: &Ring, after: &Ring) {
    let change = before.change(after);
    let (few, many) =
        (before.members().len().min(after.members().len()), before.members().len().max(after.members().len()));
    let ideal = f64::from(SHARDS) * (many - few) as f64 / many as f64;
    println!(
        "{} -> {} collectors: ring {}; {} of {SHARDS} shards have another primary, ideal {ideal:.0} ({:.2} x), {} between \
         members that stayed",
        before.members().len(),
        after.members().len(),
        after.id(),
        change.primaries,
        change.primaries as f64 / ideal,
        change.needless
    );
    assert!(change.primaries as f64 <= MOST * ideal, "{} moved", change.primaries);
    assert!(
        change.needless as f64 <= NEEDLESS * f64::from(SHARDS),
        "{} moved between members that stayed",
        change.needless
    );
}

/// The members that Swarm wants to run.
fn staying(lab: &Lab) -> BTreeSet<String> {
    let slots = swarm(lab, "service ps swarmstats_collectord --filter desired-state=running --format {{.Name}}");
    slots.lines().map(|name| name.replace("swarmstats_collectord.", "collectord-")).collect()
}

#[test]
fn collectors_come_and_go_and_only_the_due_keys_move() {
    let lab = lab();
    let scraper = scraper();
    let _unpaused = Finally(|| all(&lab, "unpause"));
    wait_for("the collectors are scraped", Duration::from_secs(60), || scraper.rounds() >= 2);
    let at_first = at_rest(&lab, &scraper);
    all(&lab, "unpause");
    let poller = Poller::start(&lab);
    let mut histories = None;
    wait_for("every task has its points", Duration::from_secs(60), || {
        histories = Histories::begin(&lab);
        histories.is_some()
    });
    let mut histories = histories.unwrap();
    let mut before = made(&lab);
    for n in [5, 3] {
        let at_start = of_shippers(&lab);
        let had = keys(&lab, &at_start);
        swarm(&lab, &format!("service scale --detach swarmstats_collectord={n}"));
        wait_for("Swarm knows who stays", Duration::from_secs(30), || staying(&lab).len() == n);
        let stay = staying(&lab);
        // Where all copies were with members that leave together, these give the older points to who has the task then.
        let alone = |id: &str| before.owners(&task(id)).all(|member| !stay.contains(member.as_str()));
        let ids = had.values().flat_map(|keys| &keys.tasks);
        println!("{} tasks lose all copies at once", ids.filter(|id| alone(id)).count());
        let took = wait_for("every router and shipper sees the new ring", Duration::from_secs(120), || {
            histories.ask(&lab);
            let seen: Vec<_> = (0..lab.routers().len()).map(|router| ring(&lab, router)).collect();
            let there = seen.iter().all(|(_, members)| members.len() == n);
            let seen: BTreeSet<_> = seen.into_iter().map(|(id, _)| id).collect();
            let ids = of_shippers(&lab).into_iter().map(|(_, page)| {
                series(&page, "swarmstats_ring_info")
                    .map(|(labels, _)| label(labels, "ring_id").to_owned())
                    .collect::<Vec<_>>()
            });
            there && seen.len() == 1 && ids.flatten().all(|id| seen.contains(&id))
        });
        let after = made(&lab);
        assert_eq!(after.members().len(), n);
        few_shards_move(&before, &after);
        let due = wait_for("each task is emitted by its primary alone", Duration::from_secs(60), || {
            histories.ask(&lab);
            emitted_where_due(&lab, &after, &scraper.found(), &containers(&lab, "collectord"))
        });
        println!("on that ring everywhere after {took:.1?}, each task emitted by its primary alone {due:.1?} later");
        let ways = Ways::between(&before, &after);
        let at_end = of_shippers(&lab);
        let has = keys(&lab, &at_end);
        for ((shipper, page), (_, page_before)) in at_end.iter().zip(&at_start) {
            let name = "swarmstats_shipper_moves_total";
            let moved = (figure(page, name) - figure(page_before, name)) as usize;
            let (had, has) = (&had[shipper].tasks, &has[shipper]);
            // Tasks that came or went meanwhile, the collectors' own, may have moved or not: up to all of their copies.
            let n_others = had.symmetric_difference(&has.tasks).count();
            let lasting: Vec<_> = had.intersection(&has.tasks).map(|id| task(id)).chain(has.besides.clone()).collect();
            let (least, most) = ways.moves(&lasting);
            let most = most + n_others * usize::from(after.replicas()) * 2;
            println!("  {}: {} keys, {moved} moves, due {least} to {most}", shipper.name, lasting.len());
            assert!(least > 0 && (least..=most).contains(&moved), "{moved} moves, due {least} to {most}");
        }
        before = after;
    }
    histories.print();
    all_whole(poller);
    let at_last = at_rest(&lab, &scraper);
    scraper.end();
    conserved(&at_first, &at_last);
}

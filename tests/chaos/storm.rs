//! The storm: a seeded schedule under real services, while every router is asked and judged; then, at rest, the accounts.

use crate::books::Books;
use crate::env::{Check, Finally, INTERVAL, Lab, items, text, wait_for};
use crate::http;
use crate::kernels::Kernels;
use crate::poller::{Polled, SETTLED};
use crate::schedule::{carry_out, plan};
use crate::tier::{COLLECTORS, SHIPPERS, Tier, api, node_of};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    env,
    sync::atomic::{AtomicBool, Ordering},
    thread::{scope, sleep},
    time::{Duration, Instant, SystemTime},
};
use swarmstats::model::MemberId;
use swarmstats::shard::{Member, Ring};

/// CPU seconds are nanoseconds written as decimals; sums of some hundred of them as floats.
const ROUNDING: f64 = 1e-5;
/// CPUs of the machine, which bounds what a tail nobody saw can hold.
fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64)
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

/// `docker pause` or `unpause` of every task, on all nodes.
fn all(lab: &Lab, verb: &str) {
    for node in 0..3 {
        let filter = if verb == "pause" { "status=running" } else { "status=paused" };
        let ids = lab.docker(node, &format!("ps -q --filter {filter}"));
        let ids: Vec<&str> = ids.split_whitespace().collect();
        if !ids.is_empty() {
            lab.docker(node, &format!("{verb} {}", ids.join(" ")));
        }
    }
}

/// Nothing moves any more, and everything was told: the longest freshness and two scrapes.
fn rest(lab: &Lab, books: &Books, tier: &Tier) {
    all(lab, "pause");
    for _ in 0..8 {
        sleep(INTERVAL);
        books.balance(&COLLECTORS, tier);
    }
    books.balance(&SHIPPERS, tier);
}

#[test]
fn exact_after_a_storm() {
    storm(number("CHAOS_SECONDS").unwrap_or(90), false);
}

/// A shipper that dies takes with it what it had read and not handed over; where none does, nothing is lost.
#[test]
fn no_cpu_second_is_lost_or_doubled_where_no_shipper_dies() {
    storm(number("CHAOS_SECONDS").unwrap_or(60), true);
}

fn storm(seconds: u64, spare_shippers: bool) {
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let seed = number("CHAOS_SEED").unwrap_or_else(clock);
    println!("CHAOS_SEED={seed}, {seconds} s, 5 collectors, R = 2, shippers spared: {spare_shippers}");
    let plan = plan(seed, Duration::from_secs(seconds), spare_shippers);
    let (tier, lab) = Tier::start(5, 2);
    let _unpaused = Finally(|| all(&lab, "unpause"));
    let (books, kernels, stop) = (Books::default(), Kernels::default(), AtomicBool::new(false));
    wait_for("every router has every row", Duration::from_secs(20), || {
        COLLECTORS.iter().all(|name| {
            let answer = http::get(&format!("http://{}/v1/services", api(name)));
            answer.is_ok_and(|answer| answer.code == 200 && answer.json()["complete"] == true)
        })
    });
    rest(&lab, &books, &tier);
    // What was counted while the tier began is no part of it.
    let books = Books::default();
    for _ in 0..2 {
        sleep(INTERVAL);
        COLLECTORS.iter().chain(&SHIPPERS).for_each(|name| assert!(books.scrape(name), "{name} is not scraped"));
    }
    assert_eq!((books.ledgers(), books.rows()), (0.0, 0.0), "nothing moves at rest");
    kernels.look();
    all(&lab, "unpause");
    let began = Instant::now();
    let (polled, length) = scope(|scope| {
        scope.spawn(|| kernels.watch(&stop));
        for name in COLLECTORS.iter().chain(&SHIPPERS) {
            scope.spawn(|| books.keep(name, &stop));
        }
        let (tier, kernels, stop) = (&tier, &kernels, &stop);
        let pollers = COLLECTORS.map(|name| scope.spawn(move || (name, Polled::poll(name, tier, kernels, stop))));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            carry_out(&plan, tier, &lab);
            wait_for("Swarm has what it wants", Duration::from_secs(60), || lab.services_run());
            // What is asked now has to be answered completely.
            sleep(SETTLED + INTERVAL * 5);
            all(&lab, "pause");
            let length = began.elapsed();
            sleep(INTERVAL * 5);
            length
        }));
        stop.store(true, Ordering::Relaxed);
        let polled = pollers.map(|poller| poller.join().unwrap());
        (polled, done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    kernels.look();
    rest(&lab, &books, &tier);
    let mut check = Check::default();
    for (name, polled) in polled {
        polled.print(name);
        polled.enough(name, &mut check);
        check.0.extend(polled.hung.0.into_iter().map(|what| format!("hung: {what}")));
        check.0.extend(polled.wrong.0.into_iter().map(|what| format!("wrong: {what}")));
    }
    totals_are_the_samples(&books, &mut check);
    rows_are_the_kernels(&books, &kernels, &tier, &mut check);
    ledgers_conserve(&books, &tier, length, &mut check);
    lab.no_panic();
    check.done();
}

/// T: every router has a total of each service of the shippers' own rows, and of no other, and it is exactly their sum.
fn totals_are_the_samples(books: &Books, check: &mut Check) {
    let mut sent: BTreeMap<String, f64> = BTreeMap::new();
    for account in books.newest(&SHIPPERS) {
        account.last.iter().for_each(|(service, cpu)| *sent.entry(service.clone()).or_default() += cpu);
    }
    check.that(!sent.is_empty(), || "no samples".into());
    let mut error = 0.0_f64;
    for name in COLLECTORS {
        let document = http::get(&format!("http://{}/v1/services", api(name))).unwrap().json();
        check.that(document["complete"] == true, || format!("{name} at rest: missing {}", document["missing"]));
        let total = |service: &Value| {
            Some((text(service, "name").to_owned(), service["totals"]["cpu_seconds_total"].as_f64()?))
        };
        let totals: BTreeMap<String, f64> = items(&document, "services").iter().filter_map(total).collect();
        check.that(totals.keys().eq(sent.keys()), || format!("{name}: totals {totals:?}, sent {sent:?}"));
        for (of, total) in totals {
            let sent = sent.get(&of).copied().unwrap_or(f64::NAN);
            error = error.max((total - sent).abs());
            check.that((total - sent).abs() <= ROUNDING, || format!("{name}: total of {of} {total} s, sent {sent} s"));
        }
    }
    println!(
        "totals at 5 routers against the samples sent: largest error {error:.6} s of {:.3} s",
        sent.values().sum::<f64>()
    );
}

/// Rows of the shippers that run against the containers that ran in their time: one interval × cores per ended task.
fn rows_are_the_kernels(books: &Books, kernels: &Kernels, tier: &Tier, check: &mut Check) {
    /// A task that ended so near to a shipper's start is either in its rows or not.
    const NEAR: Duration = Duration::from_secs(3);
    for (name, account) in SHIPPERS.iter().zip(books.newest(&SHIPPERS)) {
        let (start, node) = (tier.last_start(name), node_of(name));
        let (mut least, mut most, mut n_ended) = (0.0, 0.0, 0);
        for (_, life) in kernels.lives(None).into_iter().filter(|(_, life)| life.node == node) {
            let (last, cpu) = life.last();
            let ended = life.now().is_none();
            let in_its_time = !ended || last > start;
            let allowed = if ended && last + NEAR > start { INTERVAL.as_secs_f64() * cores() } else { 0.0 };
            n_ended += usize::from(ended && in_its_time);
            let near = ended && last <= start + NEAR && last + NEAR >= start;
            if in_its_time && !near {
                least += (cpu - allowed).max(0.0);
            }
            if in_its_time || near {
                // The test's own reading is up to 0.2 s old where a task ended.
                most += cpu + if ended { 0.25 * cores() } else { 0.0 };
            }
        }
        let ours: f64 = account.last.values().sum();
        println!(
            "{name}: rows {ours:.3} s, kernel {least:.3} to {most:.3} s ({n_ended} tasks ended in its time; it saw {:.2} s \
             of tails unread)",
            account.unseen
        );
        check.that(least - ROUNDING <= ours && ours <= most + ROUNDING, || {
            format!("{name}: rows {ours}, kernel {least} to {most}")
        });
    }
}

/// What may be handed on from a collector that died: its rows' increments since the scrape before, and two intervals for
/// that scrape to be told of and for the batch in flight.
fn due_back(name: &str, died: Instant, books: &Books, length: Duration) -> f64 {
    let members = COLLECTORS.map(|id| Member { id: MemberId::new(id).unwrap(), node: None });
    let ring = Ring::new(members, 2).unwrap();
    let load = books.rows_of(&MemberId::new(name).unwrap(), &ring) / length.as_secs_f64();
    (books.unscraped(name, died) + INTERVAL * 2).as_secs_f64() * load
}

/// L1: what the ledgers gained is what the shippers read, but for what the metrics report and for shippers' deaths.
fn ledgers_conserve(books: &Books, tier: &Tier, length: Duration, check: &mut Check) {
    let (ledgers, rows) = (books.ledgers(), books.rows());
    let (dropped, returned) = (books.of_shippers(|s| s.dropped), books.of_shippers(|s| s.returned));
    let deaths = tier.restarts('s');
    // What a shipper had read and not handed over dies with it (a frozen collector holds up to 8 s of it back), and what
    // it read before the first scrape of it is not in our baseline: some rounds of one node's load.
    let node = rows / 3.0 / length.as_secs_f64();
    let lost = deaths as f64 * 10.0 * node;
    let gap = ledgers + dropped - rows;
    let blur: f64 = tier.deaths('c').iter().map(|(name, at)| due_back(name, *at, books, length)).sum();
    println!(
        "ledgers gained {ledgers:.6} s, shippers read {rows:.6} s, dropped {dropped:.6} s: {gap:+.6} s; handed on from dead \
         collectors (blur) {returned:.6} s of up to {blur:.3}, {deaths} restarts of shippers (up to {lost:.3} s)"
    );
    check.that(returned <= blur, || {
        format!("{returned} s were handed on from dead collectors, up to {blur} s were due")
    });
    let first = deaths as f64 * 3.0 * node;
    check.that(-lost - ROUNDING <= gap && gap <= returned + first + ROUNDING, || format!("L1: {gap:+} s"));
}

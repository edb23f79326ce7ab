//! What a real Prometheus makes of moves and losses: no counter falls without a restart, `increase` agrees with the
//! kernels, no clean move makes a rate, and a primary cut off from one shipper doubles nothing.

use crate::env::{Check, INTERVAL, now, signal, wait_for};
use crate::kernels::Kernels;
use crate::page;
use crate::prometheus::Prometheus;
use crate::schedule::drop_rule;
use crate::tier::{Tier, group_of, metrics};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    thread::{scope, sleep},
    time::Duration,
};

const THREE: [&str; 3] = ["c1", "c2", "c3"];
const FIVE: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];
/// Of a rate over two minutes in a clean move, and of `increase` over all of it.
const MOST_RATE: f64 = 1.05;
const MOST_ERROR: f64 = 0.01;
/// How often Prometheus scrapes.
const SCRAPES: Duration = Duration::from_secs(1);
/// Two scrapes of two targets are not of one moment: a series that went over may be seen at both for so many seconds.
const BOTH: f64 = 2.0;

/// Seconds since 1970 and the kernels' CPU seconds of all tasks, of one node's tasks.
fn mark(kernels: &Kernels, node: Option<usize>) -> (f64, f64) {
    kernels.look();
    let lives = kernels.lives(None);
    let chosen = lives.iter().filter(|(_, life)| node.is_none_or(|node| life.node == node));
    (now(), chosen.map(|(_, life)| life.last().1).sum())
}

#[test]
fn counters_go_on_through_moves_and_losses() {
    let (tier, lab) = Tier::start(3, 2);
    wait_for("the lab's services run", Duration::from_secs(60), || lab.services_run());
    let (prometheus, kernels, stop) = (Prometheus::start(), Kernels::default(), AtomicBool::new(false));
    let mut check = Check::default();
    scope(|scope| {
        scope.spawn(|| kernels.watch(&stop));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&tier, &prometheus, &kernels, &mut check);
        }));
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    lab.no_panic();
    check.done();
}

fn run(tier: &Tier, prometheus: &Prometheus, kernels: &Kernels, check: &mut Check) {
    sleep(Duration::from_secs(20));
    let begin = mark(kernels, None);
    clean_moves(tier);
    sleep(Duration::from_secs_f64((130.0 - (now() - begin.0)).max(10.0)));
    let clean = mark(kernels, None);
    let truth = (clean.1 - begin.1) / (clean.0 - begin.0);
    let rate = "sum(rate(swarmstats_service_cpu_seconds_total{job=\"collector\"}[2m]))";
    let rates = prometheus.range(rate, begin.0 + 120.0, clean.0);
    let highest = rates.iter().flat_map(|(_, values)| values).fold(0.0, |most: f64, (_, rate)| most.max(*rate));
    println!(
        "clean moves: highest rate over 2 minutes {highest:.4} cores, the kernels' {truth:.4}: {:.4} ×",
        highest / truth
    );
    check.that(highest > 0.0 && highest <= MOST_RATE * truth, || format!("rate {highest}, the kernels' {truth}"));
    let lost = losses(tier, kernels);
    let cut = cut_off(prometheus, check);
    println!("cut off from one shipper: {cut}");
    sleep(INTERVAL * 10);
    let end = mark(kernels, None);
    increase_is_the_kernels(tier, prometheus, begin, end, lost, check);
    falls_are_restarts(prometheus, end.0 - begin.0, end.0, check);
}

/// Three collectors become five and three again, then each is replaced.
fn clean_moves(tier: &Tier) {
    tier.begin("c4");
    tier.begin("c5");
    tier.members(&FIVE);
    sleep(Duration::from_secs(20));
    tier.members(&THREE);
    sleep(Duration::from_secs(15));
    for name in ["c4", "c5"] {
        println!("{name} scaled away: left {:.1?} after SIGTERM", tier.end(name));
    }
    for name in THREE {
        println!("{name} replaced: left {:.1?} after SIGTERM", tier.end(name));
        tier.begin(name);
        sleep(Duration::from_secs(8));
    }
}

/// Kill, freeze, a shipper and a collector within one second, a router; gives what one shipper's downtime hid.
fn losses(tier: &Tier, kernels: &Kernels) -> f64 {
    tier.kill("c2");
    sleep(Duration::from_secs(8));
    tier.begin("c2");
    sleep(Duration::from_secs(6));
    signal(tier.pid("c3"), "STOP");
    sleep(Duration::from_secs(8));
    signal(tier.pid("c3"), "CONT");
    sleep(Duration::from_secs(6));
    // With a shipper dies what it had read and no scrape had shown: two intervals more than its downtime.
    let before = mark(kernels, Some(0));
    sleep(INTERVAL * 2);
    tier.kill("s1");
    tier.kill("c1");
    tier.begin("s1");
    sleep(INTERVAL);
    let hidden = mark(kernels, Some(0)).1 - before.1;
    tier.begin("c1");
    sleep(Duration::from_secs(8));
    tier.end("c3");
    tier.begin("c3");
    sleep(Duration::from_secs(8));
    hidden
}

/// One shipper's packets to c2 are lost for 10 s, nobody else's; c2 emitted tasks of it, and others do meanwhile. Gives
/// for how long a task was emitted twice.
fn cut_off(prometheus: &Prometheus, check: &mut Check) -> String {
    const SHIPPER: &str = "s1";
    let emitted = |name: &str| page::emitted(name, Some("swarmstats-n1"));
    wait_for("c2 emits tasks of the shipper", Duration::from_secs(20), || !emitted("c2").is_empty());
    let (before, takeovers) = (emitted("c2"), takeovers(SHIPPER));
    let from = now();
    drop_rule(0, "-I", "10.77.0.12", Some(group_of(SHIPPER)));
    sleep(Duration::from_secs(10));
    let others: BTreeSet<String> = emitted("c1").union(&emitted("c3")).cloned().collect();
    let still = emitted("c2");
    drop_rule(0, "-D", "10.77.0.12", Some(group_of(SHIPPER)));
    check.that(still.is_empty(), || format!("c2 still emits {still:?} of a shipper it does not hear"));
    check.that(before.is_subset(&others), || format!("nobody emits what c2 did: {before:?}, {others:?}"));
    check.that(takeovers < self::takeovers(SHIPPER), || "no lease has moved".into());
    sleep(Duration::from_secs(10));
    let twice = "count by (task_id) (swarmstats_task_sample_age_seconds{job=\"collector\"}) > 1";
    let found = prometheus.range(twice, from, now());
    let longest = found.iter().map(|(_, values)| longest_run(values)).fold(0.0, f64::max);
    check.that(longest <= BOTH, || format!("a task was emitted twice for {longest} s"));
    let unheard = "swarmstats_router_member_failures_total{job=\"collector\"}";
    let asked = prometheus.range(&format!("sum(increase({unheard}[10s]))"), from + 10.0, from + 10.0);
    let values: Vec<f64> = asked.iter().flat_map(|(_, values)| values).map(|(_, value)| *value).collect();
    check.that(values == [0.0], || format!("a router was cut off too, or none was asked: {values:?}"));
    format!(
        "{} tasks of c2 went over; {} tasks seen at two collectors, the longest for {longest} s",
        before.len(),
        found.len()
    )
}

fn takeovers(shipper: &str) -> f64 {
    page::read(&format!("http://{}/metrics", metrics(shipper)))
        .map_or(f64::NAN, |page| page::sum(&page, "swarmstats_shipper_takeovers_total"))
}

/// Seconds of the longest run without a gap, of values a second apart.
fn longest_run(values: &[(f64, f64)]) -> f64 {
    let (mut longest, mut run) = (0.0, 0.0);
    for (place, (at, _)) in values.iter().enumerate() {
        run = if place > 0 && at - values[place - 1].0 < 1.5 { run + 1.0 } else { 1.0 };
        longest = f64::max(longest, run);
    }
    longest
}

fn increase_is_the_kernels(
    tier: &Tier,
    prometheus: &Prometheus,
    begin: (f64, f64),
    end: (f64, f64),
    hidden: f64,
    check: &mut Check,
) {
    let span = (end.0 - begin.0).round();
    let of = |name: &str| prometheus.value(&format!("sum(increase({name}[{span}s]))"), end.0);
    let counted = of("swarmstats_service_cpu_seconds_total{job=\"collector\"}");
    let dropped = of("swarmstats_shipper_dropped_cpu_seconds_total");
    let blur = of("swarmstats_shipper_returned_cpu_seconds_total");
    let truth = end.1 - begin.1;
    let ours = counted + dropped;
    println!(
        "increase over {span} s: {counted:.3} s, dropped {dropped:.3}, hidden by a shipper's death at most {hidden:.3}: {ours:.3} s; \
         the kernels {truth:.3} s: {:+.3} %; blur at most {blur:.3} s",
        100.0 * (ours / truth - 1.0)
    );
    // Of each collector that died at most what was not shown, or not known to be: a scrape and two intervals of its load.
    let n_deaths = tier.deaths('c').len();
    let most = n_deaths as f64 * (SCRAPES + INTERVAL * 2).as_secs_f64() * truth / span;
    check.that(blur <= most, || {
        format!("{blur} s were handed on from {n_deaths} dead collectors, at most {most} were due")
    });
    let right = ours >= truth * (1.0 - MOST_ERROR) - hidden && ours <= truth * (1.0 + MOST_ERROR) + blur;
    check.that(right, || format!("increase {ours}, the kernels' {truth}"));
}

fn falls_are_restarts(prometheus: &Prometheus, span: f64, end: f64, check: &mut Check) {
    let span = span.round();
    let counters = prometheus.counters();
    let mut falls = 0.0;
    for name in &counters {
        // What has no start is compared with nothing. A router's page of the cluster has none: its process has another page.
        let start = "process_start_time_seconds{job!=\"cluster\"}";
        let query = format!("last_over_time({name}[{span}s]) unless on (instance) last_over_time({start}[{span}s])");
        for (labels, _) in prometheus.range(&query, end, end) {
            check.that(false, || format!("{name}: nothing says when its process began: {labels:?}"));
        }
        let query = format!("resets({name}[{span}s]) > on (instance) group_left () changes({start}[{span}s])");
        for (labels, values) in prometheus.range(&query, end, end) {
            falls += values[0].1;
            check.that(false, || format!("{name} fell {} times: {labels:?}", values[0].1));
        }
    }
    println!("{} counters: {falls} falls without a restart", counters.len());
    check.that(counters.len() > 40, || format!("only {} counters", counters.len()));
}

//! How long the loss of one of three collectors is seen: by readers, and by Prometheus; with two copies and with one.

use crate::env::{Check, INTERVAL, items, signal, text, wait_for};
use crate::http;
use crate::page;
use crate::tier::{Tier, api, metrics};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    thread::sleep,
    time::{Duration, Instant},
};

/// `takeover_after`, its default.
const TAKEOVER: Duration = Duration::from_secs(3);
/// A router's deadline.
const DEADLINE: Duration = Duration::from_secs(1);
/// How often a watched file of members is looked at.
const FILE_EVERY: Duration = Duration::from_secs(2);
/// Between two looks of the test, with what a look takes.
const LOOK: Duration = Duration::from_millis(250);

/// The tasks that a router gives as running, where its answer is complete.
fn answered(router: &str) -> BTreeSet<String> {
    let answer = http::get(&format!("http://{}/v1/tasks", api(router))).unwrap();
    let document = answer.json();
    if answer.code != 200 || document["complete"] != true {
        return BTreeSet::new();
    }
    let tasks = items(&document, "tasks");
    tasks.iter().filter(|task| task["state"] == "running").map(|task| text(task, "id").to_owned()).collect()
}

fn emitted(name: &str) -> BTreeSet<String> {
    page::emitted(name, None)
}

fn started(replicas: usize) -> (Tier, BTreeSet<String>) {
    let (tier, lab) = Tier::start(3, replicas);
    wait_for("every task is answered and emitted", Duration::from_secs(30), || {
        let emitted: BTreeSet<String> = ["c1", "c2", "c3"].iter().flat_map(|name| emitted(name)).collect();
        lab.services_run() && emitted.len() >= 13 && answered("c1") == emitted && answered("c3") == emitted
    });
    (tier, answered("c1"))
}

#[test]
fn with_two_copies_a_killed_collectors_tasks_are_answered_and_emitted_again() {
    let (tier, all) = started(2);
    let mut check = Check::default();
    let lost = emitted("c2");
    assert!(!lost.is_empty(), "c2 emits no task");
    tier.kill("c2");
    let killed = Instant::now();
    let again = wait_for("all tasks answered", Duration::from_secs(20), || answered("c1") == all);
    let whole = wait_for("all tasks emitted", Duration::from_secs(20), || {
        lost.iter().all(|task| emitted("c1").contains(task) || emitted("c3").contains(task))
    });
    let whole = whole.max(killed.elapsed());
    println!(
        "R = 2, c2 killed, which emitted {} of {} tasks: all answered {again:.0?}, emitted {whole:.1?} after",
        lost.len(),
        all.len()
    );
    check.that(again <= DEADLINE + LOOK, || format!("answered only after {again:?}"));
    check.that(whole <= TAKEOVER + INTERVAL * 2 + LOOK, || format!("emitted only after {whole:?}"));
    check.done();
}

#[test]
fn with_one_copy_they_are_there_three_intervals_after_its_return_or_removal() {
    let (tier, all) = started(1);
    let mut check = Check::default();
    tier.kill("c2");
    sleep(Duration::from_secs(5));
    check.that(answered("c1").is_empty(), || "complete without c2".into());
    tier.begin("c2");
    let back = wait_for("right after its return", Duration::from_secs(20), || answered("c1") == all);
    tier.kill("c2");
    sleep(Duration::from_secs(5));
    tier.members(&["c1", "c3"]);
    let removed = wait_for("right after its removal", Duration::from_secs(20), || answered("c1") == all);
    println!(
        "R = 1, c2 killed: right {back:.1?} after it was ready again; {removed:.1?} after it was taken out of the file"
    );
    check.that(back <= INTERVAL * 3 + LOOK, || format!("back only after {back:?}"));
    check.that(removed <= FILE_EVERY + INTERVAL * 3 + LOOK, || format!("re-homed only after {removed:?}"));
    check.done();
}

/// How long a path takes at c1, as often as it can be asked in a span: the median and the 99th of 100, in milliseconds.
/// Each answer has to be right.
fn asked(paths: &[String], span: Duration, right: impl Fn(&str, &Value) -> bool) -> (f64, f64) {
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < span {
        for path in paths {
            let answer = http::get(&format!("http://{}{path}", api("c1"))).unwrap();
            assert!(answer.code == 200 && right(path, &answer.json()), "{path}: {} {}", answer.code, answer.body);
            took.push(answer.took);
        }
        sleep(Duration::from_millis(10));
    }
    took.sort();
    let of = |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)].as_secs_f64() * 1000.0;
    (of(50), of(99))
}

#[test]
fn a_frozen_member_delays_nobody_elses_tasks() {
    /// The bound on the 99th of 100: at most so many times as before, and 2 ms.
    const TIMES: f64 = 1.5;
    /// A busy machine delays an answer by as much now and then; so many rounds have to be right of one less than twice.
    const MAJORITY: usize = 3;
    /// The task of the path runs, and is whole.
    fn runs(path: &str, document: &Value) -> bool {
        let tasks = items(document, "tasks");
        tasks.len() == 1 && path.ends_with(text(&tasks[0], "id")) && tasks[0]["state"] == "running"
    }
    let (tier, all) = started(1);
    let elsewhere: Vec<String> =
        all.difference(&emitted("c3")).take(5).map(|task| format!("/v1/tasks/{task}")).collect();
    let whole = ["/v1/services".to_owned()];
    assert!(!elsewhere.is_empty(), "c3 emits every task");
    let rows = page::read(&format!("http://{}/metrics", metrics("c3"))).unwrap();
    assert!(page::sum(&rows, "swarmstats_collector_rows") > 0.0, "c3 holds no row that could be missing");
    let is = |complete: bool| move |_: &str, document: &Value| document["complete"] == complete;
    let (mut n_right, mut over) = (0, Vec::new());
    for round in 1.. {
        let before = [asked(&elsewhere, Duration::from_secs(3), runs), asked(&whole, Duration::from_secs(3), is(true))];
        signal(tier.pid("c3"), "STOP");
        // At once; and the whole cluster from 2 s on, marked.
        let frozen =
            [asked(&elsewhere, Duration::from_secs(2), runs), asked(&whole, Duration::from_secs(3), is(false))];
        signal(tier.pid("c3"), "CONT");
        let n_over = over.len();
        for (what, before, frozen) in
            [("by id elsewhere", before[0], frozen[0]), ("whole cluster, 2 s on", before[1], frozen[1])]
        {
            println!(
                "round {round}, c3 frozen: {what} p50 {:.1} ms, p99 {:.1}; before {:.1}, {:.1}",
                frozen.0, frozen.1, before.0, before.1
            );
            if frozen.1 > before.1 * TIMES + 2.0 {
                over.push(format!("round {round}, {what}: p99 {:.1} ms, before {:.1} ms", frozen.1, before.1));
            }
        }
        n_right += usize::from(over.len() == n_over);
        if n_right >= MAJORITY {
            return;
        }
        assert!(round - n_right < MAJORITY, "{n_right} of {round} rounds were right: {over:?}");
        wait_for("c3 is heard again", Duration::from_secs(20), || answered("c1") == all);
    }
}

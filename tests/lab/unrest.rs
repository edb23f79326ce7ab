//! Services scaled, tasks killed, a node drained, collectors killed, stopped and started: nothing panics, nothing hangs,
//! and afterwards the figures are right again.

use crate::answers::running;
use crate::env::{Check, DEADLINE, Finally, INTERVAL, Lab, MARGIN, items, lab, signal, text, wait_for};
use crate::http;
use crate::kernel::Kernel;
use crate::poller::Poller;
use std::{
    collections::BTreeSet,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

/// Waits until every router gives a complete answer with exactly the tasks that run; gives how long that took.
pub(crate) fn all_right(lab: &Lab, within: Duration) -> Duration {
    let mut why = String::new();
    let running: BTreeSet<String> = running().into_keys().collect();
    let begun = Instant::now();
    loop {
        let right = (0..lab.routers().len()).all(|router| {
            let document = lab.ask(router, "/v1/tasks");
            let tasks = items(&document, "tasks");
            let fresh = tasks.iter().filter(|task| task["state"] == "running");
            let fresh: BTreeSet<String> = fresh.map(|task| text(task, "id").to_owned()).collect();
            let stale = tasks.iter().filter(|task| task["state"] == "stale").count();
            why = format!(
                "router {}: missing {}, {stale} stale, {} of {} tasks",
                router + 1,
                document["missing"],
                fresh.len(),
                running.len()
            );
            document["complete"] == true && stale == 0 && fresh == running
        });
        if right {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < within, "after {within:?} still {why}");
        sleep(Duration::from_millis(100));
    }
}

/// Each task's CPU lies between the kernel's of an interval (and its way) ago and of now, at every router.
fn figures_are_the_kernels(lab: &Lab, check: &mut Check) {
    let cpu = |task: &_| Kernel::of(task).cpu();
    let before = lab.tasks(0);
    let earlier: Vec<f64> = before.iter().map(cpu).collect();
    sleep(INTERVAL * 3 / 2);
    for router in 0..lab.routers().len() {
        for task in lab.tasks(router) {
            let place = before.iter().position(|before| before["id"] == task["id"]);
            let ours = crate::env::stat(&task, "cpu_seconds_total").unwrap_or(f64::NAN);
            let right = place.is_some_and(|place| earlier[place] <= ours) && ours <= cpu(&task);
            check.that(right, || format!("router {}: {}: CPU {ours} s", router + 1, text(&task, "name")));
        }
    }
}

fn scale(lab: &Lab, n: usize) {
    lab.docker(0, &format!("service scale --detach lab_burn={n}"));
    let swarm = wait_for("Swarm has scaled", Duration::from_secs(60), || lab.services_run() && n_burning() == n);
    println!("lab_burn={n}: Swarm {swarm:.1?}, every router right {:.1?} later", all_right(lab, INTERVAL * 3));
}

fn n_burning() -> usize {
    running().values().filter(|service| *service == "lab_burn").count()
}

#[test]
fn a_node_drained_and_a_service_scaled() {
    let (lab, mut check) = (lab(), Check::default());
    let poller = Poller::start(&lab);
    let node = &lab.nodes()[2];
    let again = Finally(|| drop(lab.docker(0, &format!("node update --availability active {node}"))));
    lab.docker(0, &format!("node update --availability drain {node}"));
    let swarm = wait_for("Swarm has moved the tasks", Duration::from_secs(90), || {
        lab.services_run() && lab.docker(2, "ps -q").is_empty()
    });
    let right = all_right(&lab, INTERVAL * 3);
    let left = lab.tasks(1).iter().filter(|task| task["node_name"] == **node).count();
    println!("{node} drained: Swarm {swarm:.1?}, every router right {right:.1?} later, {left} tasks left there");
    drop(again);
    scale(&lab, 2);
    scale(&lab, 6);
    figures_are_the_kernels(&lab, &mut check);
    scale(&lab, 4);
    poller.all_in_time(&[]);
    lab.no_panic();
    check.done();
}

#[test]
fn a_collector_killed_and_restarted() {
    const DEAD: usize = 1;
    let (lab, mut check) = (lab(), Check::default());
    let owned: Vec<_> = lab.tasks(0).into_iter().filter(|task| task["owners"][0] == "c2").collect();
    assert!(!owned.is_empty(), "c2 owns no task");
    let poller = Poller::start(&lab);
    let restart = Finally(|| drop(Command::new(crate::env::root().join("dev")).args(["lab", "start", "c2"]).output()));
    signal(lab.pid("run/c2.pid"), "KILL");
    sleep(Duration::from_millis(300));
    for router in [0, 2] {
        let all = lab.ask(router, "/v1/tasks");
        println!("router {}: missing: {}", router + 1, all["missing"]);
        let names = |what: &serde_json::Value| what.to_string().contains("c2");
        check.that(all["complete"] == false && names(&all["missing"]), || format!("{}", all["missing"]));
        for task in &owned {
            let id = text(task, "id");
            let answer = http::get(&format!("{}/v1/tasks/{id}", lab.routers()[router])).unwrap();
            let document = answer.json();
            let said = answer.code == 200 && document["complete"] == false && names(&document["missing"]);
            check.that(said, || format!("router {}: {id}: {} {}", router + 1, answer.code, answer.body));
        }
    }
    sleep(Duration::from_secs(10)); // the longest pause between attempts is reached
    lab.start("c2");
    let began = Instant::now();
    let right = all_right(&lab, Duration::from_secs(10));
    println!("{} tasks of c2 were missing; right {right:.1?} after it was ready again", owned.len());
    check.that(began.elapsed() <= INTERVAL * 3, || format!("right only after {right:?}"));
    figures_are_the_kernels(&lab, &mut check);
    poller.all_in_time(&[DEAD]);
    drop(restart);
    lab.no_panic();
    check.done();
}

#[test]
fn a_collector_that_stands_still() {
    let (lab, mut check) = (lab(), Check::default());
    let poller = Poller::start(&lab);
    let pid = lab.pid("run/c3.pid");
    let go_on = Finally(|| signal(pid, "CONT"));
    signal(pid, "STOP");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        for router in [0, 1] {
            let answer = http::get(&format!("{}/v1/services", lab.routers()[router])).unwrap();
            let document = answer.json();
            let named = document["complete"] == false && document["missing"].to_string().contains("c3");
            println!(
                "stopped for {:.1?}: router {} answers in {:.0?}: {}",
                began.elapsed(),
                router + 1,
                answer.took,
                document["missing"]
            );
            check.that(named, || format!("router {} does not name c3: {}", router + 1, document["missing"]));
            check.that(answer.took <= DEADLINE + MARGIN, || format!("router {}: {:?}", router + 1, answer.took));
        }
        sleep(Duration::from_secs(1));
    }
    drop(go_on);
    let right = all_right(&lab, Duration::from_secs(10));
    println!("right {right:.1?} after it went on");
    check.that(right <= INTERVAL * 3, || format!("right only after {right:?}"));
    figures_are_the_kernels(&lab, &mut check);
    poller.all_in_time(&[2]);
    lab.no_panic();
    check.done();
}

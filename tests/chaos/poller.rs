//! Asks every router several times a second (whole cluster, one service, all tasks, a task by id) and judges each answer:
//! in time, never wrong, never unmarked, and whole where nothing is the matter.

use crate::env::{Check, DEADLINE, INTERVAL, items, stat, text};
use crate::http::{self, Answer};
use crate::kernels::{Kernels, Life};
use crate::tier::{COLLECTORS, Tier, api};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

/// What a loaded machine may add to the deadline.
const SLACK: Duration = Duration::from_millis(1500);
/// A fresh figure is at most three intervals and `max_round_trip` old; a little for the test's own readings.
const BOUND: Duration = Duration::from_millis(4700);
/// After so long every task that runs is known to its shipper, also where that was away meanwhile.
const KNOWN: Duration = Duration::from_secs(8);

/// So long after a disturbance nothing is left of it: shippers are back on their streams, engines have their tasks.
pub(crate) const SETTLED: Duration = Duration::from_secs(15);
/// Answers that had to be complete, at least.
const N_DUE: usize = 20;

/// How the answers of one router were.
pub(crate) struct Polled {
    began: Instant,
    n_answers: usize,
    n_incomplete: usize,
    /// Complete ones, and of them those that had to be: with two copies at most one collector had been disturbed.
    n_complete: usize,
    n_due: usize,
    /// No answer, or a late one, while the router's process was disturbed.
    n_away: usize,
    /// Answers other than 200 and 404.
    n_refused: usize,
    n_fresh_tasks: usize,
    slowest: Duration,
    /// Totals of a service, with their `since`.
    totals: BTreeMap<String, (f64, String)>,
    /// Cgroups of containers that their engine does not take for running (any more), with the processes seen in them at
    /// most.
    left: BTreeMap<String, usize>,
    pub(crate) hung: Check,
    pub(crate) wrong: Check,
}

/// Nothing was done for a while, or to one other collector alone: the second copies are there.
fn whole(name: &str, tier: &Tier, asked: Instant) -> bool {
    let disturbed = tier.disturbed(asked, Instant::now(), SETTLED);
    disturbed.len() <= 1 && disturbed.iter().all(|other| other != name && COLLECTORS.contains(&other.as_str()))
}

impl Polled {
    /// Asks a router until told to stop.
    pub(crate) fn poll(name: &str, tier: &Tier, kernels: &Kernels, stop: &AtomicBool) -> Polled {
        let mut polled = Polled {
            began: Instant::now(),
            n_answers: 0,
            n_incomplete: 0,
            n_complete: 0,
            n_due: 0,
            n_away: 0,
            n_refused: 0,
            n_fresh_tasks: 0,
            slowest: Duration::ZERO,
            totals: BTreeMap::new(),
            left: BTreeMap::new(),
            hung: Check::default(),
            wrong: Check::default(),
        };
        let mut turn = 0;
        while !stop.load(Ordering::Relaxed) {
            for path in ["/v1/services", "/v1/services/lab_burn"] {
                if let Some((document, _)) = polled.ask(name, path, tier) {
                    polled.totals_rise(name, &document, tier);
                }
            }
            let since = Instant::now().checked_sub(KNOWN);
            let lasting = since.map(|since| kernels.lasting(since)).unwrap_or_default();
            if let Some((document, asked)) = polled.ask(name, "/v1/tasks", tier) {
                polled.tasks_are_right(name, &document, asked, kernels, &lasting);
            }
            if !lasting.is_empty() {
                let id = &lasting[turn % lasting.len()];
                turn += 1;
                if let Some((document, asked)) = polled.ask(name, &format!("/v1/tasks/{id}"), tier) {
                    polled.tasks_are_right(name, &document, asked, kernels, std::slice::from_ref(id));
                }
            }
            sleep(Duration::from_millis(200));
        }
        polled
    }

    /// An answer's document and when it was asked for; one that is late is noted.
    fn ask(&mut self, name: &str, path: &str, tier: &Tier) -> Option<(Value, Instant)> {
        let asked = Instant::now();
        let answer = http::get(&format!("http://{}{path}", api(name)));
        let calm = tier.undisturbed(name, asked, Instant::now());
        match answer {
            Ok(Answer { took, .. }) if calm && took > DEADLINE + SLACK => {
                self.hung.that(false, || format!("{name} {path}: {took:?}"));
                None
            }
            Ok(answer) if answer.code == 200 || answer.code == 404 => {
                self.n_answers += 1;
                if calm {
                    self.slowest = self.slowest.max(answer.took);
                }
                let document = answer.json();
                self.n_incomplete += usize::from(document["complete"] == false);
                self.n_complete += usize::from(document["complete"] == true);
                if answer.code == 200 && whole(name, tier, asked) {
                    self.n_due += 1;
                    self.wrong.that(document["complete"] == true, || {
                        let since = asked - self.began;
                        format!("{name} {path}, {since:.1?}: incomplete at rest: {}", document["missing"])
                    });
                }
                // A 404 says that something is nowhere: judged as a complete answer without it.
                let document = if answer.code == 404 {
                    serde_json::json!({"complete": true, "tasks": [], "services": [], "said": document["error"]})
                } else {
                    document
                };
                Some((document, asked))
            }
            Ok(answer) => {
                self.n_refused += 1;
                self.wrong.that(!calm, || format!("{name} {path}: {} {}", answer.code, answer.body));
                None
            }
            Err(error) => {
                self.n_away += 1;
                self.hung.that(!calm, || format!("{name} {path}: {error} after {:?}", asked.elapsed()));
                None
            }
        }
    }

    /// Within one router process and epoch a service's totals never fall.
    fn totals_rise(&mut self, name: &str, document: &Value, tier: &Tier) {
        if tier.last_start(name).elapsed() < Duration::from_secs(3) {
            self.totals.clear();
        }
        for service in items(document, "services") {
            let (Some(cpu), since) = (service["totals"]["cpu_seconds_total"].as_f64(), service["since"].to_string())
            else {
                continue;
            };
            let of = text(&service, "name").to_owned();
            if let Some((before, epoch)) = self.totals.get(&of) {
                // A new shipper begins a new epoch: it counts the tasks that run.
                let new = *epoch != since || tier.started_within('s', Duration::from_secs(25));
                self.wrong
                    .that(new || cpu >= *before, || format!("{name}: total of {of} fell from {before} to {cpu} s"));
            }
            self.totals.insert(of, (cpu, since));
        }
    }

    /// Tasks that run have figures between the kernel's of the freshness bound ago and of now; in a complete answer no task
    /// is missing.
    fn tasks_are_right(&mut self, name: &str, document: &Value, asked: Instant, kernels: &Kernels, lasting: &[String]) {
        let tasks = items(document, "tasks");
        for task in tasks.iter().filter(|task| task["state"] == "running") {
            let lives = kernels.lives(Some(text(task, "id")));
            let (Some(ours), Some((_, life))) =
                (stat(task, "cpu_seconds_total"), lives.iter().find(|(id, _)| *id == text(task, "container_id")))
            else {
                continue;
            };
            self.n_fresh_tasks += 1;
            let of = || format!("{name}: {}", text(task, "name"));
            if let Some(least) = asked.checked_sub(BOUND).and_then(|when| life.at(when)) {
                self.wrong
                    .that(ours >= least, || format!("{}: {ours} s, the kernel had {least} s {BOUND:?} ago", of()));
            }
            if let Some(most) = life.now() {
                self.wrong.that(ours <= most, || format!("{}: {ours} s, the kernel has {most} s now", of()));
            }
        }
        if document["complete"] == true {
            for id in lasting {
                let there = tasks.iter().any(|task| task["id"] == **id);
                // It may have ended while the question was under way.
                let lasts = |(id, life): &(String, Life)| life.now().is_some() && life.is_running(id);
                if there {
                    continue;
                }
                let lives = kernels.lives(Some(id));
                for (container, life) in lives.iter().filter(|life| life.1.now().is_some() && !lasts(life)) {
                    let most = self.left.entry(container.clone()).or_default();
                    *most = life.n_processes().max(*most);
                }
                self.wrong.that(!lives.iter().any(lasts), || {
                    let life = &lives[0].1;
                    let (from, until) = (asked - self.began, self.began.elapsed());
                    format!(
                        "{name}, {from:.1?} to {until:.1?}: complete without {id} of {} on n{}, seen {:.1?} ago first; {} tasks, \
                         nodes {}, warnings {}{}",
                        life.service,
                        life.node + 1,
                        life.first().elapsed(),
                        tasks.len(),
                        document["nodes"],
                        document["warnings"],
                        document["said"],
                    )
                });
            }
        }
    }

    /// It has been asked and has answered: what was judged is not nothing.
    pub(crate) fn enough(&self, name: &str, check: &mut Check) {
        let seconds = usize::try_from(self.began.elapsed().as_secs()).unwrap();
        check.that(self.n_answers > seconds, || format!("{name}: {} answers in {seconds} s", self.n_answers));
        check.that(self.n_fresh_tasks > seconds, || format!("{name}: {} fresh figures", self.n_fresh_tasks));
        check.that(self.n_complete > self.n_incomplete, || format!("{name}: {} complete answers", self.n_complete));
        check.that(self.n_due > N_DUE, || format!("{name}: {} answers had to be complete", self.n_due));
    }

    pub(crate) fn print(&self, name: &str) {
        println!(
            "{name}: {} answers, slowest {:.0?} (deadline 1 s), {} complete, {} marked incomplete, {} that had to be \
             complete, {} without an answer while disturbed, {} refused; {} task figures within the kernel's of {} \
             intervals and a round trip; cgroups left by containers that are no more, with their processes: {:?}",
            self.n_answers,
            self.slowest,
            self.n_complete,
            self.n_incomplete,
            self.n_due,
            self.n_away,
            self.n_refused,
            self.n_fresh_tasks,
            3 * INTERVAL.as_secs(),
            self.left.iter().map(|(id, n)| (&id[..12], n)).collect::<Vec<_>>(),
        );
    }
}

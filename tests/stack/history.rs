//! The points of tasks that live on, asked again and again: as many as ever, and no hole.

use crate::env::{INTERVAL, Lab, items, now, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// Fewer than a collector keeps (30), so that each answer has as many.
const N: usize = 20;
/// Two points are no further apart.
const WIDEST: f64 = 1.5 * INTERVAL.as_secs_f64();

/// When a task was read, seconds since 1970, oldest first; and its node.
struct Read {
    node: String,
    at: Vec<f64>,
}

/// The running tasks of an answer but the collectors' own, which come and go here.
fn read(lab: &Lab, router: usize) -> BTreeMap<String, Read> {
    let (asked, document) = (now(), lab.ask(router, &format!("/v1/tasks?points={N}&stats=docker")));
    assert_eq!(document["complete"], true, "{}", document["missing"]);
    let read = |task: &Value| {
        let newest = asked - task["age_seconds"].as_f64().unwrap();
        let mut at: Vec<f64> =
            items(task, "points").iter().map(|p| newest - p["seconds_before"].as_f64().unwrap()).collect();
        at.push(newest);
        at.sort_by(f64::total_cmp);
        (text(task, "id").to_owned(), Read { node: text(task, "node_id").to_owned(), at })
    };
    let tasks = items(&document, "tasks");
    let lasts = |task: &&Value| task["state"] == "running" && task["service_name"] != "swarmstats_collectord";
    tasks.iter().filter(lasts).map(read).collect()
}

/// The tasks that have all their points, when the watch begins.
pub(crate) struct Histories {
    tasks: Vec<String>,
    n_asked: usize,
    widest: f64,
}

impl Histories {
    /// `None` while some task has not run for long enough.
    pub(crate) fn begin(lab: &Lab) -> Option<Histories> {
        let read = read(lab, 0);
        let whole = read.values().all(|read| read.at.len() > N);
        whole.then(|| Histories { tasks: read.into_keys().collect(), n_asked: 0, widest: 0.0 })
    }

    /// Asks a router anew: each task that was there from the beginning has all points, and none has a hole.
    pub(crate) fn ask(&mut self, lab: &Lab) {
        let router = self.n_asked % lab.routers().len();
        self.n_asked += 1;
        let read = read(lab, router);
        for id in &self.tasks {
            let Some(task) = read.get(id) else { panic!("router {}: {id} is not there", router + 1) };
            assert!(task.at.len() > N, "router {}: {id} has {} of {N} points", router + 1, task.at.len());
            // A node's rounds are what any of its tasks was read in: a machine that is too busy to read has none.
            let others = || read.values().filter(|other| other.node == task.node).flat_map(|other| &other.at);
            for pair in task.at.windows(2).filter(|pair| pair[1] - pair[0] > WIDEST) {
                let inside = |at: &&f64| **at > pair[0] + 0.5 && **at < pair[1] - 0.5;
                let missed = others().filter(inside).count();
                assert_eq!(missed, 0, "router {}: {id} has no point for {:.1} s", router + 1, pair[1] - pair[0]);
            }
            self.widest = task.at.windows(2).map(|pair| pair[1] - pair[0]).fold(self.widest, f64::max);
        }
    }

    pub(crate) fn print(&self) {
        println!(
            "{} answers with {N} points of {} tasks each: the longest time without a point {:.2} s",
            self.n_asked,
            self.tasks.len(),
            self.widest
        );
    }
}

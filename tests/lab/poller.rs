//! Asks every router again and again while a test disturbs the swarm: no answer may be late, whatever happens.

use crate::env::{DEADLINE, Lab, MARGIN, items};
use crate::http;
use serde_json::Value;
use std::{
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};

/// How the answers of one router were.
#[derive(Default)]
pub(crate) struct Polled {
    pub(crate) n_answers: usize,
    pub(crate) n_incomplete: usize,
    pub(crate) slowest: Duration,
    /// What the missing things were called.
    pub(crate) missing: Vec<String>,
    /// No connection, or no answer.
    pub(crate) unreachable: Vec<String>,
    /// Answers other than 200.
    pub(crate) refused: Vec<String>,
    /// Totals of the steady service that were below what this router had answered before, or not there.
    pub(crate) fell: Vec<String>,
    newest: f64,
}

/// A service whose tasks always burn CPU.
pub(crate) const STEADY: &str = "lab_burn";

/// The routers being asked.
pub(crate) struct Poller {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Polled>>,
}

impl Poller {
    pub(crate) fn start(lab: &Lab) -> Poller {
        let stop = Arc::new(AtomicBool::new(false));
        let poll = |router: &String| {
            let (stop, url) = (stop.clone(), format!("{router}/v1/services"));
            thread::spawn(move || {
                let mut polled = Polled::default();
                while !stop.load(Ordering::Relaxed) {
                    polled.ask(&url);
                    thread::sleep(Duration::from_millis(250));
                }
                polled
            })
        };
        let threads = lab.routers().iter().map(poll).collect();
        Poller { stop, threads }
    }

    /// Stops, prints how it went, and checks that every router but `away` has answered each time and in time.
    pub(crate) fn all_in_time(self, away: &[usize]) -> Vec<Polled> {
        self.stop.store(true, Ordering::Relaxed);
        let polled: Vec<Polled> = self.threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        for (router, polled) in polled.iter().enumerate() {
            println!(
                "  router {}: {} answers, slowest {:?}, {} incomplete ({}), {} without a connection or an answer",
                router + 1,
                polled.n_answers,
                polled.slowest,
                polled.n_incomplete,
                polled.missing.join("; "),
                polled.unreachable.len(),
            );
            assert!(polled.refused.is_empty(), "{:?}", polled.refused);
            if !away.contains(&router) {
                assert!(polled.unreachable.is_empty(), "{:?}", polled.unreachable);
                assert!(polled.slowest <= DEADLINE + MARGIN, "an answer took {:?}", polled.slowest);
            }
        }
        polled
    }
}

impl Polled {
    fn ask(&mut self, url: &str) {
        let answer = match http::get(url) {
            Ok(answer) => answer,
            Err(error) => return self.unreachable.push(error.to_string()),
        };
        self.n_answers += 1;
        self.slowest = self.slowest.max(answer.took);
        if answer.code != 200 {
            return self.refused.push(format!("{} {}", answer.code, answer.body));
        }
        let document = answer.json();
        let steady = items(&document, "services").into_iter().find(|service| service["name"] == STEADY);
        let total = steady.and_then(|service| service["totals"]["cpu_seconds_total"].as_f64()).unwrap_or(f64::NAN);
        if total.is_nan() || total < self.newest {
            self.fell.push(format!("from {} to {total}", self.newest));
        }
        self.newest = self.newest.max(total);
        if document["complete"] != Value::Bool(true) {
            self.n_incomplete += 1;
            for missing in document["missing"].as_array().into_iter().flatten() {
                let what = missing["what"].as_str().unwrap_or_default().to_owned();
                if !self.missing.contains(&what) && self.missing.len() < 12 {
                    self.missing.push(what);
                }
            }
        }
    }
}

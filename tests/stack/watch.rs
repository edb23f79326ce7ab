//! What is watched while the tier is disturbed: that every answer is in time and whole, what every collector's page
//! shows, scraped as Prometheus would, and which ring every router and shipper sees.

use crate::env::{Lab, lab};
use crate::poller::Poller;
use crate::tier::{Container, containers, label, series};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Ends the polling: every router answered, each time in time and completely, and no total fell.
pub(crate) fn all_whole(poller: Poller) {
    for polled in poller.all_in_time(&[]) {
        assert!(polled.n_answers > 0);
        assert!(polled.fell.is_empty(), "{:?}", polled.fell);
        assert_eq!(polled.n_incomplete, 0, "an answer was incomplete: {:?}", polled.missing);
    }
}

/// Something done again and again until it ends, and what it has found by now.
pub(crate) struct Watch<T> {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    found: Arc<Mutex<T>>,
    thread: JoinHandle<()>,
}

impl<T: Default + Send + 'static> Watch<T> {
    fn start(every: Duration, look: impl Fn(&Lab, &Mutex<T>) + Send + 'static) -> Watch<T> {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let found = Arc::<Mutex<T>>::default();
        let thread = thread::spawn({
            let (stop, rounds, found) = (stop.clone(), rounds.clone(), found.clone());
            move || {
                let lab = lab();
                while !stop.load(Ordering::Relaxed) {
                    look(&lab, &found);
                    rounds.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(every);
                }
            }
        });
        Watch { stop, rounds, found, thread }
    }

    /// How many rounds are done; it has not failed.
    pub(crate) fn rounds(&self) -> usize {
        assert!(!self.thread.is_finished(), "it has failed");
        self.rounds.load(Ordering::Relaxed)
    }

    pub(crate) fn found(&self) -> MutexGuard<'_, T> {
        held(&self.found)
    }

    pub(crate) fn end(self) -> T {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        std::mem::take(&mut held(&self.found))
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a collector's page showed when it was last scraped.
#[derive(Default)]
pub(crate) struct Shown {
    /// CPU seconds in its ledger of each service of the lab; the tier's own never rest.
    pub(crate) ledger: BTreeMap<String, f64>,
    /// The tasks it emits.
    pub(crate) tasks: BTreeSet<String>,
}

/// The pages of all collectors that ever were. Nobody else may scrape them: what a scrape has shown is settled.
pub(crate) type Scraped = BTreeMap<Container, Shown>;

/// Scrapes every collector about once a second, whatever containers there are.
pub(crate) fn scraper() -> Watch<Scraped> {
    Watch::start(Duration::from_millis(700), |lab, seen: &Mutex<Scraped>| {
        for container in containers(lab, "collectord") {
            let Some(page) = container.get(lab, 7771, "/metrics") else { continue };
            let shown =
                Shown { ledger: of_the_lab(&page, "swarmstats_service_cpu_seconds_total"), tasks: emitted(&page) };
            let mut seen = held(seen);
            let before = seen.insert(container.clone(), shown).unwrap_or_default();
            for (service, before) in before.ledger {
                let now = seen[&container].ledger.get(&service).copied().unwrap_or(f64::NAN);
                assert!(before <= now, "{container:?}: the counter of {service} fell from {before} to {now}");
            }
        }
    })
}

/// A counter's values by service, of the services of the lab.
pub(crate) fn of_the_lab(page: &str, counter: &str) -> BTreeMap<String, f64> {
    let by_name = series(page, counter).map(|(labels, value)| (label(labels, "service_name").to_owned(), value));
    by_name.filter(|(name, _)| name.starts_with("lab_")).collect()
}

/// The tasks whose series a collector's page has.
pub(crate) fn emitted(page: &str) -> BTreeSet<String> {
    let of_tasks = series(page, "swarmstats_task_sample_age_seconds");
    of_tasks.map(|(labels, _)| label(labels, "task_id").to_owned()).collect()
}

/// The rings that a process has been seen to have, in order, and how many changes it counted at each look.
#[derive(Default)]
pub(crate) struct Rings {
    pub(crate) ids: Vec<String>,
    pub(crate) changes: Vec<f64>,
}

/// Of each router and shipper that ever was.
pub(crate) type Seen = BTreeMap<Container, Rings>;

/// Looks at every router's and every shipper's ring about once a second.
pub(crate) fn rings() -> Watch<Seen> {
    Watch::start(Duration::from_millis(500), |lab, seen: &Mutex<Seen>| {
        for (service, port) in [("router", 7771), ("shipper", 7772)] {
            for container in containers(lab, service) {
                let Some(page) = container.get(lab, port, "/metrics") else { continue };
                let ids: Vec<_> = series(&page, "swarmstats_ring_info").collect();
                let changes: Vec<_> = series(&page, "swarmstats_ring_changes_total").collect();
                assert_eq!((ids.len(), changes.len()), (1, 1), "{container:?} says which ring it sees");
                let mut seen = held(seen);
                let of = seen.entry(container).or_default();
                let id = label(ids[0].0, "ring_id").to_owned();
                if of.ids.last() != Some(&id) {
                    of.ids.push(id);
                }
                of.changes.push(changes[0].1);
            }
        }
    })
}

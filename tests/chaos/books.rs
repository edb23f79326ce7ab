//! The accounts of service CPU: what each collector's ledger and each shipper's rows were when last scraped, also of
//! processes that are dead.

use crate::page::{self, sum};
use crate::tier::{Tier, held, metrics};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};
use swarmstats::model::{Key, MemberId, NodeId, ServiceId};
use swarmstats::shard::Ring;

/// One process's account: by service, when first and when last scraped.
#[derive(Default, Clone)]
pub(crate) struct Account {
    first: BTreeMap<String, f64>,
    /// A shipper's: its rows' keys, by service.
    keys: BTreeMap<String, Key>,
    pub(crate) last: BTreeMap<String, f64>,
    /// A shipper's: CPU seconds too old to be handed over, and handed on from dead collectors (the blur).
    pub(crate) dropped: f64,
    pub(crate) returned: f64,
    /// Time before tasks' ends that nobody saw, as the shipper knows it.
    pub(crate) unseen: f64,
}

/// Accounts by process: its name and its start; and when each was scraped.
#[derive(Default)]
pub(crate) struct Books(Mutex<BTreeMap<(String, u64), Account>>, Mutex<Vec<(String, Instant)>>);

impl Books {
    /// Scrapes a process once a second until told to stop.
    pub(crate) fn keep(&self, name: &str, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            self.scrape(name);
            sleep(Duration::from_secs(1).saturating_sub(began.elapsed()));
        }
    }

    /// One scrape; a process that does not answer keeps its account as it was.
    pub(crate) fn scrape(&self, name: &str) -> bool {
        let asked = Instant::now();
        let Some(page) = page::read(&format!("http://{}/metrics", metrics(name))) else { return false };
        held(&self.1).push((name.to_owned(), asked));
        let start = (sum(&page, "process_start_time_seconds") * 1000.0) as u64;
        let kind = if name.starts_with('c') { "swarmstats_service_" } else { "swarmstats_node_service_" };
        let counter = format!("{kind}cpu_seconds_total");
        let of_services = page.iter().filter(|series| series.name == counter);
        let mut books = held(&self.0);
        let account = books.entry((name.to_owned(), start)).or_default();
        for series in of_services {
            let service = series.label("service_name").unwrap().to_owned();
            account.first.entry(service.clone()).or_insert(series.value);
            if let Some(node) = series.label("node_id") {
                let row = ServiceId::new(series.label("service_id").unwrap()).unwrap();
                account.keys.insert(service.clone(), Key::Row(NodeId::new(node).unwrap(), row));
            }
            account.last.insert(service, series.value);
        }
        account.dropped = sum(&page, "swarmstats_shipper_dropped_cpu_seconds_total");
        account.returned = sum(&page, "swarmstats_shipper_returned_cpu_seconds_total");
        account.unseen = sum(&page, "swarmstats_shipper_unseen_tail_seconds_total");
        true
    }

    /// What every process of a letter counted since its first scrape, or, where `whole`, since its start.
    fn counted(&self, letter: char, whole: &dyn Fn(usize) -> bool) -> f64 {
        let books = held(&self.0);
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let mut all = 0.0;
        for ((name, _), account) in books.iter().filter(|((name, _), _)| name.starts_with(letter)) {
            let nth = seen.entry(name).and_modify(|n| *n += 1).or_insert(0);
            let first = |service: &str| if whole(*nth) { 0.0 } else { account.first[service] };
            all += account.last.iter().map(|(service, cpu)| cpu - first(service)).sum::<f64>();
        }
        all
    }

    /// What the ledgers gained: a later process's from 0, the first ones' from the first scrape, which was at rest.
    pub(crate) fn ledgers(&self) -> f64 {
        self.counted('c', &|nth| nth > 0)
    }

    /// What the shippers read: a shipper that is started finds tasks that ran before, and counts on from there.
    pub(crate) fn rows(&self) -> f64 {
        self.counted('s', &|_| false)
    }

    /// What the shippers read of the rows of which a collector is an owner.
    pub(crate) fn rows_of(&self, collector: &MemberId, ring: &Ring) -> f64 {
        let books = held(&self.0);
        let owned = |account: &Account| -> f64 {
            let of = account.keys.iter().filter(|(_, key)| ring.owners(key).any(|owner| owner == collector));
            of.map(|(service, _)| account.last[service] - account.first[service]).sum()
        };
        books.values().map(owned).sum()
    }

    /// For how long a process had not been scraped at a moment.
    pub(crate) fn unscraped(&self, name: &str, at: Instant) -> Duration {
        let scrapes = held(&self.1);
        let of = scrapes.iter().filter(|(of, when)| of == name && *when <= at);
        at - of.map(|(_, when)| *when).max().expect("it was scraped at rest")
    }

    /// A figure summed over all shippers that ever were.
    pub(crate) fn of_shippers(&self, figure: impl Fn(&Account) -> f64) -> f64 {
        held(&self.0).iter().filter(|((name, _), _)| name.starts_with('s')).map(|(_, account)| figure(account)).sum()
    }

    /// The accounts of the processes that run, those started last.
    pub(crate) fn newest(&self, names: &[&str]) -> Vec<Account> {
        let books = held(&self.0);
        let newest = |name: &&str| books.range(((*name).to_owned(), 0)..).take_while(|((of, _), _)| of == name).last();
        names.iter().filter_map(newest).map(|(_, account)| account.clone()).collect()
    }

    /// All processes that run have been scraped.
    pub(crate) fn balance(&self, names: &[&str], tier: &Tier) {
        for name in names {
            assert!(self.scrape(name), "{name} (pid {}) is not scraped", tier.pid(name));
        }
    }
}

//! A scrape's snapshot: taken at one moment, and reported back once its body was fully written (LEDGER 9, 14).

use super::Aggregate;
use super::node::Node;
use crate::model::{Millis, Nanos, NodeId, ServiceId, TaskMeta, Values, bits};
use crate::stat::{COUNTERS, GROUPED};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A task whose series this process emits.
#[derive(Debug, Clone)]
pub struct ScrapedTask {
    /// Its texts.
    pub meta: Arc<TaskMeta>,
    /// Its newest values.
    pub values: Values,
    /// How old they are.
    pub age: Millis,
}

/// A service as this process shows it: its ledger, and the partial sums of the rows it emits.
#[derive(Debug, Clone)]
pub struct ScrapedService {
    /// The service.
    pub service_id: ServiceId,
    /// Its name.
    pub name: Arc<str>,
    /// Its stack, or empty.
    pub stack: Arc<str>,
    /// Counters: what this process was handed.
    pub counters: Values,
    /// Gauges: Σ of the rows this process is primary for.
    pub gauges: Values,
    /// Fresh tasks in those rows.
    pub fresh: u64,
}

/// What a scrape shows, to be told to [`Aggregate::scraped`] once it was written.
#[derive(Debug, Clone, Default)]
pub struct Mark {
    nodes: Vec<(NodeId, u64, u64)>,
    /// Series that are shown for the first time.
    births: Vec<(ServiceId, u64)>,
}

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct Scrape {
    /// Tasks, in order of their places.
    pub tasks: Vec<ScrapedTask>,
    /// Services by id.
    pub services: Vec<ScrapedService>,
    /// For [`Aggregate::scraped`].
    pub mark: Mark,
}

impl Aggregate {
    /// The snapshot of one scrape. It changes no figure but releases amounts that waited too long for their series' 0.
    pub fn scrape(&mut self, now: Nanos) -> Scrape {
        self.ledger.ripen(now);
        let tasks = self.tasks.iter().filter_map(|(_, task)| {
            let node = self.nodes.get(&task.meta.node_id).filter(|node| node.emits(&task.hold, now))?;
            let fresh = node.fresh(&task.hold, now, self.cfg.max_round_trip);
            let age = node.age(&task.hold, fresh, now);
            Some(ScrapedTask { meta: task.meta.clone(), values: task.values.clone(), age })
        });
        let tasks = tasks.collect();
        let mut gauges = self.gauges(now);
        let mut mark =
            Mark { nodes: self.nodes.iter().map(|(id, node)| self.showable(id, node)).collect(), births: Vec::new() };
        let services = self.ledger.iter().map(|(service, account)| {
            let (gauges, fresh) = gauges.remove(service).unwrap_or_default();
            let mut counters = account.shown.clone();
            // A series is there, with 0, from the first sight of its stat on.
            bits(self.counted(service) | account.waiting()).for_each(|stat| counters.add(stat, 0));
            let births = counters.present() & !account.shown.present();
            if births != 0 {
                mark.births.push((service.clone(), births));
            }
            let (name, stack) = (account.name.clone(), account.stack.clone());
            ScrapedService { service_id: service.clone(), name, stack, counters, gauges, fresh }
        });
        let services = services.collect();
        Scrape { tasks, services, mark }
    }

    /// The body of a scrape was fully written: its amounts have been shown.
    pub fn scraped(&mut self, mark: &Mark, now: Nanos) {
        for (id, epoch, n) in &mark.nodes {
            if let Some(node) = self.nodes.get_mut(id).filter(|node| node.epoch == *epoch) {
                node.exposed = node.exposed.max(*n);
            }
        }
        for (service, series) in &mark.births {
            self.ledger.scraped(service, *series);
        }
        self.scraped = now;
    }

    /// A node, its epoch, and the last of its batches that a scrape now would show.
    fn showable(&self, id: &NodeId, node: &Node) -> (NodeId, u64, u64) {
        (id.clone(), node.epoch, self.ledger.showable(id, node.epoch, node.stored))
    }

    /// The counters that a service's rows here have.
    fn counted(&self, service: &ServiceId) -> u64 {
        let from = (service.clone(), NodeId::lowest());
        let rows = self.by_row.range(from..).take_while(|((other, _), _)| other == service);
        rows.fold(0, |mask, (_, at)| mask | self.rows[*at].values.present()) & COUNTERS
    }

    fn gauges(&self, now: Nanos) -> BTreeMap<ServiceId, (Values, u64)> {
        let mut sums: BTreeMap<ServiceId, (Values, u64, u64)> = BTreeMap::new();
        for (_, row) in &self.rows {
            if !self.nodes.get(&row.meta.node_id).is_some_and(|node| node.emits(&row.hold, now)) {
                continue;
            }
            let (sum, fresh, lacking) = sums.entry(row.meta.service_id.clone()).or_default();
            *fresh += row.counts.fresh;
            *lacking |= row.counts.lacking();
            for stat in bits(GROUPED & !COUNTERS) {
                if row.counts.have[stat.number()] > 0 {
                    sum.add(stat, row.values.or_zero(stat));
                }
            }
        }
        let finish = |(service, (mut sum, fresh, lacking)): (ServiceId, (Values, u64, u64))| {
            sum.retain(!lacking);
            (service, (sum, fresh))
        };
        sums.into_iter().map(finish).collect()
    }
}

//! A scrape's snapshot: taken at one moment, and reported back once its body was fully written (LEDGER 9, 14).

use super::Aggregate;
use super::node::{Node, Row, Task};
use crate::model::{Key, Millis, Nanos, NodeId, NodeMeta, ServiceId, TaskMeta, Values, bits};
use crate::rules::{Rule, holds};
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

/// A node whose machine's own series this process emits.
#[derive(Debug, Clone)]
pub struct ScrapedNode {
    /// Its id and name.
    pub meta: Arc<NodeMeta>,
    /// The machine's newest figures.
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
    nodes: Vec<Shown>,
    /// Series that are shown for the first time.
    births: Vec<(ServiceId, u64)>,
}

/// What of a node a scrape shows.
#[derive(Debug, Clone)]
struct Shown {
    node: NodeId,
    epoch: u64,
    /// All of its batches up to this one …
    exposed: u64,
    /// … and up to this one, but for these series.
    stored: u64,
    held: Vec<(ServiceId, u64)>,
}

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct Scrape {
    /// Tasks, in order of their places.
    pub tasks: Vec<ScrapedTask>,
    /// Services by id.
    pub services: Vec<ScrapedService>,
    /// Nodes by id.
    pub nodes: Vec<ScrapedNode>,
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
            Some(ScrapedTask { meta: task.meta.clone(), values: task.readings.newest(), age })
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
        let nodes = self.nodes.values().filter_map(|node| self.scraped_node(node, now)).collect();
        Scrape { tasks, services, nodes, mark }
    }

    /// The keys whose lease this process has at `now`: it was told to emit them and its token is young enough (LEDGER 14).
    pub fn emitted(&self, now: Nanos) -> impl Iterator<Item = Key> {
        self.nodes.iter().flat_map(move |(id, node)| {
            let tasks = self.tasks_of(node).filter(move |task| node.emits(&task.hold, now));
            let rows = self.rows_of(node).filter(move |row| node.emits(&row.hold, now));
            let tasks = tasks.map(|task| Key::Task(task.meta.task_id.clone()));
            let rows = rows.map(|row| Key::Row(id.clone(), row.meta.service_id.clone()));
            tasks.chain(rows).chain(node.emits(&node.hold, now).then(|| Key::Node(id.clone())))
        })
    }

    /// How many keys those are.
    pub fn roles(&self, now: Nanos) -> usize {
        let rows = |node: &Node| self.rows_of(node).filter(|row| node.emits(&row.hold, now)).count();
        let others = |node: &Node| rows(node) + usize::from(node.emits(&node.hold, now));
        self.emitted_tasks(now) + self.nodes.values().map(others).sum::<usize>()
    }

    /// How many of them are tasks.
    pub fn emitted_tasks(&self, now: Nanos) -> usize {
        let tasks = |node: &Node| self.tasks_of(node).filter(|task| node.emits(&task.hold, now)).count();
        self.nodes.values().map(tasks).sum()
    }

    fn tasks_of(&self, node: &Node) -> impl Iterator<Item = &Task> {
        node.tasks.iter().map(|at| &self.tasks[*at])
    }

    fn rows_of(&self, node: &Node) -> impl Iterator<Item = &Row> {
        node.rows.iter().map(|at| &self.rows[*at])
    }

    fn scraped_node(&self, node: &Node, now: Nanos) -> Option<ScrapedNode> {
        let (hold, machine) = (&node.hold, &node.machine);
        let meta = node.meta.clone().filter(|_| node.emits(hold, now) && !machine.values.is_empty())?;
        let fresh = node.fresh(hold, now, self.cfg.max_round_trip);
        Some(ScrapedNode { meta, values: machine.values.clone(), age: node.age(hold, fresh, now) })
    }

    /// The body of a scrape was fully written: its amounts have been shown.
    pub fn scraped(&mut self, mark: &Mark, now: Nanos) {
        for shown in &mark.nodes {
            let told = |node: &&mut Node| node.epoch == shown.epoch && holds(Rule::TellExposed);
            if let Some(node) = self.nodes.get_mut(&shown.node).filter(told) {
                node.exposed = node.exposed.max(shown.exposed);
                // Of two scrapes at once the later one has all that the other has.
                if shown.stored >= node.scraped {
                    (node.scraped, node.held) = (shown.stored, shown.held.clone());
                }
            }
        }
        for (service, series) in &mark.births {
            self.ledger.scraped(service, *series);
        }
        self.scraped = now;
    }

    /// What of a node a scrape now would show.
    fn showable(&self, id: &NodeId, node: &Node) -> Shown {
        let exposed = self.ledger.showable(id, node.epoch, node.stored);
        let held = if exposed < node.stored { self.ledger.held(id, node.epoch) } else { Vec::new() };
        Shown { node: id.clone(), epoch: node.epoch, exposed, stored: node.stored, held }
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

//! The judge: after every step the conservation laws, at every read and delivery what is said, at quiet everything.

use crate::accounts::Cause;
use crate::check::{Checked, Oracle, number, violation};
use crate::collecting::Process;
use crate::host::Host;
use crate::money::Money;
use crate::plan::{MAX_ROUND_TRIP, member, ring};
use crate::reader::{Reader, equals};
use crate::shipping::Shipper;
use crate::world::{Actor, Event, World};
use std::collections::{BTreeMap, BTreeSet};
use swarmstats::aggregate::Sizes;
use swarmstats::join::Answers;
use swarmstats::model::{Gen, Key, MemberId, TaskId};
use swarmstats::outbox::OutboxSizes;
use swarmstats::view::{Ask, Report, Selector};

/// Each actor's part of the conservation law, made anew only where something happened.
#[derive(Default)]
pub struct Shares {
    processes: BTreeMap<Gen, Money>,
    shippers: BTreeMap<usize, Money>,
    /// Pools of dead shippers, and what they had dropped.
    pub lost: Money,
    /// The newest life of its shipper, and round, that a scrape showed of each task.
    shown: BTreeMap<TaskId, (usize, u64)>,
    /// Something changed that the law speaks about.
    pub touched: bool,
}

impl World {
    pub fn oracle(&self) -> Oracle<'_> {
        let bound = 3 * self.cfg.interval + MAX_ROUND_TRIP;
        Oracle { lives: &self.epochs, all: &self.lives, bound, now: self.now }
    }

    /// The answer of every member that the reader reaches.
    pub fn read(&mut self) -> Checked {
        let delay = self.rng.between(200, 1_000);
        self.after(delay, Event::Read);
        if self.quiet {
            return Ok(());
        }
        let report = self.ask()?;
        self.note(if report.complete { "complete answer" } else { "incomplete answer" });
        self.judge(&report)
    }

    /// What a reader was told, after all that it was told before.
    pub fn judge(&mut self, report: &Report) -> Checked {
        let mut reader = std::mem::replace(&mut self.reader, Reader::new(1));
        let checked = reader.check(report, &self.oracle());
        self.reader = reader;
        checked
    }

    pub fn ask(&mut self) -> Checked<Report> {
        let ask = Ask::of(vec![Selector::everything()]);
        let answer = |number: usize| {
            let process = self.current[number].and_then(|gen_| self.processes.get(&gen_));
            let reached = self.reader_cuts.get(&number).is_none_or(|until| *until <= self.now);
            let process = process.filter(|process| reached && process.thaw <= self.now);
            let holding = process.map(|process| process.aggregate.hold(&ask, process.clock(self.now)));
            (member(number), holding.ok_or_else(|| "no answer".to_owned()))
        };
        let asked = (0..self.cfg.n_members).filter(|number| self.reader_view >> number & 1 == 1);
        let answers: Answers = asked.map(answer).collect();
        let oracle = self.oracle();
        answers
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().ok())
            .try_for_each(|holding| oracle.holding(holding))?;
        Ok(self.reader.read(answers, &ask, self.now))
    }

    /// What a process holds of a node is checked against the oracle.
    pub fn look_at(&self, gen_: Gen, node: usize) -> Checked {
        let Some(process) = self.processes.get(&gen_).filter(|_| !self.quiet) else { return Ok(()) };
        let node = Some(self.hosts[node].node_id.as_str().into());
        let ask = Ask::of(vec![Selector { node, ..Selector::default() }]);
        self.oracle().holding(&process.aggregate.hold(&ask, process.clock(self.now)))
    }

    /// Something happened to a process or a shipper: its share of the conservation law is made anew.
    pub fn touched(&mut self, actor: Actor) -> Checked {
        self.shares.touched = true;
        match actor {
            Actor::Member(number) => {
                let Some(gen_) = self.current[number] else { return Ok(()) };
                let ledger = self.processes[&gen_].aggregate.ledger();
                let money = Money::of(&ledger);
                self.accounts.accounts_of(gen_, ledger.keys(), self.now);
                self.shares.processes.insert(gen_, money);
                if self.quiet {
                    return Ok(());
                }
                self.accounts.ledger(gen_, &money)?;
                self.emits_alone(gen_)
            }
            Actor::Shipper(node) => {
                let mut share = Money::default();
                if let Some(shipper) = &self.shippers[node] {
                    share += Money::of(&shipper.outbox.pooled());
                    share += Money::of(&shipper.outbox.dropped());
                }
                self.shares.shippers.insert(node, share);
                Ok(())
            }
            Actor::Reader => Ok(()),
        }
    }

    /// L3: what a process emits at this moment, no other process does that is awake.
    fn emits_alone(&mut self, gen_: Gen) -> Checked {
        let emitted = |process: &Process| process.aggregate.emitted(process.clock(self.now)).collect::<BTreeSet<Key>>();
        let awake = |process: &&Process| process.thaw <= self.now;
        let Some(own) = self.processes.get(&gen_).filter(awake).map(emitted) else { return Ok(()) };
        for other in self.processes.values().filter(awake).filter(|other| other.gen_ != gen_) {
            if let Some(key) = emitted(other).intersection(&own).next() {
                return violation("L3", format!("{key:?} is emitted by {gen_:?} and {:?}", other.gen_));
            }
        }
        Ok(())
    }

    /// L3 as a scraper sees it: a key's series, whoever emits it, never goes back to an earlier round or an earlier life of
    /// its shipper.
    pub fn shown(&mut self, gen_: Gen) -> Checked {
        let process = &self.processes[&gen_];
        let ask = Ask::of(vec![Selector::everything()]);
        let holding = process.aggregate.hold(&ask, process.clock(self.now));
        for task in holding.tasks.iter().filter(|task| task.primary) {
            let node = number(task.meta.node_id.as_str());
            let version = (self.epochs[&(node, task.version.epoch)], task.version.q);
            let newest = self.shares.shown.entry(task.meta.task_id.clone()).or_default();
            if version < *newest {
                let text = format!("task {} went back from {newest:?} to {version:?}", task.meta.task_id);
                return violation("L3", text);
            }
            *newest = version;
        }
        Ok(())
    }

    pub fn process_is_dead(&mut self, gen_: Gen) -> Checked {
        self.shares.touched = true;
        self.shares.processes.remove(&gen_);
        self.accounts.process_died(gen_)
    }

    /// L1: Σ live ledgers + Σ dead ledgers as last scraped + pool + owed + dropped = Σ increments read ± blur.
    pub fn conserved(&mut self) -> Checked {
        let mut have = self.accounts.last_scraped();
        have += self.accounts.owed();
        have += self.shares.processes.values().chain(self.shares.shippers.values()).copied().sum();
        have += self.shares.lost;
        have += self.accounts.under;
        have -= self.accounts.over;
        let truth: Money = self.lives.iter().map(|life| life.increments).sum();
        if have == truth { Ok(()) } else { violation("L1", format!("accounted for {have:?}, read {truth:?}")) }
    }

    pub fn at_quiet(&mut self) -> Checked {
        let report = self.ask()?;
        let newest = self.hosts.iter().zip(self.shippers.iter().flatten());
        let newest = newest.map(|(host, shipper)| (host.node_id.clone(), &self.lives[shipper.life])).collect();
        equals(&report, &newest)?;
        self.owners_have_all()?;
        let pooled: Money = self.shippers.iter().flatten().map(|shipper| Money::of(&shipper.outbox.pooled())).sum();
        if !pooled.is_zero() || !self.accounts.all_handed_over() {
            return violation("L1", format!("at quiet {pooled:?} is not handed over"));
        }
        let died = self.notes.contains_key("collector died") || self.notes.contains_key("shipper died");
        let twice = !self.accounts.over.is_zero() && self.accounts.n_dropped == 0;
        if !died && (twice || !self.accounts.under.is_zero()) {
            return violation("L1", "blur without a death".to_owned());
        }
        self.take_stock();
        self.quiet = true;
        self.hosts.iter_mut().for_each(Host::end_all);
        Ok(())
    }

    /// Notes what this world was like.
    fn take_stock(&mut self) {
        let died = self.notes.contains_key("collector died") || self.notes.contains_key("shipper died");
        let was = [
            ("amounts given up in flight", self.accounts.n_dropped > 0),
            ("amounts too old in a pool", self.accounts.n_stale > 0),
            ("amounts unconfirmed", self.accounts.n_unconfirmed > 0),
            ("blur: counted twice", !self.accounts.over.is_zero()),
            ("blur: not counted", !self.accounts.under.is_zero()),
            ("lived until all was forgotten", self.cfg.to_the_end),
            ("second scraper", self.cfg.n_servers > 1),
            ("two copies", self.cfg.replicas == 2),
            ("three copies", self.cfg.replicas == 3),
            ("degraded: fewer members than copies", (self.members.count_ones() as usize) < self.cfg.replicas.into()),
            ("lease taken over", self.shippers.iter().flatten().any(|shipper| shipper.outbox.takeovers() > 0)),
            ("world without a death", !died),
        ];
        was.into_iter().filter(|(_, was)| *was).for_each(|(what, _)| self.note(what));
    }

    /// Every key is emitted by the ring's primary and nobody else, and fresh at each of its owners.
    fn owners_have_all(&self) -> Checked {
        let ring = ring(self.members, self.cfg.replicas);
        let ask = Ask::of(vec![Selector::everything()]);
        let (mut held, mut emitted) = (BTreeMap::<Key, BTreeSet<MemberId>>::new(), BTreeMap::<Key, MemberId>::new());
        for (number, gen_) in self.current.iter().enumerate() {
            let process = &self.processes[&gen_.unwrap()];
            let holding = process.aggregate.hold(&ask, process.clock(self.now));
            let tasks = holding.tasks.iter().filter(|task| task.fresh).map(|task| Key::Task(task.meta.task_id.clone()));
            let rows = holding.rows.iter().filter(|row| row.fresh);
            let rows = rows.map(|row| Key::Row(row.meta.node_id.clone(), row.meta.service_id.clone()));
            let nodes = holding.nodes.iter().filter(|node| node.fresh);
            let nodes = nodes.map(|node| Key::Node(node.meta.node_id.clone()));
            for key in tasks.chain(rows).chain(nodes) {
                held.entry(key).or_default().insert(member(number));
            }
            emitted.extend(process.aggregate.emitted(process.clock(self.now)).map(|key| (key, member(number))));
        }
        for (key, holders) in &held {
            let owners: BTreeSet<MemberId> = ring.owners(key).cloned().collect();
            // A task that could not be read in the newest round is fresh nowhere.
            if *holders != owners {
                return violation("owner", format!("{key:?} is fresh at {holders:?}, its owners are {owners:?}"));
            }
        }
        for (key, emitting) in &emitted {
            if ring.primary(key) != emitting {
                return violation("owner", format!("{key:?} is emitted by {emitting}"));
            }
        }
        let of = |shipper: &Shipper| {
            self.lives[shipper.life].rounds.last().map_or(0, |round| 1 + round.tasks.len() + round.rows.len())
        };
        let n_keys: usize = self.shippers.iter().flatten().map(of).sum();
        if emitted.len() != n_keys {
            return violation("owner", format!("{} keys are emitted, there are {n_keys}", emitted.len()));
        }
        Ok(())
    }

    pub fn base_sizes(&self) -> Checked {
        for process in self.processes.values() {
            let sizes = process.aggregate.sizes();
            if sizes != (Sizes { nodes: sizes.nodes, ..Default::default() }) {
                return violation("bounded", format!("after row_keep of quiet {:?} holds {sizes:?}", process.gen_));
            }
        }
        for shipper in self.shippers.iter().flatten() {
            let sizes = shipper.outbox.sizes();
            let base = OutboxSizes { peers: sizes.peers, ..Default::default() };
            if sizes != base || sizes.peers > self.cfg.n_members {
                return violation("bounded", format!("after row_keep of quiet a shipper holds {sizes:?}"));
            }
        }
        Ok(())
    }

    /// Compares what a shipper owes with what it owed before a call.
    pub fn settle(&mut self, node: usize, cause: Cause) -> Checked {
        let Some(shipper) = &self.shippers[node] else { return Ok(()) };
        let (life, epoch) = (shipper.life, shipper.epoch);
        self.accounts.settle(life, epoch, &shipper.outbox.owed(), cause, self.now)?;
        self.accounts.pooled(life, &Money::of(&shipper.outbox.pooled()), cause, self.now)?;
        self.touched(Actor::Shipper(node))
    }
}

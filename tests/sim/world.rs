//! A world of a seed: hosts with their shippers, members with their processes, one ring view each, scrapers, a router-like
//! reader, and a clock that jumps from event to event.

use crate::accounts::{Accounts, Cause};
use crate::check::{Checked, Oracle, violation};
use crate::collecting::Process;
use crate::faults::Fault;
use crate::host::Host;
use crate::money::Money;
use crate::net::{ConnId, Net};
use crate::reader::{Reader, equals};
use crate::rng::Rng;
use crate::shipping::Shipper;
use crate::truth::Life;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use swarmstats::aggregate::Mark;
use swarmstats::join::Answers;
use swarmstats::model::{Gen, MemberId};
use swarmstats::shard::{Member, Ring};
use swarmstats::view::{Ask, Report, Selector};

/// Faults stop here.
pub const HEAL: u64 = 60_000;
/// Values stand still from here.
const CALM: u64 = 85_000;
/// All that holds at quiet is asked here.
pub const QUIET: u64 = 110_000;
pub const ROW_KEEP: u64 = 150_000;
pub const STALE_KEEP: u64 = 30_000;
pub const ENDED_KEEP: u64 = 20_000;
pub const MAX_CATCH_UP: u64 = 20_000;
pub const MAX_ROUND_TRIP: u64 = 1_000;
/// Every map is at its base size by here.
const END: u64 = QUIET + 2 * ROW_KEEP + 40_000;
/// The wall clock of a host at time 0.
pub const WALL: u64 = 1_700_000_000_000;

/// What can happen next.
#[derive(Debug, Clone)]
pub enum Event {
    /// A shipper's sample round; of which life.
    Round(usize, usize),
    /// A shipper looks at its streams.
    Tick(usize, usize),
    /// Something may have arrived at a process, or at a shipper.
    Up(ConnId),
    Down(ConnId),
    /// A server scrapes a member.
    Scrape(usize, usize),
    /// The body of a scrape was fully written.
    Written(Gen, Mark),
    Expire(usize),
    /// A process tells its streams goodbye and is gone.
    Exit(Gen),
    /// A member's next process, a host's next shipper.
    Boot(usize),
    Ship(usize),
    /// Discovery tells a process which members there are, as of its n-th change.
    View(Actor, u64, u8),
    Read,
    Fault,
    Heal,
    Calm,
    Quiet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    Shipper(usize),
    Member(usize),
    Reader,
}

pub struct Config {
    pub n_nodes: usize,
    pub n_members: usize,
    pub replicas: u8,
    pub interval: u64,
    pub lease: u64,
    pub n_servers: usize,
    pub scrape_every: u64,
    pub kinds: Vec<Fault>,
    /// Go on until everything is forgotten again.
    pub to_the_end: bool,
}

pub struct World {
    pub cfg: Config,
    pub rng: Rng,
    pub now: u64,
    pub net: Net,
    pub hosts: Vec<Host>,
    pub shippers: Vec<Option<Shipper>>,
    pub processes: BTreeMap<Gen, Process>,
    /// The live process of each member.
    pub current: Vec<Option<Gen>>,
    pub views: Vec<u8>,
    pub reader_view: u8,
    /// Who is in the ring, as far as discovery knows.
    pub members: u8,
    /// How often that changed, and which change each actor has seen.
    pub n_changes: u64,
    seen: BTreeMap<Actor, u64>,
    pub lives: Vec<Life>,
    pub epochs: BTreeMap<(usize, u64), usize>,
    pub accounts: Accounts,
    /// Pools and dropped amounts of dead shippers.
    pub lost_pools: Money,
    pub dropped: Money,
    pub reader: Reader,
    pub notes: BTreeMap<&'static str, u64>,
    pub n_steps: u64,
    /// The newest steps, kept only when asked for.
    pub log: Option<VecDeque<String>>,
    pub print: bool,
    queue: BTreeMap<(u64, u64), Event>,
    seq: u64,
    pub calm: bool,
    quiet: bool,
    /// Something changed that the conservation law speaks about.
    touched: bool,
    shares: Shares,
}

/// Each actor's part of the conservation law, made anew only where something happened.
#[derive(Default)]
struct Shares {
    processes: BTreeMap<Gen, Money>,
    shippers: Vec<Money>,
}

pub fn member(number: usize) -> MemberId {
    MemberId::new(format!("c{number}")).unwrap()
}

/// Rings are pure and dear: one per membership for all worlds.
pub fn ring(members: u8, replicas: u8) -> Arc<Ring> {
    static RINGS: OnceLock<Mutex<BTreeMap<(u8, u8), Arc<Ring>>>> = OnceLock::new();
    let mut rings = RINGS.get_or_init(Mutex::default).lock().unwrap();
    let make = || {
        let of = (0..8).filter(|bit| members >> bit & 1 == 1);
        Arc::new(Ring::new(of.map(|bit| Member { id: member(bit), node: None }), replicas).unwrap())
    };
    rings.entry((members, replicas)).or_insert_with(make).clone()
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let kinds = Fault::ALL.into_iter().filter(|_| rng.chance(500)).collect();
        let interval = if rng.chance(750) { 1_000 } else { 2_000 };
        let cfg = Config {
            n_nodes: rng.between(1, 4) as usize,
            n_members: rng.between(2, 5) as usize,
            replicas: if rng.chance(750) { 1 } else { 2 },
            interval,
            lease: if interval == 2_000 || rng.chance(300) { 6_000 } else { 3_000 },
            n_servers: rng.between(1, 3) as usize,
            scrape_every: rng.between(3_000, 9_000),
            kinds,
            to_the_end: seed % 20 == 0,
        };
        let everyone = (1 << cfg.n_members) - 1;
        let mut world = World {
            now: 0,
            net: Net { latency: [5, 40, 400][rng.below(3) as usize], ..Net::default() },
            hosts: (0..cfg.n_nodes).map(Host::new).collect(),
            shippers: (0..cfg.n_nodes).map(|_| None).collect(),
            processes: BTreeMap::new(),
            current: vec![None; cfg.n_members],
            views: vec![everyone; cfg.n_nodes],
            reader_view: everyone,
            members: everyone,
            n_changes: 0,
            seen: BTreeMap::new(),
            lives: Vec::new(),
            epochs: BTreeMap::new(),
            accounts: Accounts::default(),
            lost_pools: Money::default(),
            dropped: Money::default(),
            reader: Reader::new(cfg.replicas),
            notes: BTreeMap::new(),
            n_steps: 0,
            log: None,
            print: false,
            queue: BTreeMap::new(),
            seq: 0,
            calm: false,
            quiet: false,
            touched: false,
            shares: Shares { processes: BTreeMap::new(), shippers: vec![Money::default(); cfg.n_nodes] },
            cfg,
            rng,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for member in 0..self.cfg.n_members {
            self.boot(member);
            for server in 0..self.cfg.n_servers {
                let at = self.rng.below(self.cfg.scrape_every);
                self.at(at, Event::Scrape(member, server));
            }
            self.at(3_000, Event::Expire(member));
        }
        for node in 0..self.cfg.n_nodes {
            for _ in 0..self.rng.between(1, 4) {
                let age = self.rng.between(1, 100_000);
                self.hosts[node].start(WALL, age, &mut self.rng);
            }
            self.ship(node, WALL);
        }
        for (at, event) in [(500, Event::Read), (1_000, Event::Fault), (HEAL, Event::Heal), (CALM, Event::Calm)] {
            self.at(at, event);
        }
        self.at(QUIET, Event::Quiet);
    }

    /// Lives to its end, or to the first violation.
    pub fn run(&mut self) -> Checked {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if self.quiet && (!self.cfg.to_the_end || at > END) {
                break;
            }
            self.now = at;
            self.step(event)?;
            self.n_steps += 1;
            if std::mem::take(&mut self.touched) && !self.quiet {
                self.conserved()?;
            }
        }
        if self.cfg.to_the_end { self.base_sizes() } else { Ok(()) }
    }

    pub fn at(&mut self, at: u64, event: Event) {
        self.seq += 1;
        self.queue.insert((at.max(self.now), self.seq), event);
    }

    pub fn after(&mut self, delay: u64, event: Event) {
        self.at(self.now + delay, event);
    }

    pub fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    pub fn log(&mut self, text: impl FnOnce(&World) -> String) {
        if self.log.is_none() {
            return;
        }
        let line = format!("{:>8.3} {}", self.now as f64 / 1000.0, text(self));
        if self.print {
            println!("{line}");
        }
        if let Some(log) = &mut self.log {
            log.push_back(line);
        }
    }

    fn step(&mut self, event: Event) -> Checked {
        match event {
            Event::Round(node, life) => self.round(node, life),
            Event::Tick(node, life) => self.tick(node, life),
            Event::Up(conn) => self.deliver_up(conn),
            Event::Down(conn) => self.deliver_down(conn),
            Event::Scrape(member, server) => self.scrape(member, server),
            Event::Written(gen_, mark) => self.written(gen_, mark),
            Event::Expire(member) => self.expire(member),
            Event::Exit(gen_) => self.exit(gen_),
            Event::Boot(member) => {
                self.boot(member);
                Ok(())
            }
            Event::Ship(node) => {
                let wall = self.wall_after_restart(node);
                self.ship(node, wall);
                Ok(())
            }
            Event::View(actor, nth, members) => self.see(actor, nth, members),
            Event::Read => self.read(),
            Event::Fault => self.fault(),
            Event::Heal => self.heal(),
            Event::Calm => {
                self.calm = true;
                Ok(())
            }
            Event::Quiet => self.at_quiet(),
        }
    }

    fn see(&mut self, actor: Actor, nth: u64, members: u8) -> Checked {
        let newest = self.seen.insert(actor, nth).unwrap_or(0);
        if newest > nth {
            self.seen.insert(actor, newest);
            return Ok(());
        }
        let ring = ring(members, self.cfg.replicas);
        self.log(|_| format!("{actor:?} sees members {members:#06b}"));
        match actor {
            Actor::Reader => self.reader_view = members,
            Actor::Member(number) => {
                if let Some(process) = self.current[number].and_then(|gen_| self.processes.get_mut(&gen_)) {
                    process.aggregate.set_ring_id(ring.id());
                }
            }
            Actor::Shipper(node) => {
                self.views[node] = members;
                if let Some(shipper) = &mut self.shippers[node] {
                    shipper.outbox.set_ring(ring);
                    self.pump(node)?;
                }
            }
        }
        Ok(())
    }

    fn oracle(&self) -> Oracle<'_> {
        let bound = 3 * self.cfg.interval + MAX_ROUND_TRIP;
        Oracle { lives: &self.epochs, all: &self.lives, bound, now: self.now }
    }

    /// The answer of every member that the reader reaches.
    fn read(&mut self) -> Checked {
        let delay = self.rng.between(200, 1_000);
        self.after(delay, Event::Read);
        if self.quiet {
            return Ok(());
        }
        let report = self.ask()?;
        self.note(if report.complete { "complete answer" } else { "incomplete answer" });
        let mut reader = std::mem::replace(&mut self.reader, Reader::new(1));
        let checked = reader.check(&report, &self.oracle());
        self.reader = reader;
        checked
    }

    fn ask(&mut self) -> Checked<Report> {
        let ask = Ask { selectors: vec![Selector::everything()], points: 0 };
        let answer = |number: usize| {
            let process = self.current[number].and_then(|gen_| self.processes.get(&gen_));
            let process = process.filter(|process| process.thaw <= self.now);
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
        let ask = Ask { selectors: vec![Selector { node, ..Selector::default() }], points: 0 };
        self.oracle().holding(&process.aggregate.hold(&ask, process.clock(self.now)))
    }

    /// Something happened to a process or a shipper: its share of the conservation law is made anew.
    pub fn touched(&mut self, actor: Actor) -> Checked {
        self.touched = true;
        match actor {
            Actor::Member(number) => {
                let Some(gen_) = self.current[number] else { return Ok(()) };
                let ledger = self.processes[&gen_].aggregate.ledger();
                let money = Money::of(&ledger);
                self.accounts.accounts_of(gen_, ledger.keys(), self.now);
                self.shares.processes.insert(gen_, money);
                if self.quiet { Ok(()) } else { self.accounts.ledger(gen_, &money) }
            }
            Actor::Shipper(node) => {
                let mut share = Money::default();
                if let Some(shipper) = &self.shippers[node] {
                    share += Money::of(&shipper.outbox.pooled());
                    share += Money::of(&shipper.outbox.dropped());
                }
                self.shares.shippers[node] = share;
                Ok(())
            }
            Actor::Reader => Ok(()),
        }
    }

    pub fn process_is_dead(&mut self, gen_: Gen) -> Checked {
        self.touched = true;
        self.shares.processes.remove(&gen_);
        self.accounts.process_died(gen_)
    }

    /// L1: Σ live ledgers + Σ dead ledgers as last scraped + pool + owed + dropped = Σ increments read ± blur.
    fn conserved(&mut self) -> Checked {
        let mut have = self.accounts.last_scraped();
        have += self.accounts.owed();
        have += self.shares.processes.values().chain(&self.shares.shippers).copied().sum();
        have += self.dropped;
        have += self.lost_pools;
        have += self.accounts.under;
        have -= self.accounts.over;
        let truth: Money = self.lives.iter().map(|life| life.increments).sum();
        if have == truth { Ok(()) } else { violation("L1", format!("accounted for {have:?}, read {truth:?}")) }
    }

    fn at_quiet(&mut self) -> Checked {
        let report = self.ask()?;
        let newest = self.hosts.iter().zip(self.shippers.iter().flatten());
        let newest = newest.map(|(host, shipper)| (host.node_id.clone(), &self.lives[shipper.life])).collect();
        equals(&report, &newest)?;
        self.owners_have_all()?;
        let pooled: Money = self.shippers.iter().flatten().map(|shipper| Money::of(&shipper.outbox.pooled())).sum();
        if !pooled.is_zero() || !self.accounts.all_handed_over() {
            return violation("L1", format!("at quiet {pooled:?} is not handed over"));
        }
        if !self.notes.contains_key("collector died") && !self.notes.contains_key("shipper died") {
            if !self.accounts.under.is_zero() || !self.accounts.over.is_zero() && !self.accounts.gave_up {
                return violation("L1", "blur without a death".to_owned());
            }
        }
        self.quiet = true;
        self.hosts.iter_mut().for_each(Host::end_all);
        Ok(())
    }

    /// Every running task is fresh at its owner with its newest reading, and emitted there alone.
    fn owners_have_all(&self) -> Checked {
        let ring = ring(self.members, self.cfg.replicas);
        let ask = Ask { selectors: vec![Selector::everything()], points: 0 };
        let mut n_primary = 0;
        for (number, gen_) in self.current.iter().enumerate() {
            let process = &self.processes[&gen_.unwrap()];
            let holding = process.aggregate.hold(&ask, process.clock(self.now));
            for task in holding.tasks.iter().filter(|task| task.primary) {
                n_primary += 1;
                let key = swarmstats::model::Key::Task(task.meta.task_id.clone());
                if *ring.primary(&key) != member(number) || !task.fresh {
                    return violation("owner", format!("task {} is primary at member {number}", task.meta.task_id));
                }
            }
        }
        let tasks = |shipper: &Shipper| self.lives[shipper.life].rounds.last().map_or(0, |round| round.tasks.len());
        let n_tasks: usize = self.shippers.iter().flatten().map(tasks).sum();
        if n_primary != n_tasks {
            return violation("owner", format!("{n_primary} tasks are at their owners, {n_tasks} run"));
        }
        Ok(())
    }

    fn base_sizes(&self) -> Checked {
        for process in self.processes.values() {
            let sizes = process.aggregate.sizes();
            if sizes != (swarmstats::aggregate::Sizes { nodes: sizes.nodes, ..Default::default() }) {
                return violation("bounded", format!("after row_keep of quiet {:?} holds {sizes:?}", process.gen_));
            }
        }
        for shipper in self.shippers.iter().flatten() {
            let sizes = shipper.outbox.sizes();
            let base = swarmstats::outbox::OutboxSizes { peers: sizes.peers, ..Default::default() };
            if sizes != base || sizes.peers > self.cfg.n_members {
                return violation("bounded", format!("after row_keep of quiet a shipper holds {sizes:?}"));
            }
        }
        Ok(())
    }

    /// Compares what a shipper owes with what it owed before a call.
    pub fn settle(&mut self, node: usize, cause: Cause) -> Checked {
        let Some(shipper) = &self.shippers[node] else { return Ok(()) };
        let epoch = shipper.epoch;
        self.accounts.settle(node, epoch, &shipper.outbox.owed(), cause)?;
        self.touched(Actor::Shipper(node))
    }
}

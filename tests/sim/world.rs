//! A world of a seed: hosts with their shippers, members with their processes, one ring view each, scrapers, a router-like
//! reader, and a clock that jumps from event to event.

use crate::accounts::Accounts;
use crate::check::Checked;
use crate::collecting::Process;
use crate::host::Host;
use crate::judge::Shares;
use crate::money::Cells;
use crate::net::{ConnId, Net};
use crate::plan::{CALM, Config, END, HEAL, QUIET, WALL, ring};
use crate::reader::Reader;
use crate::rng::Rng;
use crate::shipping::Shipper;
use crate::truth::Life;
use std::collections::BTreeMap;
use swarmstats::aggregate::Mark;
use swarmstats::model::Gen;

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
    Written(Gen, Mark, Cells<usize>),
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
    /// Until when the reader does not reach a member.
    pub reader_cuts: BTreeMap<usize, u64>,
    /// Who is in the ring, as far as discovery knows.
    pub members: u8,
    /// How often that changed, and which change each actor has seen.
    pub n_changes: u64,
    seen: BTreeMap<Actor, u64>,
    pub lives: Vec<Life>,
    pub epochs: BTreeMap<(usize, u64), usize>,
    pub accounts: Accounts,
    pub reader: Reader,
    pub notes: BTreeMap<&'static str, u64>,
    pub n_steps: u64,
    /// What happened, kept only when asked for.
    pub log: Option<Vec<String>>,
    queue: BTreeMap<(u64, u64), Event>,
    seq: u64,
    pub calm: bool,
    pub quiet: bool,
    pub shares: Shares,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let cfg = Config::of(seed, &mut rng);
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
            reader_cuts: BTreeMap::new(),
            members: everyone,
            n_changes: 0,
            seen: BTreeMap::new(),
            lives: Vec::new(),
            epochs: BTreeMap::new(),
            accounts: Accounts::default(),
            reader: Reader::new(cfg.replicas),
            notes: BTreeMap::new(),
            n_steps: 0,
            log: None,
            queue: BTreeMap::new(),
            seq: 0,
            calm: false,
            quiet: false,
            shares: Shares::default(),
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
            if std::mem::take(&mut self.shares.touched) && !self.quiet {
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
        if self.log.is_some() {
            let line = format!("{:>6} {:>8.3} s  {}", self.n_steps, self.now as f64 / 1000.0, text(self));
            self.log.iter_mut().for_each(|log| log.push(line.clone()));
        }
    }

    fn step(&mut self, event: Event) -> Checked {
        match event {
            Event::Round(node, life) => self.round(node, life),
            Event::Tick(node, life) => self.tick(node, life),
            Event::Up(conn) => self.deliver_up(conn),
            Event::Down(conn) => self.deliver_down(conn),
            Event::Scrape(member, server) => self.scrape(member, server),
            Event::Written(gen_, mark, visible) => self.written(gen_, mark, visible),
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
}

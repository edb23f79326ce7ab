//! The shipper's shell as a simulation: sample rounds, streams to every destination, deadlines, reconnecting.

use crate::accounts::Cause;
use crate::check::Checked;
use crate::faults::Fault;
use crate::host::Version;
use crate::money::Money;
use crate::net::{Arrival, ConnId, Down, Up};
use crate::plan::{HEAL, MAX_CATCH_UP, OVERLAP, QUIET, ROW_KEEP, WALL, member, ring};
use crate::truth::Life;
use crate::world::{Actor, Event, World};
use std::collections::BTreeMap;
use swarmstats::model::{Gen, MemberId};
use swarmstats::outbox::{Outbox, OutboxConfig};

#[derive(Debug)]
pub struct Link {
    pub conn: ConnId,
    /// Since when an answer is awaited, and to which batch (0: to the Hello).
    waiting: Option<(u64, u64)>,
}

pub struct Shipper {
    pub outbox: Outbox,
    /// Its place among the lives.
    pub life: usize,
    pub epoch: u64,
    /// Frozen until then.
    pub thaw: u64,
    pub links: BTreeMap<MemberId, Link>,
    retry: BTreeMap<MemberId, u64>,
    /// The process each member was last greeted by.
    greeted: BTreeMap<MemberId, Gen>,
    /// Its monotonic and its wall clock less the true time.
    monotonic: u64,
    wall: u64,
}

fn number(member: &MemberId) -> usize {
    member.as_str()[1..].parse().unwrap()
}

impl World {
    /// A shipper starts on a node, with this wall clock.
    pub fn ship(&mut self, node: usize, wall: u64) {
        let monotonic = self.rng.below(1_000_000_000);
        let life = self.lives.len();
        let version = match self.rng.below(10) {
            0 if self.cfg.kinds.contains(&Fault::Version) => Version::Earlier,
            1 if self.cfg.kinds.contains(&Fault::Version) => Version::Later,
            _ => Version::Same,
        };
        let cfg = OutboxConfig {
            node_id: self.hosts[node].node_id.clone(),
            node_name: self.hosts[node].node_id.as_str().into(),
            started: wall,
            started_monotonic: (self.now + monotonic) * 1_000_000,
            nonce: self.rng.next(),
            stats: version.sent(),
            interval: self.cfg.interval * 1_000_000,
            lease: self.cfg.lease * 1_000_000,
            overlap: OVERLAP * 1_000_000,
            row_keep: ROW_KEEP * 1_000_000,
            max_catch_up: MAX_CATCH_UP * 1_000_000,
        };
        let outbox = Outbox::new(cfg, ring(self.views[node], self.cfg.replicas));
        let epoch = outbox.version().epoch;
        self.lives.push(Life::new(wall, monotonic, version));
        self.epochs.insert((node, epoch), life);
        self.log(|_| format!("node {node}: shipper starts, epoch {epoch}"));
        match version {
            Version::Same => {}
            Version::Earlier => self.note("shipper of an earlier version"),
            Version::Later => self.note("shipper of a later version"),
        }
        self.shippers[node] = Some(Shipper {
            outbox,
            life,
            epoch,
            thaw: 0,
            links: BTreeMap::new(),
            retry: BTreeMap::new(),
            greeted: BTreeMap::new(),
            monotonic,
            wall: wall - self.now,
        });
        self.hosts[node].forget_ended();
        let phase = self.rng.below(self.cfg.interval);
        self.after(phase, Event::Round(node, life));
        self.after(phase / 2, Event::Tick(node, life));
    }

    /// The wall clock of a node whose shipper starts again: usually goes on, sometimes was set back.
    pub fn wall_after_restart(&mut self, node: usize) -> u64 {
        if self.rng.chance(300) {
            self.note("clock set back");
            return WALL - self.rng.between(1, 1_000_000_000) - node as u64;
        }
        WALL + self.now
    }

    /// Runs `act` unless the shipper is frozen or another by now; then the event comes again at its thaw.
    fn awake(&mut self, node: usize, life: usize, event: &Event) -> bool {
        let Some(shipper) = self.shippers[node].as_ref().filter(|shipper| shipper.life == life) else { return false };
        if shipper.thaw > self.now {
            let at = shipper.thaw + self.rng.below(30);
            self.at(at, event.clone());
            return false;
        }
        true
    }

    pub fn round(&mut self, node: usize, life: usize) -> Checked {
        if !self.awake(node, life, &Event::Round(node, life)) {
            return Ok(());
        }
        let Some(shipper) = &mut self.shippers[node] else { return Ok(()) };
        let (wall, still) = (shipper.wall + self.now, self.now >= QUIET);
        let happened = self.hosts[node].live(wall, self.now >= HEAL, self.calm || still, &mut self.rng);
        let (readings, ended) = self.hosts[node].read(&mut self.rng);
        let monotonic = (shipper.monotonic + self.now) * 1_000_000;
        let machine = self.hosts[node].machine(self.calm || still);
        let before = self.lives[life].increments;
        self.lives[life].observe(self.now, &machine, &readings, &ended);
        let mut increments = self.lives[life].increments;
        increments -= before;
        self.accounts.read(life, &increments, self.now);
        shipper.outbox.observe(monotonic, machine, readings, ended);
        let version = shipper.outbox.version();
        happened.into_iter().for_each(|what| self.note(what));
        self.log(|_| format!("node {node}: round {}", version.q));
        self.settle(node, Cause::Old)?;
        self.after(self.cfg.interval, Event::Round(node, life));
        self.pump(node)
    }

    pub fn tick(&mut self, node: usize, life: usize) -> Checked {
        if !self.awake(node, life, &Event::Tick(node, life)) {
            return Ok(());
        }
        self.after(400, Event::Tick(node, life));
        self.pump(node)
    }

    /// Closes what is no longer wanted or does not answer, opens what is wanted, sends what is due.
    pub fn pump(&mut self, node: usize) -> Checked {
        let Some(shipper) = &mut self.shippers[node] else { return Ok(()) };
        if shipper.thaw > self.now {
            return Ok(());
        }
        let wanted = shipper.outbox.destinations();
        let (now, lease) = (self.now, self.cfg.lease);
        let silent = |link: &Link| link.waiting.is_some_and(|(since, _)| now - since > lease);
        let over = shipper.links.iter().filter(|(member, link)| !wanted.contains(member) || silent(link));
        for member in over.map(|(member, _)| member.clone()).collect::<Vec<_>>() {
            self.close(node, &member)?;
        }
        for member in &wanted {
            self.open(node, member)?;
            self.send(node, member)?;
        }
        Ok(())
    }

    fn open(&mut self, node: usize, to: &MemberId) -> Checked {
        let number = number(to);
        let both_cut = [crate::net::Way::Up, crate::net::Way::Down]
            .into_iter()
            .all(|way| self.net.is_cut(node, number, way, self.now).is_some());
        let Some(shipper) = &mut self.shippers[node] else { return Ok(()) };
        if shipper.links.contains_key(to) || shipper.retry.get(to).is_some_and(|at| *at > self.now) {
            return Ok(());
        }
        let Some(gen_) = self.current[number].filter(|_| !both_cut) else {
            let at = self.now + self.rng.between(100, 2_000);
            shipper.retry.insert(to.clone(), at);
            return Ok(());
        };
        let mut hello = shipper.outbox.hello(to);
        self.lives[shipper.life].version.say(&mut hello.stats);
        let conn = self.net.dial((node, shipper.life), number, gen_, hello.k);
        shipper.links.insert(to.clone(), Link { conn, waiting: Some((self.now, 0)) });
        let at = self.net.send_up(conn, &Up::Hello(hello.clone()), self.now, &mut self.rng);
        self.log(|_| format!("node {node}: stream {} to {to}", hello.k));
        self.at(at, Event::Up(conn));
        if let Some(process) = self.processes.get_mut(&gen_) {
            process.conns.push(conn);
        }
        self.settle(node, Cause::Nothing)
    }

    fn send(&mut self, node: usize, to: &MemberId) -> Checked {
        let Some(shipper) = &mut self.shippers[node] else { return Ok(()) };
        let monotonic = (shipper.monotonic + self.now) * 1_000_000;
        let (Some(link), Some(batch)) = (shipper.links.get_mut(to), shipper.outbox.next_batch(to, monotonic)) else {
            return Ok(());
        };
        let (conn, n) = (link.conn, batch.n);
        link.waiting = Some((self.now, n));
        if !batch.moved.is_empty() {
            self.note("key moved");
        }
        if !batch.drop.is_empty() {
            self.note("key dropped after its move");
        }
        self.log(|_| format!("node {node}: batch {n} to {to}"));
        let at = self.net.send_up(conn, &Up::Batch(batch), self.now, &mut self.rng);
        self.at(at, Event::Up(conn));
        if self.cfg.kinds.contains(&crate::faults::Fault::Repeat) && self.now < HEAL && self.rng.chance(60) {
            let at = self.net.repeat(conn, self.now, &mut self.rng).unwrap_or(self.now);
            self.at(at, Event::Up(conn));
        }
        self.settle(node, Cause::Nothing)
    }

    /// The shipper gives a stream up.
    pub fn close(&mut self, node: usize, to: &MemberId) -> Checked {
        let Some(shipper) = &mut self.shippers[node] else { return Ok(()) };
        let Some(link) = shipper.links.remove(to) else { return Ok(()) };
        let k = self.net.conns[link.conn].k;
        shipper.outbox.closed(to, k);
        shipper.retry.insert(to.clone(), self.now + self.rng.between(20, 2_000));
        let at = self.net.give_up(link.conn, self.now, &mut self.rng);
        self.log(|_| format!("node {node}: gives up stream {k} to {to}"));
        self.at(at, Event::Up(link.conn));
        self.settle(node, Cause::Nothing)
    }

    pub fn deliver_down(&mut self, conn: ConnId) -> Checked {
        let node = self.net.conns[conn].node;
        let to = member(self.net.conns[conn].member);
        let mine = |shipper: &&Shipper| shipper.links.get(&to).is_some_and(|link| link.conn == conn);
        let Some(life) = self.shippers[node].as_ref().filter(mine).map(|shipper| shipper.life) else { return Ok(()) };
        if !self.awake(node, life, &Event::Down(conn)) {
            return Ok(());
        }
        match self.net.take_down(conn, self.now) {
            Arrival::Nothing => Ok(()),
            Arrival::Later(at) => {
                self.at(at, Event::Down(conn));
                Ok(())
            }
            Arrival::End => self.close(node, &to),
            Arrival::Message((message, shown)) => self.hear(node, conn, &to, &message, shown),
        }
    }

    /// A process answers, and had shown the batches up to `shown` when it did.
    fn hear(&mut self, node: usize, conn: ConnId, to: &MemberId, message: &Down, shown: u64) -> Checked {
        let (k, now) = (self.net.conns[conn].k, self.now);
        let Some(shipper) = &mut self.shippers[node] else { return Ok(()) };
        let (monotonic, wall) = ((shipper.monotonic + now) * 1_000_000, shipper.wall + now);
        if let Some(link) = shipper.links.get_mut(to) {
            // The acknowledgement of a batch that came twice answers no later one.
            let answers = |n: u64| !matches!(message, Down::Ack(ack) if ack.n < n);
            link.waiting.take_if(|(_, n)| answers(*n));
        }
        let (process, stream) = (self.net.conns[conn].gen_, (shipper.life, shipper.epoch));
        let exposed = match message {
            Down::Greeting(Ok(hi)) => Some(hi.exposed),
            Down::Greeting(Err(_)) => None,
            Down::Ack(ack) => Some(ack.exposed),
            Down::Bye(bye) => Some(bye.exposed),
        };
        let cause = match message {
            Down::Greeting(greeting) => {
                shipper.outbox.greeted(to, k, greeting, monotonic, wall);
                match greeting {
                    Ok(hi) => match shipper.greeted.insert(to.clone(), process) {
                        Some(dead) if dead != process => Cause::Dead { process: dead },
                        _ => Cause::Answer { process, stored: hi.stored, exposed: hi.exposed },
                    },
                    Err(_) => Cause::NewEpoch,
                }
            }
            Down::Ack(ack) => {
                shipper.outbox.acked(to, k, ack, monotonic);
                Cause::Answer { process, stored: ack.n, exposed: ack.exposed }
            }
            Down::Bye(bye) => {
                shipper.outbox.bye(to, k, bye);
                shipper.greeted.remove(to);
                Cause::Bye { process, exposed: bye.exposed }
            }
        };
        self.log(|_| format!("node {node}: hears {message:?} on stream {k} of {to}"));
        self.heard(node, cause)?;
        match exposed {
            Some(exposed) if now < QUIET => self.accounts.answered(stream, process, exposed, shown),
            _ => Ok(()),
        }
    }

    fn heard(&mut self, node: usize, cause: Cause) -> Checked {
        let returned = self.accounts.n_returned;
        self.settle(node, cause)?;
        if self.accounts.n_returned > returned {
            self.note(match cause {
                Cause::Dead { .. } | Cause::Bye { .. } => "amounts returned by another process",
                _ => "amounts returned by the same process",
            });
        }
        let Some(shipper) = &mut self.shippers[node] else { return Ok(()) };
        let epoch = shipper.outbox.version().epoch;
        if epoch != shipper.epoch {
            shipper.epoch = epoch;
            let life = shipper.life;
            self.epochs.insert((node, epoch), life);
            self.note("shipper refused, took a new epoch");
            let open: Vec<_> = self.shippers[node].iter().flat_map(|shipper| shipper.links.keys().cloned()).collect();
            open.iter().try_for_each(|member| self.close(node, member))?;
        }
        self.touched(Actor::Shipper(node))?;
        self.pump(node)
    }

    /// The shipper is gone; another starts later.
    pub fn kill_shipper(&mut self, node: usize) -> Checked {
        let open: Vec<_> = self.shippers[node].iter().flat_map(|shipper| shipper.links.keys().cloned()).collect();
        open.iter().try_for_each(|member| self.close(node, member))?;
        let Some(shipper) = self.shippers[node].take() else { return Ok(()) };
        self.lives[shipper.life].died = Some(self.now);
        self.shares.lost += Money::of(&shipper.outbox.pooled());
        self.shares.lost += Money::of(&shipper.outbox.dropped());
        self.note("shipper died");
        self.log(|_| format!("node {node}: shipper dies"));
        self.accounts.shipper_died(shipper.life)?;
        self.touched(Actor::Shipper(node))
    }
}

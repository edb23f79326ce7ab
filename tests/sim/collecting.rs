//! The collector's shell as a simulation: Hellos, batches, scrapes, deaths.

use crate::check::{Checked, violation};
use crate::money::{Cells, Money};
use crate::net::{Arrival, ConnId, Down, Up};
use crate::plan::{ENDED_KEEP, HEAL, MAX_ROUND_TRIP, QUIET, ROW_KEEP, STALE_KEEP, member, ring};
use crate::world::{Actor, Event, World};
use swarmstats::aggregate::{Aggregate, AggregateConfig, BatchError, HelloError, Mark, Stored, StreamId};
use swarmstats::message::{Batch, Hello};
use swarmstats::model::{Gen, Nanos};

pub struct Process {
    pub member: usize,
    pub gen_: Gen,
    pub aggregate: Aggregate,
    /// Frozen until then.
    pub thaw: u64,
    pub conns: Vec<ConnId>,
    /// It wants to leave, by then at the latest.
    leave_at: Option<u64>,
    /// Since when it holds no role.
    idle_since: Option<u64>,
    offset: u64,
}

impl Process {
    /// Its own clock.
    pub fn clock(&self, now: u64) -> Nanos {
        (now + self.offset) * 1_000_000
    }
}

impl World {
    /// A member's next process starts.
    pub fn boot(&mut self, number: usize) {
        if self.current[number].is_some() {
            return;
        }
        let gen_ = Gen(1 + self.processes.len() as u64 + self.accounts.n_dead());
        let cfg = AggregateConfig {
            member: member(number),
            gen_,
            replicas: self.cfg.replicas.into(),
            points: 5,
            ended_keep: ENDED_KEEP * 1_000_000,
            stale_keep: STALE_KEEP * 1_000_000,
            row_keep: ROW_KEEP * 1_000_000,
            max_round_trip: MAX_ROUND_TRIP * 1_000_000,
            max_tasks: 1000,
            max_nodes: 100,
        };
        let offset = self.rng.below(1_000_000_000);
        let ring_id = ring(self.members, self.cfg.replicas).id();
        let aggregate = Aggregate::new(cfg, ring_id, (self.now + offset) * 1_000_000);
        let process = Process {
            member: number,
            gen_,
            aggregate,
            thaw: 0,
            conns: Vec::new(),
            leave_at: None,
            idle_since: None,
            offset,
        };
        self.processes.insert(gen_, process);
        self.current[number] = Some(gen_);
        self.accounts.born(gen_);
        self.log(|_| format!("member {number}: process {gen_:?} starts"));
    }

    /// A process is gone, with what it had not shown. `reset`: its host says so to open connections.
    pub fn kill(&mut self, number: usize, reset: bool) -> Checked {
        let Some(gen_) = self.current[number].take() else { return Ok(()) };
        self.log(|_| format!("member {number}: process {gen_:?} is gone"));
        self.note("collector died");
        let process = self.processes.remove(&gen_);
        for conn in process.into_iter().flat_map(|process| process.conns).filter(|_| reset) {
            self.end_down(conn, None);
        }
        let delay = self.rng.between(200, 28_000);
        let at = (self.now + delay).min(self.now.max(HEAL) + 1_500);
        self.at(at, Event::Boot(number));
        self.process_is_dead(gen_)
    }

    /// SIGTERM came a while ago: once it has held no role for 2 s, or after 8 s, goodbye to every stream, and no scrape is
    /// answered after it (LEDGER 12).
    pub fn exit(&mut self, gen_: Gen) -> Checked {
        let Some(process) = self.processes.get_mut(&gen_) else { return Ok(()) };
        if process.thaw > self.now {
            let at = process.thaw;
            self.at(at, Event::Exit(gen_));
            return Ok(());
        }
        let (clock, leave_at) = (process.clock(self.now), process.leave_at.unwrap_or_default());
        if process.aggregate.roles(clock) > 0 {
            process.idle_since = None;
        }
        let since = *process.idle_since.get_or_insert(self.now);
        let handed_over = process.aggregate.roles(clock) == 0 && self.now - since >= 2_000;
        if !handed_over && self.now < leave_at {
            self.after(100, Event::Exit(gen_));
            return Ok(());
        }
        self.note(if handed_over { "drained: no role was left" } else { "drained: its time was up" });
        let Some(process) = self.processes.get(&gen_) else { return Ok(()) };
        let (number, conns) = (process.member, process.conns.clone());
        for conn in conns {
            if let Some(stream) = self.net.conns[conn].stream.clone() {
                let bye = self.processes[&gen_].aggregate.bye(&stream);
                self.end_down(conn, Some(&Down::Bye(bye)));
            }
        }
        self.note("collector said bye");
        self.kill(number, true)
    }

    fn end_down(&mut self, conn: ConnId, last: Option<&Down>) {
        let sender = &self.net.conns[conn];
        let shown =
            sender.stream.as_ref().map_or(0, |stream| self.accounts.shown(sender.gen_, sender.life, stream.epoch));
        let at = self.net.send_down(conn, last, shown, self.now, &mut self.rng);
        self.at(at, Event::Down(conn));
    }

    pub fn deliver_up(&mut self, conn: ConnId) -> Checked {
        let gen_ = self.net.conns[conn].gen_;
        let Some(thaw) = self.processes.get(&gen_).map(|process| process.thaw) else { return Ok(()) };
        if thaw > self.now {
            self.note("input queued for a frozen collector");
            let at = thaw + self.rng.below(30);
            self.at(at, Event::Up(conn));
            return Ok(());
        }
        match self.net.take_up(conn, self.now) {
            Arrival::Nothing => Ok(()),
            Arrival::Later(at) => {
                self.at(at, Event::Up(conn));
                Ok(())
            }
            Arrival::End => self.ended(gen_, conn),
            Arrival::Message(message) => {
                if self.net.conns[conn].given_up {
                    self.note("late delivery");
                }
                match message {
                    Up::Hello(hello) => self.take_hello(gen_, conn, &hello),
                    Up::Batch(batch) => self.take_batch(gen_, conn, &batch)?,
                }
                let (node, number) = (self.net.conns[conn].node, self.net.conns[conn].member);
                self.touched(Actor::Member(number))?;
                self.look_at(gen_, node)
            }
        }
    }

    fn ended(&mut self, gen_: Gen, conn: ConnId) -> Checked {
        if let (Some(process), Some(stream)) = (self.processes.get_mut(&gen_), &self.net.conns[conn].stream) {
            process.aggregate.closed(stream);
            process.conns.retain(|other| *other != conn);
        }
        Ok(())
    }

    fn take_hello(&mut self, gen_: Gen, conn: ConnId, hello: &Hello) {
        let Some(process) = self.processes.get_mut(&gen_) else { return };
        let clock = process.clock(self.now);
        let greeting = match process.aggregate.hello(hello, clock) {
            Ok(hi) => {
                self.net.conns[conn].stream = Some(StreamId::of(hello));
                Ok(hi)
            }
            Err(HelloError::Old(refused)) => Err(refused),
            Err(other) => panic!("{other}"),
        };
        self.log(|_| format!("{gen_:?}: takes hello {} of {}: {greeting:?}", hello.k, hello.node_id));
        let refused = greeting.is_err();
        self.end_down(conn, Some(&Down::Greeting(greeting)));
        if refused {
            self.note("hello refused");
            self.end_down(conn, None);
        }
    }

    fn take_batch(&mut self, gen_: Gen, conn: ConnId, batch: &Batch) -> Checked {
        let Some(process) = self.processes.get_mut(&gen_) else { return Ok(()) };
        let Some(stream) = self.net.conns[conn].stream.clone() else { return Ok(()) };
        let clock = process.clock(self.now);
        let stored = process.aggregate.batch(&stream, batch, clock);
        self.log(|_| format!("{gen_:?}: takes batch {} of stream {stream:?}: {stored:?}", batch.n));
        match stored {
            Ok(Stored::Void) => self.note("batch of a void stream"),
            Ok(Stored::Acked { ack, repeat, other_ring, .. }) => {
                if repeat {
                    self.note("batch repeated");
                } else {
                    let life = self.net.conns[conn].life;
                    self.accounts.applied(gen_, (life, stream.epoch, batch.n))?;
                }
                if other_ring {
                    self.note("batch of another ring");
                }
                self.end_down(conn, Some(&Down::Ack(ack)));
            }
            Err(BatchError::Forgotten(_)) => {
                self.note("stream forgotten after a long silence");
                self.end_down(conn, None);
            }
            Err(error) => return violation("stream", format!("{gen_:?} ends stream {stream:?}: {error}")),
        }
        Ok(())
    }

    pub fn scrape(&mut self, number: usize, server: usize) -> Checked {
        let delay = self.cfg.scrape_every - 200 + self.rng.below(400);
        self.after(delay, Event::Scrape(number, server));
        let Some(gen_) = self.current[number] else { return Ok(()) };
        let Some(process) = self.processes.get_mut(&gen_).filter(|process| process.thaw <= self.now) else {
            return Ok(());
        };
        let clock = process.clock(self.now);
        let scrape = process.aggregate.scrape(clock);
        let ledger = Money::of(&process.aggregate.ledger());
        let fate = if self.now >= HEAL { 500 } else { self.rng.below(1000) };
        self.log(|_| {
            format!("{gen_:?}: scraped by server {server}, {}", if fate < 150 { "body lost" } else { "ingested" })
        });
        let mut visible = Cells::default();
        if self.now < QUIET {
            visible = self.accounts.body(gen_, &scrape, &ledger, fate >= 150, self.now)?;
            self.shown(gen_)?;
        }
        match fate {
            0..150 => self.note("scrape not fully written"),
            150..700 => self.written(gen_, scrape.mark, visible)?,
            _ => {
                self.note("scrape confirmed later");
                let delay = self.rng.between(10, 1_500);
                self.after(delay, Event::Written(gen_, scrape.mark, visible));
            }
        }
        self.touched(Actor::Member(number))
    }

    /// The body of a scrape, which showed these, was fully written.
    pub fn written(&mut self, gen_: Gen, mark: Mark, visible: Cells<usize>) -> Checked {
        let Some(process) = self.processes.get_mut(&gen_) else { return Ok(()) };
        if process.thaw > self.now {
            let at = process.thaw;
            self.at(at, Event::Written(gen_, mark, visible));
            return Ok(());
        }
        let clock = process.clock(self.now);
        process.aggregate.scraped(&mark, clock);
        self.accounts.confirmed(gen_, &visible);
        let number = process.member;
        self.touched(Actor::Member(number))
    }

    pub fn expire(&mut self, number: usize) -> Checked {
        self.after(3_000, Event::Expire(number));
        let Some(gen_) = self.current[number] else { return Ok(()) };
        let Some(process) = self.processes.get_mut(&gen_).filter(|process| process.thaw <= self.now) else {
            return Ok(());
        };
        let clock = process.clock(self.now);
        process.aggregate.expire(clock);
        self.touched(Actor::Member(number))
    }

    /// A member gets SIGTERM.
    pub fn terminate(&mut self, number: usize) {
        let Some(gen_) = self.current[number] else { return };
        let now = self.now;
        if let Some(process) = self.processes.get_mut(&gen_).filter(|process| process.leave_at.is_none()) {
            process.leave_at = Some(now + 8_000);
            process.aggregate.drain();
            self.log(|_| format!("{gen_:?}: drains"));
            self.after(100, Event::Exit(gen_));
        }
    }
}

//! A network of streams: in order within a stream, but delayed, cut one way, repeated, given up with a prefix on its way
//! that may arrive much later.

use crate::rng::Rng;
use std::collections::{BTreeMap, VecDeque};
use swarmstats::aggregate::StreamId;
use swarmstats::message::{Ack, Batch, Bye, Greeting, Hello};
use swarmstats::model::Gen;

/// What a shipper sends.
#[derive(Clone, Debug)]
pub enum Up {
    Hello(Hello),
    Batch(Batch),
}

/// What a process sends.
#[derive(Clone, Debug)]
pub enum Down {
    Greeting(Greeting),
    Ack(Ack),
    Bye(Bye),
}

/// The translation that every message goes through.
pub mod wire {
    use super::{Down, Up};

    pub fn encode_up(message: &Up) -> Up {
        message.clone()
    }
    pub fn decode_up(message: &Up) -> Up {
        message.clone()
    }
    pub fn encode_down(message: &Down) -> Down {
        message.clone()
    }
    pub fn decode_down(message: &Down) -> Down {
        message.clone()
    }
}

pub type ConnId = usize;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    Up,
    Down,
}

/// A message with its arrival, or the end of the stream.
#[derive(Debug)]
struct Frame<T> {
    at: u64,
    body: Option<T>,
}

#[derive(Debug)]
pub struct Conn {
    pub node: usize,
    pub member: usize,
    pub gen_: Gen,
    pub k: u64,
    /// As the process knows it, once a Hello arrived.
    pub stream: Option<StreamId>,
    /// The shipper has closed it: what still arrives is late.
    pub given_up: bool,
    up: VecDeque<Frame<Up>>,
    down: VecDeque<Frame<Down>>,
    /// The last batch sent, to be repeated.
    last: Option<Up>,
}

/// What became of a look at the head of a queue.
#[derive(Debug)]
pub enum Arrival<T> {
    Nothing,
    /// Not before this moment.
    Later(u64),
    Message(T),
    End,
}

#[derive(Debug, Default)]
pub struct Net {
    pub conns: Vec<Conn>,
    /// Until when nothing passes from node to member, or back.
    pub cuts: BTreeMap<(usize, usize, Way), u64>,
    /// The longest usual delay.
    pub latency: u64,
}

impl Net {
    pub fn dial(&mut self, node: usize, member: usize, gen_: Gen, k: u64) -> ConnId {
        let (up, down) = (VecDeque::new(), VecDeque::new());
        self.conns.push(Conn { node, member, gen_, k, stream: None, given_up: false, up, down, last: None });
        self.conns.len() - 1
    }

    pub fn is_cut(&self, node: usize, member: usize, way: Way, now: u64) -> Option<u64> {
        self.cuts.get(&(node, member, way)).copied().filter(|until| *until > now)
    }

    /// Queues a message; returns when it arrives.
    pub fn send_up(&mut self, id: ConnId, message: &Up, now: u64, rng: &mut Rng) -> u64 {
        let at = now + 1 + rng.below(self.latency);
        let conn = &mut self.conns[id];
        if matches!(message, Up::Batch(_)) {
            conn.last = Some(wire::encode_up(message));
        }
        push(&mut conn.up, at, Some(wire::encode_up(message)))
    }

    /// The same bytes of the last batch once more.
    pub fn repeat(&mut self, id: ConnId, now: u64, rng: &mut Rng) -> Option<u64> {
        let at = now + 1 + rng.below(self.latency);
        let conn = &mut self.conns[id];
        let last = conn.last.clone()?;
        Some(push(&mut conn.up, at, Some(last)))
    }

    /// `None` ends the stream.
    pub fn send_down(&mut self, id: ConnId, message: Option<&Down>, now: u64, rng: &mut Rng) -> u64 {
        let at = now + 1 + rng.below(self.latency);
        push(&mut self.conns[id].down, at, message.map(wire::encode_down))
    }

    /// The shipper closes: some prefix of what is on its way still arrives, maybe much later. Returns when.
    pub fn give_up(&mut self, id: ConnId, now: u64, rng: &mut Rng) -> u64 {
        let conn = &mut self.conns[id];
        conn.given_up = true;
        conn.down.clear();
        let late = if rng.chance(500) { now + rng.below(15_000) } else { now };
        let keep = rng.below(conn.up.len() as u64 + 1) as usize;
        conn.up.truncate(keep);
        conn.up.iter_mut().for_each(|frame| frame.at = frame.at.max(late));
        push(&mut conn.up, late, None)
    }

    pub fn take_up(&mut self, id: ConnId, now: u64) -> Arrival<Up> {
        let conn = &self.conns[id];
        // A cut holds up what is sent, not what the receiving kernel has already.
        let cut = self.is_cut(conn.node, conn.member, Way::Up, now);
        take(&mut self.conns[id].up, now, cut, wire::decode_up)
    }

    pub fn take_down(&mut self, id: ConnId, now: u64) -> Arrival<Down> {
        let conn = &self.conns[id];
        let cut = self.is_cut(conn.node, conn.member, Way::Down, now);
        take(&mut self.conns[id].down, now, cut, wire::decode_down)
    }
}

fn push<T>(queue: &mut VecDeque<Frame<T>>, at: u64, body: Option<T>) -> u64 {
    let at = queue.back().map_or(at, |last| last.at.max(at));
    queue.push_back(Frame { at, body });
    at
}

fn take<T>(queue: &mut VecDeque<Frame<T>>, now: u64, cut: Option<u64>, decode: impl Fn(&T) -> T) -> Arrival<T> {
    match queue.front() {
        None => Arrival::Nothing,
        Some(head) if head.at > now => Arrival::Later(head.at),
        Some(_) if cut.is_some() => Arrival::Later(cut.unwrap_or_default()),
        Some(_) => match queue.pop_front().and_then(|head| head.body) {
            Some(body) => Arrival::Message(decode(&body)),
            None => Arrival::End,
        },
    }
}

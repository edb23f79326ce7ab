//! A network of streams: in order within a stream, but delayed, cut one way, repeated, given up with a prefix on its way
//! that may arrive much later.

use crate::rng::Rng;
use std::collections::{BTreeMap, VecDeque};
use swarmstats::aggregate::StreamId;
use swarmstats::message::{Batch, Hello};
use swarmstats::model::Gen;

/// What a shipper sends.
#[derive(Debug)]
pub enum Up {
    Hello(Hello),
    Batch(Batch),
}

pub use swarmstats::wire::Answer as Down;

/// The translation that every message goes through, down to bytes.
mod bytes {
    use super::{Down, Up};
    use prost::Message;
    use swarmstats::wire::pb::{UpdateStatsRequest, UpdateStatsResponse, update_stats_request};

    pub(super) fn of_up(message: &Up) -> Vec<u8> {
        let message = match message {
            Up::Hello(hello) => update_stats_request::Message::Hello(hello.into()),
            Up::Batch(batch) => update_stats_request::Message::Batch(batch.into()),
        };
        UpdateStatsRequest { message: Some(message) }.encode_to_vec()
    }
    pub(super) fn to_up(bytes: &[u8]) -> Up {
        match UpdateStatsRequest::decode(bytes).unwrap().message.unwrap() {
            update_stats_request::Message::Hello(hello) => Up::Hello(hello.try_into().unwrap()),
            update_stats_request::Message::Batch(batch) => Up::Batch(batch.try_into().unwrap()),
        }
    }
    pub(super) fn of_down(message: &Down) -> Vec<u8> {
        let message: UpdateStatsResponse = match message {
            Down::Greeting(greeting) => greeting.into(),
            Down::Ack(ack) => ack.into(),
            Down::Bye(bye) => bye.into(),
        };
        message.encode_to_vec()
    }
    pub(super) fn to_down(bytes: &[u8]) -> Down {
        UpdateStatsResponse::decode(bytes).unwrap().try_into().unwrap()
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
struct Frame {
    at: u64,
    body: Option<Vec<u8>>,
    /// For the judge: what scrapes had shown when an answer was sent.
    shown: u64,
}

#[derive(Debug)]
pub struct Conn {
    pub node: usize,
    /// Of the shipper.
    pub life: usize,
    pub member: usize,
    pub gen_: Gen,
    pub k: u64,
    /// As the process knows it, once a Hello arrived.
    pub stream: Option<StreamId>,
    /// The shipper has closed it: what still arrives is late.
    pub given_up: bool,
    up: VecDeque<Frame>,
    down: VecDeque<Frame>,
    /// The last batch sent, to be repeated.
    last: Option<Vec<u8>>,
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
    pub fn dial(&mut self, (node, life): (usize, usize), member: usize, gen_: Gen, k: u64) -> ConnId {
        let (up, down) = (VecDeque::new(), VecDeque::new());
        self.conns.push(Conn { node, life, member, gen_, k, stream: None, given_up: false, up, down, last: None });
        self.conns.len() - 1
    }

    pub fn is_cut(&self, node: usize, member: usize, way: Way, now: u64) -> Option<u64> {
        self.cuts.get(&(node, member, way)).copied().filter(|until| *until > now)
    }

    /// Queues a message; returns when it arrives.
    pub fn send_up(&mut self, id: ConnId, message: &Up, now: u64, rng: &mut Rng) -> u64 {
        let at = now + 1 + rng.below(self.latency);
        let (conn, bytes) = (&mut self.conns[id], bytes::of_up(message));
        if matches!(message, Up::Batch(_)) {
            conn.last = Some(bytes.clone());
        }
        push(&mut conn.up, at, Some(bytes), 0)
    }

    /// The same bytes of the last batch once more.
    pub fn repeat(&mut self, id: ConnId, now: u64, rng: &mut Rng) -> Option<u64> {
        let at = now + 1 + rng.below(self.latency);
        let conn = &mut self.conns[id];
        let last = conn.last.clone()?;
        Some(push(&mut conn.up, at, Some(last), 0))
    }

    /// `None` ends the stream; `shown` comes along for the judge.
    pub fn send_down(&mut self, id: ConnId, message: Option<&Down>, shown: u64, now: u64, rng: &mut Rng) -> u64 {
        let at = now + 1 + rng.below(self.latency);
        push(&mut self.conns[id].down, at, message.map(bytes::of_down), shown)
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
        push(&mut conn.up, late, None, 0)
    }

    pub fn take_up(&mut self, id: ConnId, now: u64) -> Arrival<Up> {
        let conn = &self.conns[id];
        // A cut holds up what is sent, not what the receiving kernel has already.
        let cut = self.is_cut(conn.node, conn.member, Way::Up, now);
        take(&mut self.conns[id].up, now, cut, |bytes, _| bytes::to_up(bytes))
    }

    pub fn take_down(&mut self, id: ConnId, now: u64) -> Arrival<(Down, u64)> {
        let conn = &self.conns[id];
        let cut = self.is_cut(conn.node, conn.member, Way::Down, now);
        take(&mut self.conns[id].down, now, cut, |bytes, shown| (bytes::to_down(bytes), shown))
    }
}

fn push(queue: &mut VecDeque<Frame>, at: u64, body: Option<Vec<u8>>, shown: u64) -> u64 {
    let at = queue.back().map_or(at, |last| last.at.max(at));
    queue.push_back(Frame { at, body, shown });
    at
}

fn take<T>(queue: &mut VecDeque<Frame>, now: u64, cut: Option<u64>, decode: impl Fn(&[u8], u64) -> T) -> Arrival<T> {
    match queue.front() {
        None => Arrival::Nothing,
        Some(head) if head.at > now => Arrival::Later(head.at),
        Some(_) if cut.is_some() => Arrival::Later(cut.unwrap_or_default()),
        Some(_) => match queue.pop_front().and_then(|head| Some((head.body?, head.shown))) {
            Some((body, shown)) => Arrival::Message(decode(&body, shown)),
            None => Arrival::End,
        },
    }
}

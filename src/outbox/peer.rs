//! One member as the shipper deals with it: its process, the current stream, and the amounts it was sent.

use super::amounts::Aged;
use super::rows::Books;
use crate::codec::{self, Add, Encoder, Layout, RowPart};
use crate::message::{Ack, Batch, Bye, Handle, Hi, Intro, Unread};
use crate::model::{Counts, Gen, Key, MemberId, Nanos, ServiceId, Subject, Values};
use crate::shard::Ring;
use std::collections::{BTreeMap, VecDeque};

/// The amounts of one batch.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) n: u64,
    pub(super) amounts: BTreeMap<ServiceId, Aged>,
}

/// What a handle stands for and what the other end last heard of it.
#[derive(Debug)]
struct Slot {
    key: Key,
    values: Values,
    counts: Option<Box<Counts>>,
    primary: bool,
    /// The batch that introduced it.
    n: u64,
    /// The round it was last compared in.
    q: u64,
    moved: bool,
}

#[derive(Debug)]
struct Stream {
    k: u64,
    slots: Vec<Option<Slot>>,
    by_key: BTreeMap<Key, Handle>,
    free: Vec<Handle>,
    chain: u64,
    /// The round of the last batch, once one was sent.
    q: Option<u64>,
    sent: Nanos,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Peer {
    process: Option<Gen>,
    stream: Option<Stream>,
    /// Hi received on the current stream.
    ready: bool,
    out: Option<Sent>,
    unexposed: VecDeque<Sent>,
    token: Nanos,
    heard: Nanos,
    acked: u64,
    draining: bool,
}

/// What a batch is made for.
pub(super) struct Round<'a> {
    pub(super) n: u64,
    pub(super) now: Nanos,
    pub(super) ring: &'a Ring,
    pub(super) member: &'a MemberId,
    pub(super) layout: &'a Layout,
    /// The member may be given amounts.
    pub(super) usable: bool,
}

impl Peer {
    pub(super) fn open(&mut self, k: u64) {
        let stream =
            Stream { k, slots: Vec::new(), by_key: BTreeMap::new(), free: Vec::new(), chain: k, q: None, sent: 0 };
        (self.stream, self.ready) = (Some(stream), false);
    }

    pub(super) fn is_current(&self, k: u64) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.k == k)
    }

    /// Its process has accepted a stream of this shipper.
    pub(super) fn accepted(&self) -> bool {
        self.process.is_some()
    }

    pub(super) fn close(&mut self) {
        (self.stream, self.ready) = (None, false);
    }

    /// LEDGER 10. Returns what goes back to the pools.
    pub(super) fn hi(&mut self, hi: &Hi, now: Nanos) -> Vec<Sent> {
        let mut back = Vec::new();
        if self.process.is_some_and(|process| process != hi.gen_) {
            back.extend(self.unexposed.drain(..));
            back.extend(self.out.take());
        } else if let Some(out) = self.out.take() {
            if out.n <= hi.stored { self.shown_later(out) } else { back.push(out) }
        }
        self.process = Some(hi.gen_);
        self.ready = true;
        self.acked = 0;
        self.heard(hi.token, hi.exposed, hi.draining, now);
        back
    }

    /// LEDGER 9.
    pub(super) fn ack(&mut self, ack: &Ack, now: Nanos) {
        if let Some(out) = self.out.take_if(|out| out.n <= ack.n) {
            self.shown_later(out);
        }
        self.acked = self.acked.max(ack.n);
        self.heard(ack.token, ack.exposed, ack.draining, now);
    }

    fn shown_later(&mut self, out: Sent) {
        if !out.amounts.is_empty() {
            self.unexposed.push_back(out);
        }
    }

    fn heard(&mut self, token: Nanos, exposed: u64, draining: bool, now: Nanos) {
        self.unexposed.retain(|sent| sent.n > exposed);
        (self.token, self.heard, self.draining) = (token, now, draining);
    }

    pub(super) fn bye(&mut self, bye: &Bye) -> Vec<Sent> {
        self.close();
        self.process = None;
        self.unexposed.drain(..).chain(self.out.take()).filter(|sent| sent.n > bye.exposed).collect()
    }

    /// The batch in flight.
    pub(super) fn take_out(&mut self) -> Option<Sent> {
        self.out.take()
    }

    /// Forgets acknowledged amounts that no scrape showed in time; how many batches held such.
    pub(super) fn forget_unexposed(&mut self, oldest: u64) -> u64 {
        let mut n_forgotten = 0;
        for sent in &mut self.unexposed {
            let mut any = false;
            for amounts in sent.amounts.values_mut() {
                any |= amounts.drop_older(oldest).is_some();
            }
            n_forgotten += u64::from(any);
        }
        self.unexposed.retain(|sent| sent.amounts.values().any(|amounts| !amounts.is_empty()));
        n_forgotten
    }

    /// Nothing was heard of it for so long that what it was sent will not be settled any more.
    pub(super) fn lost(&self, now: Nanos, max_catch_up: Nanos) -> bool {
        !self.ready && now.saturating_sub(self.heard) > max_catch_up
    }

    pub(super) fn n_unexposed(&self) -> usize {
        self.unexposed.len()
    }

    /// Nothing is owed to it, and nothing it holds is still on its way elsewhere.
    pub(super) fn settled(&self) -> bool {
        self.out.is_none()
            && self.unexposed.is_empty()
            && self.stream.as_ref().is_none_or(|stream| self.ready && stream.by_key.is_empty())
    }

    /// LEDGER 8: Hi received, last ack not longer than L ago, not draining.
    pub(super) fn usable(&self, now: Nanos, lease: Nanos) -> bool {
        self.ready && now.saturating_sub(self.heard) <= lease && !self.draining
    }

    pub(super) fn due(&self, q: u64, now: Nanos, beat: Nanos) -> bool {
        let news = |stream: &Stream| stream.q.is_none_or(|sent| sent < q) || now.saturating_sub(stream.sent) >= beat;
        q > 0 && self.ready && self.out.is_none() && self.stream.as_ref().is_some_and(news)
    }

    pub(super) fn has_acked(&self, key: &Key) -> bool {
        let slot = |stream: &Stream| {
            let handle = *stream.by_key.get(key)?;
            stream.slots[handle as usize].as_ref().map(|slot| slot.n <= self.acked && !slot.moved)
        };
        self.ready && self.stream.as_ref().and_then(slot).unwrap_or(false)
    }

    pub(super) fn moved_keys(&self) -> impl Iterator<Item = &Key> {
        let slots = self.stream.iter().flat_map(|stream| &stream.slots);
        slots.flatten().filter(|slot| slot.moved).map(|slot| &slot.key)
    }

    /// Makes the next batch; the caller has checked that it is due.
    pub(super) fn batch(&mut self, books: &mut Books, round: &Round<'_>, handed_over: &[Key]) -> Option<Batch> {
        let stream = self.stream.as_mut()?;
        let mut batch = Batch {
            k: stream.k,
            n: round.n,
            q: books.q,
            monotonic: books.monotonic,
            sent_after: round.now.saturating_sub(books.monotonic),
            token: self.token,
            ring_id: round.ring.id(),
            base: stream.chain,
            ..Batch::default()
        };
        let mut mine = mine(books, round);
        let mut freed = stream.leave(round, books, handed_over, &mut batch);
        for item in &mut mine {
            item.handle = stream.introduce(item, round.n, books, &mut freed, &mut batch);
        }
        mine.sort_unstable_by_key(|item| item.handle);
        let mut encoder = Encoder::new(round.layout);
        let mut amounts = BTreeMap::new();
        for item in &mine {
            stream.tell(item, books, round, &mut encoder, &mut amounts, &mut batch);
        }
        batch.block = encoder.finish();
        stream.chain = codec::chain(stream.chain, round.n, &batch.block);
        stream.free.extend(freed);
        (stream.q, stream.sent) = (Some(books.q), round.now);
        self.out = Some(Sent { n: round.n, amounts });
        Some(batch)
    }
}

/// A key that this member owns a copy of.
struct Item {
    key: Key,
    primary: bool,
    handle: Handle,
}

impl Round<'_> {
    /// Which of a shard's owners the member is; 0 is the primary.
    fn place(&self, shard: u16) -> Option<usize> {
        self.ring.owners_of(shard).position(|owner| owner == self.member)
    }
}

/// The keys whose owners include the member, in their order.
fn mine(books: &Books, round: &Round<'_>) -> Vec<Item> {
    let owned = |(shard, key): (u16, Key)| {
        let place = round.place(shard)?;
        Some(Item { key, primary: place == 0, handle: 0 })
    };
    let tasks = books.tasks.iter().map(|(id, task)| (task.shard, Key::Task(id.clone())));
    let node = std::iter::once((books.node_shard, Key::Node(books.node.node_id.clone())));
    let rows = books.rows.iter().map(|(id, row)| (row.shard, Key::Row(row.meta.node_id.clone(), id.clone())));
    tasks.chain(node).chain(rows).filter_map(owned).collect()
}

impl Stream {
    /// Handles of keys that are over, or that others own now. Returns the handles that are free after this batch.
    fn leave(&mut self, round: &Round<'_>, books: &Books, handed_over: &[Key], batch: &mut Batch) -> Vec<Handle> {
        let mut freed = Vec::new();
        for (handle, place) in self.slots.iter_mut().enumerate() {
            let handle = handle as Handle;
            let Some(slot) = place else { continue };
            let shard = match &slot.key {
                Key::Task(task) => books.tasks.get(task).map(|task| task.shard),
                Key::Row(_, service) => books.rows.get(service).map(|row| row.shard),
                Key::Node(_) => Some(books.node_shard),
            };
            let mine = shard.is_some_and(|shard| round.place(shard).is_some());
            if shard.is_none() {
                batch.ended.push(handle);
            } else if slot.moved && (mine || handed_over.contains(&slot.key)) {
                batch.drop.push(handle);
            } else {
                if !slot.moved && !mine {
                    slot.moved = true;
                    batch.moved.push(handle);
                }
                continue;
            }
            if self.by_key.get(&slot.key) == Some(&handle) {
                self.by_key.remove(&slot.key);
            }
            *place = None;
            freed.push(handle);
        }
        freed
    }

    /// The handle of a key, introducing it where the stream does not know it (or knows another incarnation).
    fn introduce(&mut self, item: &Item, n: u64, books: &Books, freed: &mut Vec<Handle>, batch: &mut Batch) -> Handle {
        let subject = || match &item.key {
            Key::Task(task) => Subject::Task(books.tasks[task].meta.clone()),
            Key::Row(_, service) => Subject::Row(books.rows[service].meta.clone()),
            Key::Node(_) => Subject::Node(books.node.clone()),
        };
        if let Some(handle) = self.by_key.get(&item.key).copied() {
            let slot = self.slots[handle as usize].as_mut().expect("by_key names filled slots");
            match &item.key {
                // A node's row is introduced anew, under its handle, when its list of services changes.
                Key::Node(_) if slot.q < books.node_changed => batch.intros.push(Intro { handle, subject: subject() }),
                Key::Task(task) if slot.q < books.tasks[task].born => {
                    batch.ended.push(handle);
                    self.slots[handle as usize] = None;
                    self.by_key.remove(&item.key);
                    freed.push(handle);
                    return self.introduce(item, n, books, freed, batch);
                }
                _ => {}
            }
            return handle;
        }
        let handle = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Handle
        });
        let counts = matches!(item.key, Key::Row(..)).then(Box::default);
        let slot =
            Slot { key: item.key.clone(), values: Values::default(), counts, primary: false, n, q: 0, moved: false };
        self.slots[handle as usize] = Some(slot);
        self.by_key.insert(item.key.clone(), handle);
        batch.intros.push(Intro { handle, subject: subject() });
        handle
    }

    /// Writes what changed of a key, and hands its pool over.
    fn tell(
        &mut self,
        item: &Item,
        books: &mut Books,
        round: &Round<'_>,
        encoder: &mut Encoder<'_>,
        amounts: &mut BTreeMap<ServiceId, Aged>,
        batch: &mut Batch,
    ) {
        let slot = self.slots[item.handle as usize].as_mut().expect("introduce fills the slot");
        let role = (slot.primary != item.primary).then_some(item.primary);
        match &item.key {
            Key::Task(id) => {
                let task = &books.tasks[id];
                if slot.q < task.changed || role.is_some() {
                    encoder.entry(item.handle, &slot.values, &task.values, None, role);
                    slot.values.clone_from(&task.values);
                }
                if task.unread {
                    let age = books.monotonic.saturating_sub(task.read) / 1_000_000;
                    batch.unread.push(Unread { handle: item.handle, age });
                }
            }
            Key::Row(_, service) => {
                let row = books.rows.get_mut(service).expect("mine lists rows of the books");
                let given = if item.primary && round.usable { row.pool.take() } else { Aged::default() };
                if slot.q < row.changed || role.is_some() || !given.is_empty() {
                    let before = slot.counts.get_or_insert_default();
                    let total = given.total();
                    let part = RowPart { counts_before: before, counts: &row.counts, add: Add::Given(&total) };
                    encoder.entry(item.handle, &slot.values, &row.values, Some(part), role);
                    slot.values.clone_from(&row.values);
                    **before = row.counts.clone();
                }
                if !given.is_empty() {
                    amounts.insert(service.clone(), given);
                }
            }
            Key::Node(_) => encoder.entry(item.handle, &slot.values, &slot.values, None, role),
        }
        slot.primary = item.primary;
        slot.q = books.q;
    }
}

impl Peer {
    pub(super) fn owed(&self) -> Vec<(Gen, u64, BTreeMap<ServiceId, Values>)> {
        let Some(process) = self.process else { return Vec::new() };
        let totals = |sent: &Sent| sent.amounts.iter().map(|(service, aged)| (service.clone(), aged.total())).collect();
        self.unexposed.iter().chain(&self.out).map(|sent| (process, sent.n, totals(sent))).collect()
    }
}

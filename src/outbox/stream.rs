//! One stream to one process: what each handle stands for, what the other end last heard, and how the next batch is made.
//!
//! A batch tells a member of the keys it has a copy of, and of those it had until its successors have acknowledged them
//! and readers could hear of the change: both hold them meanwhile (LEDGER 19). Then a member of the ring is told to drop
//! them; a member out of the ring is told at once that they moved.

use super::amounts::Aged;
use super::crew::Round;
use super::lease::Lease;
use super::rows::Books;
use crate::codec::{self, Add, Encoder, RowPart};
use crate::message::{Aged as Earlier, Batch, Handle, Intro, Unread};
use crate::model::{Counts, Key, Nanos, ServiceId, Subject, TaskId, Values};
use crate::rules::{Rule, holds};
use std::collections::{BTreeMap, BTreeSet};

/// What a handle stands for and what the other end last heard of it.
#[derive(Debug)]
struct Slot {
    key: Key,
    values: Values,
    counts: Option<Box<Counts>>,
    /// The role it was last told.
    primary: bool,
    /// The batch that introduced it.
    n: u64,
    /// The round it was last compared in.
    q: u64,
    /// Since when others are to have it.
    left: Option<Nanos>,
    moved: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Stream {
    k: u64,
    slots: Vec<Option<Slot>>,
    by_key: BTreeMap<Key, Handle>,
    free: Vec<Handle>,
    chain: u64,
    /// The round of the last batch, once one was sent.
    q: Option<u64>,
    sent: Nanos,
}

/// What a batch hands over, by service.
type Amounts = BTreeMap<ServiceId, Aged>;

/// A key that this member is told of.
struct Item {
    key: Key,
    role: bool,
    /// It is the key's first usable copy.
    first: bool,
    handle: Handle,
}

/// The keys that the member has a copy of, and those it goes on being told of, in their order.
fn items(books: &mut Books, round: &Round<'_>, lingering: &BTreeSet<Key>, told: impl Fn(&Key) -> bool) -> Vec<Item> {
    let mut items = Vec::new();
    let takeovers = &mut books.takeovers;
    let mut take = |shard: u16, lease: &mut Lease, key: &dyn Fn() -> Key| {
        let has_copy = round.crew.has_copy(shard);
        if !has_copy && (lingering.is_empty() || !lingering.contains(&key())) {
            return;
        }
        let (first, lost) = (round.crew.is_first(shard), !lease.is_on(round.k));
        let mut role = lease.role(first, round, takeovers);
        if lost && !holds(Rule::Revoke) {
            role |= told(&key());
        }
        items.push(Item { key: key(), role, first: first == Some(true), handle: 0 });
    };
    for (id, task) in &mut books.tasks {
        take(task.shard, &mut task.lease, &|| Key::Task(id.clone()));
    }
    let node = &books.node.node_id;
    take(books.node_shard, &mut books.node_lease, &|| Key::Node(node.clone()));
    for (id, row) in &mut books.rows {
        take(row.shard, &mut row.lease, &|| Key::Row(node.clone(), id.clone()));
    }
    items
}

/// The batch says role 0 of a key.
fn revoke(books: &mut Books, key: &Key, round: &Round<'_>) {
    if let Some(lease) = books.lease(key) {
        lease.revoke(round);
    }
}

/// Empties a slot; its key may have another one by now.
fn unlink(by_key: &mut BTreeMap<Key, Handle>, place: &mut Option<Slot>, handle: Handle) {
    if let Some(slot) = place.take()
        && by_key.get(&slot.key) == Some(&handle)
    {
        by_key.remove(&slot.key);
    }
}

/// What a batch takes from its stream.
#[derive(Default)]
struct Leaving {
    /// Handles that are free after it.
    freed: Vec<Handle>,
    /// Of tasks that are over: what the other end last heard of them.
    last: BTreeMap<Handle, (TaskId, Values)>,
    /// Keys whose new owners have not all acknowledged them.
    lingering: BTreeSet<Key>,
}

impl Leaving {
    /// A handle that is over with this batch.
    fn end(&mut self, handle: Handle, batch: &mut Batch) {
        batch.ended.push(handle);
        self.freed.push(handle);
    }

    /// The same of a task, whose last figures are told if they are of the incarnation that the handle stands for.
    fn end_task(&mut self, handle: Handle, task: &TaskId, slot: &mut Slot, books: &Books, batch: &mut Batch) {
        self.end(handle, batch);
        if books.over.get(task).is_some_and(|over| over.task.born <= slot.q) {
            self.last.insert(handle, (task.clone(), std::mem::take(&mut slot.values)));
        }
    }
}

/// The last figures of a task that is over, if they are still there.
fn tell_last((handle, (task, heard)): (Handle, (TaskId, Values)), books: &Books, encoder: &mut Encoder<'_>) {
    if let Some(over) = books.over.get(&task) {
        encoder.entry(handle, &heard, &over.task.values, None, None);
    }
}

impl Stream {
    pub(super) fn new(k: u64) -> Stream {
        Stream { k, slots: Vec::new(), by_key: BTreeMap::new(), free: Vec::new(), chain: k, q: None, sent: 0 }
    }

    pub(super) fn k(&self) -> u64 {
        self.k
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// There is a new round to tell, or the heartbeat is due.
    pub(super) fn due(&self, q: u64, now: Nanos, beat: Nanos) -> bool {
        self.q.is_none_or(|sent| sent < q) || now.saturating_sub(self.sent) >= beat
    }

    /// The batch that introduced a key it is still told of.
    pub(super) fn introduced(&self, key: &Key) -> Option<u64> {
        let slot = self.slots[*self.by_key.get(key)? as usize].as_ref();
        slot.filter(|slot| !slot.moved).map(|slot| slot.n)
    }

    /// It was last told that it is the key's primary.
    fn told_primary(&self, key: &Key) -> bool {
        let slot = self.by_key.get(key).and_then(|handle| self.slots[*handle as usize].as_ref());
        slot.is_some_and(|slot| slot.primary)
    }

    /// Makes the next batch, and says what it hands over.
    pub(super) fn batch(&mut self, books: &mut Books, round: &Round<'_>, token: Nanos) -> (Batch, Amounts) {
        let mut batch = Batch {
            k: self.k,
            n: round.n,
            q: books.q,
            monotonic: books.monotonic,
            sent_after: round.now.saturating_sub(books.monotonic),
            interval: if books.pace == round.interval { 0 } else { books.pace / 1_000_000 },
            token,
            ring_id: round.ring.id(),
            base: self.chain,
            ..Batch::default()
        };
        let mut gone = self.leave(round, books, &mut batch);
        let mut items = items(books, round, &gone.lingering, |key| self.told_primary(key));
        for item in &mut items {
            item.handle = self.introduce(item, round.n, books, &mut gone, &mut batch);
        }
        self.introduce_ended(round, books, &mut gone, &mut batch);
        items.sort_unstable_by_key(|item| item.handle);
        let mut encoder = Encoder::new(round.layout);
        let mut amounts = Amounts::new();
        let mut last = std::mem::take(&mut gone.last).into_iter().peekable();
        for item in &items {
            while let Some(ended) = last.next_if(|(handle, _)| *handle < item.handle) {
                tell_last(ended, books, &mut encoder);
            }
            self.tell(item, books, &mut encoder, &mut amounts, &mut batch);
        }
        last.for_each(|ended| tell_last(ended, books, &mut encoder));
        batch.block = encoder.finish();
        self.chain = codec::chain(self.chain, round.n, &batch.block);
        self.free.extend(gone.freed);
        (self.q, self.sent) = (Some(books.q), round.now);
        (batch, amounts)
    }

    /// Handles of keys that are over, or that others have now.
    fn leave(&mut self, round: &Round<'_>, books: &mut Books, batch: &mut Batch) -> Leaving {
        let mut gone = Leaving::default();
        for (handle, place) in self.slots.iter_mut().enumerate() {
            let handle = handle as Handle;
            let Some(slot) = place else { continue };
            let shard = match &slot.key {
                Key::Task(task) => books.tasks.get(task).map(|task| task.shard),
                Key::Row(_, service) => books.rows.get(service).map(|row| row.shard),
                Key::Node(_) => Some(books.node_shard),
            };
            let Some(shard) = shard else {
                revoke(books, &slot.key, round);
                match slot.key.clone() {
                    Key::Task(task) => gone.end_task(handle, &task, slot, books, batch),
                    _ => gone.end(handle, batch),
                }
                unlink(&mut self.by_key, place, handle);
                continue;
            };
            let has_copy = round.crew.has_copy(shard);
            if has_copy {
                slot.left = None;
            } else if slot.left.is_none() {
                slot.left = Some(round.now);
                books.moves += 1;
            }
            // What is not told any more is of no use to late readers either.
            let over = slot.moved || slot.left.is_some_and(|left| round.now.saturating_sub(left) >= round.overlap);
            if slot.moved && has_copy || over && round.handed_over(shard, &slot.key) {
                revoke(books, &slot.key, round);
                batch.drop.push(handle);
                gone.freed.push(handle);
                unlink(&mut self.by_key, place, handle);
            } else if !slot.moved && !has_copy {
                if round.crew.is_in_ring() {
                    gone.lingering.insert(slot.key.clone());
                } else {
                    revoke(books, &slot.key, round);
                    slot.moved = true;
                    if holds(Rule::Moved) {
                        batch.moved.push(handle);
                    }
                }
            }
        }
        gone
    }

    /// The handle of a key, introducing it where the stream does not know it (or knows another incarnation).
    fn introduce(&mut self, item: &Item, n: u64, books: &Books, gone: &mut Leaving, batch: &mut Batch) -> Handle {
        let subject = || match &item.key {
            Key::Task(task) => Subject::Task(books.tasks[task].meta.clone()),
            Key::Row(_, service) => Subject::Row(books.rows[service].meta.clone()),
            Key::Node(_) => Subject::Node(books.node.clone()),
        };
        if let Some(handle) = self.by_key.get(&item.key).copied() {
            let slot = self.slots[handle as usize].as_mut().expect("by_key names filled slots");
            match &item.key {
                // A node's row is introduced anew, under its handle, when its list of services changes; its figures go on.
                Key::Node(_) if slot.q < books.node_changed => batch.intros.push(Intro { handle, subject: subject() }),
                // Another incarnation, under another handle; so is a task with new texts, whose old handle is left.
                Key::Task(task) if slot.q < books.tasks[task].born.max(books.tasks[task].named) => {
                    if slot.q < books.tasks[task].born {
                        gone.end_task(handle, task, slot, books, batch);
                    } else {
                        batch.drop.push(handle);
                        gone.freed.push(handle);
                    }
                    unlink(&mut self.by_key, &mut self.slots[handle as usize], handle);
                    return self.introduce(item, n, books, gone, batch);
                }
                _ => {}
            }
            return handle;
        }
        let handle = self.free_handle();
        let counts = matches!(item.key, Key::Row(..)).then(Box::default);
        let slot = Slot {
            key: item.key.clone(),
            values: Values::default(),
            counts,
            primary: false,
            n,
            q: 0,
            left: None,
            moved: false,
        };
        self.slots[handle as usize] = Some(slot);
        self.by_key.insert(item.key.clone(), handle);
        batch.intros.push(Intro { handle, subject: subject() });
        handle
    }

    fn free_handle(&mut self) -> Handle {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Handle
        })
    }

    /// Tasks that came and went since the last batch are known by their last figures alone.
    fn introduce_ended(&mut self, round: &Round<'_>, books: &Books, gone: &mut Leaving, batch: &mut Batch) {
        let Some(sent) = self.q else { return };
        let heard: BTreeSet<TaskId> = gone.last.values().map(|(task, _)| task.clone()).collect();
        let unheard = books.over.iter().filter(|(id, over)| {
            let told = over.q <= sent || heard.contains(*id) || books.tasks.contains_key(*id);
            !told && round.crew.has_copy(over.task.shard)
        });
        for (id, over) in unheard {
            let handle = self.free_handle();
            batch.intros.push(Intro { handle, subject: Subject::Task(over.task.meta.clone()) });
            gone.end(handle, batch);
            gone.last.insert(handle, (id.clone(), Values::default()));
        }
    }

    /// Writes what changed of a key, and hands its pool over.
    fn tell(
        &mut self,
        item: &Item,
        books: &mut Books,
        encoder: &mut Encoder<'_>,
        amounts: &mut Amounts,
        batch: &mut Batch,
    ) {
        let slot = self.slots[item.handle as usize].as_mut().expect("introduce fills the slot");
        let role = (slot.primary != item.role).then_some(item.role);
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
                } else if task.read < books.monotonic {
                    batch.aged.push(Earlier { handle: item.handle, age: books.monotonic - task.read });
                }
            }
            Key::Row(_, service) => {
                let row = books.rows.get_mut(service).expect("items lists rows of the books");
                let given = if item.first { row.pool.take() } else { Aged::default() };
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
            Key::Node(_) => {
                encoder.entry(item.handle, &slot.values, &books.machine, None, role);
                slot.values.clone_from(&books.machine);
            }
        }
        slot.primary = item.role;
        slot.q = books.q;
    }
}

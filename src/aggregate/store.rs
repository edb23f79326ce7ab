//! Taking a batch: checked and decoded whole first, then applied whole (LEDGER 6, 19).

use super::history::{History, Rounds};
use super::node::{Apart, Hold, Machine, Ref, Row, Task, nanos};
use super::outcome::{BatchError, Stored};
use super::{Aggregate, EndedTask, StreamId, end_stream};
use crate::codec::{self, Baseline, Decoded, Packed};
use crate::message::{Batch, Handle, Intro};
use crate::model::{Counts, Millis, Nanos, RowMeta, Subject, TaskId, TaskMeta, Values, Version};
use crate::rules::{Rule, holds};
use crate::view::Previous;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Aggregate {
    /// Takes a batch that arrived at `now` on a stream.
    pub fn batch(&mut self, stream: &StreamId, batch: &Batch, now: Nanos) -> Result<Stored, BatchError> {
        let Some(node) = self.nodes.get_mut(&stream.node) else { return Ok(Stored::Void) };
        if (node.epoch, node.k, batch.k) != (stream.epoch, stream.k, stream.k) {
            if holds(Rule::VoidOlderStreams) || node.epoch != stream.epoch {
                return Ok(Stored::Void);
            }
            end_stream(node, &mut self.tasks, &mut self.rows);
            (node.k, node.chain) = (batch.k, batch.k);
        }
        if !node.open {
            return Err(BatchError::Forgotten(stream.node.to_string()));
        }
        node.heard = now;
        node.ring_id = batch.ring_id;
        let other_ring = self.ring_id.contradicts(batch.ring_id);
        if batch.n <= node.stored && holds(Rule::Numbers) {
            let ack = self.ack(&self.nodes[&stream.node], batch.n, now);
            return Ok(Stored::Acked { ack, n_samples: 0, repeat: true, other_ring });
        }
        // A heartbeat tells of the same round again.
        let is_new = batch.q > node.version.q || stream.epoch > node.version.epoch;
        let mut decoded = std::mem::take(&mut self.decoded);
        let checked = self.check(stream, batch).and_then(|intros| self.decode(stream, batch, &intros, &mut decoded));
        let applied = checked.map(|()| self.apply(stream, batch, &decoded, now));
        self.decoded = decoded;
        applied?;
        let node = &self.nodes[&stream.node];
        let n_tasks = node.handles.iter().filter(|place| matches!(place, Some(Ref::Task(_)))).count();
        let n_samples = if is_new { n_tasks.saturating_sub(batch.unread.len()) } else { 0 };
        Ok(Stored::Acked { ack: self.ack(node, batch.n, now), n_samples, repeat: false, other_ring })
    }

    fn check<'b>(&self, stream: &StreamId, batch: &'b Batch) -> Result<BTreeMap<Handle, &'b Intro>, BatchError> {
        let node = &self.nodes[&stream.node];
        if batch.base != node.chain && holds(Rule::Numbers) {
            return Err(BatchError::Baseline(batch.n));
        }
        let intros: BTreeMap<Handle, &Intro> = batch.intros.iter().map(|intro| (intro.handle, intro)).collect();
        if let Some(intro) = batch.intros.iter().find(|intro| *intro.subject.node_id() != stream.node) {
            return Err(BatchError::Foreign(stream.node.to_string(), intro.subject.node_id().to_string()));
        }
        // Task ids are unique in a swarm; two nodes that both have one are clones, of which the first stays.
        let of_another = batch.intros.iter().find_map(|intro| match &intro.subject {
            Subject::Task(meta) => {
                let held = &self.tasks[*self.by_task.get(&meta.task_id)?];
                let lives = held.hold.live && self.nodes.get(&held.meta.node_id).is_some_and(|node| node.open);
                (lives && held.meta.node_id != stream.node).then(|| held.meta.node_id.to_string())
            }
            _ => None,
        });
        if let Some(other) = of_another {
            return Err(BatchError::Foreign(stream.node.to_string(), other));
        }
        let new = |intro: &&&Intro| match &intro.subject {
            Subject::Task(meta) => !self.by_task.contains_key(&meta.task_id),
            Subject::Row(meta) => !self.by_row.contains_key(&(meta.service_id.clone(), meta.node_id.clone())),
            Subject::Node(_) => false,
        };
        let held = self.tasks.len() + self.rows.len();
        if held + batch.intros.len() > 2 * self.cfg.max_tasks
            && held + intros.values().filter(new).count() > 2 * self.cfg.max_tasks
        {
            return Err(BatchError::Full(self.tasks.len()));
        }
        // Handles are dense: a shipper never has more of them than it ever had keys at once. Only a node's own row is
        // introduced again under its handle.
        let limit = node.handles.len() + batch.intros.len();
        let free = |intro: &Intro| match node.place(intro.handle) {
            None => (intro.handle as usize) < limit,
            Some(place) => place == Ref::Node && matches!(intro.subject, Subject::Node(_)),
        };
        if intros.len() < batch.intros.len() || !intros.values().all(|intro| free(intro)) {
            return Err(BatchError::Intro(batch.n));
        }
        let known = |handle: &Handle| intros.contains_key(handle) || node.place(*handle).is_some();
        let late = batch.unread.iter().map(|unread| &unread.handle).chain(batch.aged.iter().map(|aged| &aged.handle));
        let mut named = batch.moved.iter().chain(&batch.ended).chain(&batch.drop).chain(late);
        match named.find(|handle| !known(handle)) {
            Some(handle) => Err(BatchError::Handle(batch.n, *handle)),
            None => Ok(intros),
        }
    }

    fn decode(
        &self,
        stream: &StreamId,
        batch: &Batch,
        intros: &BTreeMap<Handle, &Intro>,
        decoded: &mut Decoded,
    ) -> Result<(), BatchError> {
        let node = &self.nodes[&stream.node];
        let (nothing, no_counts) = (Values::default(), Counts::default());
        let baseline = |handle: Handle| match intros.get(&handle).map(|intro| &intro.subject) {
            Some(Subject::Task(_)) => Some(Baseline::Plain(&nothing)),
            Some(Subject::Row(_)) => Some(Baseline::Row(&nothing, &no_counts)),
            Some(Subject::Node(_)) => Some(Baseline::Plain(node.figures(handle).unwrap_or(&nothing))),
            None => match node.place(handle)? {
                Ref::Task(at) => Some(Baseline::Packed(&self.tasks[at].readings)),
                Ref::Row(at) => Some(Baseline::Row(&self.rows[at].values, &self.rows[at].counts)),
                Ref::Node => node.figures(handle).map(Baseline::Plain),
            },
        };
        decoded.read(&node.layout, &batch.block, baseline).map_err(|error| BatchError::Decode(batch.n, error))
    }

    fn apply(&mut self, stream: &StreamId, batch: &Batch, decoded: &Decoded, now: Nanos) {
        let voided = self.void_older_epochs(stream);
        let aged = batch.aged.iter().map(|aged| (aged.handle, batch.monotonic.saturating_sub(aged.age)));
        let read_at: BTreeMap<Handle, Nanos> = aged.collect();
        let read = |handle: Handle| read_at.get(&handle).copied().unwrap_or(batch.monotonic);
        // Before an introduction ends an earlier incarnation, that one's last figures are taken.
        let introduced: BTreeSet<Handle> = batch.intros.iter().map(|intro| intro.handle).collect();
        let is_new = |change: &&codec::Change| !introduced.is_empty() && introduced.contains(&change.handle);
        for change in decoded.changes.iter().filter(|change| !is_new(change)) {
            self.change(stream, batch, decoded, change, (read(change.handle), now));
        }
        for intro in &batch.intros {
            self.introduce(stream, intro, (batch.q, read(intro.handle)), now);
        }
        // Whoever else had them may have forgotten them, too, and their next owner may not be told yet.
        if voided.iter().any(|task| !self.by_task.contains_key(task)) {
            self.forgot = Some(now);
        }
        for change in decoded.changes.iter().filter(is_new) {
            self.change(stream, batch, decoded, change, (read(change.handle), now));
        }
        for handle in &batch.moved {
            self.leave(stream, *handle);
        }
        for handle in &batch.ended {
            self.end(stream, *handle, batch.q, now);
        }
        for handle in &batch.drop {
            self.forget(stream, *handle);
        }
        self.mark_late(stream, batch);
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        if batch.q > node.version.q || stream.epoch > node.version.epoch {
            node.previous = std::mem::replace(&mut node.monotonic, batch.monotonic);
            node.rounds.push(batch.monotonic, self.cfg.points);
        }
        node.version = Version { epoch: stream.epoch, q: batch.q };
        node.token = Some(batch.token.min(now));
        (node.arrived, node.sent_after) = (now, batch.sent_after);
        node.pace = if batch.interval == 0 { node.interval } else { nanos(batch.interval) };
        node.stored = batch.n;
        node.chain = codec::chain(node.chain, batch.n, &batch.block);
    }

    /// LEDGER 2: a newer epoch of a node voids all its older rows and tasks; which tasks those were.
    fn void_older_epochs(&mut self, stream: &StreamId) -> Vec<TaskId> {
        let node = &self.nodes[&stream.node];
        if node.version.epoch == stream.epoch {
            return Vec::new();
        }
        let (tasks, rows) = (node.tasks.clone(), node.rows.clone());
        let held = tasks.iter().map(|at| &self.tasks[*at]).filter(|task| !task.hold.dropped);
        let voided = held.map(|task| task.meta.task_id.clone()).collect();
        tasks.into_iter().for_each(|at| self.remove_task(at));
        rows.into_iter().for_each(|at| self.remove_row(at));
        if let Some(node) = self.nodes.get_mut(&stream.node) {
            (node.meta, node.hold, node.machine) = (None, Hold::default(), Machine::default());
            (node.monotonic, node.previous, node.rounds) = (0, 0, Rounds::default());
        }
        voided
    }

    fn introduce(&mut self, stream: &StreamId, intro: &Intro, read: (u64, Nanos), now: Nanos) {
        let place = match &intro.subject {
            Subject::Task(meta) => Ref::Task(self.introduce_task(stream, meta, read, now)),
            Subject::Row(meta) => Ref::Row(self.introduce_row(meta, now)),
            Subject::Node(meta) => {
                if let Some(node) = self.nodes.get_mut(&stream.node) {
                    node.introduce(meta, intro.handle, read.0);
                }
                Ref::Node
            }
        };
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        let hold = match place {
            Ref::Task(at) => &mut self.tasks[at].hold,
            Ref::Row(at) => &mut self.rows[at].hold,
            Ref::Node => &mut node.hold,
        };
        // A role goes on only where an introduction repeats itself under the same handle.
        let primary = hold.primary && hold.handle == Some(intro.handle);
        let old = std::mem::replace(hold, Hold { handle: Some(intro.handle), live: true, primary, ..Hold::default() });
        node.unbind(old.handle);
        match place {
            Ref::Task(at) => drop(node.tasks.insert(at)),
            Ref::Row(at) => drop(node.rows.insert(at)),
            Ref::Node => {}
        }
        let handle = intro.handle as usize;
        if node.handles.len() <= handle {
            node.handles.resize(handle + 1, None);
        }
        node.handles[handle] = Some(place);
    }

    fn introduce_task(
        &mut self,
        stream: &StreamId,
        meta: &Arc<TaskMeta>,
        (q, read): (u64, Nanos),
        now: Nanos,
    ) -> usize {
        if let Some(at) = self.by_task.get(&meta.task_id).copied() {
            let task = &mut self.tasks[at];
            if (&task.meta.node_id, &task.meta.service_id) == (&meta.node_id, &meta.service_id)
                && task.meta.same_incarnation(meta)
            {
                // The stream's baselines start from nothing, but rates go on from its newest reading.
                let node = &self.nodes[&meta.node_id];
                let before = match q > node.version_of(&task.hold).q && read > node.read_at(&task.hold) {
                    true => task.readings.as_before(node.read_at(&task.hold)),
                    false => task.readings.before(),
                };
                task.readings = Packed::of(&Values::default(), before.as_ref());
                if task.meta != *meta {
                    task.meta = meta.clone();
                }
                return at;
            }
            self.remember_ended(stream, at, q, now);
        }
        let at = self.tasks.insert(Task {
            meta: self.sharing(meta),
            hold: Hold::default(),
            readings: Packed::default(),
            changed: 0,
            history: History::default(),
        });
        self.by_task.insert(meta.task_id.clone(), at);
        self.by_service.entry(meta.service_id.clone()).or_default().insert(at);
        at
    }

    /// The same texts, those in common with another task of the service or node held once: a quarter of a task's memory.
    fn sharing(&self, meta: &Arc<TaskMeta>) -> Arc<TaskMeta> {
        fn share<T: Clone + PartialEq>(own: &mut T, other: &T) {
            if own == other {
                own.clone_from(other);
            }
        }
        let of_service = self.by_service.get(&meta.service_id).and_then(|tasks| tasks.first());
        let of_node = self.nodes.get(&meta.node_id).and_then(|node| node.tasks.first());
        let mut meta = TaskMeta::clone(meta);
        if let Some(other) = of_service.map(|at| &self.tasks[*at].meta) {
            share(&mut meta.service_id, &other.service_id);
            share(&mut meta.service_name, &other.service_name);
            share(&mut meta.stack, &other.stack);
            share(&mut meta.image, &other.image);
        }
        if let Some(other) = of_node.map(|at| &self.tasks[*at].meta) {
            share(&mut meta.node_id, &other.node_id);
            share(&mut meta.node_name, &other.node_name);
        }
        Arc::new(meta)
    }

    fn introduce_row(&mut self, meta: &Arc<RowMeta>, now: Nanos) -> usize {
        self.ledger.open(meta, now);
        let key = (meta.service_id.clone(), meta.node_id.clone());
        let (values, counts) = (Values::default(), Counts::default());
        if let Some(at) = self.by_row.get(&key).copied() {
            let row = &mut self.rows[at];
            (row.meta, row.values, row.counts) = (meta.clone(), values, counts);
            return at;
        }
        let at = self.rows.insert(Row { meta: meta.clone(), hold: Hold::default(), values, counts });
        self.by_row.insert(key, at);
        at
    }

    /// `read`: the shipper's clock at the reading; `now`: the own one.
    fn change(
        &mut self,
        stream: &StreamId,
        batch: &Batch,
        decoded: &Decoded,
        change: &codec::Change,
        (read, now): (Nanos, Nanos),
    ) {
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        let Some(place) = node.place(change.handle) else { return };
        match place {
            Ref::Node => {
                if let Some(primary) = change.role {
                    node.hold.primary = primary;
                }
                if let Some(values) = change.values.map(|at| &decoded.values[at]) {
                    node.change(values, batch.q);
                }
            }
            Ref::Task(at) => {
                let Some(task) = self.tasks.get_mut(at).filter(|task| task.hold.live) else { return };
                if let Some(primary) = change.role {
                    task.hold.primary = primary;
                }
                if let Some(values) = change.values.map(|at| &decoded.values[at]) {
                    // A reading of before this round that is known already says nothing new about rates.
                    let again = read < batch.monotonic && read <= node.read_at(&task.hold);
                    let new = batch.q > task.changed && !again;
                    let before = match new && !task.readings.is_empty() {
                        true => task.readings.as_before(node.read_at(&task.hold)),
                        false => task.readings.before(),
                    };
                    task.readings = Packed::of(values, before.as_ref());
                    if new {
                        task.changed = batch.q;
                    }
                    if self.cfg.points > 0 {
                        task.history.reads(&node.rounds, batch.monotonic, read, values);
                    }
                }
            }
            Ref::Row(at) => {
                let Some(row) = self.rows.get_mut(at).filter(|row| row.hold.live) else { return };
                if let Some(primary) = change.role {
                    row.hold.primary = primary;
                }
                if let Some(values) = change.values.map(|at| &decoded.values[at]) {
                    row.values.clone_from(values);
                }
                if let Some((counts, add)) = change.row.map(|at| &decoded.rows[at]) {
                    row.counts.clone_from(counts);
                    if !add.is_empty() {
                        self.ledger.add(&row.meta, stream.epoch, batch.n, add, now);
                    }
                }
            }
        }
    }

    /// A moved key stays readable, but is stale at once.
    fn leave(&mut self, stream: &StreamId, handle: Handle) {
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        match node.place(handle) {
            Some(Ref::Task(at)) => self.tasks[at].leave(node),
            Some(Ref::Row(at)) => self.rows[at].hold.leave(node),
            Some(Ref::Node) => {
                let mut hold = std::mem::take(&mut node.hold);
                hold.leave(node);
                node.hold = hold;
            }
            None => {}
        }
    }

    fn end(&mut self, stream: &StreamId, handle: Handle, q: u64, now: Nanos) {
        match self.nodes[&stream.node].place(handle) {
            Some(Ref::Task(at)) => self.remember_ended(stream, at, q, now),
            _ => self.forget(stream, handle),
        }
    }

    /// A dropped key is forgotten, but for a task's history; one that was introduced again under another handle has left
    /// this one.
    fn forget(&mut self, stream: &StreamId, handle: Handle) {
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        match node.place(handle) {
            Some(Ref::Task(at)) if self.cfg.points > 0 => {
                let task = &mut self.tasks[at];
                task.leave(node);
                node.unbind(task.hold.handle.take());
                task.hold.dropped = true;
            }
            Some(Ref::Task(at)) => self.remove_task(at),
            Some(Ref::Row(at)) => self.remove_row(at),
            Some(Ref::Node) => {
                node.unbind(Some(handle));
                (node.meta, node.hold, node.machine) = (None, Hold::default(), Machine::default());
            }
            None => {}
        }
    }

    /// A task that is over by round `q` of a stream: the last figures of a live one came with that round.
    fn remember_ended(&mut self, stream: &StreamId, at: usize, q: u64, now: Nanos) {
        let Some(task) = self.tasks.get(at) else { return };
        let version = match task.hold.live && task.meta.node_id == stream.node {
            true => Version { epoch: stream.epoch, q },
            false => self.nodes.get(&task.meta.node_id).map(|node| node.version_of(&task.hold)).unwrap_or_default(),
        };
        let (meta, readings) = (task.meta.clone(), task.readings.clone());
        self.ended.push_back(EndedTask { meta, readings, version, at: now });
        if self.ended.len() > self.cfg.max_tasks {
            self.ended.pop_front();
        }
        self.remove_task(at);
    }

    /// What of a batch was not read in its round; the rest was.
    fn mark_late(&mut self, stream: &StreamId, batch: &Batch) {
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        let unread = batch.unread.iter().map(|unread| (unread.handle, (Some(unread.age), 0)));
        let aged = batch.aged.iter().map(|aged| (aged.handle, (None, aged.age)));
        let late: BTreeMap<Handle, (Option<Millis>, Nanos)> = unread.chain(aged).collect();
        let before = std::mem::replace(&mut node.late, late.keys().copied().collect());
        let in_time = before.into_iter().filter(|handle| !late.contains_key(handle)).map(|handle| (handle, (None, 0)));
        for (handle, (unread, aged)) in in_time.chain(late.iter().map(|(handle, how)| (*handle, *how))) {
            let hold = match node.place(handle) {
                Some(Ref::Task(at)) => {
                    let task = &mut self.tasks[at];
                    // Read anew, with nothing changed: idle since the reading before.
                    let (before, read) = (node.read_at(&task.hold), batch.monotonic.saturating_sub(aged));
                    if aged > 0 && task.hold.live && read > before && task.changed != batch.q {
                        let newest = task.readings.newest();
                        task.readings = Packed::of(&newest, Previous::of(before, &newest).as_ref());
                    }
                    if unread.is_some() {
                        task.history.stops(&node.rounds, batch.monotonic);
                    } else if task.hold.live && task.history.is_stopped() {
                        task.history.reads(&node.rounds, batch.monotonic, read, &task.readings.newest());
                    }
                    &mut task.hold
                }
                Some(Ref::Row(at)) => &mut self.rows[at].hold,
                Some(Ref::Node) => &mut node.hold,
                None => continue,
            };
            if hold.live {
                let age = unread.unwrap_or(0).saturating_mul(1_000_000).saturating_add(aged);
                let read = batch.monotonic.saturating_sub(age);
                let is_apart = unread.is_some() || aged > 0;
                hold.apart = is_apart.then(|| Box::new(Apart { unread, aged, read, ..Apart::default() }));
            }
        }
    }
}

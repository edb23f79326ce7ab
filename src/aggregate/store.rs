//! Taking a batch: checked and decoded whole first, then applied whole (LEDGER 6, 19).

use super::node::{Dot, Hold, Ref, Row, Task};
use super::{Aggregate, EndedTask, N_POINT, StreamId};
use crate::codec::{self, Baseline, DecodeError, Decoded};
use crate::message::{Ack, Batch, Handle, Intro};
use crate::model::{Counts, Nanos, Subject, Values, Version};
use crate::stat::{CPU, Level};
use std::collections::{BTreeMap, VecDeque};

/// Why a batch is not stored. The stream ends; reconnecting is the keyframe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// It builds on other baselines than ours.
    #[error("batch {0} builds on baselines that this process does not have")]
    Baseline(u64),
    /// Its block does not decode.
    #[error("batch {0} does not decode: {1}")]
    Decode(u64, DecodeError),
    /// It names a handle that the stream has not introduced.
    #[error("batch {0} names handle {1}, which this stream has not introduced")]
    Handle(u64, Handle),
    /// It speaks about another node's key.
    #[error("the stream of node {0} speaks about node {1}")]
    Foreign(String, String),
    /// No room for more tasks.
    #[error("this collector already holds {0} tasks: raise limits.max_tasks or add collectors")]
    Full(usize),
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// Its stream is not current: nothing was done, nothing is answered.
    Void,
    /// It is acknowledged.
    Acked {
        /// The answer.
        ack: Ack,
        /// How many task samples it renewed; 0 for a repeat.
        n_samples: usize,
        /// It had been stored before: a repeat.
        repeat: bool,
        /// The sender has another ring: ask discovery at once.
        other_ring: bool,
    },
}

impl Aggregate {
    /// Takes a batch that arrived at `now` on a stream.
    pub fn batch(&mut self, stream: &StreamId, batch: &Batch, now: Nanos) -> Result<Stored, BatchError> {
        let Some(node) = self.nodes.get_mut(&stream.node) else { return Ok(Stored::Void) };
        if (node.epoch, node.k, batch.k) != (stream.epoch, stream.k, stream.k) {
            return Ok(Stored::Void);
        }
        node.heard = now;
        let other_ring = batch.ring_id != self.ring_id;
        if batch.n <= node.stored {
            let ack = self.ack(&self.nodes[&stream.node], batch.n, now);
            return Ok(Stored::Acked { ack, n_samples: 0, repeat: true, other_ring });
        }
        let mut decoded = std::mem::take(&mut self.decoded);
        let checked = self.check(stream, batch).and_then(|intros| self.decode(stream, batch, &intros, &mut decoded));
        let applied = checked.map(|()| self.apply(stream, batch, &decoded, now));
        self.decoded = decoded;
        applied?;
        let node = &self.nodes[&stream.node];
        let n_samples = node.tasks.len();
        Ok(Stored::Acked { ack: self.ack(node, batch.n, now), n_samples, repeat: false, other_ring })
    }

    fn check<'b>(&self, stream: &StreamId, batch: &'b Batch) -> Result<BTreeMap<Handle, &'b Intro>, BatchError> {
        let node = &self.nodes[&stream.node];
        if batch.base != node.chain {
            return Err(BatchError::Baseline(batch.n));
        }
        let intros: BTreeMap<Handle, &Intro> = batch.intros.iter().map(|intro| (intro.handle, intro)).collect();
        if let Some(intro) = batch.intros.iter().find(|intro| *intro.subject.node_id() != stream.node) {
            return Err(BatchError::Foreign(stream.node.to_string(), intro.subject.node_id().to_string()));
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
        // Handles are dense: a shipper never has more of them than it ever had keys at once.
        let limit = node.handles.len() + batch.intros.len();
        if let Some(intro) = batch.intros.iter().find(|intro| intro.handle as usize >= limit) {
            return Err(BatchError::Handle(batch.n, intro.handle));
        }
        let known = |handle: &Handle| {
            intros.contains_key(handle) || node.handles.get(*handle as usize).is_some_and(Option::is_some)
        };
        let unread = batch.unread.iter().map(|unread| &unread.handle);
        let mut named = batch.moved.iter().chain(&batch.ended).chain(&batch.drop).chain(unread);
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
            Some(Subject::Task(_)) => Some(Baseline::Task(&nothing)),
            Some(Subject::Row(_)) => Some(Baseline::Row(&nothing, &no_counts)),
            Some(Subject::Node(_)) => Some(Baseline::Node),
            None => match node.handles.get(handle as usize).copied().flatten()? {
                Ref::Task(at) => Some(Baseline::Task(&self.tasks[at].values)),
                Ref::Row(at) => Some(Baseline::Row(&self.rows[at].values, &self.rows[at].counts)),
                Ref::Node => Some(Baseline::Node),
            },
        };
        decoded.read(&node.layout, &batch.block, baseline).map_err(|error| BatchError::Decode(batch.n, error))
    }

    fn apply(&mut self, stream: &StreamId, batch: &Batch, decoded: &Decoded, now: Nanos) {
        self.void_older_epochs(stream);
        let before = self.nodes[&stream.node].version;
        for intro in &batch.intros {
            self.introduce(stream, intro, batch.q, now);
        }
        for change in &decoded.changes {
            self.change(stream, batch, decoded, change, now);
        }
        for handle in &batch.moved {
            let as_of = self.as_of(stream);
            if let Some(hold) = self.hold_mut(stream, *handle) {
                hold.leave(before, as_of);
            }
        }
        for handle in &batch.ended {
            self.end(stream, *handle, now);
        }
        for handle in &batch.drop {
            self.forget(stream, *handle);
        }
        self.mark_unread(stream, batch);
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        if batch.q > node.version.q || stream.epoch > node.version.epoch {
            node.previous = std::mem::replace(&mut node.monotonic, batch.monotonic);
        }
        node.version = Version { epoch: stream.epoch, q: batch.q };
        node.token = Some(batch.token.min(now));
        (node.arrived, node.sent_after) = (now, batch.sent_after);
        node.stored = batch.n;
        node.chain = codec::chain(node.chain, batch.n, &batch.block);
    }

    /// LEDGER 2: a newer epoch of a node voids all its older rows and tasks.
    fn void_older_epochs(&mut self, stream: &StreamId) {
        let node = &self.nodes[&stream.node];
        if node.version.epoch == stream.epoch {
            return;
        }
        let (tasks, rows) = (node.tasks.clone(), node.rows.clone());
        tasks.into_iter().for_each(|at| self.remove_task(at));
        rows.into_iter().for_each(|at| self.remove_row(at));
        if let Some(node) = self.nodes.get_mut(&stream.node) {
            node.meta = None;
            (node.monotonic, node.previous) = (0, 0);
        }
    }

    fn introduce(&mut self, stream: &StreamId, intro: &Intro, q: u64, now: Nanos) {
        let live = Hold { live: Some(intro.handle), ..Hold::default() };
        let place = match &intro.subject {
            Subject::Task(meta) => {
                let known = self.by_task.get(&meta.task_id).copied();
                let same = known.filter(|at| {
                    let other = &self.tasks[*at].meta;
                    other.same_incarnation(meta) && other.node_id == meta.node_id && other.service_id == meta.service_id
                });
                let at = if let Some(at) = same {
                    let task = &mut self.tasks[at];
                    // The stream's baselines start from nothing, but the CPU time goes on from the newest round.
                    let node = &self.nodes[&stream.node];
                    if q > node.version.q {
                        let cpu = task.values.get(CPU).filter(|_| node.version_of(&task.hold) == node.version);
                        task.previous = cpu.map(|cpu| (node.monotonic, cpu));
                    }
                    (task.meta, task.hold, task.values) = (meta.clone(), live, Values::default());
                    at
                } else {
                    known.into_iter().for_each(|at| self.remember_ended(at, now));
                    let task = Task {
                        meta: meta.clone(),
                        hold: live,
                        values: Values::default(),
                        previous: None,
                        changed: 0,
                        read: 0,
                        points: VecDeque::new(),
                    };
                    let at = self.tasks.insert(task);
                    self.by_task.insert(meta.task_id.clone(), at);
                    self.by_service.entry(meta.service_id.clone()).or_default().insert(at);
                    at
                };
                Ref::Task(at)
            }
            Subject::Row(meta) => {
                let key = (meta.service_id.clone(), meta.node_id.clone());
                let known = self.by_row.get(&key).copied();
                known.into_iter().for_each(|at| self.remove_row(at));
                let row = Row { meta: meta.clone(), hold: live, values: Values::default(), counts: Counts::default() };
                let at = self.rows.insert(row);
                self.by_row.insert(key, at);
                self.ledger.open(meta, now);
                Ref::Row(at)
            }
            Subject::Node(_) => Ref::Node,
        };
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        match (place, &intro.subject) {
            (Ref::Task(at), _) => drop(node.tasks.insert(at)),
            (Ref::Row(at), _) => drop(node.rows.insert(at)),
            (Ref::Node, Subject::Node(meta)) => {
                let primary = node.hold.live == Some(intro.handle) && node.hold.primary;
                (node.meta, node.hold) = (Some(meta.clone()), Hold { primary, ..live_again(intro.handle) });
            }
            (Ref::Node, _) => {}
        }
        let handle = intro.handle as usize;
        if node.handles.len() <= handle {
            node.handles.resize(handle + 1, None);
        }
        node.handles[handle] = Some(place);
    }

    fn change(&mut self, stream: &StreamId, batch: &Batch, decoded: &Decoded, change: &codec::Change, now: Nanos) {
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        let Some(place) = node.handles.get(change.handle as usize).copied().flatten() else { return };
        match place {
            Ref::Node => {
                if let Some(primary) = change.role {
                    node.hold.primary = primary;
                }
            }
            Ref::Task(at) => {
                let Some(task) = self.tasks.get_mut(at).filter(|task| task.hold.live == Some(change.handle)) else {
                    return;
                };
                if let Some(primary) = change.role {
                    task.hold.primary = primary;
                }
                if let Some(values) = change.values.map(|at| &decoded.values[at]) {
                    let read = if task.hold.unread.is_some() { task.read } else { node.monotonic };
                    if batch.q > task.changed {
                        if !task.values.is_empty() {
                            task.previous = task.values.get(CPU).map(|cpu| (read, cpu));
                        }
                        task.changed = batch.q;
                    }
                    task.values.clone_from(values);
                    remember(&mut task.points, self.cfg.points, batch.monotonic, values);
                }
            }
            Ref::Row(at) => {
                let Some(row) = self.rows.get_mut(at).filter(|row| row.hold.live == Some(change.handle)) else {
                    return;
                };
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

    fn as_of(&self, stream: &StreamId) -> Nanos {
        let node = &self.nodes[&stream.node];
        node.token.unwrap_or(node.arrived)
    }

    fn place(&self, stream: &StreamId, handle: Handle) -> Option<Ref> {
        self.nodes.get(&stream.node)?.handles.get(handle as usize).copied().flatten()
    }

    /// The hold of a handle, if the entry is still the handle's (and not another's by now).
    fn hold_mut(&mut self, stream: &StreamId, handle: Handle) -> Option<&mut Hold> {
        let hold = match self.place(stream, handle)? {
            Ref::Task(at) => &mut self.tasks.get_mut(at)?.hold,
            Ref::Row(at) => &mut self.rows.get_mut(at)?.hold,
            Ref::Node => &mut self.nodes.get_mut(&stream.node)?.hold,
        };
        (hold.live == Some(handle)).then_some(hold)
    }

    fn unbind(&mut self, stream: &StreamId, handle: Handle) -> Option<Ref> {
        self.nodes.get_mut(&stream.node)?.handles.get_mut(handle as usize)?.take()
    }

    fn end(&mut self, stream: &StreamId, handle: Handle, now: Nanos) {
        let current = self.hold_mut(stream, handle).is_some();
        match self.unbind(stream, handle) {
            Some(Ref::Task(at)) if current => self.remember_ended(at, now),
            Some(Ref::Row(at)) if current => self.remove_row(at),
            _ => {}
        }
    }

    /// A dropped key is forgotten, unless it was introduced again under another handle.
    fn forget(&mut self, stream: &StreamId, handle: Handle) {
        match self.unbind(stream, handle) {
            Some(Ref::Task(at)) if self.tasks.get(at).is_some_and(|task| task.hold.live.is_none()) => {
                self.remove_task(at);
            }
            Some(Ref::Row(at)) if self.rows.get(at).is_some_and(|row| row.hold.live.is_none()) => self.remove_row(at),
            Some(Ref::Node) => {
                if let Some(node) = self.nodes.get_mut(&stream.node).filter(|node| node.hold.live.is_none()) {
                    node.meta = None;
                }
            }
            _ => {}
        }
    }

    fn remember_ended(&mut self, at: usize, now: Nanos) {
        let Some(task) = self.tasks.get(at) else { return };
        let version = self.nodes.get(&task.meta.node_id).map(|node| node.version_of(&task.hold)).unwrap_or_default();
        let (meta, values) = (task.meta.clone(), task.values.clone());
        self.ended.push_back(EndedTask { meta, values, version, at: now });
        if self.ended.len() > self.cfg.max_tasks {
            self.ended.pop_front();
        }
        self.remove_task(at);
    }

    fn mark_unread(&mut self, stream: &StreamId, batch: &Batch) {
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        for place in std::mem::take(&mut node.unread) {
            match place {
                Ref::Task(at) => drop(self.tasks.get_mut(at).map(|task| task.hold.unread = None)),
                Ref::Row(at) => drop(self.rows.get_mut(at).map(|row| row.hold.unread = None)),
                Ref::Node => node.hold.unread = None,
            }
        }
        for unread in &batch.unread {
            let Some(place) = node.handles.get(unread.handle as usize).copied().flatten() else { continue };
            node.unread.push(place);
            match place {
                Ref::Task(at) => {
                    let task = &mut self.tasks[at];
                    task.hold.unread = Some(unread.age);
                    task.read = batch.monotonic.saturating_sub(unread.age.saturating_mul(1_000_000));
                }
                Ref::Row(at) => self.rows[at].hold.unread = Some(unread.age),
                Ref::Node => node.hold.unread = Some(unread.age),
            }
        }
    }
}

fn live_again(handle: Handle) -> Hold {
    Hold { live: Some(handle), ..Hold::default() }
}

/// The values of level `docker`, in the order of their numbers.
fn remember(points: &mut VecDeque<Dot>, max: usize, monotonic: Nanos, values: &Values) {
    if max == 0 {
        return;
    }
    let mask = Level::Docker.mask();
    let mut dot = Dot { monotonic, present: values.present() & mask, values: [0; N_POINT] };
    for (slot, stat) in dot.values.iter_mut().zip(crate::model::bits(mask)) {
        *slot = values.or_zero(stat);
    }
    if points.len() >= max {
        points.pop_front();
    }
    points.push_back(dot);
}

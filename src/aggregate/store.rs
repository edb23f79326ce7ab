//! Taking a batch: checked and decoded whole first, then applied whole (LEDGER 6, 19).

use super::node::{Dot, Hold, Ref, Row, Task};
use super::{Aggregate, EndedTask, N_POINT, StreamId};
use crate::codec::{self, Baseline, DecodeError, Decoded};
use crate::message::{Ack, Batch, Handle, Intro};
use crate::model::{Counts, Nanos, RowMeta, Subject, TaskMeta, Values, Version};
use crate::stat::{CPU, Level};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

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
    /// It introduces keys under handles that are in use, or far beyond them.
    #[error("batch {0} introduces keys under handles that are in use or far beyond them")]
    Intro(u64),
    /// It speaks about another node's key.
    #[error("the stream of node {0} speaks about node {1}")]
    Foreign(String, String),
    /// It was silent for so long that what it had introduced is forgotten.
    #[error("the stream of node {0} was silent for too long: what it introduced is forgotten")]
    Forgotten(String),
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
        if !node.open {
            return Err(BatchError::Forgotten(stream.node.to_string()));
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
            None => match node.place(handle)? {
                Ref::Task(at) => Some(Baseline::Task(&self.tasks[at].values)),
                Ref::Row(at) => Some(Baseline::Row(&self.rows[at].values, &self.rows[at].counts)),
                Ref::Node => Some(Baseline::Node),
            },
        };
        decoded.read(&node.layout, &batch.block, baseline).map_err(|error| BatchError::Decode(batch.n, error))
    }

    fn apply(&mut self, stream: &StreamId, batch: &Batch, decoded: &Decoded, now: Nanos) {
        self.void_older_epochs(stream);
        for intro in &batch.intros {
            self.introduce(stream, intro, batch.q, now);
        }
        for change in &decoded.changes {
            self.change(stream, batch, decoded, change, now);
        }
        for handle in &batch.moved {
            self.leave(stream, *handle);
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
            (node.meta, node.hold) = (None, Hold::default());
            (node.monotonic, node.previous) = (0, 0);
        }
    }

    fn introduce(&mut self, stream: &StreamId, intro: &Intro, q: u64, now: Nanos) {
        let place = match &intro.subject {
            Subject::Task(meta) => Ref::Task(self.introduce_task(meta, q, now)),
            Subject::Row(meta) => Ref::Row(self.introduce_row(meta, now)),
            Subject::Node(_) => Ref::Node,
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
        match (place, &intro.subject) {
            (Ref::Task(at), _) => drop(node.tasks.insert(at)),
            (Ref::Row(at), _) => drop(node.rows.insert(at)),
            (Ref::Node, Subject::Node(meta)) => node.meta = Some(meta.clone()),
            (Ref::Node, _) => {}
        }
        let handle = intro.handle as usize;
        if node.handles.len() <= handle {
            node.handles.resize(handle + 1, None);
        }
        node.handles[handle] = Some(place);
    }

    fn introduce_task(&mut self, meta: &Arc<TaskMeta>, q: u64, now: Nanos) -> usize {
        if let Some(at) = self.by_task.get(&meta.task_id).copied() {
            let task = &mut self.tasks[at];
            if (&task.meta.node_id, &task.meta.service_id) == (&meta.node_id, &meta.service_id)
                && task.meta.same_incarnation(meta)
            {
                // The stream's baselines start from nothing, but the CPU time goes on from its newest reading.
                let node = &self.nodes[&meta.node_id];
                if q > node.version_of(&task.hold).q {
                    task.previous = task.values.get(CPU).map(|cpu| (node.read_at(&task.hold), cpu));
                }
                if task.meta != *meta {
                    task.meta = meta.clone();
                }
                task.values = Values::default();
                return at;
            }
            self.remember_ended(at, now);
        }
        let at = self.tasks.insert(Task {
            meta: self.sharing(meta),
            hold: Hold::default(),
            values: Values::default(),
            previous: None,
            changed: 0,
            points: VecDeque::new(),
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

    fn change(&mut self, stream: &StreamId, batch: &Batch, decoded: &Decoded, change: &codec::Change, now: Nanos) {
        let Some(node) = self.nodes.get_mut(&stream.node) else { return };
        let Some(place) = node.place(change.handle) else { return };
        match place {
            Ref::Node => {
                if let Some(primary) = change.role {
                    node.hold.primary = primary;
                }
            }
            Ref::Task(at) => {
                let Some(task) = self.tasks.get_mut(at).filter(|task| task.hold.live) else { return };
                if let Some(primary) = change.role {
                    task.hold.primary = primary;
                }
                if let Some(values) = change.values.map(|at| &decoded.values[at]) {
                    if batch.q > task.changed {
                        if !task.values.is_empty() {
                            task.previous = task.values.get(CPU).map(|cpu| (node.read_at(&task.hold), cpu));
                        }
                        task.changed = batch.q;
                    }
                    task.values.clone_from(values);
                    remember(&mut task.points, self.cfg.points, batch.monotonic, values);
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
            Some(Ref::Task(at)) => self.tasks[at].hold.leave(node),
            Some(Ref::Row(at)) => self.rows[at].hold.leave(node),
            Some(Ref::Node) => {
                let mut hold = std::mem::take(&mut node.hold);
                hold.leave(node);
                node.hold = hold;
            }
            None => {}
        }
    }

    fn end(&mut self, stream: &StreamId, handle: Handle, now: Nanos) {
        match self.nodes[&stream.node].place(handle) {
            Some(Ref::Task(at)) => self.remember_ended(at, now),
            _ => self.forget(stream, handle),
        }
    }

    /// A dropped key is forgotten; one that was introduced again under another handle has left this one.
    fn forget(&mut self, stream: &StreamId, handle: Handle) {
        match self.nodes[&stream.node].place(handle) {
            Some(Ref::Task(at)) => self.remove_task(at),
            Some(Ref::Row(at)) => self.remove_row(at),
            Some(Ref::Node) => {
                if let Some(node) = self.nodes.get_mut(&stream.node) {
                    node.unbind(Some(handle));
                    (node.meta, node.hold) = (None, Hold::default());
                }
            }
            None => {}
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
        let unread = batch.unread.iter().map(|unread| unread.handle).collect();
        let before = std::mem::replace(&mut node.unread, unread);
        let read = before.into_iter().map(|handle| (handle, None));
        for (handle, age) in read.chain(batch.unread.iter().map(|unread| (unread.handle, Some(unread.age)))) {
            let hold = match node.place(handle) {
                Some(Ref::Task(at)) => &mut self.tasks[at].hold,
                Some(Ref::Row(at)) => &mut self.rows[at].hold,
                Some(Ref::Node) => &mut node.hold,
                None => continue,
            };
            if hold.live {
                hold.unread = age;
                hold.read = batch.monotonic.saturating_sub(age.unwrap_or(0).saturating_mul(1_000_000));
            }
        }
    }
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

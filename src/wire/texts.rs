//! Texts of tasks in a snapshot: whole for everybody, once for those that have them in common where the asker can do
//! with that, and of its own texts only a task's id where nothing but sums is made of it.
//!
//! Invariant: what is read is what was sent, whatever was shared; who leaves texts out was asked to.

use super::{WireError, labels, pb, text};
use crate::model::{Labels, NodeId, ServiceId, TaskId, TaskMeta};
use crate::view::{TaskView, Texts};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The metas of a snapshot's tasks, in their order with their places in the list of what is alike (0: whole).
pub(super) fn shared(tasks: &[TaskView], texts: Texts) -> (Vec<(pb::TaskMeta, u32)>, Vec<pb::TaskMeta>) {
    let (mut places, mut alike): (BTreeMap<_, u32>, Vec<pb::TaskMeta>) = (BTreeMap::new(), Vec::new());
    let metas = tasks.iter().map(|task| {
        let meta = &*task.meta;
        let key = (&meta.service_id, &meta.node_id, &meta.service_name, &meta.node_name, &meta.stack, &meta.image);
        let place = places.entry(key).or_insert_with(|| {
            alike.push(in_common(meta));
            alike.len() as u32
        });
        (own(meta, texts), *place)
    });
    (metas.collect(), alike)
}

fn in_common(meta: &TaskMeta) -> pb::TaskMeta {
    pb::TaskMeta {
        service_id: meta.service_id.to_string(),
        service_name: meta.service_name.to_string(),
        stack: meta.stack.to_string(),
        node_id: meta.node_id.to_string(),
        node_name: meta.node_name.to_string(),
        image: meta.image.to_string(),
        ..pb::TaskMeta::default()
    }
}

fn own(meta: &TaskMeta, texts: Texts) -> pb::TaskMeta {
    let bare = pb::TaskMeta {
        task_id: meta.task_id.to_string(),
        started_at_ms: meta.started_at,
        shares_netns: meta.shares_netns,
        ..pb::TaskMeta::default()
    };
    if texts == Texts::Groups {
        return bare;
    }
    pb::TaskMeta {
        task_name: meta.task_name.to_string(),
        slot: meta.slot.to_string(),
        container_id: meta.container_id.to_string(),
        labels: meta.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        ..bare
    }
}

/// What tasks have in common, as read: each text once, however many share it.
pub(super) struct Alike {
    service_id: ServiceId,
    service_name: Arc<str>,
    stack: Arc<str>,
    node_id: NodeId,
    node_name: Arc<str>,
    image: Arc<str>,
}

impl TryFrom<pb::TaskMeta> for Alike {
    type Error = WireError;
    fn try_from(meta: pb::TaskMeta) -> Result<Self, WireError> {
        Ok(Alike {
            service_id: ServiceId::new(meta.service_id)?,
            service_name: text("service name", meta.service_name)?,
            stack: text("stack", meta.stack)?,
            node_id: NodeId::new(meta.node_id)?,
            node_name: text("node name", meta.node_name)?,
            image: text("image", meta.image)?,
        })
    }
}

/// A task's texts, with those that it has in common with others.
pub(super) fn meta_of(meta: pb::TaskMeta, place: u32, alike: &[Alike]) -> Result<TaskMeta, WireError> {
    if place == 0 {
        return meta.try_into();
    }
    let alike = alike.get(place as usize - 1).ok_or(WireError::Lacks("texts that a task shares"))?;
    Ok(TaskMeta {
        task_id: TaskId::new(meta.task_id)?,
        task_name: text("task name", meta.task_name)?,
        slot: text("slot", meta.slot)?,
        service_id: alike.service_id.clone(),
        service_name: alike.service_name.clone(),
        stack: alike.stack.clone(),
        node_id: alike.node_id.clone(),
        node_name: alike.node_name.clone(),
        container_id: text("container id", meta.container_id)?,
        image: alike.image.clone(),
        started_at: meta.started_at_ms,
        labels: if meta.labels.is_empty() { Labels::new() } else { labels(meta.labels)? },
        shares_netns: meta.shares_netns,
    })
}

/// How an asker names what it can do with.
pub(super) fn texts_of(texts: Texts) -> pb::Texts {
    match texts {
        Texts::Whole => pb::Texts::Whole,
        Texts::Shared => pb::Texts::Shared,
        Texts::Groups => pb::Texts::Groups,
    }
}

impl From<pb::Texts> for Texts {
    fn from(texts: pb::Texts) -> Self {
        match texts {
            pb::Texts::Whole => Texts::Whole,
            pb::Texts::Shared => Texts::Shared,
            pb::Texts::Groups => Texts::Groups,
        }
    }
}

//! What is remembered of a key, and when it was seen.

use crate::model::{Millis, Nanos, ServiceId};
use crate::view::{NodeView, RowView};
use std::sync::Arc;

/// A moment on the clock of `now`; signed, for things may be older than that clock.
pub(super) type Moment = i128;

const NANOS_PER_MILLI: Moment = 1_000_000;

pub(super) fn heard_at(now: Nanos, age: Millis) -> Moment {
    Moment::from(now) - Moment::from(age) * NANOS_PER_MILLI
}

pub(super) fn age_at(now: Nanos, heard: Moment) -> Millis {
    Millis::try_from((Moment::from(now) - heard) / NANOS_PER_MILLI).unwrap_or(0)
}

/// When a key was read last, and in which reads (by number) it was returned at all and returned fresh.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) heard: Moment,
    pub(super) returned: u64,
    pub(super) fresh: u64,
}

impl Seen {
    pub(super) fn new(read: u64, fresh: bool, heard: Moment) -> Seen {
        Seen { heard, returned: read, fresh: if fresh { read } else { 0 } }
    }
    pub(super) fn note(&mut self, read: u64, fresh: bool, heard: Moment) {
        self.heard = self.heard.max(heard);
        self.returned = read;
        if fresh {
            self.fresh = read;
        }
    }
}

pub(super) struct KnownNode {
    pub(super) epoch: u64,
    /// The highest epoch that counted before and does not any more: what is not above it must prove that it lives.
    pub(super) void: u64,
    pub(super) name: Arc<str>,
    /// Of anything of this epoch that came from the node.
    pub(super) heard: Moment,
    /// The node's own row; `None` while only its rows or tasks were seen.
    pub(super) row: Option<(NodeView, Seen)>,
    /// A row was kept that is newer than the list and not on it: the next list decides.
    pub(super) ahead: bool,
}

impl KnownNode {
    pub(super) fn new(epoch: u64, name: &Arc<str>, heard: Moment) -> KnownNode {
        KnownNode { epoch, void: 0, name: name.clone(), heard, row: None, ahead: false }
    }
    /// Another epoch counts from here on.
    pub(super) fn turn(&mut self, epoch: u64, name: &Arc<str>, heard: Moment) {
        let void = self.void.max(self.epoch);
        *self = KnownNode { void, ..KnownNode::new(epoch, name, heard) };
    }
    pub(super) fn lists(&self, service: &ServiceId) -> bool {
        self.row.as_ref().is_none_or(|(node, _)| node.meta.services.contains(service))
    }
    /// Whether a row is still one of this node's: of its epoch, and listed unless newer than the list.
    pub(super) fn keeps(&self, row: &RowView) -> bool {
        row.version.epoch == self.epoch
            && (self.lists(&row.meta.service_id)
                || self.row.as_ref().is_none_or(|(node, _)| node.version < row.version))
    }
}

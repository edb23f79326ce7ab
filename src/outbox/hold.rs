//! What a shipper answers for its own node, straight from its books.

use super::Outbox;
use crate::figures::NEEDED;
use crate::model::{Gen, MemberId, Nanos};
use crate::view::{Ask, Holding, NodeView, RowView, TaskView};

impl Outbox {
    /// What it holds of what is asked; `member` and `gen` are how this process calls itself.
    pub fn hold(&self, ask: &Ask, member: MemberId, gen_: Gen, now: Nanos) -> Holding {
        let (version, books) = (self.version(), &self.books);
        let stale_after = 3 * self.books.pace;
        let age = now.saturating_sub(books.monotonic);
        let round_is_fresh = books.q > 0 && age <= stale_after;
        let task = |task: &super::rows::Task| TaskView {
            meta: task.meta.clone(),
            version,
            fresh: round_is_fresh && !task.unread,
            ended: false,
            primary: true,
            age: now.saturating_sub(task.read) / 1_000_000,
            values: task.values.masked(ask.stats | NEEDED),
            monotonic: task.read,
            previous: task.previous.clone(),
            points: Vec::new(),
        };
        let row = |row: &super::rows::Row| RowView {
            meta: row.meta.clone(),
            version,
            fresh: round_is_fresh,
            age: age / 1_000_000,
            primary: true,
            values: row.values.clone(),
            counts: row.counts.clone(),
        };
        let node = NodeView {
            meta: books.node.clone(),
            version,
            fresh: round_is_fresh,
            age: age / 1_000_000,
            primary: true,
            values: books.machine.clone(),
            monotonic: books.monotonic,
            previous: books.machine_before.clone(),
        };
        let asked = |takes: &dyn Fn(&crate::view::Selector) -> bool| ask.selectors.iter().any(takes);
        Holding {
            member,
            gen_,
            ring_id: self.ring_id(),
            young: false,
            forgot: false,
            tasks: books.tasks.values().filter(|task| asked(&|s| s.takes_task(&task.meta))).map(task).collect(),
            rows: books.rows.values().filter(|row| asked(&|s| s.takes_row(&row.meta))).map(row).collect(),
            nodes: vec![node],
            swarm: None,
        }
    }
}

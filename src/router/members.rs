//! Who the members are and how they do, asked of each at once: for people who look at the ring.

use super::{Asking, Membership, QueryError, Router};
use crate::discovery::Identity;
use crate::model::{Key, MemberId};
use crate::view::{Ask, Holding, Selector};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::timeout;

impl Router {
    /// Each other member's word on itself, or why there is none by the deadline of a query. Suspects are asked as well:
    /// whoever looks wants to know.
    pub async fn identities(&self) -> BTreeMap<MemberId, Result<Identity, String>> {
        let view = self.view();
        let asked = view.peers.iter().map(|(member, peer)| (member.clone(), peer.identify()));
        self.ask_each(asked).await
    }

    /// The membership as another member sees it; `None` where it is not one of ours.
    pub async fn membership_of(&self, member: &MemberId) -> Option<Result<Membership, String>> {
        let peer = self.view().peers.get(member)?.clone();
        let asked = std::iter::once((member.clone(), peer.membership()));
        let seen = self.ask_each(asked).await.remove(member)?;
        Some(seen.and_then(|seen| match seen.member.as_ref().filter(|other| *other != member) {
            None => Ok(seen),
            Some(other) => Err(format!("at its address answers member {other}")),
        }))
    }

    /// The members that claim the lease of a key: one, or none while it passes from one to another.
    pub async fn emitting(&self, key: &Key) -> Vec<MemberId> {
        let selector = match key {
            Key::Task(task) => Selector { task: Some(task.as_str().into()), ..Selector::default() },
            // Node rows are in every answer.
            Key::Node(node) => Selector { node: Some(node.as_str().into()), ..Selector::default() },
            Key::Row(node, service) => Selector {
                node: Some(node.as_str().into()),
                service: Some(service.as_str().into()),
                ..Selector::default()
            },
        };
        let ask = Arc::new(Ask::of(vec![selector]));
        let view = self.view();
        let asked = view.peers.iter().map(|(member, peer)| (member.clone(), peer.ask(ask.clone())));
        let mut holdings = self.ask_each(asked).await;
        if let Some((member, store)) = &self.0.own {
            holdings.insert(member.clone(), Ok(store.hold(&ask)));
        }
        let emits = |holding: &Holding| match key {
            Key::Task(task) => holding.tasks.iter().any(|held| held.primary && held.meta.task_id == *task),
            Key::Node(node) => holding.nodes.iter().any(|held| held.primary && held.meta.node_id == *node),
            Key::Row(node, service) => holding
                .rows
                .iter()
                .any(|held| held.primary && held.meta.node_id == *node && held.meta.service_id == *service),
        };
        holdings.into_iter().filter(|(_, answer)| answer.as_ref().is_ok_and(emits)).map(|(member, _)| member).collect()
    }

    async fn ask_each<T: Send + 'static>(
        &self,
        asked: impl Iterator<Item = (MemberId, Asking<T>)>,
    ) -> BTreeMap<MemberId, Result<T, String>> {
        let deadline = self.0.config.query_deadline;
        // It counts as a query.
        let Ok(_slot) = self.0.slots.try_acquire() else {
            let busy = QueryError::Busy(self.0.config.max_queries).to_string();
            return asked.map(|(member, _)| (member, Err(busy.clone()))).collect();
        };
        let mut asks = JoinSet::new();
        for (member, question) in asked {
            asks.spawn(async move {
                let late = || format!("no answer within {}", super::words(deadline));
                (member, timeout(deadline, question).await.unwrap_or_else(|_| Err(late())))
            });
        }
        let mut told = BTreeMap::new();
        while let Some(answer) = asks.join_next().await {
            // A panic in a peer is its silence.
            told.extend(answer.ok());
        }
        told
    }
}

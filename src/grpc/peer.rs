//! Other members as the router asks them: GetStats with scope LOCAL, once.

use super::client::{self, connect_lazily, words};
use crate::discovery::{Identity, Seen, Trouble};
use crate::model::{MemberId, NameError, NodeId, RingId};
use crate::router::{Asking, Membership, Peer, View};
use crate::shard::Member;
use crate::view::{Ask, Holding};
use crate::wire::{self, pb};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// The largest answer taken from a member: some 100,000 tasks.
const MAX_ANSWER: usize = 64 << 20;

/// A member behind a connection that is made when needed.
struct RemotePeer(Channel);

impl Peer for RemotePeer {
    fn ask(&self, ask: Arc<Ask>) -> Asking {
        let client = pb::query_client::QueryClient::new(self.0.clone()).max_decoding_message_size(MAX_ANSWER);
        Box::pin(once(client, ask))
    }

    fn identify(&self) -> Asking<Identity> {
        Box::pin(client::identify_by(self.0.clone()))
    }

    fn membership(&self) -> Asking<Membership> {
        let mut client = pb::query_client::QueryClient::new(self.0.clone());
        Box::pin(async move {
            let asked = pb::ResolveRequest { key: None, emitting: false };
            let answer = client.resolve(asked).await.map_err(|status| words(&status))?.into_inner();
            let member = |member: pb::RingMember| {
                let node = (!member.node.is_empty()).then(|| NodeId::new(&member.node)).transpose();
                Ok::<_, NameError>((Member { id: MemberId::new(&member.id)?, node: node? }, member.addr))
            };
            let members: Result<Vec<_>, _> = answer.members.into_iter().map(member).collect();
            let unread = |error: NameError| format!("its answer cannot be read: {error}");
            let members = members.map_err(unread)?;
            let named = !answer.member.is_empty();
            let member = named.then(|| MemberId::new(answer.member)).transpose().map_err(unread)?;
            Ok(Membership { member, ring_id: RingId(answer.ring_id), replicas: answer.replicas, members })
        })
    }
}

async fn once(mut client: pb::query_client::QueryClient<Channel>, ask: Arc<Ask>) -> Result<Holding, String> {
    let subscription = pb::Subscription { id: 1, scope: pb::Scope::Local.into(), ..wire::subscription(&ask) };
    let request = pb::GetStatsRequest { add: vec![subscription], remove: Vec::new() };
    let answers = client.get_stats(tokio_stream::once(request)).await.map_err(|status| words(&status))?;
    let answer = answers.into_inner().message().await.map_err(|status| words(&status))?;
    match answer.and_then(|answer| answer.message) {
        Some(pb::get_stats_response::Message::Snapshot(snapshot)) => {
            wire::holding(snapshot).map_err(|error| format!("its answer cannot be read: {error}"))
        }
        Some(pb::get_stats_response::Message::Error(error)) => Err(error),
        None => Err("it gave no answer".to_string()),
    }
}

/// Turns discovery's views into the router's: a connection per member and address, kept while both stay.
pub async fn follow_peers(
    mut seen: Seen,
    mut trouble: Trouble,
    own: Option<MemberId>,
    view: watch::Sender<Arc<View>>,
    stop: CancellationToken,
) {
    let mut connections: BTreeMap<(MemberId, String), Arc<dyn Peer>> = BTreeMap::new();
    loop {
        if let Some(found) = seen.borrow_and_update().clone() {
            let trouble = trouble.borrow_and_update().clone();
            let mut next = View { ring: Some(found.ring.clone()), trouble, ..View::default() };
            let mut kept = BTreeMap::new();
            for (id, member) in &found.members {
                let address = member.addr.to_string();
                next.addresses.insert(id.clone(), address.clone());
                if own.as_ref() == Some(id) {
                    continue;
                }
                let key = (id.clone(), address);
                let peer = match connections.remove(&key) {
                    Some(peer) => peer,
                    None => match connect_lazily(&member.addr) {
                        Ok(channel) => Arc::new(RemotePeer(channel)) as Arc<dyn Peer>,
                        Err(error) => {
                            tracing::error!(member = %id, address = %member.addr, error, "no address to connect to");
                            continue;
                        }
                    },
                };
                next.peers.insert(id.clone(), peer.clone());
                kept.insert(key, peer);
            }
            connections = kept;
            view.send_replace(Arc::new(next));
        }
        // Cancel-safe, both.
        tokio::select! {
            () = stop.cancelled() => return,
            changed = seen.changed() => if changed.is_err() { return },
            changed = trouble.changed() => if changed.is_err() { return },
        }
    }
}

//! Bequeath: how the points of a collector that leaves get to the owners of its tasks (client), which take them (server).

use super::client::{connect, words};
use super::ingest::refusal;
use crate::collector::Collector;
use crate::config::Address;
use crate::discovery::View;
use crate::message::Bequest;
use crate::model::{Key, MemberId, TaskId};
use crate::wire::pb;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

/// How long a member that leaves may take between two messages; it has a few seconds for all of them.
const NEXT: Duration = Duration::from_secs(5);

/// Gives the points to all owners of the tasks and their reserve, until `end` at most.
pub async fn bequeath(collector: &Collector, view: &Arc<View>, end: Instant) {
    let mut given = JoinSet::new();
    for (id, member) in view.members.iter().filter(|(id, _)| *id != collector.member()) {
        let (collector, view) = (collector.clone(), view.clone());
        let (id, address) = (id.clone(), member.addr.clone());
        given.spawn(async move {
            match timeout_at(end, give(collector, view, id.clone(), address)).await {
                Ok(Ok(n_tasks)) => tracing::info!(member = %id, n_tasks, "it has the older points of these tasks"),
                Ok(Err(error)) => tracing::warn!(member = %id, error, "it has not taken the older points of its tasks"),
                Err(_) => tracing::warn!(member = %id, "it has not taken the older points of its tasks in time"),
            }
        });
    }
    while given.join_next().await.is_some() {}
}

async fn give(collector: Collector, view: Arc<View>, to: MemberId, address: Address) -> Result<u64, String> {
    let mut client = pb::ingest_client::IngestClient::new(connect(&address).await?);
    let (messages, outbound) = mpsc::channel(2);
    let made = async move {
        for node in collector.nodes() {
            let goes = |id: &TaskId| view.ring.owners_and_reserve(&Key::Task(id.clone())).any(|owner| *owner == to);
            for bequest in collector.bequests(&node, goes) {
                if messages.send(pb::Bequest::from(&bequest)).await.is_err() {
                    return;
                }
            }
        }
    };
    let (answer, ()) = tokio::join!(client.bequeath(ReceiverStream::new(outbound)), made);
    match answer {
        Ok(answer) => Ok(answer.into_inner().tasks),
        Err(status) if status.code() == Code::Unimplemented => Err("it is of an earlier version".into()),
        Err(status) => Err(words(&status)),
    }
}

/// The taking side.
pub(super) async fn inherit(collector: &Collector, mut given: Streaming<pb::Bequest>) -> Result<u64, Status> {
    let _permit = collector.admit_stream().map_err(refusal)?;
    let mut n_tasks = 0;
    loop {
        let next = timeout(NEXT, given.message()).await;
        let Some(next) = next.map_err(|_| Status::deadline_exceeded("no more points came within 5 s"))?? else {
            return Ok(n_tasks);
        };
        let bequest = Bequest::try_from(next).map_err(|error| Status::invalid_argument(error.to_string()))?;
        n_tasks += collector.inherit(&bequest) as u64;
    }
}

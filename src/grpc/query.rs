//! GetStats, GetMetrics, Resolve and Identify: what everybody asks.

use crate::discovery::Identity;
use crate::message::HASH_VERSION;
use crate::metrics::own::{Bound, CommonMetrics};
use crate::model::{Gen, Key, MemberId, NodeId, RingId, ServiceId, TaskId};
use crate::router::{QueryError, Router};
use crate::subscriptions::{Due, SubscribeError, Subscription, Subscriptions};
use crate::view::{Report, Scope, Standing};
use crate::wire::{self, pb};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};

/// A subscriber that takes nothing for so long is gone.
const TAKE_DEADLINE: Duration = Duration::from_secs(30);

/// The longest answer to GetMetrics, in bytes.
const MAX_METRICS: usize = 64 << 20;

/// Who this process is.
#[derive(Clone)]
pub struct Who {
    /// The member.
    pub member: MemberId,
    /// This process of it.
    pub gen_: Gen,
    /// The Swarm node it runs on, if configured.
    pub node: Option<NodeId>,
    /// R.
    pub replicas: u8,
    /// `collector`, `router`, `shipper`.
    pub roles: Vec<&'static str>,
    /// How it is at the moment.
    pub standing: Arc<dyn Fn() -> Standing + Send + Sync>,
}

impl Who {
    /// The same as it is told over gRPC.
    pub fn identity(&self, ring_id: RingId) -> Identity {
        Identity {
            member: self.member.clone(),
            gen_: self.gen_,
            node: self.node.clone(),
            ring_id,
            replicas: self.replicas.into(),
            hash_version: HASH_VERSION,
            roles: self.roles.iter().map(ToString::to_string).collect(),
            standing: (self.standing)(),
        }
    }
}

/// The api that everybody asks.
#[derive(Clone)]
pub struct QueryApi {
    /// Answers.
    pub router: Router,
    /// For Identify.
    pub who: Who,
    /// The most subscriptions of a stream.
    pub max_subscriptions: usize,
    /// Counts what that refuses.
    pub common: CommonMetrics,
}

impl std::fmt::Debug for QueryApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryApi").field("member", &self.who.member).finish_non_exhaustive()
    }
}

type Answer = Result<pb::GetStatsResponse, Status>;
type Answers = mpsc::Sender<Answer>;

#[tonic::async_trait]
impl pb::query_server::Query for QueryApi {
    type GetStatsStream = Pin<Box<dyn Stream<Item = Result<pb::GetStatsResponse, Status>> + Send>>;

    async fn get_stats(
        &self,
        request: Request<Streaming<pb::GetStatsRequest>>,
    ) -> Result<Response<Self::GetStatsStream>, Status> {
        let (answers, stream) = mpsc::channel(2);
        let inbound = request.into_inner();
        let pushing = Pushing {
            router: self.router.clone(),
            answers: answers.clone(),
            open: Subscriptions::new(self.max_subscriptions),
            common: self.common.clone(),
            push: None,
        };
        // It ends when the client closes the stream, takes nothing any more, or the connection is closed.
        tokio::spawn(async move {
            if let Err(status) = pushing.run(inbound).await {
                drop(answers.send(Err(status)).await);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn resolve(&self, request: Request<pb::ResolveRequest>) -> Result<Response<pb::ResolveResponse>, Status> {
        use pb::resolve_request::Key as Asked;
        let name = |error: crate::model::NameError| Status::invalid_argument(error.to_string());
        let view = self.router.view();
        let Some(ring) = &view.ring else { return Err(Status::unavailable("no member of the ring is known yet")) };
        let request = request.into_inner();
        let key = match request.key {
            None => None,
            Some(Asked::TaskId(id)) => Some(Key::Task(TaskId::new(id).map_err(name)?)),
            Some(Asked::NodeId(id)) => Some(Key::Node(NodeId::new(id).map_err(name)?)),
            Some(Asked::Row(row)) => {
                Some(Key::Row(NodeId::new(row.node_id).map_err(name)?, ServiceId::new(row.service_id).map_err(name)?))
            }
        };
        let emitting = match &key {
            Some(key) if request.emitting => self.router.emitting(key).await,
            _ => Vec::new(),
        };
        let emitting = emitting.iter().map(ToString::to_string).collect();
        let members = ring.members().iter().map(|member| pb::RingMember {
            id: member.id.to_string(),
            addr: view.addresses.get(&member.id).cloned().unwrap_or_default(),
            node: member.node.as_ref().map(ToString::to_string).unwrap_or_default(),
        });
        let owners = key.iter().flat_map(|key| ring.owners_and_reserve(key)).map(ToString::to_string).collect();
        Ok(Response::new(pb::ResolveResponse {
            ring_id: ring.id().0,
            shard: key.as_ref().map_or(0, |key| u32::from(ring.shard(key))),
            owners,
            replicas: u32::from(ring.replicas()),
            members: members.collect(),
            emitting,
            member: self.who.member.to_string(),
        }))
    }

    async fn identify(&self, _: Request<pb::IdentifyRequest>) -> Result<Response<pb::IdentifyResponse>, Status> {
        let ring_id = self.router.view().ring.as_ref().map_or_else(RingId::default, |ring| ring.id());
        let own = self.who.identity(ring_id);
        Ok(Response::new(pb::IdentifyResponse {
            member: own.member.to_string(),
            r#gen: own.gen_.0,
            node: own.node.as_ref().map(ToString::to_string).unwrap_or_default(),
            ring_id: own.ring_id.0,
            replicas: own.replicas,
            hash_version: own.hash_version,
            roles: own.roles,
            version: env!("CARGO_PKG_VERSION").to_string(),
            state: own.standing.state.as_str().to_string(),
            tasks: own.standing.tasks,
            emitted_tasks: own.standing.emitted,
            rows: own.standing.rows,
            samples: own.standing.samples,
            uptime_ms: own.standing.uptime,
            recent_samples: own.standing.recent.0,
            recent_ms: own.standing.recent.1,
            shippers_elsewhere: own.standing.elsewhere,
        }))
    }

    async fn get_metrics(
        &self,
        request: Request<pb::GetMetricsRequest>,
    ) -> Result<Response<pb::GetMetricsResponse>, Status> {
        let selectors = request.into_inner().selectors;
        let asked = pb::Subscription { selectors, texts: pb::Texts::Shared.into(), ..pb::Subscription::default() };
        let ask = wire::ask(&asked).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let make = |report: Report| (wire::families(&report, MAX_METRICS), report.complete);
        let (families, complete) =
            self.router.answer(ask, Scope::Cluster, make).await.map_err(|error| match error {
                QueryError::Busy(_) => Status::resource_exhausted(error.to_string()),
                QueryError::Ask(_) => Status::invalid_argument(error.to_string()),
                QueryError::NotARouter | QueryError::HoldsNothing => Status::failed_precondition(error.to_string()),
            })?;
        let families = families.map_err(|error| {
            self.common.bounds_refused.of(Bound::MaxMetrics).inc();
            Status::resource_exhausted(error.to_string())
        })?;
        Ok(Response::new(pb::GetMetricsResponse { families, complete }))
    }
}

/// One stream of subscriptions.
struct Pushing {
    router: Router,
    answers: Answers,
    open: Subscriptions,
    common: CommonMetrics,
    /// One push at a time, so that what the client says is heard before each; its removal ends it.
    push: Option<Push>,
}

/// A push in the making.
struct Push {
    id: u64,
    done: bool,
    made: Pin<Box<dyn Future<Output = Made> + Send>>,
}

/// An answer, and the place in the stream that waits for it.
type Made = Result<(Result<pb::Snapshot, QueryError>, mpsc::OwnedPermit<Answer>), Status>;

impl Pushing {
    async fn run(mut self, mut inbound: Streaming<pb::GetStatsRequest>) -> Result<(), Status> {
        let begun = Instant::now();
        let now = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut asking = true;
        loop {
            let due = self.open.next_due().map(|due| begun + Duration::from_nanos(due));
            if !asking && due.is_none() && self.push.is_none() {
                return Ok(()); // nothing is subscribed, and nothing more can be
            }
            // Cancel-safe: a message that was not whole yet stays in the stream's buffer, a push in its place. What the
            // client says comes first: no push follows a removal that is here.
            tokio::select! {
                biased;
                () = self.answers.closed() => return Ok(()),
                message = inbound.message(), if asking => match message? {
                    Some(request) => self.change(request, now()).await?,
                    None => asking = false,
                },
                (push, made) = finished(&mut self.push), if self.push.is_some() => {
                    let (snapshot, place) = made?;
                    self.send_push(push, snapshot, place);
                }
                () = sleep_until(due.unwrap_or(begun)), if due.is_some() && self.push.is_none() => {
                    self.push = self.open.due(now()).map(|due| self.make(due));
                }
            }
        }
    }

    async fn change(&mut self, request: pb::GetStatsRequest, now: u64) -> Result<(), Status> {
        for id in request.remove {
            self.end_push(id);
            self.open.remove(id);
        }
        for added in request.add {
            let id = added.id;
            self.end_push(id); // replaced
            if let Err(error) = self.subscribe(added, now) {
                let message = Some(pb::get_stats_response::Message::Error(error));
                self.send(pb::GetStatsResponse { id, message, done: true }).await?;
            }
        }
        Ok(())
    }

    fn end_push(&mut self, id: u64) {
        self.push.take_if(|push| push.id == id);
    }

    fn subscribe(&mut self, added: pb::Subscription, now: u64) -> Result<(), String> {
        let scope = if added.scope() == pb::Scope::Local { Scope::Local } else { Scope::Cluster };
        let ask = wire::ask(&added).map_err(|error| error.to_string())?;
        let subscription = Subscription { id: added.id, ask, scope, interval: added.interval_ms };
        self.open.add(subscription, now).map_err(|error| {
            if matches!(error, SubscribeError::TooMany(_)) {
                self.common.bounds_refused.of(Bound::MaxSubscriptions).inc();
            }
            error.to_string()
        })
    }

    fn make(&self, due: Due) -> Push {
        let (router, answers) = (self.router.clone(), self.answers.clone());
        let (id, done) = (due.id, due.done);
        let texts = due.ask.texts;
        let made = async move {
            let snapshot = match due.scope {
                Scope::Local => router.hold(&due.ask).map(|holding| wire::held(&holding, texts)),
                Scope::Cluster => router.answer(due.ask, Scope::Cluster, |report| wire::reported(&report, texts)).await,
            };
            Ok((snapshot, taken(answers.reserve_owned()).await?))
        };
        Push { id, done, made: Box::pin(made) }
    }

    fn send_push(&mut self, push: Push, snapshot: Result<pb::Snapshot, QueryError>, place: mpsc::OwnedPermit<Answer>) {
        use pb::get_stats_response::Message;
        let message = match snapshot {
            Ok(snapshot) => Message::Snapshot(snapshot),
            // The next push may succeed again.
            Err(error @ QueryError::Busy(_)) => Message::Error(error.to_string()),
            Err(error) => {
                self.open.remove(push.id);
                Message::Error(error.to_string())
            }
        };
        let done = push.done || !self.open.contains(push.id);
        place.send(Ok(pb::GetStatsResponse { id: push.id, message: Some(message), done }));
    }

    async fn send(&mut self, answer: pb::GetStatsResponse) -> Result<(), Status> {
        taken(self.answers.send(Ok(answer))).await
    }
}

/// Waits for the push, and takes it when it is made. Cancel-safe.
async fn finished(push: &mut Option<Push>) -> (Push, Made) {
    let made = match push {
        Some(push) => push.made.as_mut().await,
        None => std::future::pending().await,
    };
    match push.take() {
        Some(push) => (push, made),
        None => std::future::pending().await, // it was there just above
    }
}

/// What a subscriber that takes its answers lets happen.
async fn taken<T, E>(place: impl Future<Output = Result<T, E>>) -> Result<T, Status> {
    match timeout(TAKE_DEADLINE, place).await {
        Ok(Ok(place)) => Ok(place),
        Ok(Err(_)) => Err(Status::cancelled("the subscriber has gone")),
        Err(_) => Err(Status::deadline_exceeded("the subscriber takes no answers")),
    }
}

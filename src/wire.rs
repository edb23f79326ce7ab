//! Protobuf ↔ the core's own words: the only file, with `grpc`, that names the generated types.
//!
//! It refuses what the model refuses: ids and names by their rules, texts and label sets by their bounds, and a
//! message that lacks what it must have. It deliberately holds no state.

mod answer;
mod bequest;
mod families;
mod swarm;
mod texts;

pub use answer::{ask, held, holding, reported, subscription};
pub use families::families;

use crate::message::{Ack, Aged, Batch, Bye, Greeting, Hello, Hi, Intro, Refused, Unread};
use crate::model::{
    Gen, Labels, MAX_LABEL_VALUE, MAX_LABELS, MAX_NAME, NameError, NodeId, NodeMeta, RingId, RowMeta, ServiceId,
    Subject, TaskId, TaskMeta, bits,
};
use crate::stat::Stat;
use std::sync::Arc;

/// The generated types and apis.
#[allow(missing_docs, unreachable_pub, clippy::all, rust_2018_idioms)]
pub mod pb {
    tonic::include_proto!("swarmstats.v1");
}

/// Why a message is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A part that every version sends is not there.
    #[error("the message has no {0}")]
    Lacks(&'static str),
    /// An id or name that the model refuses.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A text or list beyond its bound.
    #[error("the {0} has {1} entries or bytes, {2} are allowed")]
    TooMuch(&'static str, usize, usize),
    /// A number beyond its range.
    #[error("the {0} is out of range")]
    Range(&'static str),
}

/// A text that may be empty but is bounded and has no control characters.
fn text(what: &'static str, text: String) -> Result<Arc<str>, WireError> {
    if text.is_empty() {
        return Ok(Arc::default());
    }
    if text.len() > MAX_NAME {
        return Err(WireError::TooMuch(what, text.len(), MAX_NAME));
    }
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if !plain && text.chars().any(char::is_control) {
        return Err(NameError::Character(what, text.escape_debug().take(64).collect()).into());
    }
    Ok(text.into())
}

fn labels(labels: std::collections::HashMap<String, String>) -> Result<Labels, WireError> {
    if labels.len() > MAX_LABELS {
        return Err(WireError::TooMuch("label set", labels.len(), MAX_LABELS));
    }
    let bounded = |(name, value): (String, String)| {
        if value.len() > MAX_LABEL_VALUE {
            return Err(WireError::TooMuch("label value", value.len(), MAX_LABEL_VALUE));
        }
        Ok((text("label name", name)?, value.into()))
    };
    labels.into_iter().map(bounded).collect()
}

impl From<&Hello> for pb::Hello {
    fn from(hello: &Hello) -> Self {
        pb::Hello {
            node_id: hello.node_id.to_string(),
            node_name: hello.node_name.to_string(),
            epoch: hello.epoch,
            k: hello.k,
            lease_ms: hello.lease,
            interval_ms: hello.interval,
            stats: hello.stats.clone(),
            ring_id: hello.ring_id.0,
            nonce: hello.nonce,
            replicas: hello.replicas,
            hash_version: hello.hash_version,
        }
    }
}

/// Intervals and leases beyond a day are mistakes, and would overflow in nanoseconds.
const MAX_MS: u64 = 86_400_000;

impl TryFrom<pb::Hello> for Hello {
    type Error = WireError;
    fn try_from(hello: pb::Hello) -> Result<Self, WireError> {
        if hello.interval_ms == 0 || hello.interval_ms > MAX_MS {
            return Err(WireError::Range("interval"));
        }
        if hello.lease_ms == 0 || hello.lease_ms > MAX_MS {
            return Err(WireError::Range("lease"));
        }
        Ok(Hello {
            node_id: NodeId::new(hello.node_id)?,
            node_name: text("node name", hello.node_name)?,
            epoch: hello.epoch,
            k: hello.k,
            lease: hello.lease_ms,
            interval: hello.interval_ms,
            stats: hello.stats,
            ring_id: RingId(hello.ring_id),
            nonce: hello.nonce,
            replicas: hello.replicas,
            hash_version: hello.hash_version,
        })
    }
}

impl From<&Greeting> for pb::UpdateStatsResponse {
    fn from(greeting: &Greeting) -> Self {
        use pb::update_stats_response::Message;
        let message = match greeting {
            Ok(hi) => Message::Hi(pb::Hi {
                r#gen: hi.gen_.0,
                stored: hi.stored,
                exposed: hi.exposed,
                token: hi.token,
                draining: hi.draining,
                ring_id: hi.ring_id.0,
            }),
            Err(refused) => {
                Message::Refused(pb::Refused { highest_epoch: refused.highest_epoch, reason: refused.reason.clone() })
            }
        };
        pb::UpdateStatsResponse { message: Some(message) }
    }
}

impl From<&Ack> for pb::UpdateStatsResponse {
    fn from(ack: &Ack) -> Self {
        let ack = pb::Ack {
            n: ack.n,
            exposed: ack.exposed,
            token: ack.token,
            draining: ack.draining,
            ring_id: ack.ring_id.0,
            advised_interval_ms: ack.advised_interval,
        };
        pb::UpdateStatsResponse { message: Some(pb::update_stats_response::Message::Ack(ack)) }
    }
}

impl From<&Bye> for pb::UpdateStatsResponse {
    fn from(bye: &Bye) -> Self {
        let held = |(service, series): &(ServiceId, u64)| pb::HeldSeries {
            service_id: service.to_string(),
            stats: bits(*series).map(|stat| stat.number() as u32).collect(),
        };
        let bye = pb::Bye { exposed: bye.exposed, scraped: bye.scraped, held: bye.held.iter().map(held).collect() };
        pb::UpdateStatsResponse { message: Some(pb::update_stats_response::Message::Bye(bye)) }
    }
}

impl TryFrom<pb::Bye> for Bye {
    type Error = WireError;
    fn try_from(bye: pb::Bye) -> Result<Self, WireError> {
        let held = |held: pb::HeldSeries| {
            // A stat that is not known here was not sent from here.
            let series = held.stats.iter().filter_map(|number| Stat::from_number(*number));
            let mask = series.fold(0, |mask, stat| mask | stat.bit());
            Ok::<_, WireError>((ServiceId::new(held.service_id)?, mask))
        };
        let held = bye.held.into_iter().map(held).collect::<Result<_, _>>()?;
        Ok(Bye { exposed: bye.exposed, scraped: bye.scraped, held })
    }
}

/// What a collector answers on a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// To the Hello.
    Greeting(Greeting),
    /// To a batch.
    Ack(Ack),
    /// It leaves.
    Bye(Bye),
}

impl TryFrom<pb::UpdateStatsResponse> for Answer {
    type Error = WireError;
    fn try_from(answer: pb::UpdateStatsResponse) -> Result<Self, WireError> {
        use pb::update_stats_response::Message;
        Ok(match answer.message.ok_or(WireError::Lacks("known answer"))? {
            Message::Hi(hi) => Answer::Greeting(Ok(Hi {
                gen_: Gen(hi.r#gen),
                stored: hi.stored,
                exposed: hi.exposed,
                token: hi.token,
                draining: hi.draining,
                ring_id: RingId(hi.ring_id),
            })),
            Message::Refused(refused) => Answer::Greeting(Err(Refused {
                highest_epoch: refused.highest_epoch,
                reason: refused.reason.chars().filter(|c| !c.is_control()).take(500).collect(),
            })),
            Message::Ack(ack) => Answer::Ack(Ack {
                n: ack.n,
                exposed: ack.exposed,
                token: ack.token,
                draining: ack.draining,
                ring_id: RingId(ack.ring_id),
                advised_interval: ack.advised_interval_ms,
            }),
            Message::Bye(bye) => Answer::Bye(bye.try_into()?),
        })
    }
}

impl From<&Batch> for pb::Batch {
    fn from(batch: &Batch) -> Self {
        pb::Batch {
            k: batch.k,
            n: batch.n,
            q: batch.q,
            monotonic_ns: batch.monotonic,
            sent_after_ns: batch.sent_after,
            interval_ms: batch.interval,
            token: batch.token,
            ring_id: batch.ring_id.0,
            base: batch.base,
            intros: batch.intros.iter().map(pb::Intro::from).collect(),
            block: batch.block.clone(),
            moved: batch.moved.clone(),
            ended: batch.ended.clone(),
            drop: batch.drop.clone(),
            unread: batch
                .unread
                .iter()
                .map(|unread| pb::Unread { handle: unread.handle, age_ms: unread.age })
                .collect(),
            aged: batch.aged.iter().map(|aged| pb::Aged { handle: aged.handle, age_ns: aged.age }).collect(),
        }
    }
}

impl TryFrom<pb::Batch> for Batch {
    type Error = WireError;
    fn try_from(batch: pb::Batch) -> Result<Self, WireError> {
        if batch.sent_after_ns > MAX_MS * 1_000_000 || batch.unread.iter().any(|unread| unread.age_ms > 1000 * MAX_MS) {
            return Err(WireError::Range("age"));
        }
        if batch.interval_ms > MAX_MS {
            return Err(WireError::Range("interval"));
        }
        Ok(Batch {
            k: batch.k,
            n: batch.n,
            q: batch.q,
            monotonic: batch.monotonic_ns,
            sent_after: batch.sent_after_ns,
            interval: batch.interval_ms,
            token: batch.token,
            ring_id: RingId(batch.ring_id),
            base: batch.base,
            intros: batch.intros.into_iter().map(Intro::try_from).collect::<Result<_, _>>()?,
            block: batch.block,
            moved: batch.moved,
            ended: batch.ended,
            drop: batch.drop,
            unread: batch.unread.iter().map(|unread| Unread { handle: unread.handle, age: unread.age_ms }).collect(),
            aged: batch.aged.iter().map(|aged| Aged { handle: aged.handle, age: aged.age_ns }).collect(),
        })
    }
}

impl From<&Intro> for pb::Intro {
    fn from(intro: &Intro) -> Self {
        use pb::intro::Subject as Pb;
        let subject = match &intro.subject {
            Subject::Task(meta) => Pb::Task(meta.as_ref().into()),
            Subject::Row(meta) => Pb::Row(meta.as_ref().into()),
            Subject::Node(meta) => Pb::Node(meta.as_ref().into()),
        };
        pb::Intro { handle: intro.handle, subject: Some(subject) }
    }
}

impl TryFrom<pb::Intro> for Intro {
    type Error = WireError;
    fn try_from(intro: pb::Intro) -> Result<Self, WireError> {
        use pb::intro::Subject as Pb;
        let subject = match intro.subject.ok_or(WireError::Lacks("known subject"))? {
            Pb::Task(meta) => Subject::Task(Arc::new(meta.try_into()?)),
            Pb::Row(meta) => Subject::Row(Arc::new(meta.try_into()?)),
            Pb::Node(meta) => Subject::Node(Arc::new(meta.try_into()?)),
        };
        Ok(Intro { handle: intro.handle, subject })
    }
}

impl From<&TaskMeta> for pb::TaskMeta {
    fn from(meta: &TaskMeta) -> Self {
        pb::TaskMeta {
            task_id: meta.task_id.to_string(),
            task_name: meta.task_name.to_string(),
            slot: meta.slot.to_string(),
            service_id: meta.service_id.to_string(),
            service_name: meta.service_name.to_string(),
            stack: meta.stack.to_string(),
            node_id: meta.node_id.to_string(),
            node_name: meta.node_name.to_string(),
            container_id: meta.container_id.to_string(),
            image: meta.image.to_string(),
            started_at_ms: meta.started_at,
            labels: meta.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            shares_netns: meta.shares_netns,
        }
    }
}

impl TryFrom<pb::TaskMeta> for TaskMeta {
    type Error = WireError;
    fn try_from(meta: pb::TaskMeta) -> Result<Self, WireError> {
        Ok(TaskMeta {
            task_id: TaskId::new(meta.task_id)?,
            task_name: text("task name", meta.task_name)?,
            slot: text("slot", meta.slot)?,
            service_id: ServiceId::new(meta.service_id)?,
            service_name: text("service name", meta.service_name)?,
            stack: text("stack", meta.stack)?,
            node_id: NodeId::new(meta.node_id)?,
            node_name: text("node name", meta.node_name)?,
            container_id: text("container id", meta.container_id)?,
            image: text("image", meta.image)?,
            started_at: meta.started_at_ms,
            labels: labels(meta.labels)?,
            shares_netns: meta.shares_netns,
        })
    }
}

impl From<&RowMeta> for pb::RowMeta {
    fn from(meta: &RowMeta) -> Self {
        pb::RowMeta {
            node_id: meta.node_id.to_string(),
            node_name: meta.node_name.to_string(),
            service_id: meta.service_id.to_string(),
            service_name: meta.service_name.to_string(),
            stack: meta.stack.to_string(),
            since_ms: meta.since,
        }
    }
}

impl TryFrom<pb::RowMeta> for RowMeta {
    type Error = WireError;
    fn try_from(meta: pb::RowMeta) -> Result<Self, WireError> {
        Ok(RowMeta {
            node_id: NodeId::new(meta.node_id)?,
            node_name: text("node name", meta.node_name)?,
            service_id: ServiceId::new(meta.service_id)?,
            service_name: text("service name", meta.service_name)?,
            stack: text("stack", meta.stack)?,
            since: meta.since_ms,
        })
    }
}

impl From<&NodeMeta> for pb::NodeMeta {
    fn from(meta: &NodeMeta) -> Self {
        pb::NodeMeta {
            node_id: meta.node_id.to_string(),
            node_name: meta.node_name.to_string(),
            service_ids: meta.services.iter().map(ToString::to_string).collect(),
            since_ms: meta.since,
        }
    }
}

impl TryFrom<pb::NodeMeta> for NodeMeta {
    type Error = WireError;
    fn try_from(meta: pb::NodeMeta) -> Result<Self, WireError> {
        Ok(NodeMeta {
            node_id: NodeId::new(meta.node_id)?,
            node_name: text("node name", meta.node_name)?,
            services: meta.service_ids.into_iter().map(ServiceId::new).collect::<Result<_, _>>()?,
            since: meta.since_ms,
        })
    }
}

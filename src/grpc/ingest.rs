//! UpdateStats: the collector's side of a stream (server), and the shipper's (client).

use super::bequest;
use super::client::innermost;
use crate::aggregate::{BatchError, HelloError, Stored, StreamId};
use crate::collector::{Collector, NotAdmitted};
use crate::message::{Ack, Batch, Greeting, Hello};
use crate::metrics::own::{StreamEnd, StreamFailed};
use crate::model::Millis;
use crate::wire::{Answer, WireError, pb};
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

/// How long a new stream has to say Hello.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);
/// A stream without a batch for so long is dead: batches come every min(interval, L/3), intervals are a minute at most.
const IDLE: Duration = Duration::from_secs(180);
/// How long a stream that is over waits for a place among its answers, to say why.
const LAST_WORD: Duration = Duration::from_secs(5);

/// The api that shippers speak to.
#[derive(Debug, Clone)]
pub struct IngestApi(pub Collector);

type Answers = mpsc::Sender<Result<pb::UpdateStatsResponse, Status>>;

#[tonic::async_trait]
impl pb::ingest_server::Ingest for IngestApi {
    type UpdateStatsStream = Pin<Box<dyn Stream<Item = Result<pb::UpdateStatsResponse, Status>> + Send>>;

    async fn update_stats(
        &self,
        request: Request<Streaming<pb::UpdateStatsRequest>>,
    ) -> Result<Response<Self::UpdateStatsStream>, Status> {
        let collector = self.0.clone();
        let permit = collector.admit_stream().map_err(refusal)?;
        let (answers, stream) = mpsc::channel(4);
        let inbound = request.into_inner();
        collector.loops().spawn({
            let collector = collector.clone();
            async move {
                if let Err(status) = serve(&collector, inbound, &answers).await {
                    // The peer may be gone already, or read nothing: nobody is left to tell then.
                    drop(timeout(LAST_WORD, answers.send(Err(status))).await);
                }
                drop(permit);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn bequeath(
        &self,
        request: Request<Streaming<pb::Bequest>>,
    ) -> Result<Response<pb::BequeathResponse>, Status> {
        let tasks = bequest::inherit(&self.0, request.into_inner()).await?;
        Ok(Response::new(pb::BequeathResponse { tasks }))
    }
}

/// How an accepted stream ended, and what its shipper is told, if anything.
struct Ended {
    why: StreamEnd,
    status: Option<Status>,
}

impl Ended {
    fn with(why: StreamEnd, status: Status) -> Ended {
        Ended { why, status: Some(status) }
    }
}

/// One stream from its Hello to its end; an error is the status it ends with.
async fn serve(
    collector: &Collector,
    mut inbound: Streaming<pb::UpdateStatsRequest>,
    answers: &Answers,
) -> Result<(), Status> {
    let hello = tokio::select! {
        hello = first(collector, &mut inbound) => hello?,
        () = collector.wait_to_leave() => {
            collector.left_first();
            return Err(refusal(NotAdmitted::Leaving));
        }
    };
    let greeting: Greeting = match collector.hello(&hello) {
        Ok(hi) => Ok(hi),
        Err(HelloError::Old(refused)) => Err(refused),
        Err(error @ HelloError::Incompatible(_)) => return Err(Status::failed_precondition(error.to_string())),
        Err(error @ HelloError::Full(_)) => return Err(Status::resource_exhausted(error.to_string())),
    };
    let greeted = send(answers, (&greeting).into()).await;
    if greeting.is_err() {
        return Ok(());
    }
    let stream = StreamId::of(&hello);
    let ended = match greeted {
        Ok(()) => batches(collector, &stream, hello.interval, inbound, answers)
            .await
            .map_or_else(|ended| ended, |never| match never {}),
        Err(ended) => ended,
    };
    let said = ended.status.as_ref().map_or("", Status::message);
    collector.ended(&stream, ended.why, said);
    ended.status.map_or(Ok(()), Err)
}

/// A stream's hello.
async fn first(collector: &Collector, inbound: &mut Streaming<pb::UpdateStatsRequest>) -> Result<Hello, Status> {
    use pb::update_stats_request::Message;
    let Ok(first) = timeout(HELLO_DEADLINE, inbound.message()).await else {
        collector.silent();
        return Err(Status::deadline_exceeded("no hello came within 5 s"));
    };
    let first = first.inspect_err(|status| {
        if unread(collector, status) == StreamEnd::Malformed {
            collector.malformed_hello();
        }
    })?;
    let Some(Message::Hello(hello)) = first.and_then(|first| first.message) else {
        collector.malformed_hello();
        return Err(Status::invalid_argument("a stream starts with a hello"));
    };
    Hello::try_from(hello).map_err(|error| {
        collector.malformed_hello();
        Status::invalid_argument(error.to_string())
    })
}

/// Takes batches until the stream ends.
async fn batches(
    collector: &Collector,
    stream: &StreamId,
    interval: Millis,
    mut inbound: Streaming<pb::UpdateStatsRequest>,
    answers: &Answers,
) -> Result<Infallible, Ended> {
    let malformed = |text: String| {
        collector.malformed_batch();
        Ended::with(StreamEnd::Malformed, Status::invalid_argument(text))
    };
    let mut leaving = collector.leaving();
    loop {
        // Cancel-safe: a message that was not whole yet stays in the stream's buffer.
        let message = tokio::select! {
            biased;
            bye = leaving.bye(stream) => {
                send(answers, (&bye).into()).await?;
                return Err(Ended { why: StreamEnd::Bye, status: None });
            }
            message = timeout(IDLE, inbound.message()) => message,
        };
        let message = message
            .map_err(|_| Ended::with(StreamEnd::Idle, Status::deadline_exceeded("no batch came for 3 minutes")))?;
        let message = message.map_err(|status| {
            let why = unread(collector, &status);
            if why == StreamEnd::Malformed {
                collector.malformed_batch();
            }
            Ended::with(why, status)
        })?;
        let Some(message) = message else { return Err(Ended { why: StreamEnd::Gone, status: None }) };
        collector.received(wire_len(&message));
        let batch = match message.message {
            Some(pb::update_stats_request::Message::Batch(batch)) => batch,
            Some(pb::update_stats_request::Message::Hello(_)) => {
                return Err(malformed("a stream has one hello: open another stream".into()));
            }
            None => continue, // a later version's message: ignored
        };
        let batch = Batch::try_from(batch).map_err(|error| malformed(error.to_string()))?;
        match collector.batch(stream, &batch).map_err(not_stored)? {
            Stored::Void => {
                let status = Status::aborted("a newer stream of this node is current");
                return Err(Ended::with(StreamEnd::Fenced, status));
            }
            Stored::Acked { ack, .. } => {
                let ack = Ack { advised_interval: collector.advice(interval), ..ack };
                send(answers, (&ack).into()).await?;
            }
        }
    }
}

async fn send(answers: &Answers, answer: pb::UpdateStatsResponse) -> Result<(), Ended> {
    // A peer that reads nothing blocks here, in its own loop only, and not for ever.
    match timeout(IDLE, answers.send(Ok(answer))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Ended::with(StreamEnd::Gone, Status::cancelled("the shipper has gone"))),
        Err(_) => Err(Ended::with(StreamEnd::Unread, Status::deadline_exceeded("the shipper reads no answers"))),
    }
}

/// How many bytes a message has on the wire, the frame's header included.
fn wire_len(message: &pb::UpdateStatsRequest) -> usize {
    prost::Message::encoded_len(message) + 5
}

/// What a message that could not be read ends a stream of: it is too long, or no message, or the connection has a cause
/// of its own.
fn unread(collector: &Collector, status: &Status) -> StreamEnd {
    match status.code() {
        tonic::Code::OutOfRange => {
            collector.too_long();
            StreamEnd::TooLong
        }
        tonic::Code::Internal if std::error::Error::source(status).is_none() => StreamEnd::Malformed,
        tonic::Code::Cancelled => StreamEnd::Gone,
        _ => StreamEnd::Broken,
    }
}

pub(super) fn refusal(why: NotAdmitted) -> Status {
    match why {
        NotAdmitted::Leaving => Status::unavailable("this collector is leaving"),
        NotAdmitted::TooMany(max) => {
            Status::resource_exhausted(format!("{max} streams are open already: raise limits.max_streams"))
        }
    }
}

fn not_stored(error: BatchError) -> Ended {
    let text = error.to_string();
    match error {
        BatchError::Baseline(_)
        | BatchError::Decode(..)
        | BatchError::Handle(..)
        | BatchError::Intro(_)
        | BatchError::Forgotten(_) => Ended::with(StreamEnd::DataLoss, Status::data_loss(text)),
        BatchError::Foreign(..) => Ended::with(StreamEnd::Foreign, Status::permission_denied(text)),
        BatchError::Full(_) => Ended::with(StreamEnd::Full, Status::resource_exhausted(text)),
    }
}

/// The shipper's end of one stream.
#[derive(Debug)]
pub struct UpdateStream {
    batches: mpsc::Sender<pb::UpdateStatsRequest>,
    answers: Streaming<pb::UpdateStatsResponse>,
}

/// Why a stream is not to be had, or ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StreamError {
    /// The other end said so; codes as gRPC's.
    #[error("{0}: {1}")]
    Status(tonic::Code, String),
    /// The connection broke; of what.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// It sent something that cannot be read.
    #[error("its answer cannot be read: {0}")]
    Answer(#[from] WireError),
    /// It closed the stream.
    #[error("it closed the stream")]
    Closed,
}

impl StreamError {
    /// The reason it is counted under.
    pub fn failed(&self) -> StreamFailed {
        use StreamFailed as F;
        use tonic::Code;
        match self {
            StreamError::Answer(_) => F::Unreadable,
            StreamError::Broken(_) => F::Broken,
            StreamError::Closed => F::Closed,
            StreamError::Status(code, _) => match code {
                Code::FailedPrecondition => F::Incompatible,
                Code::ResourceExhausted => F::Full,
                Code::Unavailable => F::Leaving,
                Code::DataLoss => F::DataLoss,
                Code::PermissionDenied => F::Foreign,
                Code::InvalidArgument | Code::OutOfRange => F::Malformed,
                Code::Aborted => F::Fenced,
                _ => F::Closed,
            },
        }
    }
}

impl From<Status> for StreamError {
    fn from(status: Status) -> Self {
        match std::error::Error::source(&status) {
            Some(cause) => StreamError::Broken(innermost(cause)),
            None => {
                let message = status.message().chars().filter(|c| !c.is_control()).take(500).collect();
                StreamError::Status(status.code(), message)
            }
        }
    }
}

impl UpdateStream {
    /// Opens a stream and says Hello; the answer to it comes by [`UpdateStream::next`].
    pub async fn open(channel: Channel, hello: &Hello, max_message: usize) -> Result<UpdateStream, StreamError> {
        let (batches, outbound) = mpsc::channel(2);
        let hello = pb::update_stats_request::Message::Hello(hello.into());
        // The channel was made just above and holds two.
        drop(batches.try_send(pb::UpdateStatsRequest { message: Some(hello) }));
        let mut client = pb::ingest_client::IngestClient::new(channel).max_encoding_message_size(max_message);
        let answers = client.update_stats(ReceiverStream::new(outbound)).await?.into_inner();
        Ok(UpdateStream { batches, answers })
    }

    /// Sends a batch; how many bytes it has on the wire, frame header included.
    pub async fn send(&mut self, batch: &Batch) -> Result<usize, StreamError> {
        let message = pb::UpdateStatsRequest { message: Some(pb::update_stats_request::Message::Batch(batch.into())) };
        let n_bytes = wire_len(&message);
        self.batches.send(message).await.map_err(|_| StreamError::Closed)?;
        Ok(n_bytes)
    }

    /// The next answer.
    pub async fn next(&mut self) -> Result<Answer, StreamError> {
        let answer = self.answers.message().await?.ok_or(StreamError::Closed)?;
        Ok(answer.try_into()?)
    }
}

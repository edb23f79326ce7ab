//! UpdateStats: the collector's side of a stream (server), and the shipper's (client).

use super::client::innermost;
use crate::aggregate::{BatchError, HelloError, Stored, StreamId};
use crate::collector::{Collector, NotAdmitted};
use crate::message::{Batch, Greeting, Hello};
use crate::wire::{Answer, WireError, pb};
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
                    tracing::info!(code = %status.code(), reason = status.message(), "stream refused");
                    // The peer may be gone already: nobody is left to tell then.
                    drop(answers.send(Err(status)).await);
                }
                drop(permit);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// One stream from its Hello to its end; an error is the status it ends with.
async fn serve(
    collector: &Collector,
    mut inbound: Streaming<pb::UpdateStatsRequest>,
    answers: &Answers,
) -> Result<(), Status> {
    use pb::update_stats_request::Message;
    let Ok(first) = timeout(HELLO_DEADLINE, inbound.message()).await else {
        collector.silent();
        return Err(Status::deadline_exceeded("no hello came within 5 s"));
    };
    let first = first.map_err(|status| unread(collector, status, Collector::malformed_hello))?;
    let Some(Message::Hello(hello)) = first.and_then(|first| first.message) else {
        collector.malformed_hello();
        return Err(Status::invalid_argument("a stream starts with a hello"));
    };
    let hello = Hello::try_from(hello).map_err(|error| invalid(collector, &error, Collector::malformed_hello))?;
    let greeting: Greeting = match collector.hello(&hello) {
        Ok(hi) => Ok(hi),
        Err(HelloError::Old(refused)) => Err(refused),
        Err(error @ HelloError::Incompatible(_)) => return Err(Status::failed_precondition(error.to_string())),
        Err(error @ HelloError::Full(_)) => return Err(Status::resource_exhausted(error.to_string())),
    };
    send(answers, (&greeting).into()).await?;
    if greeting.is_err() {
        return Ok(());
    }
    let stream = StreamId::of(&hello);
    let ended = batches(collector, &stream, inbound, answers).await;
    collector.closed(&stream);
    ended
}

async fn batches(
    collector: &Collector,
    stream: &StreamId,
    mut inbound: Streaming<pb::UpdateStatsRequest>,
    answers: &Answers,
) -> Result<(), Status> {
    let mut leaving = collector.leaving();
    loop {
        // Cancel-safe: a message that was not whole yet stays in the stream's buffer.
        let message = tokio::select! {
            biased;
            bye = leaving.bye(stream) => {
                send(answers, (&bye).into()).await?;
                return Ok(());
            }
            message = timeout(IDLE, inbound.message()) => message,
        };
        let message = message.map_err(|_| Status::deadline_exceeded("no batch came for 3 minutes"))?;
        let Some(message) = message.map_err(|status| unread(collector, status, Collector::malformed_batch))? else {
            return Ok(());
        };
        collector.received(wire_len(&message));
        let batch = match message.message {
            Some(pb::update_stats_request::Message::Batch(batch)) => batch,
            Some(pb::update_stats_request::Message::Hello(_)) => {
                collector.malformed_batch();
                return Err(Status::invalid_argument("a stream has one hello: open another stream"));
            }
            None => continue, // a later version's message: ignored
        };
        let batch = Batch::try_from(batch).map_err(|error| invalid(collector, &error, Collector::malformed_batch))?;
        match collector.batch(stream, &batch).map_err(batch_status)? {
            Stored::Void => return Err(Status::aborted("a newer stream of this node is current")),
            Stored::Acked { ack, .. } => send(answers, (&ack).into()).await?,
        }
    }
}

async fn send(answers: &Answers, answer: pb::UpdateStatsResponse) -> Result<(), Status> {
    // A peer that reads nothing blocks here, in its own loop only, and not for ever.
    match timeout(IDLE, answers.send(Ok(answer))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Status::cancelled("the shipper has gone")),
        Err(_) => Err(Status::deadline_exceeded("the shipper reads no answers")),
    }
}

/// How many bytes a message has on the wire, the frame's header included.
fn wire_len(message: &pb::UpdateStatsRequest) -> usize {
    prost::Message::encoded_len(message) + 5
}

/// Counts what came and could not be read: a message that is too long, or bytes that are none. A broken connection, which
/// has a cause of its own, is neither.
fn unread(collector: &Collector, status: Status, malformed: fn(&Collector)) -> Status {
    match status.code() {
        tonic::Code::OutOfRange => collector.too_long(),
        tonic::Code::Internal if std::error::Error::source(&status).is_none() => malformed(collector),
        _ => {}
    }
    status
}

fn invalid(collector: &Collector, error: &WireError, malformed: fn(&Collector)) -> Status {
    malformed(collector);
    Status::invalid_argument(error.to_string())
}

fn refusal(why: NotAdmitted) -> Status {
    match why {
        NotAdmitted::Draining => Status::unavailable("this collector is leaving"),
        NotAdmitted::TooMany(max) => {
            Status::resource_exhausted(format!("{max} streams are open already: raise limits.max_streams"))
        }
    }
}

fn batch_status(error: BatchError) -> Status {
    let text = error.to_string();
    match error {
        BatchError::Baseline(_)
        | BatchError::Decode(..)
        | BatchError::Handle(..)
        | BatchError::Intro(_)
        | BatchError::Forgotten(_) => Status::data_loss(text),
        BatchError::Foreign(..) => Status::permission_denied(text),
        BatchError::Full(_) => Status::resource_exhausted(text),
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

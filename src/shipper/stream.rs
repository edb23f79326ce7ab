//! One stream to one member: Hello, then a batch a round with one in flight, for as long as anything is due there.
//!
//! Each member has a loop of its own, so that one that is slow or frozen delays nobody else. A loop never gives up;
//! what it may not do (order batches, move amounts) it leaves to the outbox.

use super::Shipper;
use crate::clock;
use crate::config::Address;
use crate::grpc::{self, StreamError, UpdateStream};
use crate::model::MemberId;
use crate::retry::Retry;
use crate::wire::Answer;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a connection, a stream's opening and a Hello may take.
const OPEN: Duration = Duration::from_secs(3);
/// The first pause between attempts; the longest is the config's.
const FIRST_RETRY: Duration = Duration::from_millis(100);

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("{0} took longer than {1:?}")]
    Late(&'static str, Duration),
    #[error("it refused the hello: {0}")]
    Refused(String),
    #[error("a new epoch began, which ends all streams")]
    Void,
    #[error("it leaves")]
    Bye,
    #[error("it answered out of turn")]
    OutOfTurn,
    #[error("cannot connect: {0}")]
    Connect(String),
}

/// Keeps a stream to a member until stopped.
pub(super) async fn keep(shipper: Shipper, member: MemberId, stop: CancellationToken) {
    let mut retry = Retry::new(FIRST_RETRY, shipper.longest_pause());
    let mut complained = false;
    loop {
        let Some(address) = shipper.address(&member) else { return };
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = stream(&shipper, &member, &address, &mut retry, &mut complained) => ended,
        };
        match ended {
            Ended::Refused(_) => shipper.metrics().streams_refused.inc(),
            Ended::Bye => {}
            _ => shipper.metrics().streams_failed.inc(),
        }
        // Once per outage; a bye or a void stream is the ordinary course of things.
        if !std::mem::replace(&mut complained, true) {
            tracing::warn!(%member, %address, reason = %ended, "no stream to a collector; trying on");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(retry.next_delay()) => {}
        }
    }
}

async fn stream(
    shipper: &Shipper,
    member: &MemberId,
    address: &Address,
    retry: &mut Retry,
    complained: &mut bool,
) -> Ended {
    match open(shipper, member, address).await {
        Err((k, ended)) => {
            k.into_iter().for_each(|k| shipper.outbox(|outbox| outbox.closed(member, k)));
            ended
        }
        Ok((k, stream)) => {
            shipper.metrics().streams_opened.inc();
            shipper.metrics().streams.inc();
            // Only a stored batch shows that the stream is good: one that is refused for its contents must not be tried
            // again and again at once.
            let proven = || {
                retry.reset();
                if std::mem::take(complained) {
                    tracing::info!(%member, %address, "the stream to a collector is back");
                }
            };
            let ended = match batches(shipper, member, k, stream, proven).await {
                Ok(never) => match never {},
                Err(ended) => ended,
            };
            shipper.metrics().streams.dec();
            shipper.outbox(|outbox| outbox.closed(member, k));
            ended
        }
    }
}

/// A stream whose Hello was accepted; with an error, the number of the stream that has to be closed.
async fn open(
    shipper: &Shipper,
    member: &MemberId,
    address: &Address,
) -> Result<(u64, UpdateStream), (Option<u64>, Ended)> {
    let channel = timeout(OPEN, grpc::connect(address)).await;
    let channel = channel.map_err(|_| (None, Ended::Late("connecting", OPEN)))?;
    let channel = channel.map_err(|error| (None, Ended::Connect(error)))?;
    let hello = shipper.outbox(|outbox| outbox.hello(member));
    let k = hello.k;
    let opened = async {
        let mut stream = UpdateStream::open(channel, &hello, shipper.max_message()).await?;
        let answer = stream.next().await?;
        Ok::<_, StreamError>((stream, answer))
    };
    let opened = timeout(OPEN, opened).await.map_err(|_| (Some(k), Ended::Late("the answer to a hello", OPEN)))?;
    let (stream, answer) = opened.map_err(|error| (Some(k), error.into()))?;
    let Answer::Greeting(greeting) = answer else { return Err((Some(k), Ended::OutOfTurn)) };
    if shipper.outbox(|outbox| outbox.greeted(member, k, &greeting, clock::monotonic(), clock::wall())) {
        shipper.refused();
    }
    match greeting {
        Ok(hi) => {
            shipper.meet_ring(hi.ring_id);
            Ok((k, stream))
        }
        Err(refused) => Err((Some(k), Ended::Refused(refused.reason))),
    }
}

enum Never {}

async fn batches(
    shipper: &Shipper,
    member: &MemberId,
    k: u64,
    mut stream: UpdateStream,
    proven: impl FnOnce(),
) -> Result<Never, Ended> {
    let mut proven = Some(proven);
    let mut rounds = shipper.rounds();
    let ack_deadline = shipper.ack_deadline();
    loop {
        rounds.borrow_and_update();
        if !shipper.outbox(|outbox| outbox.is_current(member, k)) {
            return Err(Ended::Void);
        }
        if let Some(batch) = shipper.outbox(|outbox| outbox.next_batch(member, clock::monotonic())) {
            let sent = timeout(ack_deadline, stream.send(&batch)).await;
            let n_bytes = sent.map_err(|_| Ended::Late("sending a batch", ack_deadline))??;
            shipper.metrics().batches_sent.inc();
            shipper.metrics().bytes_sent.inc_by(n_bytes as u64);
            let answer = timeout(ack_deadline, stream.next()).await;
            let answer = answer.map_err(|_| Ended::Late("the answer to a batch", ack_deadline))??;
            take(shipper, member, k, answer)?;
            if let Some(proven) = proven.take() {
                proven();
            }
            continue;
        }
        // Cancel-safe, all three: a bye may come at any time.
        tokio::select! {
            _ = rounds.changed() => {}
            () = tokio::time::sleep(shipper.beat()) => {}
            answer = stream.next() => take(shipper, member, k, answer?)?,
        }
    }
}

fn take(shipper: &Shipper, member: &MemberId, k: u64, answer: Answer) -> Result<(), Ended> {
    match answer {
        Answer::Ack(ack) => {
            shipper.outbox(|outbox| outbox.acked(member, k, &ack, clock::monotonic()));
            shipper.metrics().batches_acked.inc();
            shipper.meet_ring(ack.ring_id);
            Ok(())
        }
        Answer::Bye(bye) => {
            shipper.outbox(|outbox| outbox.bye(member, k, &bye));
            Err(Ended::Bye)
        }
        Answer::Greeting(_) => Err(Ended::OutOfTurn),
    }
}

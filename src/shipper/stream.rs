//! One stream to one member: Hello, then a batch a round with one in flight, for as long as anything is due there.
//!
//! Each member has a loop of its own, so that one that is slow or frozen delays nobody else. A loop never gives up;
//! what it may not do (order batches, move amounts) it leaves to the outbox. Whatever ends a stream, the outbox and the
//! metrics hear of it; a stream has a greatest age, at which it is opened anew between two batches.

use super::Shipper;
use super::ended::{Ended, is_refusal};
use crate::clock;
use crate::config::Address;
use crate::grpc::{self, UpdateStream};
use crate::metrics::own::StreamFailed;
use crate::model::MemberId;
use crate::retry::{Retry, spread};
use crate::wire::Answer;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// How long a connection, a stream's opening and a Hello may take.
const OPEN: Duration = Duration::from_secs(3);
/// Where this process was frozen, a deadline is over while the answer (or a bye) lies unread: it is looked for so long.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// Keeps a stream to a member until stopped.
pub(super) async fn keep(shipper: Shipper, member: MemberId, stop: CancellationToken) {
    let mut outage = Outage::default();
    let mut retry = Retry::new(shipper.first_pause(), shipper.longest_pause());
    // All shippers hear of a new member at the same time, or are started at the same time.
    let mut pause = retry.next_delay();
    retry.reset();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let Some(address) = shipper.address(&member) else { return };
        let proven = || {
            retry.reset();
            outage.over(&member, &address);
        };
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = stream(&shipper, &member, &address, proven) => ended,
        };
        let Err(ended) = ended;
        if let Some(failed) = ended.failed() {
            shipper.failed(&member, failed, &ended);
            outage.say(&member, &address, failed, &ended);
        } else {
            tracing::info!(%member, %address, reason = %ended, "a stream to a collector ended as it should");
        }
        pause = match ended {
            Ended::Age => {
                shipper.metrics().streams_renewed.inc();
                Duration::ZERO
            }
            _ => retry.next_delay(),
        };
    }
}

/// What was said of a member's outage: each reason once.
#[derive(Default)]
struct Outage(Vec<StreamFailed>);

impl Outage {
    fn say(&mut self, member: &MemberId, address: &Address, failed: StreamFailed, ended: &Ended) {
        if failed == StreamFailed::NewEpoch || self.0.contains(&failed) {
            return;
        }
        self.0.push(failed);
        if is_refusal(failed) {
            tracing::error!(%member, %address, reason = %ended, "a collector refuses this node's reports; trying on");
        } else {
            tracing::warn!(%member, %address, reason = %ended, "no stream to a collector; trying on");
        }
    }

    fn over(&mut self, member: &MemberId, address: &Address) {
        if !std::mem::take(&mut self.0).is_empty() {
            tracing::info!(%member, %address, "the stream to a collector is back");
        }
    }
}

/// A stream from its Hello on. However it ends, by this loop's stop too, the books are told.
struct Line<'a> {
    shipper: &'a Shipper,
    member: &'a MemberId,
    k: u64,
    accepted: bool,
    in_flight: bool,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.shipper.closed(self.member, self.k);
        if self.accepted {
            self.shipper.metrics().streams.dec();
        }
        if self.in_flight {
            self.shipper.metrics().batches_unacked.of(self.member).inc();
        }
    }
}

/// One stream until it ends. `proven` is called when its first batch was stored: only that shows that a stream is good,
/// and one that is refused for its contents must not be tried again and again at once.
async fn stream(
    shipper: &Shipper,
    member: &MemberId,
    address: &Address,
    proven: impl FnOnce(),
) -> Result<Infallible, Ended> {
    let channel = timeout(OPEN, grpc::connect(address)).await.map_err(|_| Ended::ConnectLate(OPEN))?;
    let channel = channel.map_err(Ended::Connect)?;
    let hello = shipper.outbox(|outbox| outbox.hello(member));
    let mut line = Line { shipper, member, k: hello.k, accepted: false, in_flight: false };
    let opened = async {
        let mut stream = UpdateStream::open(channel, &hello, shipper.max_message()).await?;
        let answer = stream.next().await?;
        Ok::<_, Ended>((stream, answer))
    };
    let (stream, answer) = timeout(OPEN, opened).await.map_err(|_| Ended::HelloLate(OPEN))??;
    let Answer::Greeting(greeting) = answer else { return Err(Ended::OutOfTurn) };
    if shipper.outbox(|outbox| outbox.greeted(member, line.k, &greeting, clock::monotonic(), clock::wall())) {
        shipper.refused();
    }
    let hi = greeting.map_err(|refused| Ended::Old(refused.reason))?;
    shipper.meet_ring(hi.ring_id);
    line.accepted = true;
    shipper.metrics().streams_opened.inc();
    shipper.metrics().streams.inc();
    line.batches(stream, proven).await
}

impl Line<'_> {
    async fn batches(&mut self, mut stream: UpdateStream, proven: impl FnOnce()) -> Result<Infallible, Ended> {
        let (shipper, member, k) = (self.shipper, self.member, self.k);
        let mut proven = Some(proven);
        let mut rounds = shipper.rounds();
        let ack_deadline = shipper.ack_deadline();
        let end = Instant::now() + spread(shipper.stream_age());
        loop {
            rounds.borrow_and_update();
            if !shipper.outbox(|outbox| outbox.is_current(member, k)) {
                return Err(Ended::NewEpoch);
            }
            // Nothing is in flight here; and a stream that has stored nothing yet is not given up for its age.
            if proven.is_none() && Instant::now() >= end {
                return Err(Ended::Age);
            }
            if let Some(batch) = shipper.outbox(|outbox| outbox.next_batch(member, clock::monotonic())) {
                self.in_flight = true;
                let exchange = async {
                    let n_bytes = stream.send(&batch).await?;
                    shipper.metrics().batches_sent.of(member).inc();
                    shipper.metrics().bytes_sent.inc_by(n_bytes as u64);
                    Ok::<_, Ended>(stream.next().await?)
                };
                let answer = match timeout(ack_deadline, exchange).await {
                    Ok(answer) => answer?,
                    Err(_) => timeout(LAST_LOOK, stream.next()).await.map_err(|_| Ended::BatchLate(ack_deadline))??,
                };
                // An old acknowledgement answers nothing: nobody would look for the one that is still to come.
                if matches!(&answer, Answer::Ack(ack) if ack.n != batch.n) {
                    return Err(Ended::OutOfTurn);
                }
                self.take(answer)?;
                if let Some(proven) = proven.take() {
                    proven();
                }
                continue;
            }
            // Cancel-safe, all three: a bye may come at any time.
            tokio::select! {
                _ = rounds.changed() => {}
                () = tokio::time::sleep(shipper.beat()) => {}
                answer = stream.next() => self.take(answer?)?,
            }
        }
    }

    fn take(&mut self, answer: Answer) -> Result<(), Ended> {
        let (shipper, member) = (self.shipper, self.member);
        match answer {
            Answer::Ack(ack) => {
                shipper.outbox(|outbox| outbox.acked(member, self.k, &ack, clock::monotonic()));
                self.in_flight = false;
                shipper.acked(member, ack.advised_interval);
                shipper.meet_ring(ack.ring_id);
                Ok(())
            }
            Answer::Bye(bye) => {
                shipper.outbox(|outbox| outbox.bye(member, self.k, &bye));
                self.in_flight = false;
                Err(Ended::Bye)
            }
            Answer::Greeting(_) => Err(Ended::OutOfTurn),
        }
    }
}

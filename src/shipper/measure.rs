//! The shipper's own metrics, set from what it did and holds.

use crate::metrics::ShipperMetrics;
use crate::model::{MemberId, Nanos};
use crate::outbox::{Outbox, OutboxSizes, PeerFigures};
use crate::source::{Faults, Reading, Round};
use crate::stat::CPU;
use std::time::Duration;

/// Counts a sample round; `faults` of this source by now, `before` of it when last counted.
pub(super) fn round(metrics: &ShipperMetrics, round: &Round, faults: &Faults, before: &Faults, took: Duration) {
    metrics.rounds.inc();
    metrics.round_seconds.inc_by(took.as_secs_f64());
    for (_, reading) in &round.readings {
        match reading {
            Reading::Fresh(_) => metrics.samples.inc(),
            Reading::Aged { .. } => metrics.samples_by_engine.inc(),
            Reading::Unread(why) => metrics.unread.named(why.name()).into_iter().for_each(|counter| counter.inc()),
        }
    }
    let unseen = round.ended.iter().filter_map(|ended| ended.unseen_tail);
    unseen.for_each(|tail| metrics.unseen_tail_seconds.inc_by(tail as f64 / 1e9));
    for (fault, n) in faults.iter() {
        if let Some(counter) = metrics.faults.named(fault.name()) {
            counter.inc_by(n.saturating_sub(before.of(fault)));
        }
    }
}

/// What an outbox holds and gave up.
pub(super) struct Held {
    sizes: OutboxSizes,
    interval: Duration,
    peers: Vec<PeerFigures>,
    counts: Counted,
}

/// What an outbox counts from its start on.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counted {
    moves: u64,
    takeovers: u64,
    returned_batches: u64,
    /// CPU nanoseconds.
    returned_cpu: u64,
    unconfirmed_batches: u64,
    /// CPU nanoseconds.
    unconfirmed_cpu: u64,
    /// CPU nanoseconds too old to be handed over.
    dropped_cpu: u64,
}

impl Held {
    pub(super) fn of(outbox: &Outbox, now: Nanos) -> Held {
        let (returned, unconfirmed) = (outbox.returned(), outbox.unconfirmed());
        let counts = Counted {
            moves: outbox.moves(),
            takeovers: outbox.takeovers(),
            returned_batches: returned.batches,
            returned_cpu: returned.amounts.or_zero(CPU),
            unconfirmed_batches: unconfirmed.batches,
            unconfirmed_cpu: unconfirmed.amounts.or_zero(CPU),
            dropped_cpu: outbox.dropped_amounts().or_zero(CPU),
        };
        Held { sizes: outbox.sizes(), interval: outbox.between_rounds(), peers: outbox.peers(now), counts }
    }
}

/// Sets the gauges, and adds to the counters what is not `counted` yet.
pub(super) fn held(metrics: &ShipperMetrics, held: &Held, counted: &mut Counted) {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    metrics.tasks.set(count(held.sizes.tasks));
    metrics.rows.set(count(held.sizes.rows));
    metrics.pooled_rows.set(count(held.sizes.pooled));
    metrics.batches_unexposed.set(count(held.sizes.unexposed));
    metrics.effective_interval.set(held.interval.as_secs_f64());
    metrics.members_usable.set(count(held.peers.iter().filter(|peer| peer.in_ring && peer.usable).count()));
    for peer in &held.peers {
        metrics.batches_owed.of(&peer.member).set(peer.owed_batches as f64);
        metrics.owed_seconds.of(&peer.member).set(peer.owed_for.unwrap_or(0) as f64 / 1e9);
    }
    let (now, before) = (&held.counts, std::mem::replace(counted, held.counts));
    for (counter, now, before) in [
        (&metrics.moves, now.moves, before.moves),
        (&metrics.takeovers, now.takeovers, before.takeovers),
        (&metrics.returned_batches, now.returned_batches, before.returned_batches),
        (&metrics.unconfirmed_batches, now.unconfirmed_batches, before.unconfirmed_batches),
    ] {
        counter.inc_by(now.saturating_sub(before));
    }
    for (counter, now, before) in [
        (&metrics.returned_cpu, now.returned_cpu, before.returned_cpu),
        (&metrics.unconfirmed_cpu, now.unconfirmed_cpu, before.unconfirmed_cpu),
        (&metrics.dropped_cpu, now.dropped_cpu, before.dropped_cpu),
    ] {
        counter.inc_by(now.saturating_sub(before) as f64 / 1e9);
    }
}

/// Takes away what is told of a member that is gone.
pub(super) fn forget(metrics: &ShipperMetrics, member: &MemberId) {
    for counter in [&metrics.batches_sent, &metrics.batches_acked, &metrics.batches_unacked] {
        counter.forget(member);
    }
    for gauge in [&metrics.batches_owed, &metrics.owed_seconds] {
        gauge.forget(member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use crate::source::{Fault, Unread};

    #[test]
    fn every_fault_and_every_reason_of_the_source_has_a_counter() {
        let metrics = ShipperMetrics::register(&Registry::new()).unwrap();
        assert!(Fault::ALL.iter().all(|fault| metrics.faults.named(fault.name()).is_some()));
        assert!(Unread::ALL.iter().all(|why| metrics.unread.named(why.name()).is_some()));
    }
}

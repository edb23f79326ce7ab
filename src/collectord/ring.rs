//! What a process tells of its ring as it changes: metrics, warnings, and discovery's next look.

use crate::config;
use crate::discovery::Seen;
use crate::metrics::ProcessMetrics;
use crate::model::RingId;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Keeps `swarmstats_ring_info` true.
pub(crate) async fn say_ring(mut seen: Seen, process: ProcessMetrics, stop: CancellationToken) {
    let mut before = RingId::default();
    loop {
        let ring = seen.borrow_and_update().as_ref().map(|view| view.ring.clone());
        let ring_id = ring.as_ref().map_or_else(RingId::default, |ring| ring.id());
        // Neither the first ring nor a member's new address is a change.
        process.common.ring_changes.inc_by(ring_id.contradicts(before).into());
        before = ring_id;
        process.set_ring(ring_id);
        let missing = ring.map_or(0, |ring| usize::from(ring.replicas()) - ring.copies());
        process.common.replicas_missing.set(i64::try_from(missing).unwrap_or(i64::MAX));
        tokio::select! {
            () = stop.cancelled() => return,
            changed = seen.changed() => if changed.is_err() { return },
        }
    }
}

/// Warns where the members file leaves this collector out, or has another at its address; a list is refused for it, and in
/// DNS everybody is asked.
pub(super) async fn say_misplaced(cfg: config::Collectord, mut seen: Seen, stop: CancellationToken) {
    let mut said = None;
    loop {
        let members = seen.borrow_and_update().as_ref().map(|view| view.members.values().cloned().collect::<Vec<_>>());
        let why = members.and_then(|list| cfg.misplaced(&list));
        if let Some(why) = why.as_ref().filter(|_| why != said) {
            tracing::warn!("{why}; nobody sends to this process meanwhile");
        }
        said = why;
        tokio::select! {
            () = stop.cancelled() => return,
            changed = seen.changed() => if changed.is_err() { return },
        }
    }
}

/// Counts the members' answers from another ring, and has discovery look again.
pub(super) async fn tell_other_rings(
    mut met: watch::Receiver<u64>,
    process: ProcessMetrics,
    nudge: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut told = 0;
    loop {
        let now = *met.borrow_and_update();
        if now > told {
            process.common.ring_mismatches.inc_by(now - told);
            nudge.notify_one();
            told = now;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = met.changed() => if changed.is_err() { return },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;

    #[tokio::test]
    async fn a_member_of_another_ring_is_counted_and_nudges_discovery() {
        let process = ProcessMetrics::register(&Registry::new()).unwrap();
        let (met, nudge, stop) = (watch::Sender::new(0), Arc::<Notify>::default(), CancellationToken::new());
        let told = tokio::spawn(tell_other_rings(met.subscribe(), process.clone(), nudge.clone(), stop.clone()));
        met.send_modify(|count| *count += 3);
        tokio::time::timeout(std::time::Duration::from_secs(5), nudge.notified()).await.unwrap();
        assert_eq!(process.common.ring_mismatches.get(), 3);
        stop.cancel();
        told.await.unwrap();
    }
}

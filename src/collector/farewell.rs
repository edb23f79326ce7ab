//! How a collector leaves (LEDGER 12): in stages, all of them before one moment.
//!
//! While it hands over it takes streams, answers and is scraped as ever, and its acks say that it drains. Then no scrape
//! begins any more, those under way end, and every stream is told how far its batches were scraped: what is shown after
//! that would be counted a second time elsewhere.

use super::Collector;
use crate::aggregate::StreamId;
use crate::clock;
use crate::message::Bye;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// A collector that was told to show nothing for so long has handed everything over.
const ROLELESS: Duration = Duration::from_secs(2);
/// How often it is looked whether that is so.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How far a process is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Serving,
    /// Not ready, says that it drains, goes on with everything.
    Draining,
    /// No scrape is answered any more and no stream is taken; scrapes under way may still end.
    LastScrapes,
    /// Says Bye on every stream.
    Bye,
}

/// A stream's ear for the process's end.
#[derive(Debug)]
pub struct Leaving {
    stage: watch::Receiver<Stage>,
    collector: Collector,
}

impl Leaving {
    /// Waits until it is time, then says how far the stream's batches were scraped.
    pub async fn bye(&mut self, stream: &StreamId) -> Bye {
        self.wait().await;
        self.collector.aggregate().bye(stream)
    }

    async fn wait(&mut self) {
        // The sender lives in the collector that this holds.
        drop(self.stage.wait_for(|stage| *stage == Stage::Bye).await);
    }
}

impl Collector {
    /// Told when to say Bye.
    pub fn leaving(&self) -> Leaving {
        Leaving { stage: self.0.stage.subscribe(), collector: self.clone() }
    }

    /// Waits until it is time to say Bye.
    pub async fn wait_to_leave(&self) {
        self.leaving().wait().await;
    }

    /// Whether it is there to stay.
    pub fn is_serving(&self) -> bool {
        *self.0.stage.borrow() == Stage::Serving
    }

    /// Not ready any more, and shippers are told to hand over; everything else goes on.
    pub fn drain(&self) {
        self.0.stage.send_replace(Stage::Draining);
        self.aggregate().drain();
    }

    /// Waits until nothing was to be shown here for two seconds, until `end` at most.
    pub async fn handed_over(&self, end: Instant) {
        let mut shown = Instant::now();
        while shown.elapsed() < ROLELESS {
            if Instant::now() >= end {
                let n_roles = self.aggregate().roles(clock::boottime());
                tracing::warn!(n_roles, "some shippers could not hand over in time");
                return;
            }
            tokio::time::sleep_until(end.min(Instant::now() + LOOK_EVERY)).await;
            if self.aggregate().roles(clock::boottime()) > 0 {
                shown = Instant::now();
            }
        }
    }

    /// Lets the scrapes under way end, says Bye on every stream and waits until each has been told, until `end` at most.
    pub async fn leave(&self, end: Instant) {
        {
            // Under the lock, so that a page either is counted already or is not made.
            let _aggregate = self.aggregate();
            self.0.stage.send_replace(Stage::LastScrapes);
        }
        self.0.pages.close();
        let half = Instant::now() + end.saturating_duration_since(Instant::now()) / 2;
        if timeout_at(half, self.0.pages.wait()).await.is_err() {
            tracing::warn!("a scrape did not end in time: what it shows after all may be shown again elsewhere");
        }
        self.0.stage.send_replace(Stage::Bye);
        self.0.loops.close();
        if timeout_at(end, self.0.loops.wait()).await.is_err() {
            tracing::warn!("some shippers could not be told bye in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::collector;
    use super::*;

    fn within(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    #[tokio::test]
    async fn bye_waits_for_the_scrapes_under_way_and_no_other_begins() {
        let collector = collector();
        let (_page, showing) = collector.page().unwrap();
        let leaving = tokio::spawn({
            let collector = collector.clone();
            async move { collector.leave(within(4000)).await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(collector.page().is_none());
        assert_eq!(*collector.0.stage.borrow(), Stage::LastScrapes);
        collector.scraped(showing, true, 0);
        leaving.await.unwrap();
        assert_eq!(*collector.0.stage.borrow(), Stage::Bye);
    }

    #[tokio::test]
    async fn a_scrape_that_never_ends_does_not_hold_up_bye() {
        let collector = collector();
        let _showing = collector.page().unwrap();
        tokio::time::timeout(Duration::from_secs(2), collector.leave(within(200))).await.unwrap();
        assert_eq!(*collector.0.stage.borrow(), Stage::Bye);
    }

    #[tokio::test]
    async fn a_collector_without_roles_is_handed_over_after_two_seconds_and_answers_until_then() {
        let collector = collector();
        collector.drain();
        let begun = Instant::now();
        collector.handed_over(within(8000)).await;
        assert!((2000..4000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        assert!(collector.page().is_some() && collector.admit_stream().is_ok() && !collector.is_serving());
        let begun = Instant::now();
        collector.handed_over(within(300)).await;
        assert!((300..2000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    }
}

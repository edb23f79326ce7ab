//! One member as the shipper deals with it: its process, the current stream, and the amounts it was sent.

use super::amounts::Aged;
use super::crew::Round;
use super::figures::Tally;
use super::rows::Books;
use super::stream::Stream;
use crate::message::{Ack, Batch, Bye, Hi};
use crate::model::{Gen, Key, Nanos, ServiceId, Values};
use crate::rules::{Rule, holds};
use std::collections::{BTreeMap, VecDeque};

/// The amounts of one batch.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) n: u64,
    /// When it was sent.
    pub(super) at: Nanos,
    /// The bucket of its oldest amount: most rounds need not look at the amounts themselves.
    oldest: u64,
    pub(super) amounts: BTreeMap<ServiceId, Aged>,
}

impl Sent {
    fn new(n: u64, at: Nanos, amounts: BTreeMap<ServiceId, Aged>) -> Sent {
        Sent { n, at, oldest: oldest_of(&amounts), amounts }
    }
}

/// Later than every bucket where nothing is left.
fn oldest_of(amounts: &BTreeMap<ServiceId, Aged>) -> u64 {
    amounts.values().filter_map(Aged::oldest).min().unwrap_or(u64::MAX)
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Peer {
    process: Option<Gen>,
    /// The newest stream that its process said Hi to: roles of older ones are over there.
    greeted: Option<u64>,
    stream: Option<Stream>,
    /// Hi received on the current stream.
    ready: bool,
    out: Option<Sent>,
    unexposed: VecDeque<Sent>,
    token: Nanos,
    heard: Nanos,
    acked: u64,
    draining: bool,
}

impl Peer {
    pub(super) fn open(&mut self, k: u64) {
        (self.stream, self.ready) = (Some(Stream::new(k)), false);
    }

    pub(super) fn is_current(&self, k: u64) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.k() == k)
    }

    /// Its process has accepted a stream of this shipper.
    pub(super) fn accepted(&self) -> bool {
        self.process.is_some()
    }

    pub(super) fn close(&mut self) {
        (self.stream, self.ready) = (None, false);
    }

    /// LEDGER 10. Returns what goes back to the pools.
    pub(super) fn hi(&mut self, hi: &Hi, now: Nanos) -> Vec<Sent> {
        let mut back = Vec::new();
        if self.is_another(hi) {
            back.extend(self.unexposed.drain(..));
            back.extend(self.out.take());
        } else if let Some(out) = self.out.take() {
            if out.n <= hi.stored { self.shown_later(out) } else { back.push(out) }
        }
        self.process = Some(hi.gen_);
        self.greeted = self.stream.as_ref().map(Stream::k);
        self.ready = true;
        self.acked = 0;
        self.heard(hi.token, hi.exposed, hi.draining, now);
        back
    }

    /// Whether another process of the member than before says Hi: that one is dead.
    pub(super) fn is_another(&self, hi: &Hi) -> bool {
        self.process.is_some_and(|process| process != hi.gen_)
    }

    /// LEDGER 9.
    pub(super) fn ack(&mut self, ack: &Ack, now: Nanos) {
        if let Some(out) = self.out.take_if(|out| out.n <= ack.n) {
            self.shown_later(out);
        }
        self.acked = self.acked.max(ack.n);
        self.heard(ack.token, ack.exposed, ack.draining, now);
    }

    fn shown_later(&mut self, out: Sent) {
        if !out.amounts.is_empty() && holds(Rule::Exposed) {
            self.unexposed.push_back(out);
        }
    }

    fn heard(&mut self, token: Nanos, exposed: u64, draining: bool, now: Nanos) {
        self.unexposed.retain(|sent| sent.n > exposed);
        (self.token, self.heard, self.draining) = (token, now, draining);
    }

    pub(super) fn bye(&mut self, bye: &Bye) -> Vec<Sent> {
        self.close();
        // Until its member says Hi again, the reserve has its keys, though no ack may have said so.
        self.draining = true;
        (self.process, self.greeted) = (None, None);
        let mut back = self.take_all();
        back.retain(|sent| sent.n > bye.exposed);
        // A scrape had these, but for series of which it showed the first 0 alone.
        for sent in back.iter_mut().filter(|sent| sent.n <= bye.scraped) {
            sent.amounts.retain(|service, amounts| {
                let held = bye.held.iter().find(|(held, _)| held == service);
                amounts.retain(held.map_or(0, |(_, series)| *series));
                !amounts.is_empty()
            });
        }
        back
    }

    /// Everything owed to it.
    pub(super) fn take_all(&mut self) -> Vec<Sent> {
        self.unexposed.drain(..).chain(self.out.take()).collect()
    }

    /// The batch in flight.
    pub(super) fn take_out(&mut self) -> Option<Sent> {
        self.out.take()
    }

    /// Forgets acknowledged amounts that no scrape showed in time.
    pub(super) fn forget_unexposed(&mut self, oldest: u64, unconfirmed: &mut Tally) {
        for sent in self.unexposed.iter_mut().filter(|sent| sent.oldest < oldest) {
            let old = sent.amounts.values_mut().filter_map(|amounts| amounts.drop_older(oldest));
            old.for_each(|old| unconfirmed.amounts.add_all(&old));
            sent.oldest = oldest_of(&sent.amounts);
        }
        let before = self.unexposed.len();
        self.unexposed.retain(|sent| sent.oldest < u64::MAX);
        unconfirmed.batches += (before - self.unexposed.len()) as u64;
    }

    /// What is in flight to it was sent, and nothing was heard of it since, for so long that it will not be settled any more.
    pub(super) fn lost(&self, now: Nanos, max_catch_up: Nanos) -> bool {
        let since = self.out.as_ref().map_or(self.heard, |out| out.at.max(self.heard));
        !self.ready && now.saturating_sub(since) > max_catch_up
    }

    /// Batches with amounts that are not settled.
    pub(super) fn n_owed(&self) -> usize {
        self.unexposed.len() + usize::from(self.out.as_ref().is_some_and(|out| !out.amounts.is_empty()))
    }

    pub(super) fn n_unexposed(&self) -> usize {
        self.unexposed.len()
    }

    /// Nothing is owed to it, and nothing it holds is still on its way elsewhere.
    pub(super) fn settled(&self) -> bool {
        self.out.is_none()
            && self.unexposed.is_empty()
            && self.stream.as_ref().is_none_or(|stream| self.ready && stream.is_empty())
    }

    /// LEDGER 8: Hi received, last ack not longer than L ago, not draining.
    pub(super) fn usable(&self, now: Nanos, lease: Nanos) -> bool {
        self.ready && self.unheard(now) <= lease && !self.draining
    }

    /// How long ago its last Hi or ack was received.
    pub(super) fn unheard(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.heard)
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining
    }

    pub(super) fn process(&self) -> Option<Gen> {
        self.process
    }

    pub(super) fn greeted(&self) -> Option<u64> {
        self.greeted
    }

    /// The last batch acknowledged on the current stream.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    pub(super) fn due(&self, q: u64, now: Nanos, beat: Nanos) -> bool {
        q > 0 && self.ready && self.out.is_none() && self.stream.as_ref().is_some_and(|stream| stream.due(q, now, beat))
    }

    /// It has acknowledged the key's introduction, and is told of it.
    pub(super) fn has_acked(&self, key: &Key) -> bool {
        self.ready && self.stream.as_ref().is_some_and(|stream| stream.introduced(key).is_some_and(|n| n <= self.acked))
    }

    /// Since when the oldest of its amounts is owed.
    pub(super) fn owed_since(&self) -> Option<Nanos> {
        self.unexposed.front().or(self.out.as_ref().filter(|out| !out.amounts.is_empty())).map(|sent| sent.at)
    }

    /// Makes the next batch; the caller has checked that it is due.
    pub(super) fn batch(&mut self, books: &mut Books, round: &Round<'_>) -> Option<Batch> {
        let (batch, amounts) = self.stream.as_mut()?.batch(books, round, self.token);
        self.out = Some(Sent::new(round.n, round.now, amounts));
        Some(batch)
    }
}

impl Peer {
    pub(super) fn owed(&self) -> Vec<(Gen, u64, BTreeMap<ServiceId, Values>)> {
        let Some(process) = self.process else { return Vec::new() };
        let totals = |sent: &Sent| sent.amounts.iter().map(|(service, aged)| (service.clone(), aged.total())).collect();
        self.unexposed.iter().chain(&self.out).map(|sent| (process, sent.n, totals(sent))).collect()
    }
}

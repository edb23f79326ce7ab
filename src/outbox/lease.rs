//! Who may show a key: at most one process at any time (LEDGER 14–18 from the shipper's side).
//!
//! A key's lease is on one stream, which stands for one process. It is free again when that process acknowledged a
//! batch that says role 0, greeted a newer stream (its roles ended with that Hello), said Bye or was replaced, or when
//! nothing was heard of it for longer than L: its own lease, counted from the token it sent, ended before.
//!
//! Nothing here looks at a clock of its own, and an expired lease need not be collected: it is looked at when somebody
//! else could have it. If its process is heard again before that, it goes on.

use super::crew::Round;
use crate::model::{Gen, MemberId};
use crate::rules::{Rule, holds};

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub(super) struct Lease(Option<Grant>);

#[derive(Debug, Clone)]
struct Grant {
    member: MemberId,
    process: Option<Gen>,
    /// The stream on which its process was told role 1.
    k: u64,
    /// The first batch since that says role 0.
    revoked: Option<u64>,
}

/// How a lease stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Held,
    /// Nobody had it, or its holder gave it back: it acknowledged role 0, or greeted a newer stream.
    Free,
    /// Its holder is dead, gone, or unheard of.
    Lost,
}

impl Lease {
    /// What the member that a batch is for shall be told of a key: its role. `first`: it is the key's first usable copy,
    /// or there is none (`None`).
    pub(super) fn role(&mut self, first: Option<bool>, round: &Round<'_>, takeovers: &mut u64) -> bool {
        let mine = self.0.as_ref().is_some_and(|grant| grant.k == round.k && grant.revoked.is_none());
        match first {
            Some(true) if mine => true,
            Some(true) => {
                let state = self.state(round);
                let free = state != State::Held || !holds(Rule::WaitForHolder);
                if free && round.granting {
                    *takeovers += u64::from(state == State::Lost);
                    self.0 =
                        Some(Grant { member: round.member.clone(), process: round.process, k: round.k, revoked: None });
                }
                free && round.granting
            }
            // Nobody better is there: it goes on.
            None => mine,
            Some(false) => {
                self.revoke(round);
                false
            }
        }
    }

    /// The batch says role 0, whatever way: the key moved, is dropped or is over.
    pub(super) fn revoke(&mut self, round: &Round<'_>) {
        if let Some(grant) = self.0.as_mut().filter(|grant| grant.k == round.k) {
            grant.revoked.get_or_insert(round.n);
        }
    }

    /// It was granted on this stream.
    pub(super) fn is_on(&self, k: u64) -> bool {
        self.0.as_ref().is_some_and(|grant| grant.k == k)
    }

    /// A member may hold it.
    pub(super) fn is_with(&self, member: &MemberId) -> bool {
        self.0.as_ref().is_some_and(|grant| grant.member == *member)
    }

    fn state(&self, round: &Round<'_>) -> State {
        let Some(grant) = &self.0 else { return State::Free };
        let revoked = |acked: u64| grant.revoked.is_some_and(|n| n <= acked);
        // One that said Bye is no process any more, and gave back all it had.
        let lost = |process: Option<Gen>| match process {
            Some(process) if Some(process) != grant.process => State::Lost,
            _ => State::Free,
        };
        if grant.member == *round.member {
            // It was greeted on this stream just now, which ended all roles of older ones.
            return match grant.k == round.k {
                true if !revoked(round.acked) => State::Held,
                true => State::Free,
                false => lost(round.process),
            };
        }
        match round.peers.get(&grant.member) {
            Some(peer) if peer.greeted() == Some(grant.k) => match peer.unheard(round.now) > round.lease {
                _ if revoked(peer.acked()) => State::Free,
                true => State::Lost,
                false => State::Held,
            },
            Some(peer) => lost(peer.process()),
            None => State::Lost,
        }
    }
}

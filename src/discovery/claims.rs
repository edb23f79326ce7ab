//! Which process a member is, where several addresses claim one identity at one look.
//!
//! One that drains gives way to those that do not; among the others the one taken before stays, else the one that has run
//! longest is taken, so that observers without a past agree with those who saw the first. A task started before the old
//! one stops (Swarm's `start-first`) is so taken once the old one drains or its address is gone; one that is listed and
//! silent keeps its place for as many looks as a member may miss, for it may only be slow. Two that both go on for more
//! than one look are a duplicate, which is said at every look until one is gone.

use super::Identity;
use crate::model::{Gen, MemberId};
use crate::view::MemberState;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Who was taken for each member.
#[derive(Debug, Default)]
pub struct Claims {
    taken: BTreeMap<MemberId, Taken>,
}

#[derive(Debug)]
struct Taken {
    gen_: Gen,
    address: SocketAddr,
    /// Looks in a row at which another process claimed the same.
    contested: u32,
    /// Looks in a row at which its address was listed and silent while another process claimed the same.
    silent: u32,
}

/// Two processes that call themselves the same for more than one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The identity.
    pub member: MemberId,
    /// Where the one answers that the ring keeps.
    pub kept: SocketAddr,
    /// Where the other one does.
    pub refused: SocketAddr,
}

impl std::fmt::Display for Duplicate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Duplicate { member, kept, refused } = self;
        write!(f, "{kept} and {refused} both call themselves {member}: give each its own `member`; {kept} is kept")
    }
}

impl Claims {
    /// Lets go of members that are none any more.
    pub fn retain(&mut self, is_member: impl Fn(&MemberId) -> bool) {
        self.taken.retain(|member, _| is_member(member));
    }

    /// Takes the answers of one look, with the addresses (without port) that are listed and silent: one process a member,
    /// and the duplicates. A member nobody claims is remembered, one that is silent for less than `misses` looks is kept.
    pub fn settle(
        &mut self,
        answers: Vec<(SocketAddr, Identity)>,
        silent: &[String],
        misses: u32,
    ) -> (Vec<(SocketAddr, Identity)>, Vec<Duplicate>) {
        let mut by_member: BTreeMap<MemberId, Vec<(SocketAddr, Identity)>> = BTreeMap::new();
        for (address, identity) in answers {
            by_member.entry(identity.member.clone()).or_default().push((address, identity));
        }
        let (mut settled, mut duplicates) = (Vec::new(), Vec::new());
        for (member, mut claimants) in by_member {
            if let Some(before) = self.taken.get_mut(&member)
                && silent.contains(&before.address.ip().to_string())
                && claimants.iter().all(|(_, claimant)| claimant.gen_ != before.gen_)
            {
                before.silent += 1;
                if before.silent < misses {
                    continue;
                }
            }
            let before = self.taken.get(&member);
            claimants.sort_by_key(|(address, identity)| {
                let drains = identity.standing.state == MemberState::Draining;
                let known = before.is_some_and(|taken| taken.gen_ == identity.gen_);
                let same_address = before.is_some_and(|taken| taken.address == *address);
                (drains, !known, Reverse(identity.standing.uptime), identity.gen_, !same_address, *address)
            });
            let (address, identity) = claimants.swap_remove(0);
            let rival = claimants
                .iter()
                .filter(|(_, other)| other.gen_ != identity.gen_ && other.standing.state != MemberState::Draining)
                .map(|(address, _)| *address)
                .min();
            let looks = before.filter(|taken| taken.gen_ == identity.gen_).map_or(0, |taken| taken.contested);
            let contested = if rival.is_some() { looks.saturating_add(1) } else { 0 };
            if let Some(refused) = rival.filter(|_| contested > 1) {
                duplicates.push(Duplicate { member: member.clone(), kept: address, refused });
            }
            self.taken.insert(member, Taken { gen_: identity.gen_, address, contested, silent: 0 });
            settled.push((address, identity));
        }
        (settled, duplicates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RingId;
    use crate::view::Standing;

    fn claim(address: &str, gen_: u64, state: MemberState, secs: u64) -> (SocketAddr, Identity) {
        let standing = Standing { state, uptime: secs * 1000, ..Standing::default() };
        let (member, roles) = (MemberId::new("c1").unwrap(), vec!["collector".into()]);
        let (node, ring_id) = (None, RingId::default());
        let identity =
            Identity { member, gen_: Gen(gen_), node, ring_id, replicas: 1, hash_version: 1, roles, standing };
        (address.parse().unwrap(), identity)
    }

    /// The generation taken, and how many duplicates were said.
    fn look(claims: &mut Claims, answers: Vec<(SocketAddr, Identity)>) -> (u64, usize) {
        let (settled, duplicates) = claims.settle(answers, &[], 3);
        assert_eq!(settled.len(), 1);
        (settled[0].1.gen_.0, duplicates.len())
    }

    use MemberState::{Active, Draining};
    const OLD: &str = "10.0.0.1:7770";
    const NEW: &str = "10.0.0.2:7770";

    #[test]
    fn a_start_first_update_changes_over_when_the_old_one_drains() {
        let mut claims = Claims::default();
        assert_eq!(look(&mut claims, vec![claim(OLD, 7, Active, 60)]), (7, 0));
        assert_eq!(look(&mut claims, vec![claim(OLD, 7, Active, 65), claim(NEW, 9, Active, 1)]), (7, 0));
        assert_eq!(look(&mut claims, vec![claim(OLD, 7, Draining, 70), claim(NEW, 9, Active, 6)]), (9, 0));
        assert_eq!(look(&mut claims, vec![claim(OLD, 7, Draining, 75), claim(NEW, 9, Active, 11)]), (9, 0));
        assert_eq!(look(&mut claims, vec![claim(NEW, 9, Active, 16)]), (9, 0));
    }

    #[test]
    fn an_old_one_whose_address_is_gone_gives_way_at_once() {
        let mut claims = Claims::default();
        look(&mut claims, vec![claim(OLD, 7, Active, 60)]);
        assert_eq!(look(&mut claims, vec![claim(NEW, 3, Active, 1)]), (3, 0));
    }

    #[test]
    fn one_that_is_listed_and_silent_is_kept_for_as_many_looks_as_a_member_may_miss() {
        let mut claims = Claims::default();
        look(&mut claims, vec![claim(OLD, 7, Active, 60)]);
        let mut rival = || claims.settle(vec![claim(NEW, 3, Active, 1)], &["10.0.0.1".into()], 3).0.len();
        assert_eq!([rival(), rival(), rival()], [0, 0, 1]);
        // Slow for one look, and back.
        let mut claims = Claims::default();
        look(&mut claims, vec![claim(OLD, 7, Active, 60)]);
        assert!(claims.settle(vec![claim(NEW, 3, Active, 1)], &["10.0.0.1".into()], 3).0.is_empty());
        assert_eq!(look(&mut claims, vec![claim(OLD, 7, Active, 70), claim(NEW, 3, Active, 11)]).0, 7);
    }

    #[test]
    fn two_that_go_on_are_a_duplicate_from_the_second_look_and_the_first_known_is_kept() {
        let mut claims = Claims::default();
        look(&mut claims, vec![claim(OLD, 7, Active, 5)]);
        let both = || vec![claim(NEW, 3, Active, 900), claim(OLD, 7, Active, 10)];
        assert_eq!(look(&mut claims, both()), (7, 0));
        assert_eq!(look(&mut claims, both()), (7, 1));
        let said = claims.settle(both(), &[], 3).1[0].to_string();
        let remedy = "10.0.0.1:7770 and 10.0.0.2:7770 both call themselves c1: give each its own `member`; 10.0.0.1:7770 is kept";
        assert_eq!(said, remedy);
        assert_eq!(look(&mut claims, vec![claim(OLD, 7, Active, 20)]), (7, 0));
        assert_eq!(look(&mut claims, both()), (7, 0));
    }

    #[test]
    fn without_a_past_the_longest_running_is_kept() {
        let answers = vec![claim(NEW, 3, Active, 2), claim(OLD, 7, Active, 50)];
        assert_eq!(look(&mut Claims::default(), answers), (7, 0));
    }

    #[test]
    fn one_process_at_two_addresses_is_no_duplicate_and_keeps_its_address() {
        let mut claims = Claims::default();
        look(&mut claims, vec![claim(NEW, 7, Active, 5)]);
        for _ in 0..3 {
            let (settled, duplicates) = claims.settle(vec![claim(OLD, 7, Active, 9), claim(NEW, 7, Active, 9)], &[], 3);
            assert_eq!((settled[0].0, duplicates), (NEW.parse().unwrap(), vec![]));
        }
    }
}

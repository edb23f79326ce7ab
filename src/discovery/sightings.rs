//! Damping of a name's answers: additions are quick, removals need several misses, odd answers change nothing.

use crate::config::MemberAddr;
use crate::model::MemberId;
use std::collections::BTreeMap;

/// The members seen so far.
#[derive(Debug)]
pub struct Sightings {
    misses: u32,
    known: BTreeMap<MemberId, (MemberAddr, u32)>,
}

impl Sightings {
    /// A member is gone after `misses` answers in a row without it.
    pub fn new(misses: u32) -> Sightings {
        Sightings { misses: misses.max(1), known: BTreeMap::new() }
    }

    /// Takes one answer: the members that said who they are, and the addresses of the name where nobody did. A member
    /// whose address is silent was seen; one at whose address somebody else answers was not. Returns the membership
    /// where it changed.
    pub fn answer(&mut self, found: Vec<MemberAddr>, silent: &[String]) -> Option<Vec<MemberAddr>> {
        if found.is_empty() {
            return None; // it tells nothing of who is there: nobody missed it
        }
        let mut changed = false;
        let seen: Vec<MemberId> = found.iter().map(|member| member.id.clone()).collect();
        for member in found {
            let same = self.known.get(&member.id).is_some_and(|(known, _)| *known == member);
            changed |= !same;
            self.known.insert(member.id.clone(), (member, 0));
        }
        for (id, (member, missed)) in &mut self.known {
            let seen = seen.contains(id) || silent.contains(&member.addr.host);
            *missed = if seen { 0 } else { *missed + 1 };
        }
        // More than half of them at once is more likely a fault of the name than the end of so many: that takes as long
        // again.
        let gone = |missed: u32, misses: u32| missed >= misses;
        let n_gone = self.known.values().filter(|(_, missed)| gone(*missed, self.misses)).count();
        let misses = if 2 * n_gone > self.known.len() { 2 * self.misses } else { self.misses };
        let before = self.known.len();
        self.known.retain(|_, (_, missed)| !gone(*missed, misses));
        changed |= self.known.len() < before;
        if changed { self.members() } else { None }
    }

    /// Whether somebody is a member.
    pub fn knows(&self, member: &MemberId) -> bool {
        self.known.contains_key(member)
    }

    /// The membership as it is known; `None` where nobody is.
    pub fn members(&self) -> Option<Vec<MemberAddr>> {
        let members = || self.known.values().map(|(member, _)| member.clone()).collect();
        (!self.known.is_empty()).then(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Address;

    fn member(id: &str, host: &str) -> MemberAddr {
        MemberAddr { id: MemberId::new(id).unwrap(), addr: Address { host: host.to_string(), port: 7770 }, node: None }
    }

    fn ids(list: Option<Vec<MemberAddr>>) -> Option<Vec<String>> {
        list.map(|list| list.iter().map(|member| member.id.to_string()).collect())
    }

    #[test]
    fn a_newcomer_is_taken_at_once() {
        let mut sightings = Sightings::new(3);
        assert_eq!(ids(sightings.answer(vec![member("a", "10.0.0.1")], &[])), Some(vec!["a".into()]));
        let both = vec![member("a", "10.0.0.1"), member("b", "10.0.0.2")];
        assert_eq!(ids(sightings.answer(both, &[])), Some(vec!["a".into(), "b".into()]));
    }

    #[test]
    fn p13_members_are_those_who_said_who_they_are_however_often_a_name_lists_an_address() {
        let mut sightings = Sightings::new(3);
        let four_times = vec![member("a", "10.0.0.1"); 4];
        assert_eq!(ids(sightings.answer(four_times, &[])), Some(vec!["a".into()]));
        // Another node's name server lists another part of them: nobody leaves for that.
        assert_eq!(ids(sightings.answer(vec![member("b", "10.0.0.2")], &[])), Some(vec!["a".into(), "b".into()]));
        assert_eq!(sightings.answer(vec![member("a", "10.0.0.1")], &[]), None);
    }

    #[test]
    fn a_flapping_name_makes_no_change() {
        let mut sightings = Sightings::new(3);
        let both = || vec![member("a", "10.0.0.1"), member("b", "10.0.0.2")];
        assert!(sightings.answer(both(), &[]).is_some());
        for _ in 0..300 {
            assert_eq!(sightings.answer(vec![member("a", "10.0.0.1")], &[]), None);
            assert_eq!(sightings.answer(both(), &[]), None);
        }
    }

    #[test]
    fn a_member_is_gone_after_three_answers_without_it() {
        let mut sightings = Sightings::new(3);
        sightings.answer(vec![member("a", "10.0.0.1"), member("b", "10.0.0.2")], &[]);
        let alone = || vec![member("a", "10.0.0.1")];
        assert_eq!(ids(sightings.answer(alone(), &[])), None);
        assert_eq!(ids(sightings.answer(alone(), &[])), None);
        assert_eq!(ids(sightings.answer(alone(), &[])), Some(vec!["a".into()]));
    }

    #[test]
    fn a_frozen_member_whose_address_is_listed_stays() {
        let mut sightings = Sightings::new(3);
        sightings.answer(vec![member("a", "10.0.0.1"), member("b", "10.0.0.2")], &[]);
        for _ in 0..10 {
            assert_eq!(sightings.answer(vec![member("a", "10.0.0.1")], &["10.0.0.2".to_string()]), None);
        }
    }

    #[test]
    fn a_dead_member_whose_address_another_one_has_now_is_gone() {
        let mut sightings = Sightings::new(3);
        sightings.answer(vec![member("a", "10.0.0.1"), member("b", "10.0.0.2")], &[]);
        let next = || vec![member("a", "10.0.0.1"), member("c", "10.0.0.2")];
        assert_eq!(ids(sightings.answer(next(), &[])), Some(vec!["a".into(), "b".into(), "c".into()]));
        assert_eq!(ids(sightings.answer(next(), &[])), None);
        assert_eq!(ids(sightings.answer(next(), &[])), Some(vec!["a".into(), "c".into()]));
    }

    #[test]
    fn a_replaced_container_keeps_its_identity() {
        let mut sightings = Sightings::new(3);
        sightings.answer(vec![member("a", "10.0.0.1")], &[]);
        let moved = sightings.answer(vec![member("a", "10.0.0.9")], &[]).unwrap();
        assert_eq!((moved.len(), moved[0].addr.host.as_str()), (1, "10.0.0.9"));
    }

    #[test]
    fn more_than_half_at_once_are_gone_after_twice_as_many_answers() {
        let mut sightings = Sightings::new(3);
        let three = vec![member("a", "10.0.0.1"), member("b", "10.0.0.2"), member("c", "10.0.0.3")];
        sightings.answer(three, &[]);
        for _ in 0..5 {
            assert_eq!(sightings.answer(vec![member("a", "10.0.0.1")], &[]), None);
        }
        assert_eq!(ids(sightings.answer(vec![member("a", "10.0.0.1")], &[])), Some(vec!["a".into()]));
    }

    #[test]
    fn nobody_left_keeps_the_last_good_membership() {
        let mut sightings = Sightings::new(1);
        sightings.answer(vec![member("a", "10.0.0.1")], &[]);
        assert_eq!(sightings.answer(vec![], &[]), None);
    }

    #[test]
    fn who_comes_back_first_after_a_silence_of_all_is_not_the_whole_ring() {
        let mut sightings = Sightings::new(3);
        sightings.answer(vec![member("a", "10.0.0.1"), member("b", "10.0.0.2")], &[]);
        for _ in 0..10 {
            assert_eq!(sightings.answer(vec![], &[]), None);
        }
        let back = sightings.answer(vec![member("a", "10.0.0.8")], &[]);
        assert_eq!(ids(back), Some(vec!["a".into(), "b".into()]));
    }
}

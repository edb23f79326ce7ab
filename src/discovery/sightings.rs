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
        let mut changed = false;
        let seen: Vec<MemberId> = found.iter().map(|member| member.id.clone()).collect();
        for member in found {
            let same = self.known.get(&member.id).is_some_and(|(known, _)| *known == member);
            changed |= !same;
            self.known.insert(member.id.clone(), (member, 0));
        }
        let misses = self.misses;
        self.known.retain(|id, (member, missed)| {
            if seen.contains(id) || silent.contains(&member.addr.host) {
                *missed = 0;
                return true;
            }
            *missed += 1;
            changed |= *missed >= misses;
            *missed < misses
        });
        (changed && !self.known.is_empty()).then(|| self.known.values().map(|(member, _)| member.clone()).collect())
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
    fn nobody_left_keeps_the_last_good_membership() {
        let mut sightings = Sightings::new(1);
        sightings.answer(vec![member("a", "10.0.0.1")], &[]);
        assert_eq!(sightings.answer(vec![], &[]), None);
    }
}

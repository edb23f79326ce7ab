//! How each other member does, as it said when it was last asked in the background: a look at the ring asks nobody.

use super::{Router, lock};
use crate::discovery::Identity;
use crate::model::MemberId;
use crate::view::MemberState;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How often each is asked …
const EVERY: Duration = Duration::from_secs(5);
/// … and of very many no more than one in this time.
const EACH: Duration = Duration::from_millis(50);
/// Unanswered looks in a row after which a member counts as gone, as with the misses of a name.
const MISSES: u32 = 3;

/// What was heard of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heard {
    /// Its last word on itself, and when that was; `None` before the first.
    pub last: Option<(MemberState, Instant)>,
    /// Looks in a row without one since.
    missed: u32,
}

impl Heard {
    /// `joining`, `active`, `draining`, or `gone`; `None` where it was not heard yet.
    pub fn state(&self) -> Option<&'static str> {
        match self.last {
            _ if self.missed >= MISSES => Some("gone"),
            last => last.map(|(state, _)| state.as_str()),
        }
    }
}

/// Of each other member of the ring.
#[derive(Debug, Default)]
pub(super) struct Standings(BTreeMap<MemberId, Heard>);

impl Standings {
    /// Takes what every member said, or not, at one look; who was not asked is none any more.
    fn look<E>(&mut self, told: BTreeMap<MemberId, Result<Identity, E>>, now: Instant) {
        let heard = told.into_iter().map(|(member, said)| {
            let before = self.0.get(&member).copied().unwrap_or_default();
            // Somebody else at its address is its silence.
            let said = said.ok().filter(|identity| identity.member == member);
            let heard = match said {
                Some(identity) => Heard { last: Some((identity.standing.state, now)), missed: 0 },
                None => Heard { missed: before.missed.saturating_add(1), ..before },
            };
            (member, heard)
        });
        self.0 = heard.collect();
    }
}

impl Router {
    /// Asks every other member how it does, again and again, until stopped. One that hangs delays no query: its question ends
    /// with the deadline of one.
    pub async fn watch_members(self, stop: CancellationToken) {
        let watch = async {
            loop {
                let told = self.identities().await;
                let pause = EVERY.max(EACH * u32::try_from(told.len()).unwrap_or(u32::MAX));
                let known = !told.is_empty();
                lock(&self.0.standings).look(told, Instant::now());
                // The first ring is looked at soon.
                sleep(if known { pause } else { Duration::from_secs(1) }).await;
            }
        };
        tokio::select! { () = stop.cancelled() => {}, () = watch => {} }
    }

    /// What was heard of each other member.
    pub fn standings(&self) -> BTreeMap<MemberId, Heard> {
        lock(&self.0.standings).0.clone()
    }

    /// How many other members are joining, active, draining and gone.
    pub fn states(&self) -> [usize; 4] {
        let standings = lock(&self.0.standings);
        let count = |word: &str| standings.0.values().filter(|heard| heard.state() == Some(word)).count();
        ["joining", "active", "draining", "gone"].map(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::HASH_VERSION;
    use crate::model::{Gen, RingId};
    use crate::view::Standing;

    fn id(name: &str) -> MemberId {
        MemberId::new(name).unwrap()
    }

    fn says(member: &str, state: MemberState) -> Result<Identity, String> {
        Ok(Identity {
            member: id(member),
            gen_: Gen(1),
            node: None,
            ring_id: RingId::default(),
            replicas: 1,
            hash_version: HASH_VERSION,
            roles: vec!["collector".into()],
            standing: Standing { state, ..Standing::default() },
        })
    }

    fn look(standings: &mut Standings, told: Vec<(&str, Result<Identity, String>)>) -> Vec<Option<&'static str>> {
        standings.look(told.into_iter().map(|(member, said)| (id(member), said)).collect(), Instant::now());
        standings.0.values().map(Heard::state).collect()
    }

    #[test]
    fn a_member_is_what_it_last_said_and_gone_after_three_looks_without_an_answer() {
        let (mut standings, silent) = (Standings::default(), || Err("no answer".to_string()));
        let (joining, active) = (MemberState::Joining, MemberState::Active);
        assert_eq!(look(&mut standings, vec![("a", says("a", joining)), ("b", silent())]), [Some("joining"), None]);
        assert_eq!(look(&mut standings, vec![("a", says("a", active)), ("b", silent())]), [Some("active"), None]);
        assert_eq!(look(&mut standings, vec![("a", silent()), ("b", silent())]), [Some("active"), Some("gone")]);
        assert_eq!(
            look(&mut standings, vec![("a", silent()), ("b", says("b", active))]),
            [Some("active"), Some("active")]
        );
        // At its address answers somebody else.
        assert_eq!(look(&mut standings, vec![("a", says("c", active))]), [Some("gone")]);
        assert_eq!(look(&mut standings, vec![("a", says("a", MemberState::Draining))]), [Some("draining")]);
    }
}

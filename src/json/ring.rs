//! The ring's document: who is on it with how many shards, how each member does, where a key belongs, what a change moves.

use super::writer::Writer;
use crate::model::{Key, MemberId, Millis, NodeId, RingId};
use crate::shard::{Change, Ring, SHARDS};
use crate::view::Standing;
use std::collections::BTreeMap;

/// What a member said of itself just now.
#[derive(Clone, Debug)]
pub struct Live {
    /// The process, another one after a restart.
    pub process: u64,
    /// The ring it sees.
    pub ring_id: RingId,
    /// Its state and load.
    pub standing: Standing,
}

/// What is told of the ring besides its members and shares.
#[derive(Debug, Default)]
pub struct Besides<'a> {
    /// A key, and who emits it, where that was asked.
    pub key: Option<(&'a Key, Option<&'a [MemberId]>)>,
    /// Of each member what it says itself, or why it does not.
    pub live: Option<&'a BTreeMap<MemberId, Result<Live, String>>>,
    /// Without that: the state of each as it was last heard, and how long ago in milliseconds.
    pub heard: BTreeMap<MemberId, (&'static str, Option<Millis>)>,
    /// What is wrong with the source of the membership, if anything is.
    pub trouble: Option<&'a str>,
    /// Another membership, by what it was asked as.
    pub plan: Option<(&'a str, &'a Ring)>,
}

/// Shards of each member: as primary, and all copies.
fn shares(ring: &Ring) -> BTreeMap<&MemberId, (u64, u64)> {
    let mut shares: BTreeMap<&MemberId, (u64, u64)> = BTreeMap::new();
    for shard in 0..SHARDS {
        shares.entry(ring.primary_of(shard)).or_default().0 += 1;
        ring.owners_of(shard).for_each(|member| shares.entry(member).or_default().1 += 1);
    }
    shares
}

/// The document.
pub fn ring(ring: &Ring, addresses: &BTreeMap<MemberId, String>, besides: &Besides<'_>) -> String {
    let shares = shares(ring);
    let mut json = Writer::new();
    json.open('{');
    json.key("ring_id").text(&ring.id().to_string());
    json.key("replicas").number(Some(ring.replicas().into()));
    json.key("copies").number(Some(ring.copies() as u64));
    json.key("shards").number(Some(SHARDS.into()));
    if let Some(live) = besides.live {
        let agrees = |said: &Result<Live, String>| said.as_ref().is_ok_and(|live| live.ring_id == ring.id());
        json.key("agreed").bool(live.values().all(agrees));
    }
    if let Some(trouble) = besides.trouble {
        json.key("trouble").text(trouble);
    }
    json.key("members").open('[');
    for member in ring.members() {
        let (primary, held) = shares.get(&member.id).copied().unwrap_or_default();
        json.open('{');
        json.key("id").text(member.id.as_str());
        json.key("address").text_or_null(addresses.get(&member.id).map_or("", String::as_str));
        json.key("node").text_or_null(member.node.as_ref().map_or("", NodeId::as_str));
        json.key("primary_shards").number(Some(primary));
        json.key("shards").number(Some(held));
        json.key("share").decimal(Some(primary * 1_000_000 / u64::from(SHARDS)), 6);
        match besides.live.and_then(|live| live.get(&member.id)) {
            None => {
                if let Some((state, age)) = besides.heard.get(&member.id) {
                    json.key("state").text(state);
                    json.key("heard_seconds_ago").decimal(*age, 3);
                }
            }
            Some(Ok(live)) => says(&mut json, live),
            Some(Err(why)) => {
                json.key("state").text("unreachable");
                json.key("why").text(why);
            }
        }
        json.close('}');
    }
    json.close(']');
    if let Some((key, emitting)) = &besides.key {
        let reserve = ring.owners_and_reserve(key).nth(ring.copies());
        json.key("key").open('{');
        json.key("shard").number(Some(ring.shard(key).into()));
        json.key("owners").texts(ring.owners(key).map(MemberId::as_str));
        json.key("reserve").text_or_null(reserve.map_or("", MemberId::as_str));
        if let Some(emitting) = emitting {
            json.key("emitting").texts(emitting.iter().map(MemberId::as_str));
        }
        json.close('}');
    }
    if let Some((asked, planned)) = besides.plan {
        plan(&mut json, asked, ring, planned);
    }
    json.close('}');
    json.finish()
}

fn says(json: &mut Writer, live: &Live) {
    let standing = &live.standing;
    json.key("state").text(standing.state.as_str());
    json.key("process").text(&format!("{:016x}", live.process));
    json.key("ring_id").text(&live.ring_id.to_string());
    json.key("tasks").number(Some(standing.tasks));
    json.key("emitted_tasks").number(Some(standing.emitted));
    json.key("rows").number(Some(standing.rows));
    json.key("shippers_elsewhere").number(Some(standing.elsewhere));
    json.key("samples_total").number(Some(standing.samples));
    let (recent, over) = standing.recent;
    json.key("samples_per_second").decimal((recent * 1_000_000).checked_div(over), 3);
    json.key("uptime_seconds").decimal(Some(standing.uptime), 3);
}

/// What going over to another membership would move.
fn plan(json: &mut Writer, asked: &str, now: &Ring, planned: &Ring) {
    let Change { primaries, owners, ideal, needless } = now.change(planned);
    let (before, after) = (shares(now), shares(planned));
    json.key("plan").open('{');
    json.key("asked").text(asked);
    json.key("members").number(Some(planned.members().len() as u64));
    json.key("ring_id").text(&planned.id().to_string());
    json.key("moved_primary_shards").number(Some(primaries as u64));
    json.key("ideal_primary_shards").number(Some(ideal as u64));
    json.key("needless_primary_shards").number(Some(needless as u64));
    json.key("moved_shards").number(Some(owners as u64));
    json.key("shares").open('[');
    let members: std::collections::BTreeSet<&MemberId> = before.keys().chain(after.keys()).copied().collect();
    for member in members {
        json.open('{');
        json.key("id").text(member.as_str());
        json.key("primary_shards_before").number(before.get(member).map(|share| share.0));
        json.key("primary_shards_after").number(after.get(member).map(|share| share.0));
        json.close('}');
    }
    json.close(']');
    json.close('}');
}

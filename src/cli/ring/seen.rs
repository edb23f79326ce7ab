//! `/v1/ring`'s documents, and how they are laid out for people.

use super::grid::{self, figures, note, words};
use crate::cli::format::{ABSENT, age, printable};
use crate::cli::table::{Line, Style};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The ring, as `/v1/ring` tells it; what other versions do not say is not there.
#[derive(Deserialize)]
pub(super) struct Ring {
    pub(super) ring_id: String,
    replicas: u64,
    copies: Option<u64>,
    shards: u64,
    pub(super) members: Vec<Member>,
    pub(super) key: Option<Key>,
    pub(super) plan: Option<Plan>,
    trouble: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Member {
    pub(super) id: String,
    address: Option<String>,
    node: Option<String>,
    shards: u64,
    share: f64,
    state: Option<String>,
    why: Option<String>,
    process: Option<String>,
    ring_id: Option<String>,
    tasks: Option<u64>,
    emitted_tasks: Option<u64>,
    shippers_elsewhere: Option<u64>,
    samples_per_second: Option<f64>,
    uptime_seconds: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Key {
    pub(super) shard: u64,
    pub(super) owners: Vec<String>,
    pub(super) reserve: Option<String>,
    pub(super) emitting: Option<Vec<String>>,
}

#[derive(Deserialize)]
pub(super) struct Plan {
    members: u64,
    moved_primary_shards: u64,
    ideal_primary_shards: u64,
    needless_primary_shards: u64,
    moved_shards: u64,
    shares: Vec<Share>,
}

#[derive(Deserialize)]
pub(super) struct Share {
    id: String,
    primary_shards_before: Option<u64>,
    primary_shards_after: Option<u64>,
}

/// In which points two views of the membership differ.
pub(super) fn difference(one: &(String, Ring), other: &(String, Ring)) -> Vec<String> {
    let ((a, one), (b, other)) = (one, other);
    let mut told = Vec::new();
    if one.ring_id != other.ring_id {
        told.push(format!("{a} sees ring {}, {b} sees {}", one.ring_id, other.ring_id));
    }
    if one.replicas != other.replicas {
        told.push(format!("{a} has replicas {}, {b} has {}", one.replicas, other.replicas));
    }
    let by_id = |ring: &Ring| -> BTreeMap<String, (Option<String>, Option<String>)> {
        ring.members.iter().map(|m| (m.id.clone(), (m.address.clone(), m.node.clone()))).collect()
    };
    let (ours, theirs) = (by_id(one), by_id(other));
    let only = |here: &BTreeMap<String, _>, there: &BTreeMap<String, _>, who: &str, not: &str| {
        let missing = here.keys().filter(|id| !there.contains_key(*id));
        missing.map(|id| format!("member {id}: seen by {who}, not by {not}")).collect::<Vec<_>>()
    };
    told.extend(only(&ours, &theirs, a, b));
    told.extend(only(&theirs, &ours, b, a));
    for (id, at) in &ours {
        if let Some(there) = theirs.get(id).filter(|there| *there != at) {
            let words = |(address, node): &(Option<String>, Option<String>)| {
                format!("{} on node {}", address.as_deref().unwrap_or(ABSENT), node.as_deref().unwrap_or(ABSENT))
            };
            told.push(format!("member {id}: {} for {a}, {} for {b}", words(at), words(there)));
        }
    }
    told
}

impl Ring {
    /// What is not as it should be, for the lines below the table.
    pub(super) fn amiss(&self) -> Vec<String> {
        let mut told = Vec::new();
        for member in &self.members {
            if let Some(why) = &member.why {
                told.push(format!("member {} does not answer: {}", member.id, printable(why)));
            } else if member.ring_id.as_ref().is_some_and(|ring| *ring != self.ring_id) {
                let theirs = member.ring_id.as_deref().unwrap_or_default();
                told.push(format!("member {} sees another ring, {theirs}: see `ring diff {}`", member.id, member.id));
            } else if let Some(n) = member.shippers_elsewhere.filter(|n| *n > 0) {
                let id = &member.id;
                told.push(format!("member {id} is told by shippers that see another ring ({n}): `doctor` names them"));
            }
        }
        if let Some(trouble) = &self.trouble {
            told.push(format!("the members as the router knew them last, for: {}", printable(trouble)));
        }
        told
    }

    /// The members, for so much width.
    pub(super) fn table(&self, width: Option<usize>) -> Vec<Line> {
        let copies = self.copies.unwrap_or(self.replicas);
        let degraded =
            if copies < self.replicas { format!(" (degraded: {copies} of {})", self.replicas) } else { String::new() };
        let amiss = self.amiss();
        let agreed = if amiss.is_empty() { ", all members agree" } else { "" };
        let head = format!(
            "ring {}: {}, {} shards, {}{degraded}{agreed}",
            self.ring_id,
            counted(self.members.len() as u64, "member", "members"),
            self.shards,
            counted(self.replicas, "copy", "copies")
        );
        let columns = [
            words("MEMBER", 0),
            words("STATE", 0),
            figures("UP", 4),
            figures("SHARE", 2),
            figures("COPIES", 6),
            figures("TASKS", 0),
            figures("EMITS", 0),
            figures("SAMPLES/S", 5),
            words("ADDRESS", 1),
            words("NODE", 3),
            words("PROCESS", 7),
        ];
        let mut members: Vec<&Member> = self.members.iter().collect();
        members.sort_by_key(|member| numbered(&member.id));
        let rows: Vec<Vec<String>> = members.into_iter().map(Member::row).collect();
        let mut lines = vec![note(head)];
        lines.extend(grid::lay_out(&columns, &rows, width));
        lines.extend(amiss.into_iter().map(|text| Line { text, style: Style::Alarm }));
        lines
    }
}

impl Member {
    fn row(&self) -> Vec<String> {
        let count = |value: Option<u64>| value.map_or_else(|| ABSENT.to_owned(), |value| value.to_string());
        let text = |value: &Option<String>| value.as_deref().map_or_else(|| ABSENT.to_owned(), printable);
        vec![
            printable(&self.id),
            text(&self.state),
            self.uptime_seconds.map_or_else(|| ABSENT.to_owned(), age),
            format!("{:.2}%", 100.0 * self.share),
            self.shards.to_string(),
            count(self.tasks),
            count(self.emitted_tasks),
            self.samples_per_second.map_or_else(|| ABSENT.to_owned(), |rate| format!("{rate:.1}")),
            text(&self.address),
            text(&self.node),
            self.process.as_deref().map_or_else(|| ABSENT.to_owned(), |process| process.chars().take(8).collect()),
        ]
    }
}

impl Plan {
    /// What it would move, and each member's shards.
    pub(super) fn table(&self, now: &Ring, width: Option<usize>) -> Vec<Line> {
        let percent = |shards: u64| 100.0 * shards as f64 / now.shards.max(1) as f64;
        let primaries = format!(
            "{} instead of {}: {} of {} shards ({:.1}%) get another primary, ideally {}; {} move between members that stay",
            counted(self.members, "member", "members"),
            now.members.len(),
            self.moved_primary_shards,
            now.shards,
            percent(self.moved_primary_shards),
            self.ideal_primary_shards,
            self.needless_primary_shards
        );
        let owners = format!(
            "{} shards ({:.1}%) get another owner or order of owners",
            self.moved_shards,
            percent(self.moved_shards)
        );
        let shards = |value: Option<u64>| value.map_or_else(|| ABSENT.to_owned(), |value| value.to_string());
        let mut shares: Vec<&Share> = self.shares.iter().collect();
        shares.sort_by_key(|share| numbered(&share.id));
        let row = |share: &Share| {
            vec![printable(&share.id), shards(share.primary_shards_before), shards(share.primary_shards_after)]
        };
        let rows: Vec<Vec<String>> = shares.into_iter().map(row).collect();
        let columns = [words("MEMBER", 0), figures("SHARDS NOW", 0), figures("SHARDS THEN", 0)];
        let mut lines = vec![note(primaries), note(owners)];
        lines.extend(grid::lay_out(&columns, &rows, width));
        lines
    }
}

fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A name without the number at its end, and that: c2 comes before c10.
fn numbered(name: &str) -> (&str, u64) {
    let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (word, name[word.len()..].parse().unwrap_or(0))
}

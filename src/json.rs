//! The JSON documents: a report's services, tasks, nodes or stacks, the ring, and errors. All answers look alike.
//!
//! Seconds are decimals made from the core's integers without loss, bytes and counts integers, absent things `null`.
//! Written straight into a text, for an answer may hold thousands of tasks.
//!
//! It deliberately reads no JSON and adds nothing up.

use crate::figures::{self, By, Group};
use crate::model::{Key, MemberId, Millis, NodeId, TaskId};
use crate::shard::{Ring, SHARDS};
use crate::stat::{self, Kind, Stat};
use crate::view::{Report, TaskView};
use std::collections::BTreeMap;

/// What a document lists, named as in its path and its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// `services`
    Services,
    /// `tasks`
    Tasks,
    /// `nodes`
    Nodes,
    /// `stacks`
    Stacks,
}

impl What {
    /// The plural, as in paths.
    pub fn plural(self) -> &'static str {
        match self {
            What::Services => "services",
            What::Tasks => "tasks",
            What::Nodes => "nodes",
            What::Stacks => "stacks",
        }
    }
    /// The singular, as in messages.
    pub fn singular(self) -> &'static str {
        match self {
            What::Services => "service",
            What::Tasks => "task",
            What::Nodes => "node",
            What::Stacks => "stack",
        }
    }
}

/// A report as a document, ending in a newline. `owners` tells a task's ring owners, the primary first; `points` asks
/// for the older points that the report's tasks bring along.
pub fn document(report: &Report, what: What, owners: &dyn Fn(&TaskId) -> Vec<MemberId>, points: bool) -> String {
    let mut json = Writer::new();
    json.open('{');
    json.key("complete").bool(report.complete);
    json.key("missing").open('[');
    for missing in &report.missing {
        json.open('{');
        json.key("what").text(&missing.what);
        json.key("why").text(&missing.why);
        json.close('}');
    }
    json.close(']');
    json.key("warnings").texts(report.warnings.iter().map(String::as_str));
    json.key(what.plural()).open('[');
    let by = match what {
        What::Services => Some(By::Service),
        What::Nodes => Some(By::Node),
        What::Stacks => Some(By::Stack),
        What::Tasks => None,
    };
    match by {
        None => report.tasks.iter().for_each(|view| task(&mut json, view, owners, points)),
        Some(by) => {
            for group in figures::groups(report, by) {
                json.open('{');
                head(&mut json, &group, by == By::Service);
                body(&mut json, &group);
                json.close('}');
            }
        }
    }
    json.close(']');
    json.close('}');
    json.finish()
}

/// An error document: what is wrong, and what helps.
pub fn error(error: &str, remedy: Option<&str>) -> String {
    let mut json = Writer::new();
    json.open('{');
    json.key("error").text(error);
    if let Some(remedy) = remedy {
        json.key("remedy").text(remedy);
    }
    json.close('}');
    json.finish()
}

/// The ring: who is on it with how many shards, and where a key asked for belongs.
pub fn ring(ring: &Ring, addresses: &BTreeMap<MemberId, String>, key: Option<&Key>) -> String {
    let mut shares: BTreeMap<&MemberId, (u64, u64)> = BTreeMap::new();
    for shard in 0..SHARDS {
        shares.entry(ring.primary_of(shard)).or_default().0 += 1;
        ring.owners_of(shard).for_each(|member| shares.entry(member).or_default().1 += 1);
    }
    let mut json = Writer::new();
    json.open('{');
    json.key("ring_id").text(&ring.id().to_string());
    json.key("replicas").number(Some(ring.replicas().into()));
    json.key("shards").number(Some(SHARDS.into()));
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
        json.close('}');
    }
    json.close(']');
    if let Some(key) = key {
        let reserve = ring.owners_and_reserve(key).nth(ring.copies());
        json.key("key").open('{');
        json.key("shard").number(Some(ring.shard(key).into()));
        json.key("owners").texts(ring.owners(key).map(MemberId::as_str));
        json.key("reserve").text_or_null(reserve.map_or("", MemberId::as_str));
        json.close('}');
    }
    json.close('}');
    json.finish()
}

/// Whether a process is ready, and if not, why.
pub fn readiness(reasons: &[String]) -> String {
    let mut json = Writer::new();
    json.open('{');
    json.key("ready").bool(reasons.is_empty());
    json.key("reasons").texts(reasons.iter().map(String::as_str));
    json.close('}');
    json.finish()
}

fn head(json: &mut Writer, group: &Group, stack: bool) {
    json.key("id").text(&group.id);
    json.key("name").text_or_null(&group.name);
    if stack {
        json.key("stack").text_or_null(&group.stack);
    }
}

fn task(json: &mut Writer, task: &TaskView, owners: &dyn Fn(&TaskId) -> Vec<MemberId>, points: bool) {
    let (meta, group) = (&task.meta, figures::of_task(task));
    json.open('{');
    head(json, &group, true);
    json.key("service_id").text(meta.service_id.as_str());
    json.key("service_name").text_or_null(&meta.service_name);
    json.key("node_id").text(meta.node_id.as_str());
    json.key("node_name").text_or_null(&meta.node_name);
    json.key("slot").text_or_null(&meta.slot);
    json.key("container_id").text_or_null(&meta.container_id);
    json.key("image").text_or_null(&meta.image);
    json.key("labels").open('{');
    for (name, value) in &meta.labels {
        json.label(name).text(value);
    }
    json.close('}');
    json.key("owners").texts(owners(&meta.task_id).iter().map(MemberId::as_str));
    json.key("state").text(match (task.ended, task.fresh) {
        (true, _) => "ended",
        (_, true) => "running",
        _ => "stale",
    });
    body(json, &group);
    if points {
        json.key("points").open('[');
        for point in &task.points {
            json.open('{');
            json.key("seconds_before").decimal(Some(task.monotonic.saturating_sub(point.monotonic)), 9);
            json.key("stats").open('{');
            for (stat, value) in point.values.iter() {
                json.stat(stat, Some(value));
            }
            json.close('}');
            json.close('}');
        }
        json.close(']');
    }
    json.close('}');
}

/// What every item has.
fn body(json: &mut Writer, group: &Group) {
    json.key("tasks").open('{');
    json.key("fresh").number(Some(group.tasks.fresh));
    json.key("known").number(Some(group.tasks.known));
    json.close('}');
    json.key("age_seconds").decimal(group.age, 3);
    json.key("since");
    match group.since {
        Some(since) => json.text(&rfc3339(since)),
        None => json.null(),
    }
    json.key("totals").open('{');
    for stat in Stat::all().filter(|stat| stat.row().kind == Kind::Counter) {
        json.stat(stat, group.totals.get(stat));
    }
    json.close('}');
    json.key("figures").open('{');
    json.key("cpu_percent").decimal(group.cpu_percent, 6);
    json.key("memory_used_bytes").number(group.stats.get(stat::MEMORY_USED));
    json.key("memory_limit_bytes").number(group.stats.get(stat::MEMORY_LIMIT));
    json.key("memory_percent").decimal(group.memory_percent, 6);
    json.key("network_receive_bytes").number(group.stats.get(stat::RX_BYTES));
    json.key("network_transmit_bytes").number(group.stats.get(stat::TX_BYTES));
    json.key("block_read_bytes").number(group.stats.get(stat::BLOCK_READ));
    json.key("block_written_bytes").number(group.stats.get(stat::BLOCK_WRITTEN));
    json.key("pids").number(group.stats.get(stat::PIDS));
    json.close('}');
    json.key("stats").open('{');
    for stat in Stat::all() {
        json.stat(stat, group.stats.get(stat));
    }
    json.close('}');
}

/// Wall-clock milliseconds as an RFC 3339 moment in UTC.
pub fn rfc3339(at: Millis) -> String {
    let (days, of_day) = (at / 86_400_000, at % 86_400_000);
    // Civil date from a day number, in 400-year eras that begin on 1 March, so that the leap day is a year's last.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let date = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Appends JSON to a text; it puts the commas, its user the brackets.
struct Writer {
    out: String,
    comma: bool,
}

impl Writer {
    fn new() -> Writer {
        Writer { out: String::with_capacity(4096), comma: false }
    }
    fn finish(mut self) -> String {
        self.out.push('\n');
        self.out
    }
    fn open(&mut self, bracket: char) {
        self.separate();
        self.out.push(bracket);
        self.comma = false;
    }
    fn close(&mut self, bracket: char) {
        self.out.push(bracket);
        self.comma = true;
    }
    /// A key that needs no escapes.
    fn key(&mut self, name: &'static str) -> &mut Writer {
        self.separate();
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        self.comma = false;
        self
    }
    fn label(&mut self, name: &str) -> &mut Writer {
        self.text(name);
        self.out.push(':');
        self.comma = false;
        self
    }
    fn null(&mut self) {
        self.raw("null");
    }
    fn bool(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }
    fn number(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.raw(itoa::Buffer::new().format(value)),
            None => self.null(),
        }
    }
    /// An integer of 10^-digits as a decimal number.
    fn decimal(&mut self, value: Option<u64>, digits: usize) {
        let Some(value) = value else { return self.null() };
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(value);
        let whole = text.len().saturating_sub(digits);
        self.raw(if whole == 0 { "0" } else { &text[..whole] });
        self.out.push('.');
        self.out.extend(std::iter::repeat_n('0', digits.saturating_sub(text.len())));
        self.out.push_str(&text[whole..]);
    }
    /// A stat under its name, in its base unit.
    fn stat(&mut self, stat: Stat, value: Option<u64>) {
        self.key(stat.name());
        match stat.row().unit.per_base() {
            1 => self.number(value),
            per_base => self.decimal(value, per_base.ilog10() as usize),
        }
    }
    fn text_or_null(&mut self, text: &str) {
        if text.is_empty() { self.null() } else { self.text(text) }
    }
    fn texts<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        self.open('[');
        texts.for_each(|text| self.text(text));
        self.close(']');
    }
    fn text(&mut self, text: &str) {
        self.separate();
        self.out.push('"');
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| matches!(byte, 0..0x20 | b'"' | b'\\' | 0x7f)) {
            self.out.push_str(&text[plain..at]);
            plain = at + 1;
            match byte {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                _ => {
                    const HEX: &[u8; 16] = b"0123456789abcdef";
                    self.out.push_str("\\u00");
                    self.out.push(HEX[usize::from(byte >> 4)].into());
                    self.out.push(HEX[usize::from(byte & 15)].into());
                }
            }
        }
        self.out.push_str(&text[plain..]);
        self.out.push('"');
    }

    fn raw(&mut self, text: &str) {
        self.separate();
        self.out.push_str(text);
    }
    fn separate(&mut self) {
        if self.comma {
            self.out.push(',');
        }
        self.comma = true;
    }
}

//! The scalars of a config: one parser a kind of value, each of which knows how to say what it wants.

use super::read::{Wrong, kind, wrong};
use super::tree::Node;
use crate::model::{MAX_NAME, NameError};
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A word: YAML text, or a whole number taken as text.
pub(super) fn text(node: &Node) -> Result<String, Wrong> {
    match node {
        Node::Text(text) if text.is_empty() => Err(wrong("an empty text", "write something, or leave the key out")),
        Node::Text(text) => Ok(text.clone()),
        Node::Integer(number) => Ok(number.to_string()),
        Node::Other(what) => Err(wrong(format!("{what} where text belongs"), "put it in quotes")),
        other => Err(wrong(format!("{} where text belongs", kind(other)), "write one word")),
    }
}

const NAME_REMEDY: &str = "write 1 to 255 bytes without white space";

/// A text checked by a constructor of the vocabulary.
pub(super) fn name<T>(new: impl Fn(String) -> Result<T, NameError>) -> impl Fn(&Node) -> Result<T, Wrong> {
    move |node| new(text(node)?).map_err(|err| wrong(err.to_string(), NAME_REMEDY))
}

/// A word that is no id: a name of a node, a label.
pub(super) fn word(node: &Node) -> Result<Arc<str>, Wrong> {
    let text = text(node)?;
    if text.len() > MAX_NAME || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(wrong(format!("{} is no name", kind(node)), NAME_REMEDY));
    }
    Ok(text.into())
}

/// One of some words.
pub(super) fn choice<T: Copy>(words: &'static [(&'static str, T)]) -> impl Fn(&Node) -> Result<T, Wrong> {
    move |node| {
        let known = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let refused = || wrong(format!("{} is not known here", kind(node)), format!("write one of: {}", known()));
        let Node::Text(text) = node else { return Err(refused()) };
        words.iter().find(|(word, _)| word == text).map(|(_, value)| *value).ok_or_else(refused)
    }
}

/// A whole number within bounds.
pub(super) fn count<N: TryFrom<i128> + PartialOrd + Display>(
    range: RangeInclusive<N>,
) -> impl Fn(&Node) -> Result<N, Wrong> {
    move |node| {
        let (start, end) = (range.start(), range.end());
        let bounds =
            if start == end { format!("write {start}") } else { format!("write a whole number from {start} to {end}") };
        let Node::Integer(number) = node else {
            return Err(wrong(format!("{} is not a whole number", kind(node)), bounds));
        };
        N::try_from(*number)
            .ok()
            .filter(|n| range.contains(n))
            .ok_or_else(|| wrong(format!("{number} is out of bounds"), bounds))
    }
}

const DURATIONS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
const SIZES: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// A duration as `500ms`, `15s`, `2m` or `24h`, within bounds.
pub(super) fn duration(range: RangeInclusive<Duration>) -> impl Fn(&Node) -> Result<Duration, Wrong> {
    move |node| {
        let found = quantity(node, &DURATIONS).map(Duration::from_millis);
        let bounds = || format!("from {} to {}", shown(*range.start()), shown(*range.end()));
        match found {
            Some(found) if range.contains(&found) => Ok(found),
            Some(found) => Err(wrong(format!("{} is out of bounds", shown(found)), format!("write {}", bounds()))),
            None => Err(wrong(
                format!("{} is not a duration", kind(node)),
                format!("write a number and ms, s, m or h (as in 500ms, 15s, 2m, 24h), {}", bounds()),
            )),
        }
    }
}

/// A size in bytes as `64KiB` or `8MiB`, within bounds.
pub(super) fn size(range: RangeInclusive<u64>) -> impl Fn(&Node) -> Result<usize, Wrong> {
    move |node| {
        let bounds = || format!("from {} to {}", unit_text(*range.start(), &SIZES), unit_text(*range.end(), &SIZES));
        match quantity(node, &SIZES) {
            Some(found) if range.contains(&found) => usize::try_from(found)
                .map_err(|_| wrong("too large for this machine", format!("write less, {}", bounds()))),
            Some(_) => Err(wrong(format!("{} is out of bounds", kind(node)), format!("write {}", bounds()))),
            None => Err(wrong(
                format!("{} is not a size", kind(node)),
                format!("write a number and KiB, MiB or GiB (as in 64KiB, 8MiB), {}", bounds()),
            )),
        }
    }
}

/// A number followed by a unit, in the smallest unit's measure.
fn quantity(node: &Node, units: &[(&str, u64)]) -> Option<u64> {
    let Node::Text(text) = node else { return None };
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// A quantity in the largest unit that divides it.
fn unit_text(amount: u64, units: &[(&str, u64)]) -> String {
    // Nothing is so many of every unit; the second is the one that people write.
    let divides = |(_, factor): &&(&str, u64)| amount != 0 && amount.is_multiple_of(*factor);
    let (unit, factor) = units.iter().rev().find(divides).unwrap_or(&units[1]);
    format!("{}{unit}", amount / factor)
}

/// A duration as it is written in a config.
pub(super) fn shown(duration: Duration) -> String {
    unit_text(duration.as_millis().try_into().unwrap_or(u64::MAX), &DURATIONS)
}

/// That two places do not listen on one port.
pub(super) fn apart(api: Option<SocketAddr>, metrics: Option<SocketAddr>) -> Result<(), Wrong> {
    let (Some(api), Some(metrics)) = (api, metrics) else { return Ok(()) };
    let one_place = api.ip() == metrics.ip() || api.ip().is_unspecified() || metrics.ip().is_unspecified();
    match one_place && api.port() == metrics.port() && api.port() != 0 {
        true => {
            Err(wrong(format!("the API ({api}) and /metrics ({metrics}) on one port"), "write another port, or none"))
        }
        false => Ok(()),
    }
}

/// An address to listen on, or `none`.
pub(super) fn listen(node: &Node) -> Result<Option<SocketAddr>, Wrong> {
    let text = text(node)?;
    if text == "none" {
        return Ok(None);
    }
    let refused =
        |_| wrong(format!("{text:?} is no address"), "write ip:port as in 127.0.0.1:7770 or [::]:7770, or none");
    text.parse().map(Some).map_err(refused)
}

/// An absolute path.
pub(super) fn path(node: &Node) -> Result<PathBuf, Wrong> {
    let text = text(node)?;
    if text.starts_with('/') {
        Ok(text.into())
    } else {
        Err(wrong(format!("{text:?} is not an absolute path"), "begin it with /"))
    }
}

/// What to log: a level, or levels by module.
pub(super) fn log(node: &Node) -> Result<Arc<str>, Wrong> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let text = text(node)?;
    // A part of what tracing's filters can say, so that whatever is taken here is taken there.
    let module = |c: char| c.is_ascii_alphanumeric() || "_:-".contains(c);
    let known = |part: &str| match part.split_once('=') {
        Some((target, level)) => !target.is_empty() && target.chars().all(module) && LEVELS.contains(&level),
        None => LEVELS.contains(&part),
    };
    if text.split(',').all(known) {
        Ok(text.into())
    } else {
        let remedy = format!("write one of {}, or `info,swarmstats::router=debug`", LEVELS.join(", "));
        Err(wrong(format!("{text:?} is no log filter"), remedy))
    }
}

/// The path of an engine's socket, `unix:///path`.
pub(super) fn engine(node: &Node) -> Result<PathBuf, Wrong> {
    let text = text(node)?;
    match text.strip_prefix("unix://") {
        Some(path) if path.starts_with('/') => Ok(path.into()),
        _ => Err(wrong(format!("{text:?} is no engine socket"), "write unix:///var/run/docker.sock")),
    }
}

/// The path of an engine's socket, or `none`.
pub(super) fn engine_or_none(node: &Node) -> Result<Option<PathBuf>, Wrong> {
    if matches!(node, Node::Text(text) if text == "none") { Ok(None) } else { engine(node).map(Some) }
}

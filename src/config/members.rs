//! Who the collectors are, in the same words for shippers, collectors and routers: listed, in a watched file, or in DNS.

use super::Mistakes;
use super::read::{self, Section, Value, Wrong, wrong};
use super::value::{count, duration, name, path, text};
use crate::model::{MemberId, NodeId};
use crate::shard::MAX_MEMBERS;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Where the membership comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Members {
    /// Listed in the config, never changing.
    Static(Vec<MemberAddr>),
    /// In a file of its own that is watched; [`parse_members`] reads it.
    File(PathBuf),
    /// Every address of a name, each asked who it is.
    Dns(Dns),
}

/// A collector and where it answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberAddr {
    /// Its identity on the ring.
    pub id: MemberId,
    /// Where its API listens.
    pub addr: Address,
    /// The Swarm node it runs on, if known.
    pub node: Option<NodeId>,
}

/// A host (name or IP, IPv6 without brackets) and a port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// A name or an IP.
    pub host: String,
    /// Never 0.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// How collectors are found in DNS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dns {
    /// A name with one address a collector, as Swarm's `tasks.<service>`.
    pub name: String,
    /// The port of their API.
    pub port: u16,
    /// How often to ask.
    pub every: Duration,
    /// A member is gone after so many answers in a row without it.
    pub misses: u32,
    /// At the start no ring is made of fewer members, so that a swarm that comes up does not shuffle its keys through
    /// rings of one, two, three members …
    pub wait_for_members: usize,
    /// … for so long at most.
    pub wait_at_most: Duration,
}

/// Reads a watched file of members: a YAML list of `{id, addr, node?}`.
pub fn parse_members(text: &str) -> Result<Vec<MemberAddr>, Mistakes> {
    read::parse(text, |root| members(&root, None, 1))
}

impl Members {
    /// How a section of members is written.
    pub(super) const INSTEAD: &str = "`static: [{id: c1, addr: 10.0.0.1:7770}]`, `file: /path` or `dns: {name: …}`";

    /// Reads a `members:` section. `local` is the id of a member on a loopback address that has none of its own; a list
    /// has `least` members or more.
    pub(super) fn read(section: &mut Section<'_>, local: &MemberId, default: Members, least: usize) -> Members {
        let given = ["static", "file", "dns"].into_iter().filter(|key| section.has(key)).count();
        if given > 1 {
            section.refuse("", wrong("several sources of members", "keep one of static, file and dns"));
        }
        for key in ["wait_for_members", "wait_at_most"] {
            if !section.has(key) {
                continue;
            }
            section.get(key);
            let problem = "only DNS is waited for; a list or a file names all members before any of them runs";
            section.refuse(key, wrong(problem, "take it out, or write it below `dns:`"));
        }
        let listed = section.get("static").map(|list| Members::Static(members(&list, Some(local), least)));
        let file = section.optional("file", path).map(Members::File);
        let dns = section.get("dns").map(|value| value.section_like("`dns: {name: tasks.collectord}`", Dns::read));
        listed.or(file).or(dns.map(Members::Dns)).unwrap_or(default)
    }
}

impl Dns {
    fn read(section: &mut Section<'_>) -> Dns {
        Dns {
            name: section.required("name", host_name).unwrap_or_default(),
            port: section.read("port", 7770, count(1..=u16::MAX)),
            every: section.read("every", secs(5), duration(secs(1)..=secs(300))),
            misses: section.read("misses", 3, count(1..=100)),
            wait_for_members: section.read("wait_for_members", 1, count(1..=MAX_MEMBERS)),
            wait_at_most: section.read("wait_at_most", secs(30), duration(secs(0)..=secs(600))),
        }
    }
}

/// A name that can be looked up: RFC 1123's, underscores allowed as in Swarm's services; or an address.
fn host_name(node: &super::tree::Node) -> Result<String, Wrong> {
    let text = text(node)?;
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text);
    }
    if let Some((name, port)) = text.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()) {
        return Err(wrong(format!("{text:?} has a port in it"), format!("write `name: {name}` and `port: {port}`")));
    }
    let fits = |label: &str| {
        let word = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        word && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    match text.len() <= 253 && text.strip_suffix('.').unwrap_or(&text).split('.').all(fits) {
        true => Ok(text),
        false => Err(wrong(format!("{text:?} is no name to look up"), "write one as in tasks.collectord")),
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Reads a list of members, whose ids and addresses must be distinct.
fn members(list: &Value<'_>, local: Option<&MemberId>, least: usize) -> Vec<MemberAddr> {
    let mut members: Vec<MemberAddr> = Vec::new();
    let items = list.items();
    if items.len() < least && list.is_list() {
        list.refuse(wrong("no members", "list at least one as `- {id: c1, addr: 10.0.0.1:7770}`"));
    }
    if items.len() > MAX_MEMBERS {
        list.refuse(wrong(format!("{} members", items.len()), format!("{MAX_MEMBERS} are allowed")));
    }
    for item in items.into_iter().take(MAX_MEMBERS) {
        let read = |section: &mut Section<'_>| {
            let member = member(section, local)?;
            if members.iter().any(|m| m.id == member.id) {
                section
                    .refuse("id", wrong(format!("{} is listed twice", member.id), "give each member an id of its own"));
            }
            if members.iter().any(|m| m.addr == member.addr) {
                let problem = format!("{} is another member's address", member.addr);
                section.refuse("addr", wrong(problem, "give each member an address of its own"));
            }
            Some(member)
        };
        members.extend(item.section(read));
    }
    members
}

fn member(section: &mut Section<'_>, local: Option<&MemberId>) -> Option<MemberAddr> {
    let addr = section.required("addr", address);
    let loopback = addr.as_ref().is_some_and(|addr| addr.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()));
    let id = match local {
        Some(local) if loopback => Some(section.read("id", local.clone(), name(MemberId::new))),
        _ => section.required("id", name(MemberId::new)),
    };
    let node = section.optional("node", name(NodeId::new));
    Some(MemberAddr { id: id?, addr: addr?, node })
}

/// A host and a port, as in `127.0.0.1:7770`, `collector-1:7770`, `[fd00::1]:7770`.
fn address(node: &super::tree::Node) -> Result<Address, Wrong> {
    let text = text(node)?;
    let parsed = text.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(ip) => ip.parse::<std::net::Ipv6Addr>().ok().map(|_| ip)?,
            None => host,
        };
        let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let fits = bare.is_some() || (!host.is_empty() && host.len() <= 253 && host.chars().all(word));
        fits.then(|| Address { host: host.to_owned(), port })
    });
    parsed.ok_or_else(|| {
        wrong(format!("{text:?} is no address"), "write host:port, as in 10.0.0.1:7770 or [fd00::1]:7770")
    })
}

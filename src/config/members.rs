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
}

/// Reads a watched file of members: a YAML list of `{id, addr, node?}`.
pub fn parse_members(text: &str) -> Result<Vec<MemberAddr>, Mistakes> {
    read::parse(text, |root| members(&root, None, 1))
}

impl Members {
    /// Reads a `members:` section. `local` is the id of a member on a loopback address that has none of its own; a list
    /// has `least` members or more.
    pub(super) fn read(section: &mut Section<'_>, local: &MemberId, default: Members, least: usize) -> Members {
        let given = ["static", "file", "dns"].into_iter().filter(|key| section.has(key)).count();
        if given > 1 {
            section.refuse("", wrong("several sources of members", "keep one of static, file and dns"));
        }
        let listed = section.get("static").map(|list| Members::Static(members(&list, Some(local), least)));
        let file = section.optional("file", path).map(Members::File);
        let dns = section.get("dns").map(|value| value.section(Dns::read));
        listed.or(file).or(dns.map(Members::Dns)).unwrap_or(default)
    }
}

impl Dns {
    fn read(section: &mut Section<'_>) -> Dns {
        Dns {
            name: section.required("name", text).unwrap_or_default(),
            port: section.read("port", 7770, count(1..=u16::MAX)),
            every: section.read("every", secs(5), duration(secs(1)..=secs(300))),
            misses: section.read("misses", 3, count(1..=100)),
        }
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

//! Where the membership comes from: a list, a watched file, or DNS with every address asked who it is.
//!
//! Only discovery edits the ring; a failed connection never does. An empty or failed answer keeps the last good ring,
//! additions are quick, removals need several misses. The number of addresses is not the number of members.

mod claims;
mod file;
mod sightings;

pub use claims::{Claims, Duplicate};
pub use file::members_in_file;
pub use sightings::Sightings;

use crate::config::{Address, Dns, MemberAddr, Members, parse_members};
use crate::message::HASH_VERSION;
use crate::model::{Gen, MemberId, NodeId, RingId};
use crate::shard::{Member, Ring};
use crate::view::Standing;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// How often a watched file is looked at.
const FILE_EVERY: Duration = Duration::from_secs(2);
/// How long one address has to say who it is, and a look-up to answer.
const DEADLINE: Duration = Duration::from_secs(2);
/// How often a name is asked while no ring is made yet.
const STARTING: Duration = Duration::from_secs(1);
/// The most addresses of one name that are asked.
const MAX_ADDRESSES: usize = 1000;

/// The membership as one process sees it.
#[derive(Debug, Clone)]
pub struct View {
    /// Who owns what.
    pub ring: Arc<Ring>,
    /// Where each member answers.
    pub members: BTreeMap<MemberId, MemberAddr>,
}

/// The newest view; `None` until a first member was found.
pub type Seen = watch::Receiver<Option<Arc<View>>>;

/// What was wrong with the last look, for people; `None` when it was good.
pub type Trouble = watch::Receiver<Option<String>>;

/// Who answers at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The member.
    pub member: MemberId,
    /// This process of it.
    pub gen_: Gen,
    /// The Swarm node it runs on, if it knows.
    pub node: Option<NodeId>,
    /// The ring it sees; 0 for none.
    pub ring_id: RingId,
    /// Its R.
    pub replicas: u32,
    /// Its version of the key hash.
    pub hash_version: u32,
    /// `collector`, `router`.
    pub roles: Vec<String>,
    /// How it is.
    pub standing: Standing,
}

/// Asks an address who it is.
pub type Ask = Arc<dyn Fn(SocketAddr) -> Pin<Box<dyn Future<Output = Result<Identity, String>> + Send>> + Send + Sync>;

/// What can go wrong with the membership; counted by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The watched file cannot be read or has mistakes.
    File,
    /// The name has no address, or no answer came.
    Lookup,
    /// An address did not say who it is.
    Silent,
    /// A member with other replicas or another hash version.
    Incompatible,
    /// Two processes call themselves the same.
    Duplicate,
}

/// See the head of this file.
pub struct Discovery {
    members: Members,
    replicas: u8,
    ask: Ask,
    problem: Arc<dyn Fn(Problem) + Send + Sync>,
    nudge: Arc<Notify>,
    view: watch::Sender<Option<Arc<View>>>,
    trouble: watch::Sender<Option<String>>,
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Discovery").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Discovery {
    /// Nothing is asked before [`Discovery::run`], but a static list is seen at once.
    pub fn new(members: Members, replicas: u8, ask: Ask, problem: Arc<dyn Fn(Problem) + Send + Sync>) -> Discovery {
        let (view, trouble) = (watch::Sender::new(None), watch::Sender::new(None));
        let discovery = Discovery { members, replicas, ask, problem, nudge: Arc::default(), view, trouble };
        if let Members::Static(list) = &discovery.members {
            discovery.publish(list);
        }
        discovery
    }

    /// Follows the membership.
    pub fn seen(&self) -> Seen {
        self.view.subscribe()
    }

    /// Follows what is wrong with the source of the membership.
    pub fn trouble(&self) -> Trouble {
        self.trouble.subscribe()
    }

    /// Notified by whoever meets another ring: the source is asked at once.
    pub fn nudge(&self) -> Arc<Notify> {
        self.nudge.clone()
    }

    /// Keeps the view current until stopped, at once even where a file or a look-up hangs.
    pub async fn run(self, stop: CancellationToken) {
        let keep = async {
            match self.members.clone() {
                Members::Static(_) => std::future::pending().await,
                Members::File(path) => self.watch_file(path).await,
                Members::Dns(dns) => self.watch_dns(dns).await,
            }
        };
        tokio::select! { () = stop.cancelled() => {}, () = keep => {} }
    }

    async fn watch_file(&self, path: PathBuf) {
        let (mut last, mut reading) = (None, None);
        loop {
            let text = read_in_time(&path, &mut reading).await;
            if last.as_ref() != Some(&text) {
                let list = text.clone().and_then(|text| parse_members(&text).map_err(|mistakes| mistakes.to_string()));
                match list {
                    Ok(list) => {
                        self.trouble.send_replace(None);
                        self.publish(&list);
                    }
                    Err(error) => {
                        (self.problem)(Problem::File);
                        let stays = self.view.borrow().is_some();
                        let then = if stays { "the last good ring stays" } else { "there is no ring before it is" };
                        tracing::error!(path = %path.display(), error, "the members file is not usable; {then}");
                        self.trouble.send_replace(Some(format!("{}: {error}", path.display())));
                    }
                }
                last = Some(text);
            }
            self.pause(FILE_EVERY).await;
        }
    }

    async fn watch_dns(&self, dns: Dns) {
        let (mut sightings, mut claims, begun) = (Sightings::new(dns.misses), Claims::default(), Instant::now());
        let mut said = BTreeSet::new();
        loop {
            let begins = self.view.borrow().is_none();
            let mut complaints = BTreeSet::new();
            let mut failed = None;
            match look_up(&dns).await {
                Ok(addresses) => {
                    let n_addresses = addresses.len();
                    let (answers, silent) = self.identify(addresses, &mut complaints).await;
                    let (settled, duplicates) = claims.settle(answers, &silent, dns.misses);
                    for duplicate in duplicates {
                        (self.problem)(Problem::Duplicate);
                        complaints.insert(duplicate.to_string());
                    }
                    let found: Vec<MemberAddr> = settled.into_iter().map(at).collect();
                    failed = found.is_empty().then(|| {
                        format!("none of the {} addresses of {} says which collector it is", n_addresses, dns.name)
                    });
                    let changed = sightings.answer(found, &silent);
                    claims.retain(|member| sightings.knows(member));
                    changed.filter(|_| !begins).into_iter().for_each(|list| self.publish(&list));
                }
                Err(error) => {
                    (self.problem)(Problem::Lookup);
                    complaints.insert(format!("no address of the collectors at {}: {error}", dns.name));
                }
            }
            // Each once, as long as it lasts.
            complaints.difference(&said).for_each(|complaint| tracing::error!("{complaint}"));
            let waiting = if begins { self.begin(sightings.members(), &dns, begun.elapsed()) } else { None };
            self.trouble.send_replace(complaints.first().cloned().or(failed).or(waiting));
            said = complaints;
            let waits = self.view.borrow().is_none();
            self.pause(if waits { dns.every.min(STARTING) } else { dns.every }).await;
        }
    }

    /// The first ring: of as many members as are waited for, or of those there once that took too long. Says what is
    /// waited for.
    fn begin(&self, list: Option<Vec<MemberAddr>>, dns: &Dns, waited: Duration) -> Option<String> {
        let list = list?;
        let (n_members, wanted) = (list.len(), dns.wait_for_members);
        if n_members < wanted && waited < dns.wait_at_most {
            return Some(format!("{n_members} of the {wanted} members that are waited for are there"));
        }
        if n_members < wanted {
            tracing::warn!(n_members, wanted, "waited long enough for more members");
        }
        self.publish(&list);
        None
    }

    /// Asks every address at once who it is: the collectors that fit this ring, and the addresses (without port) that did
    /// not say.
    async fn identify(
        &self,
        addresses: Vec<SocketAddr>,
        complaints: &mut BTreeSet<String>,
    ) -> (Vec<(SocketAddr, Identity)>, Vec<String>) {
        let asked = addresses.into_iter().map(|address| {
            let answer = timeout(DEADLINE, (self.ask)(address));
            (address, tokio::spawn(answer))
        });
        let (mut found, mut silent) = (Vec::new(), Vec::new());
        for (address, answer) in asked.collect::<Vec<_>>() {
            match answer.await {
                Ok(Ok(Ok(identity))) => match self.unfit(address, &identity) {
                    None => found.push((address, identity)),
                    Some(why) => complaints.extend(why),
                },
                other => {
                    (self.problem)(Problem::Silent);
                    tracing::debug!(%address, ?other, "an address of the collectors does not say who it is");
                    silent.push(address.ip().to_string());
                }
            }
        }
        (found, silent)
    }

    /// Why who answered is no collector of this ring, with a complaint where it should be one; `None` if it is.
    fn unfit(&self, address: SocketAddr, identity: &Identity) -> Option<Option<String>> {
        if !identity.roles.iter().any(|role| role == "collector") {
            return Some(None); // a router alone owns nothing
        }
        let Identity { member, replicas, hash_version, .. } = identity;
        let ours = u32::from(self.replicas);
        (*replicas != ours || *hash_version != HASH_VERSION).then(|| {
            (self.problem)(Problem::Incompatible);
            Some(format!(
                "member {member} at {address} has replicas {replicas} and key hash {hash_version}, this process {ours} and \
                 {HASH_VERSION}: it is refused; give all processes the same"
            ))
        })
    }

    fn publish(&self, list: &[MemberAddr]) {
        let members = list.iter().map(|member| Member { id: member.id.clone(), node: member.node.clone() });
        match Ring::new(members, self.replicas) {
            Ok(ring) => {
                let members: BTreeMap<_, _> = list.iter().map(|member| (member.id.clone(), member.clone())).collect();
                match self.view.borrow().as_ref().filter(|before| before.ring.id() == ring.id()) {
                    None => tracing::info!(ring_id = %ring.id(), n_members = list.len(), "membership"),
                    Some(before) => {
                        let moved = list.iter().filter(|member| before.members.get(&member.id) != Some(member));
                        moved.for_each(|member| tracing::info!(member = %member.id, address = %member.addr, "member is elsewhere now"));
                    }
                }
                if ring.copies() < usize::from(self.replicas) {
                    let (copies, replicas) = (ring.copies(), self.replicas);
                    tracing::warn!(copies, replicas, "fewer members than copies wanted: degraded until there are more");
                }
                self.view.send_replace(Some(Arc::new(View { ring: Arc::new(ring), members })));
            }
            Err(error) => {
                (self.problem)(Problem::Duplicate);
                tracing::error!(%error, "the membership makes no ring; the last good one stays");
            }
        }
    }

    /// Waits for the next look.
    async fn pause(&self, every: Duration) {
        // However many processes complain at once, the source is asked once a second at most.
        if timeout(every, self.nudge.notified()).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// A collector where it answered.
fn at((address, identity): (SocketAddr, Identity)) -> MemberAddr {
    let addr = Address { host: address.ip().to_string(), port: address.port() };
    MemberAddr { id: identity.member, addr, node: identity.node }
}

async fn look_up(dns: &Dns) -> Result<Vec<SocketAddr>, String> {
    let answer = timeout(DEADLINE, tokio::net::lookup_host((dns.name.as_str(), dns.port))).await;
    let addresses = answer.map_err(|_| "the look-up took too long".to_string())?.map_err(|error| error.to_string())?;
    let mut addresses: Vec<SocketAddr> = addresses.take(MAX_ADDRESSES).collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() { Err("the name has no address".to_string()) } else { Ok(addresses) }
}

/// Reads the file in a thread; one that hangs (as on a file system whose server is away) is waited for at every look, and
/// no second one is begun beside it.
async fn read_in_time(path: &Path, reading: &mut Option<JoinHandle<Result<String, String>>>) -> Result<String, String> {
    let path = path.to_path_buf();
    let thread = reading.get_or_insert_with(|| tokio::task::spawn_blocking(move || file::read(&path)));
    match timeout(DEADLINE, &mut *thread).await {
        Err(_) => Err("reading it takes too long".to_string()),
        Ok(read) => {
            *reading = None;
            read.map_err(|error| error.to_string()).and_then(|text| text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dns(wait_for_members: usize, wait_at_most: Duration) -> Dns {
        let (every, name) = (Duration::from_millis(50), "127.0.0.1".to_string());
        Dns { name, port: 7770, every, misses: 3, wait_for_members, wait_at_most }
    }

    #[tokio::test]
    async fn no_ring_is_made_of_fewer_members_than_are_waited_for_until_the_time_is_up() {
        // The name has one address, 127.0.0.1, which answers as somebody.
        let ask: Ask = Arc::new(|_| {
            let identity = Identity {
                member: MemberId::new("a").unwrap(),
                gen_: Gen(1),
                node: None,
                ring_id: RingId::default(),
                replicas: 1,
                hash_version: HASH_VERSION,
                roles: vec!["collector".into()],
                standing: Standing::default(),
            };
            Box::pin(std::future::ready(Ok(identity)))
        });
        let wait = Duration::from_millis(600);
        let discovery = Discovery::new(Members::Dns(dns(3, wait)), 1, ask, Arc::new(|_| {}));
        let (mut seen, mut trouble, begun) = (discovery.seen(), discovery.trouble(), Instant::now());
        let running = tokio::spawn(discovery.run(CancellationToken::new()));
        let why = timeout(Duration::from_secs(5), trouble.wait_for(Option::is_some)).await.unwrap().unwrap().clone();
        assert_eq!(why.unwrap(), "1 of the 3 members that are waited for are there");
        timeout(Duration::from_secs(5), seen.wait_for(Option::is_some)).await.unwrap().unwrap();
        assert!(begun.elapsed() >= wait, "{:?}", begun.elapsed());
        running.abort();
    }
}

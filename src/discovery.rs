//! Where the membership comes from: a list, a watched file, or DNS with every address asked who it is.
//!
//! Only discovery edits the ring; a failed connection never does. An empty or failed answer keeps the last good ring,
//! additions are quick, removals need several misses. The number of addresses is not the number of members.

mod sightings;

pub use sightings::Sightings;

use crate::config::{Address, Dns, MemberAddr, Members, parse_members};
use crate::message::HASH_VERSION;
use crate::model::{Gen, MemberId, NodeId, RingId};
use crate::shard::{Member, Ring};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How often a watched file is looked at.
const FILE_EVERY: Duration = Duration::from_secs(2);
/// How long one address has to say who it is, and a look-up to answer.
const DEADLINE: Duration = Duration::from_secs(2);
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
        let mut last = None;
        loop {
            let text = read_bounded(&path).await;
            if last.as_ref() != Some(&text) {
                match text
                    .as_deref()
                    .map_err(Clone::clone)
                    .and_then(|text| parse_members(text).map_err(|mistakes| mistakes.to_string()))
                {
                    Ok(list) => {
                        self.trouble.send_replace(None);
                        self.publish(&list);
                    }
                    Err(error) => {
                        (self.problem)(Problem::File);
                        self.trouble.send_replace(Some(format!("{}: {error}", path.display())));
                        tracing::error!(path = %path.display(), error, "the members file is not usable; the last good ring stays");
                    }
                }
                last = Some(text);
            }
            self.pause(FILE_EVERY).await;
        }
    }

    async fn watch_dns(&self, dns: Dns) {
        let mut sightings = Sightings::new(dns.misses);
        let mut complained = false;
        loop {
            match look_up(&dns).await {
                Ok(addresses) => {
                    complained = false;
                    let n_addresses = addresses.len();
                    let (found, silent) = self.identify(addresses).await;
                    self.trouble.send_replace(found.is_empty().then(|| {
                        format!("none of the {} addresses of {} says which collector it is", n_addresses, dns.name)
                    }));
                    if let Some(list) = sightings.answer(found, &silent) {
                        self.publish(&list);
                    }
                }
                Err(error) => {
                    (self.problem)(Problem::Lookup);
                    self.trouble.send_replace(Some(format!("{}: {error}", dns.name)));
                    if !std::mem::replace(&mut complained, true) {
                        tracing::warn!(
                            name = dns.name,
                            error,
                            "no address of the collectors; the last good ring stays"
                        );
                    }
                }
            }
            self.pause(dns.every).await;
        }
    }

    /// Asks every address at once who it is: the members there, and the addresses (without port) that did not say.
    async fn identify(&self, addresses: Vec<SocketAddr>) -> (Vec<MemberAddr>, Vec<String>) {
        let asked = addresses.into_iter().map(|address| {
            let answer = timeout(DEADLINE, (self.ask)(address));
            (address, tokio::spawn(answer))
        });
        let mut silent = Vec::new();
        let mut found: BTreeMap<MemberId, (Gen, MemberAddr)> = BTreeMap::new();
        for (address, answer) in asked.collect::<Vec<_>>() {
            match answer.await {
                Ok(Ok(Ok(identity))) => self.take(address, identity, &mut found),
                other => {
                    (self.problem)(Problem::Silent);
                    tracing::debug!(%address, ?other, "an address of the collectors does not say who it is");
                    silent.push(address.ip().to_string());
                }
            }
        }
        (found.into_values().map(|(_, member)| member).collect(), silent)
    }

    fn take(&self, address: SocketAddr, identity: Identity, found: &mut BTreeMap<MemberId, (Gen, MemberAddr)>) {
        if !identity.roles.iter().any(|role| role == "collector") {
            return; // a router alone owns nothing
        }
        if identity.replicas != u32::from(self.replicas) || identity.hash_version != HASH_VERSION {
            (self.problem)(Problem::Incompatible);
            tracing::error!(
                member = %identity.member, %address, replicas = identity.replicas, ours = self.replicas,
                "a member with other replicas or another hash version is refused: give all processes the same"
            );
            return;
        }
        match found.get(&identity.member) {
            Some((gen_, first)) if *gen_ != identity.gen_ => {
                (self.problem)(Problem::Duplicate);
                tracing::error!(
                    member = %identity.member, first = %first.addr, second = %address,
                    "two processes have the same member id: give each its own `member`"
                );
            }
            Some(_) => {} // the same process at another address
            None => {
                let addr = Address { host: address.ip().to_string(), port: address.port() };
                let member = MemberAddr { id: identity.member.clone(), addr, node: identity.node };
                found.insert(identity.member, (identity.gen_, member));
            }
        }
    }

    fn publish(&self, list: &[MemberAddr]) {
        let members = list.iter().map(|member| Member { id: member.id.clone(), node: member.node.clone() });
        match Ring::new(members, self.replicas) {
            Ok(ring) => {
                let members = list.iter().map(|member| (member.id.clone(), member.clone())).collect();
                tracing::info!(ring_id = %ring.id(), n_members = list.len(), "membership");
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

async fn look_up(dns: &Dns) -> Result<Vec<SocketAddr>, String> {
    let answer = timeout(DEADLINE, tokio::net::lookup_host((dns.name.as_str(), dns.port))).await;
    let addresses = answer.map_err(|_| "the look-up took too long".to_string())?.map_err(|error| error.to_string())?;
    let mut addresses: Vec<SocketAddr> = addresses.take(MAX_ADDRESSES).collect();
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() { Err("the name has no address".to_string()) } else { Ok(addresses) }
}

async fn read_bounded(path: &Path) -> Result<String, String> {
    use tokio::io::AsyncReadExt;
    const MAX_FILE: u64 = 1 << 20;
    let read = async {
        let mut text = String::new();
        tokio::fs::File::open(path).await?.take(MAX_FILE).read_to_string(&mut text).await?;
        std::io::Result::Ok(text)
    };
    read.await.map_err(|error| error.to_string())
}

//! Where the router is: what the user says, what Docker's configuration says, and else what is found nearby.
//!
//! A place that somebody named is used whatever it answers, so that a wrong name is noticed. Only where nobody named one
//! are places tried, each with a short deadline ([`TRY`]): this machine's router, then those of the swarm's managers as
//! the local engine knows them. Which one was found is said.

use crate::cli::args::Target;
use crate::cli::client;
use crate::cli::docker::{self, Config, router_beside, socket};
use hyper::Uri;
use serde::Deserialize;
use std::{fmt, str::FromStr, time::Duration};

/// A router's usual port.
pub const PORT: u16 = 7770;
/// For one place that is tried.
pub const TRY: Duration = Duration::from_millis(500);
/// The most managers tried.
const MOST: usize = 7;
/// The engine's socket where nothing else is said.
const SOCKET: &str = "/var/run/docker.sock";

/// Where the router is: `http://HOST[:PORT]`, [`PORT`] where none is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Name or address, an IPv6 address without brackets.
    pub name: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "http://[{}]:{}", self.name, self.port)
        } else {
            write!(f, "http://{}:{}", self.name, self.port)
        }
    }
}

/// Why a text does not say where a router is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// Not a URL, or one with more in it than an address.
    #[error("a router's address is http://HOST or http://HOST:PORT")]
    Shape,
    /// Another scheme.
    #[error("a router speaks plain http, so its address begins with http://")]
    Scheme,
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let uri: Uri = text.parse().map_err(|_| HostError::Shape)?;
        if uri.scheme_str().is_some_and(|scheme| scheme != "http") {
            return Err(HostError::Scheme);
        }
        let authority = uri.authority().filter(|_| uri.scheme().is_some()).ok_or(HostError::Shape)?;
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => PORT,
            Some(_) => authority.port_u16().ok_or(HostError::Shape)?,
            None => return Err(HostError::Shape), // user@host
        };
        if name.is_empty() || uri.path() != "/" || uri.query().is_some() {
            return Err(HostError::Shape);
        }
        Ok(Host { name: name.into(), port })
    }
}

/// A router's place, and how it was come by where the user did not say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The place.
    pub host: Host,
    /// For people, where it may surprise.
    pub note: Option<String>,
}

/// What Docker's configuration says of the router's place cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The setting is no address.
    #[error("plugins.swarmstats.host in Docker's config.json is {0:?}: {1}")]
    Setting(String, HostError),
    /// The engine beside which it would be is not known.
    #[error(transparent)]
    Docker(#[from] docker::Error),
}

/// What somebody named, without trying it.
///
/// # Errors
/// Where the setting is no address, or the context in use is none.
pub fn named(target: &Target, config: &Config) -> Result<Option<Found>, Error> {
    if let Some(host) = &target.host {
        return Ok(Some(Found { host: host.clone(), note: None }));
    }
    if let Some(text) = config.setting("host") {
        let host = text.parse().map_err(|error| Error::Setting(text.into(), error))?;
        return Ok(Some(Found { host, note: Some(format!("asked {text}, which Docker's config.json names")) }));
    }
    target.docker.check(config)?;
    Ok(target.docker.engine(config).as_deref().and_then(router_beside).map(|host| {
        let note = Some(format!("asked {host}, beside the engine that Docker is set to use"));
        Found { host, note }
    }))
}

/// The router to ask: the one named, else the first that answers nearby, else this machine's.
///
/// # Errors
/// Where the setting is no address, or the context in use is none.
pub async fn find(target: &Target, config: &Config) -> Result<Found, Error> {
    if let Some(found) = named(target, config)? {
        return Ok(found);
    }
    let here = Host { name: "127.0.0.1".into(), port: PORT };
    if answers(&here).await {
        return Ok(Found { host: here, note: None });
    }
    let engine = target.docker.engine(config);
    for name in managers(engine.as_deref().and_then(socket).unwrap_or(SOCKET)).await {
        let host = Host { name, port: PORT };
        if answers(&host).await {
            let note = Some(format!("asked {host}, a manager of this engine's swarm"));
            return Ok(Found { host, note });
        }
    }
    Ok(Found { host: here, note: None })
}

async fn answers(host: &Host) -> bool {
    client::get_within(TRY, host, "/healthz").await.is_ok_and(|reply| reply.status.is_success())
}

/// This node's own address, then the managers', as the engine at a socket knows them.
async fn managers(socket: &str) -> Vec<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Info {
        swarm: Swarm,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase", default)]
    #[derive(Default)]
    struct Swarm {
        node_addr: String,
        remote_managers: Option<Vec<Manager>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Manager {
        addr: String,
    }
    let Ok(reply) = client::get_from_socket(TRY, socket, "/info").await else { return vec![] };
    let Ok(Info { swarm }) = serde_json::from_slice(&reply.body) else { return vec![] };
    let managers = swarm.remote_managers.unwrap_or_default().into_iter().filter_map(|manager| {
        let (name, _) = manager.addr.rsplit_once(':')?;
        Some(name.trim_start_matches('[').trim_end_matches(']').to_owned())
    });
    let mut names: Vec<String> = vec![];
    for name in [swarm.node_addr].into_iter().chain(managers).filter(|name| !name.is_empty()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(MOST);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_address_and_nothing_more() {
        let host = |text: &str| text.parse::<Host>().map(|host| (host.name.clone(), host.port, host.to_string()));
        assert_eq!(host("http://r").unwrap(), ("r".into(), 7770, "http://r:7770".into()));
        assert_eq!(host("http://10.0.0.5:80/").unwrap(), ("10.0.0.5".into(), 80, "http://10.0.0.5:80".into()));
        assert_eq!(host("http://[::1]:7770").unwrap(), ("::1".into(), 7770, "http://[::1]:7770".into()));
        assert_eq!(host("tcp://r:1"), Err(HostError::Scheme));
        for bad in
            ["", "r:7770", "http://", "http://u@r", "http://r:99999", "http://r:", "http://r/x", "http://r?x", "/r"]
        {
            assert_eq!(host(bad), Err(HostError::Shape), "{bad:?}");
        }
    }
}

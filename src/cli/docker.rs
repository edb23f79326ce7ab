//! What Docker's own configuration says: its flags, `config.json`, and the context in use.
//!
//! Read as Docker's command reads it: `--config`, `DOCKER_CONFIG`, else `~/.docker`; `--context` before `--host` before
//! `DOCKER_HOST` before `DOCKER_CONTEXT` before the current context. What cannot be read is as if it were not there; a
//! config that is broken, or a context that is none, is said. It deliberately speaks to no engine.

use crate::cli::hosts::{Host, PORT};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Docker's global flags, as it passes them on to a plugin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Docker {
    /// `--config`: the folder.
    pub config: Option<PathBuf>,
    /// `--host`: the engine's address.
    pub host: Option<String>,
    /// `--context`: the name of one.
    pub context: Option<String>,
}

/// `config.json`, so far as it concerns this command.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    #[serde(rename = "currentContext")]
    current_context: Option<String>,
    /// Docker keeps the settings of each plugin as texts under its name.
    plugins: BTreeMap<String, BTreeMap<String, String>>,
}

/// What Docker's configuration says cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A `config.json` that is there and cannot be used.
    #[error("{}: {why}; see the plugins section of Docker's config.json", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Without it another swarm's figures would be shown.
    #[error("context {name:?} not found in {}; `docker context ls` lists those there are", .folder.display())]
    Context {
        /// Its name.
        name: String,
        /// Where contexts are kept.
        folder: PathBuf,
    },
}

impl Config {
    /// A setting of this plugin.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.plugins.get(super::args::PLUGIN)?.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl Docker {
    fn folder(&self) -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        self.config.clone().or_else(|| set("DOCKER_CONFIG")).or_else(|| Some(set("HOME")?.join(".docker")))
    }

    /// Reads `config.json`; where there is none, nothing is set.
    ///
    /// # Errors
    /// Where it is no such document.
    pub fn config(&self) -> Result<Config, Error> {
        let Some(folder) = self.folder() else { return Ok(Config::default()) };
        let path = folder.join("config.json");
        let Ok(text) = std::fs::read(&path) else { return Ok(Config::default()) };
        serde_json::from_slice(&text).map_err(|why| Error::Config { path, why: why.to_string() })
    }

    /// Whether the context in use, if it is one, is there.
    ///
    /// # Errors
    /// Where it is not.
    pub fn check(&self, config: &Config) -> Result<(), Error> {
        match (self.place(config), self.folder()) {
            (Some(Place::Context(name)), Some(folder)) if endpoint(&folder, &name).is_none() => {
                Err(Error::Context { name, folder: folder.join("contexts") })
            }
            _ => Ok(()),
        }
    }

    /// The engine's address that Docker's command would use, if it is not the default one.
    pub fn engine(&self, config: &Config) -> Option<String> {
        match self.place(config)? {
            Place::Host(host) => Some(host),
            Place::Context(name) => endpoint(&self.folder()?, &name)?,
        }
    }

    fn place(&self, config: &Config) -> Option<Place> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let context = match &self.context {
            Some(context) => Some(context.clone()),
            None => match self.host.clone().or_else(|| set("DOCKER_HOST")) {
                Some(host) => return Some(Place::Host(host)),
                None => set("DOCKER_CONTEXT").or_else(|| config.current_context.clone()),
            },
        };
        context.filter(|name| !["", "default"].contains(&&**name)).map(Place::Context)
    }
}

/// What says where the engine is.
enum Place {
    Host(String),
    Context(String),
}

/// The engine's address, if any, in the context of that name: each has a folder of its own with its name in a file.
fn endpoint(folder: &Path, name: &str) -> Option<Option<String>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Meta {
        name: String,
        endpoints: BTreeMap<String, Endpoint>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Endpoint {
        host: String,
    }
    let contexts = std::fs::read_dir(folder.join("contexts/meta")).ok()?;
    let metas = contexts.flatten().filter_map(|entry| std::fs::read(entry.path().join("meta.json")).ok());
    let mut metas = metas.filter_map(|text| serde_json::from_slice::<Meta>(&text).ok());
    let mut meta = metas.find(|meta| meta.name == name)?;
    Some(meta.endpoints.remove("docker").map(|endpoint| endpoint.host))
}

/// The router on an engine's machine, if the address names one: `tcp://HOST…` or `ssh://[USER@]HOST…`.
pub fn router_beside(engine: &str) -> Option<Host> {
    let (scheme, rest) = engine.split_once("://")?;
    if !["tcp", "ssh", "http", "https"].contains(&scheme) {
        return None;
    }
    let authority = rest.split('/').next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let name = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    };
    (!name.is_empty()).then(|| Host { name: name.into(), port: PORT })
}

/// The engine's socket, if the address names one of this machine.
pub fn socket(engine: &str) -> Option<&str> {
    engine.strip_prefix("unix://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_router_stands_beside_a_remote_engine() {
        let beside = |engine: &str| router_beside(engine).map(|host| host.to_string());
        assert_eq!(beside("tcp://10.0.0.5:2376"), Some("http://10.0.0.5:7770".into()));
        assert_eq!(beside("tcp://[fe80::1]:2376/x"), Some("http://[fe80::1]:7770".into()));
        assert_eq!(beside("ssh://deploy@manager-1"), Some("http://manager-1:7770".into()));
        assert_eq!(beside("ssh://manager-1:22"), Some("http://manager-1:7770".into()));
        for none in ["unix:///var/run/docker.sock", "npipe:////./pipe/docker_engine", "nonsense", "tcp://", "ssh://u@"]
        {
            assert_eq!(beside(none), None, "{none}");
        }
    }

    /// A folder as `docker context create` leaves it.
    #[test]
    fn the_context_in_use_is_dockers() {
        let folder = std::env::temp_dir().join(format!("swarmstats-docker-{}", std::process::id()));
        let meta = folder.join("contexts/meta/0123abcd");
        std::fs::create_dir_all(&meta).unwrap();
        let text = r#"{"Name": "prod", "Metadata": {}, "Endpoints": {"docker": {"Host": "ssh://m1", "SkipTLSVerify": false}}}"#;
        std::fs::write(meta.join("meta.json"), text).unwrap();
        let config = r#"{"auths": {}, "currentContext": "prod", "plugins": {"swarmstats": {"host": "http://r:1", "format": ""}}}"#;
        std::fs::write(folder.join("config.json"), config).unwrap();

        let docker = |host: Option<&str>, context: Option<&str>| Docker {
            config: Some(folder.clone()),
            host: host.map(Into::into),
            context: context.map(Into::into),
        };
        let config = docker(None, None).config().unwrap();
        assert_eq!(
            (config.setting("host"), config.setting("format"), config.setting("nope")),
            (Some("http://r:1"), None, None)
        );
        assert_eq!(docker(Some("tcp://h:1"), None).engine(&config), Some("tcp://h:1".into()));
        assert_eq!(docker(Some("tcp://h:1"), Some("prod")).engine(&config), Some("ssh://m1".into()), "a context wins");
        assert_eq!(docker(None, Some("default")).engine(&config), None);
        let said = docker(None, Some("nope")).check(&config).unwrap_err().to_string();
        assert!(said.starts_with("context \"nope\" not found in "), "{said}");
        assert!(docker(Some("tcp://h:1"), None).check(&config).is_ok());

        std::fs::write(folder.join("config.json"), "{").unwrap();
        let said = docker(None, None).config().unwrap_err().to_string();
        assert!(said.contains("config.json: EOF"), "{said}");
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(docker(None, None).config().unwrap(), Config::default(), "none is no fault");
    }
}

//! Which version of the Engine API is spoken: the newest that both sides know. Pure.

use std::fmt;

/// The newest version this client knows; nothing it uses is newer than 1.41.
pub const NEWEST: ApiVersion = ApiVersion(1, 56);
/// The oldest: before it, events and inspect lack what is needed here.
pub const OLDEST: ApiVersion = ApiVersion(1, 24);

/// A version, compared part by part: 1.9 is older than 1.41.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ApiVersion(pub u16, pub u16);

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Why there is no common version.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VersionError {
    /// Not of the form `1.41`.
    #[error("the API version {0:?} is not of the form 1.41")]
    Form(String),
    /// The engine is older than this client can use.
    #[error(
        "API version {0} is not supported by this client: the minimum supported API version is {OLDEST}, so upgrade the engine"
    )]
    TooOld(ApiVersion),
}

impl std::str::FromStr for ApiVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<ApiVersion, VersionError> {
        let parts = text.trim().strip_prefix('v').unwrap_or(text.trim()).split_once('.');
        parts
            .and_then(|(major, minor)| Some(ApiVersion(major.parse().ok()?, minor.parse().ok()?)))
            .ok_or_else(|| VersionError::Form(text.chars().take(32).collect()))
    }
}

/// The version in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Negotiated {
    version: ApiVersion,
    settled: bool,
}

impl Negotiated {
    /// Nothing known yet; `fixed` (`DOCKER_API_VERSION`; empty is none) needs no negotiation.
    ///
    /// # Errors
    /// If `fixed` is no version.
    pub fn new(fixed: Option<&str>) -> Result<Negotiated, VersionError> {
        match fixed.filter(|text| !text.is_empty()) {
            Some(text) => Ok(Negotiated { version: text.parse()?, settled: true }),
            None => Ok(Negotiated { version: NEWEST, settled: false }),
        }
    }

    /// The version to speak now.
    pub fn version(&self) -> ApiVersion {
        self.version
    }

    /// Takes what a ping said (empty: nothing). What is settled stays, unless `anew`: the engine was restarted, and may
    /// be another one.
    ///
    /// # Errors
    /// If the engine is too old or says no version; the version in use then stays.
    pub fn take(&mut self, ping: &str, anew: bool) -> Result<(), VersionError> {
        if self.settled && !anew {
            return Ok(());
        }
        let theirs = if ping.is_empty() { NEWEST } else { ping.parse()? };
        if theirs < OLDEST {
            return Err(VersionError::TooOld(theirs));
        }
        *self = Negotiated { version: theirs.min(NEWEST), settled: true };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the Docker client's own negotiation tests, with this client's bounds.
    fn negotiated(fixed: Option<&str>, pings: &[&str]) -> String {
        let mut negotiated = Negotiated::new(fixed).unwrap();
        for ping in pings {
            negotiated.take(ping, false).unwrap();
        }
        negotiated.version().to_string()
    }

    #[test]
    fn negotiation_goes_as_the_docker_client_does() {
        assert_eq!(negotiated(None, &["1.50"]), "1.50", "downgrade");
        assert_eq!(negotiated(None, &["1.99"]), NEWEST.to_string(), "never above what this client knows");
        assert_eq!(negotiated(Some("1.51"), &["1.50"]), "1.51", "fixed");
        assert_eq!(negotiated(None, &[""]), NEWEST.to_string(), "no header");
        assert_eq!(negotiated(Some("1.50"), &["1.51"]), "1.50", "no upgrade");
        assert_eq!(negotiated(Some("9.99"), &["1.45"]), "9.99", "DOCKER_API_VERSION overrides");
        assert_eq!(negotiated(None, &["1.50", "1.49"]), "1.50", "once");
        assert_eq!(negotiated(Some(""), &["1.50"]), "1.50", "empty is not fixed");
    }

    #[test]
    fn a_restarted_engine_is_negotiated_with_anew() {
        let mut negotiated = Negotiated::new(Some("1.50")).unwrap();
        negotiated.take("1.49", true).unwrap();
        assert_eq!(negotiated.version(), ApiVersion(1, 49));
    }

    #[test]
    fn an_engine_that_is_too_old_is_refused_and_the_version_stays() {
        let mut negotiated = Negotiated::new(None).unwrap();
        let error = negotiated.take("1.19", false).unwrap_err();
        assert!(error.to_string().starts_with(
            "API version 1.19 is not supported by this client: the minimum supported API version is 1.24"
        ));
        assert_eq!(negotiated.version(), NEWEST);
    }

    #[test]
    fn versions_compare_part_by_part_as_integers() {
        assert!("1.9".parse::<ApiVersion>().unwrap() < "1.41".parse().unwrap());
        assert!("2.0".parse::<ApiVersion>().unwrap() > "1.99".parse().unwrap());
        assert_eq!("v1.41".parse(), Ok(ApiVersion(1, 41)));
        for wrong in ["", "1", "1.x", "1.41.2", "-1.2"] {
            assert!(wrong.parse::<ApiVersion>().is_err(), "{wrong:?}");
        }
    }
}

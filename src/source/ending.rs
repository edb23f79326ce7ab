//! Notices that a container's last process is gone, some milliseconds before the engine removes its cgroup: the moment
//! at which its last figures can be read. The engine's own event comes after that removal.
//!
//! The kernel tells it in two ways: at once by a pidfd of the first process, whose end is the end of all others, where
//! that process can be seen; else by `cgroup.events` of a v2 cgroup (also of one without controllers, beside v1), some
//! ten milliseconds late, but from inside a container as well. Where neither works the engine's event has to do.

use super::cgroup::Target;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
};
use tokio::io::{Interest, unix::AsyncFd};

/// A container's coming end.
#[derive(Debug)]
pub enum Ending {
    /// Of its first process.
    Process(AsyncFd<OwnedFd>),
    /// Of all processes of its cgroup.
    Cgroup(AsyncFd<File>),
}

impl Ending {
    /// Looks for a way to notice it; `unified` is the container's v2 directory, if it has one. Within a tokio runtime.
    pub fn of(target: &Target, unified: Option<&Path>) -> Option<Ending> {
        if let Some(process) = first_process(target) {
            return watched(process, Interest::READABLE).map(Ending::Process);
        }
        let events = File::open(unified?.join("cgroup.events")).ok().filter(|events| populated(events).is_ok())?;
        watched(events, Interest::PRIORITY).map(Ending::Cgroup)
    }

    /// Waits until the last process is gone.
    pub async fn come(self) {
        match self {
            // An error of waiting can only mean that there is nothing to wait for.
            Ending::Process(process) => drop(process.readable().await),
            Ending::Cgroup(events) => {
                // Read before each wait: that is what makes the kernel tell of the next change.
                while populated(events.get_ref()).is_ok_and(|populated| populated) {
                    let Ok(mut changed) = events.ready(Interest::PRIORITY).await else { return };
                    changed.clear_ready();
                }
            }
        }
    }
}

/// Whether there is any process in a cgroup; an error if the cgroup is gone or the kernel does not say.
fn populated(events: &File) -> io::Result<bool> {
    let mut buffer = [0; 128];
    let n = events.read_at(&mut buffer, 0)?;
    let line = buffer[..n].split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"populated "));
    line.map(|value| value != b"0").ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A process id is good only while its cgroup names the container, and only where this process numbers processes as the
/// engine does.
fn first_process(target: &Target) -> Option<OwnedFd> {
    let pidfd = pidfd_open(Pid::from_raw(i32::try_from(target.pid).ok()?)?, PidfdFlags::empty()).ok()?;
    let cgroup = fs::read_to_string(format!("/proc/{}/cgroup", target.pid)).ok()?;
    cgroup.contains(&target.container_id).then_some(pidfd)
}

#[expect(deprecated, reason = "what replaces it is unsafe; owned descriptors are what makes this one sound")]
fn watched<T: std::os::fd::AsRawFd>(descriptor: T, interest: Interest) -> Option<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, interest).ok()
}

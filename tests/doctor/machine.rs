//! This machine: the engine's socket, and what a shipper can see of the kernel.

use crate::fixture::{NOWHERE, command, doctor, found};
use crate::rig::{Daemon, Folder};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;

fn ask(socket: &str) -> String {
    format!("--engine {socket} --host {NOWHERE} --shipper {NOWHERE}")
}

#[tokio::test]
async fn no_socket_and_one_that_nobody_listens_on() {
    doctor(&ask("unix:///nowhere/docker.sock")).await.names("engine_missing", "fail", &["/nowhere/docker.sock"]);
    let folder = Folder::new();
    let socket = folder.0.join("docker.sock");
    drop(UnixListener::bind(&socket).unwrap());
    doctor(&ask(socket.to_str().unwrap())).await.names("engine_refused", "fail", &["nobody listens"]);
}

/// A user who is not in group docker.
#[tokio::test]
async fn a_socket_without_rights() {
    assert!(rustix::process::geteuid().is_root(), "to become another user this test needs root");
    let folder = Folder::new();
    let (socket, program) = (folder.0.join("docker.sock"), folder.0.join("docker-swarmstats"));
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_docker-swarmstats"), &program).unwrap();
    let mut command = command(&program, &ask(socket.to_str().unwrap()));
    command.uid(65534).gid(65534);
    found(command).await.names("engine_denied", "fail", &["permission denied"]);
}

#[tokio::test]
async fn an_engine_that_hangs() {
    let folder = Folder::new();
    let socket = folder.0.join("docker.sock");
    let _silent = UnixListener::bind(&socket).unwrap(); // takes connections, and never answers
    doctor(&ask(socket.to_str().unwrap())).await.names("engine_frozen", "fail", &["did not answer"]);
}

#[tokio::test]
async fn an_engine_elsewhere_is_not_asked() {
    doctor(&ask("tcp://192.0.2.1:2375")).await.names("engine_elsewhere", "warn", &["192.0.2.1"]);
}

/// The status of a shipper with these keys, whose engine is not there.
async fn of_shipper(more: &str) -> crate::fixture::Found {
    let shipper = Daemon::shipper(std::path::Path::new("/nowhere/docker.sock"), more).await;
    doctor(&format!("--engine unix:///nowhere/docker.sock --host {NOWHERE} --shipper http://{}", shipper.api)).await
}

#[tokio::test]
async fn a_shipper_whose_engine_is_missing() {
    of_shipper("").await.names("shipper_not_ready", "fail", &["/nowhere/docker.sock"]);
}

#[tokio::test]
async fn a_shipper_that_sees_no_cgroups() {
    let found = of_shipper("host_sys: /nowhere/sys").await;
    found.names("machine_cgroup", "warn", &["the shipper at", "/nowhere/sys/fs/cgroup"]);
}

#[tokio::test]
async fn a_shipper_that_sees_no_proc() {
    let found = of_shipper("host_proc: /nowhere/proc").await;
    found.names("machine_proc", "fail", &["the shipper at", "/nowhere/proc/self/mountinfo"]);
}

/// A made-up root: the memory controller of the machine this runs on must be left as it is.
#[tokio::test]
async fn b038_the_memory_controller_is_off() {
    let folder = Folder::new();
    let (proc_, sys) = (folder.0.join("proc"), folder.0.join("sys"));
    fs::create_dir_all(proc_.join("self")).unwrap();
    fs::create_dir_all(sys.join("fs/cgroup")).unwrap();
    fs::write(sys.join("fs/cgroup/cgroup.controllers"), "cpuset cpu io pids\n").unwrap();
    let mount = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    fs::write(proc_.join("self/mountinfo"), mount).unwrap();
    let found = of_shipper(&format!("host_proc: '{}'\nhost_sys: '{}'", proc_.display(), sys.display())).await;
    found.names("memory_controller", "warn", &["the shipper at", "memory controller is off"]);
    let remedy = found.of("memory_controller").unwrap()["remedy"].as_str().unwrap().to_owned();
    assert!(remedy.contains("cgroup_enable=memory"), "{remedy}");
}

//! An engine that is frozen, killed and started again under containers that live on (Swarm forbids live-restore, so
//! plain containers on an engine of the test's own), read by a shipper that includes all.

use crate::engine::Engine;
use crate::env::{Check, INTERVAL, Own, folder, free_port, items, stat, text, wait_for};
use crate::http;
use crate::kernel::Kernel;
use serde_json::Value;
use std::{
    fs,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// The containers' figures as a shipper tells them, by name.
struct Shipper {
    url: String,
    parent: String,
    _process: Own,
}

impl Shipper {
    fn start(engine: &Engine) -> Shipper {
        let (folder, port) = (folder("live-restore"), free_port());
        let config = format!(
            "engine: unix://{}\ninclude: all\nmembers: {{static: [{{id: nobody, addr: \"127.0.0.1:9\"}}]}}\n\
             api: {{listen: \"127.0.0.1:{port}\"}}\nmetrics: {{listen: none}}\n",
            engine.socket()
        );
        fs::write(folder.join("shipper.yaml"), config).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_shipper"))
            .arg("--config")
            .arg(folder.join("shipper.yaml"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let parent = format!("swarmstats-test-{}", std::process::id());
        Shipper { url: format!("http://127.0.0.1:{port}"), parent, _process: Own(process) }
    }

    fn task(&self, name: &str) -> Option<Value> {
        let answer = http::get(&format!("{}/v1/tasks?scope=local", self.url)).ok()?;
        items(&answer.json(), "tasks").into_iter().find(|task| task["name"] == name && task["state"] == "running")
    }

    /// Whether the figure of a container lies between the kernel's of three intervals ago and of now.
    fn right(&self, check: &mut Check, when: &str, name: &str) {
        let Some(before) = self.task(name) else { return check.that(false, || format!("{when}: no {name}")) };
        let kernel = Kernel::under(&self.parent, text(&before, "container_id"));
        let earlier = kernel.cpu();
        sleep(INTERVAL * 5 / 4);
        let Some(task) = self.task(name) else { return check.that(false, || format!("{when}: {name} is gone")) };
        let (ours, later) = (stat(&task, "cpu_seconds_total").unwrap(), kernel.cpu());
        println!("{when}: {name}: CPU kernel {earlier:.3} to {later:.3} s, ours {ours:.3}");
        check.that(earlier <= ours && ours <= later, || format!("{when}: {name}: {ours}"));
    }
}

#[test]
fn killed_and_started_again_it_is_right_within_three_intervals() {
    let mut check = Check::default();
    let mut engine = Engine::start();
    engine.run("busy", "--network none --cpus 0.2", "while :; do :; done");
    engine.run("short", "--network none", "sleep 1000");
    let shipper = Shipper::start(&engine);
    wait_for("the shipper reads both", Duration::from_secs(20), || {
        ["busy", "short"].iter().all(|name| shipper.task(name).is_some())
    });
    shipper.right(&mut check, "before", "busy");
    engine.freeze();
    sleep(Duration::from_secs(6));
    shipper.right(&mut check, "frozen for 6 s", "busy");
    engine.thaw();
    engine.kill();
    sleep(Duration::from_secs(8)); // long enough for the longest pause between attempts
    shipper.right(&mut check, "killed 8 s ago", "busy");
    engine.start_again();
    let begun = Instant::now();
    engine.run("new", "--network none --cpus 0.1", "while :; do :; done");
    let started = begun.elapsed();
    let seen = wait_for("a container of the new engine is read", Duration::from_secs(15), || {
        shipper.task("new").is_some_and(|task| stat(&task, "cpu_seconds_total").is_some())
    });
    println!("a container started {started:.1?} after the engine answered again was read {seen:.1?} later");
    check.that(seen <= INTERVAL * 3, || format!("the new container was read only after {seen:?}"));
    shipper.right(&mut check, "started again", "busy");
    shipper.right(&mut check, "started again", "new");
    engine.docker("rm -f short");
    let gone =
        wait_for("an ended container is told apart", Duration::from_secs(10), || shipper.task("short").is_none());
    println!("a container that ended was gone after {gone:.1?}");
    check.that(gone <= INTERVAL * 3, || format!("an ended container stayed for {gone:?}"));
    check.done();
}

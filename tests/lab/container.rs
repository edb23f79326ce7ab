//! The lab's shipper once more, in a container that sees only `/sys/fs/cgroup`, `/proc` and the engine's socket, all
//! read-only: the same figures as the one outside.

use crate::env::{Check, Finally, Lab, folder, items, lab, output, stat, text, wait_for};
use crate::http;
use crate::kernel::Kernel;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::Duration,
};

const NAME: &str = "swarmstats-in-a-container";
const CONFIG: &str = "\
engine: unix:///engine.sock
host_proc: /host/proc
host_sys: /host/sys
# It only answers: the node's own shipper is the one that collectors hear.
members: {static: [{id: nobody, addr: \"127.0.0.1:9\"}]}
api: {listen: \"10.77.0.11:7783\"}
metrics: {listen: none}
";

/// An image of the running shipper's program with the libraries it needs, without a registry.
fn image(lab: &Lab) {
    let tree = folder("image");
    let copy = |from: &Path, to: &str| {
        let to = tree.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    };
    let program = PathBuf::from(format!("/proc/{}/exe", lab.pid("run/s1.pid")));
    copy(&program, "shipper");
    let mut ldd = Command::new("ldd");
    ldd.arg(tree.join("shipper"));
    for library in output(ldd).split_whitespace().filter(|word| word.starts_with('/')) {
        copy(Path::new(library), library);
    }
    fs::write(tree.join("shipper.yaml"), CONFIG).unwrap();
    let tar = tree.with_extension("tar");
    let mut pack = Command::new("tar");
    pack.arg("-cf").arg(&tar).arg("-C").arg(&tree).arg(".");
    output(pack);
    lab.docker(0, &format!("import {} shipper:lab", tar.display()));
}

#[test]
fn in_a_container_it_reads_the_same() {
    let (lab, mut check) = (lab(), Check::default());
    image(&lab);
    let socket = lab.engine(0).display().to_string();
    let remove = Finally(|| {
        Command::new("docker").args(["-H", &format!("unix://{socket}"), "rm", "-f", NAME]).output().ok();
    });
    lab.docker(
        0,
        &format!(
            "run -d --name {NAME} --network host --read-only -v /sys/fs/cgroup:/host/sys/fs/cgroup:ro \
             -v /proc:/host/proc:ro -v {socket}:/engine.sock:ro shipper:lab /shipper --config /shipper.yaml"
        ),
    );
    let local = |url: &str| -> Vec<Value> {
        let answer = http::get(&format!("{url}/v1/tasks?scope=local"));
        let tasks = answer.map_or_else(|_| Vec::new(), |answer| items(&answer.json(), "tasks"));
        tasks.into_iter().filter(|task| task["state"] == "running").collect()
    };
    let inside = "http://10.77.0.11:7783";
    let outside = &lab.shippers()[0];
    wait_for("the shipper in the container reads every task", Duration::from_secs(20), || {
        !local(inside).is_empty() && local(inside).len() == local(outside).len()
    });
    sleep(Duration::from_secs(3));
    // Counters of the one inside lie between the kernel's before and after; both shippers know the same stats.
    let cpu = |tasks: &[Value]| tasks.iter().map(|task| Kernel::of(task).cpu()).collect::<Vec<_>>();
    let earlier = cpu(&local(inside));
    sleep(Duration::from_millis(1500));
    let (inside, outside) = (local(inside), local(outside));
    let later = cpu(&inside);
    for (ours, (earlier, later)) in inside.iter().zip(earlier.iter().zip(&later)) {
        let name = text(ours, "name");
        let other = outside.iter().find(|other| other["id"] == ours["id"]).unwrap();
        let [used, used_outside] = [ours, other].map(|task| stat(task, "memory_used_bytes").unwrap() / 1048576.0);
        let [seconds, seconds_outside] = [ours, other].map(|task| stat(task, "cpu_seconds_total").unwrap());
        println!(
            "{name}: CPU kernel {earlier:.3} to {later:.3} s, inside {seconds:.3}, outside {seconds_outside:.3}; \
             memory inside {used:.2} MiB, outside {used_outside:.2}"
        );
        check.that(*earlier <= seconds && seconds <= *later, || format!("{name}: CPU {seconds}"));
        // Traffic's memory comes and goes with the processes it starts.
        let steady = text(ours, "service_name") != "lab_traffic";
        check.that(!steady || (used - used_outside).abs() <= 1.0, || {
            format!("{name}: memory {used}, {used_outside} outside")
        });
        for (stat, value) in ours["stats"].as_object().unwrap() {
            let there = |value: &Value| !value.is_null();
            check.that(there(value) == there(&other["stats"][stat]), || {
                format!("{name}: {stat} is {value} inside, {} outside", other["stats"][stat])
            });
        }
        for same in ["id", "name", "service_id", "node_id", "slot", "container_id", "image"] {
            check.that(ours[same] == other[same], || format!("{name}: {same} {} inside", ours[same]));
        }
        for stat in ["network_receive_bytes_total", "memory_limit_bytes", "cpu_limit_cores", "start_time_seconds"] {
            let (ours, other) = (crate::env::stat(ours, stat), crate::env::stat(other, stat));
            let near = ours.zip(other).is_none_or(|(ours, other)| (ours - other).abs() <= 0.2 * other + 1e6);
            check.that(near, || format!("{name}: {stat} {ours:?} inside, {other:?} outside"));
        }
    }
    let log = Command::new("docker").args(["-H", &format!("unix://{socket}"), "logs", NAME]).output().unwrap();
    check.that(!String::from_utf8_lossy(&log.stderr).contains("panicked"), || "it panicked".into());
    drop(remove);
    check.done();
}

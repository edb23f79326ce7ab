//! What each kind of container is there for: its load is known, so its figures are.

use crate::kernel;
use crate::record::Record;
use serde_json::Value;
use std::path::Path;

const MIB: f64 = 1048576.0;

fn stat(task: &Value, name: &str) -> f64 {
    task["stats"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {}", task["stats"]))
}

/// How much a counter grew from one ask to the other.
fn growth(record: &Record, container: &str, name: &str) -> f64 {
    stat(&record.asked(2)[container], name) - stat(&record.asked(1)[container], name)
}

#[test]
fn throttling_is_counted() {
    for record in Record::all() {
        let (periods, throttled) =
            (growth(&record, "burn", "cpu_periods_total"), growth(&record, "burn", "cpu_throttled_periods_total"));
        let seconds = growth(&record, "burn", "cpu_throttled_seconds_total");
        println!("{} burn: {throttled} of {periods} periods throttled, {seconds:.1} s of them", record.machine);
        // A period is 100 ms. What burns all the time is throttled in nearly each, unless the machine itself has to wait.
        assert!(periods >= 100.0 && throttled >= 0.5 * periods && seconds > 0.0);
        assert_eq!(stat(&record.asked(1)["burn"], "cpu_limit_cores"), 0.1);
    }
}

#[test]
fn oom_kills_are_counted() {
    for record in Record::all() {
        // What the kernel counts for the whole machine: nobody else runs out of memory there.
        let [before, between, after] = [1, 2, 3].map(|look| {
            let text = record.text(&format!("look{look}.kills"));
            text.trim().parse::<f64>().unwrap()
        });
        let [first, last] = [1, 2].map(|ask| stat(&record.asked(ask)["oom"], "memory_oom_kills_total"));
        println!(
            "{} oom: kernel {before}, ours {first}, kernel {between}, ours {last}, kernel {after}",
            record.machine
        );
        assert!(before <= first && first <= between && between <= last && last <= after && first < last);
        assert_eq!(stat(&record.asked(2)["burn"], "memory_oom_kills_total"), 0.0);
    }
}

#[test]
fn a_file_in_tmpfs_is_memory_in_use() {
    for record in Record::all() {
        let task = &record.asked(2)["tmpfs"];
        let (used, shmem) = (stat(task, "memory_used_bytes") / MIB, stat(task, "memory_shmem_bytes") / MIB);
        println!("{} tmpfs: a file of 16 MiB, used {used:.2} MiB, of it shmem {shmem:.2} MiB", record.machine);
        assert!((16.0..16.5).contains(&shmem) && (16.0..20.0).contains(&used));
    }
}

#[test]
fn traffic_is_counted_on_both_sides_also_through_a_virtual_ip() {
    for record in Record::all() {
        let address = record.text("address").trim().to_owned();
        let service = record.json("sink.json");
        let ips = service[0]["Endpoint"]["VirtualIPs"].as_array().cloned().unwrap_or_default();
        let is_virtual =
            ips.iter().any(|ip| ip["Addr"].as_str().is_some_and(|ip| ip.starts_with(&format!("{address}/"))));
        // Without names and virtual IPs where the network is Docker's bridge.
        assert_eq!(is_virtual, record.machine == "systemd", "{address} of {ips:?}");
        // Calls that got through before the last ask, and all of them; one may be under way. Headers come on top.
        let calls = |look: u8| record.text(&format!("look{look}.rounds")).trim().parse::<f64>().unwrap();
        let (least, most) = (calls(2) * 65536.0, (calls(3) + 1.0) * 65536.0 * 1.06);
        let tasks = record.asked(2);
        for (container, name) in [("caller", "network_transmit_bytes_total"), ("sink", "network_receive_bytes_total")] {
            let counted = stat(&tasks[container], name);
            println!("{} {container}: {name} {counted}, sent to {address} were {least} to {most}", record.machine);
            assert!(least > 0.0 && least <= counted && counted <= most);
        }
    }
}

#[test]
fn both_drivers_places_and_custom_parents_are_found() {
    for record in Record::all() {
        for container in &record.containers {
            let id = &container.id;
            let expected = match (record.machine, container.name.as_str()) {
                ("systemd", "custom") => format!("/lab.slice/lab-custom.slice/docker-{id}.scope"),
                ("systemd", _) => format!("/system.slice/docker-{id}.scope"),
                (_, "custom") => format!("/lab/custom/{id}"),
                (_, "delegated") => format!("/user.slice/user-1000.slice/user@1000.service/user.slice/{id}"),
                _ => format!("/docker/{id}"),
            };
            assert_eq!(container.cgroup, expected, "{}", container.name);
        }
        let engine = record.json("engine.json");
        assert_eq!(engine["CgroupDriver"], record.machine);
        assert_eq!(engine["CgroupVersion"], "2");
        println!("{}: Docker {}, Linux {}", record.machine, engine["ServerVersion"], engine["KernelVersion"]);
    }
}

#[test]
fn a_limit_above_the_container_limits_it() {
    for record in Record::all() {
        assert_eq!(stat(&record.asked(2)["custom"], "memory_limit_bytes"), 64.0 * MIB, "{}", record.machine);
    }
}

#[test]
fn containers_in_a_container_are_its_own() {
    for record in Record::all() {
        let tasks = record.asked(2);
        assert_eq!(
            tasks.len(),
            record.containers.len(),
            "the inner ones are none of this engine's: {:?}",
            tasks.keys()
        );
        // The outer one's, the two inner ones', and what they hold.
        let nested = &tasks["nested"];
        let (pids, anon) = (stat(nested, "pids"), stat(nested, "memory_anon_bytes") / MIB);
        println!("{} nested: {pids} PIDs, {anon:.2} MiB anonymous", record.machine);
        assert!(pids >= 3.0 && (12.0..20.0).contains(&anon));
    }
}

/// What rootless Docker is given by default are the controllers memory and pids.
#[test]
fn without_a_controller_its_figures_are_absent_and_the_others_are_there() {
    let record = Record::of("cgroupfs");
    let task = &record.asked(2)["delegated"];
    let look = record.look(3, record.container("delegated"));
    for (stat, file) in [
        ("block_read_bytes_total", "io.stat"),
        ("block_written_bytes_total", "io.stat"),
        ("cpu_limit_cores", "cpu.max"),
        ("cpu_periods_total", "cpu.max"),
    ] {
        assert!(!Path::new(&look).join(file).exists(), "the kernel has {file}");
        assert!(task["stats"][stat].is_null(), "{stat} is {}", task["stats"][stat]);
    }
    let kernel = kernel::stats(&look);
    for stat in ["cpu_seconds_total", "memory_used_bytes", "pids"] {
        println!("delegated: {stat} {} (kernel {:?})", task["stats"][stat], kernel[stat].1);
        assert!(task["stats"][stat].is_number());
    }
}

#[test]
fn pressure_is_there_where_the_kernel_keeps_it_and_absent_where_not() {
    let kept = growth(&Record::of("systemd"), "burn", "pressure_cpu_waiting_seconds_total");
    println!("systemd burn: waited {kept} s for a CPU");
    assert!(kept > 0.0);
    let absent = &Record::of("cgroupfs").asked(2)["burn"]["stats"]["pressure_cpu_waiting_seconds_total"];
    assert!(absent.is_null(), "{absent}");
}

#[test]
fn nothing_was_unreadable_and_nothing_panicked() {
    for record in Record::all() {
        let metrics = record.text("shipper.metrics");
        for line in metrics.lines().filter(|line| line.starts_with("swarmstats_shipper_faults_total")) {
            let bad = ["malformed", "unreadable", "denied", "open_files", "unseen\"", "other_process", "bounds"];
            let bad = bad.iter().any(|reason| line.contains(reason));
            assert!(!bad || line.ends_with(" 0"), "{}: {line}", record.machine);
        }
        for log in ["shipper.log", "collectord.log"] {
            let text = record.text(log);
            // An emulated machine may be slow: that is said, and no fault of the shipper's.
            let slow = |line: &str| line.contains("did not answer") || line.contains("took longer than");
            let bad = |line: &&str| (line.contains("WARN") || line.contains("ERROR")) && !slow(line);
            let bad = text.lines().find(|line| line.contains("panicked") || bad(line));
            assert!(bad.is_none(), "{log} of {}: {}", record.machine, bad.unwrap_or_default());
        }
    }
}

//! Our figures under steady load against the engine's, docker's, the kernel's and Prometheus's.

use crate::env::{Check, lab, stat, text};
use crate::observation::{BUSY, Beside, FROZEN, OBSERVATION};
use serde_json::Value;

const MIB: f64 = 1048576.0;

#[test]
fn cpu_agrees_with_the_engines_own_records() {
    let mut check = Check::default();
    println!("CPU %, each over its own elapsed time:");
    for window in &OBSERVATION.cpu {
        let ((engine, engine_s), (ours, ours_s)) = (window.engine, window.ours);
        let off = (ours - engine).abs();
        println!(
            "  {:44} engine {engine:8.3} over {engine_s:.2} s, ours {ours:8.3} over {ours_s:.2} s, ends {:.2} s apart: off {off:.3}",
            window.task, window.apart
        );
        check.that(engine_s >= 20.0 && ours_s >= 20.0, || format!("{}: a window is too short", window.task));
        check.that(window.apart <= 1.0, || format!("{}: ends {} s apart", window.task, window.apart));
        check.that(off <= 0.5 || off <= 0.02 * engine, || format!("{}: {ours} is not {engine}", window.task));
    }
    assert!(OBSERVATION.cpu.len() >= 13);
    check.done();
}

#[test]
fn memory_lies_between_the_kernels_reads_around_it() {
    let mut check = Check::default();
    println!("memory, MiB:");
    for seen in &OBSERVATION.memory {
        let [lowest, ours, highest] = [seen.lowest, seen.ours, seen.highest].map(|bytes| bytes / MIB);
        println!("  {:44} kernel {lowest:.3} to {highest:.3}, ours {ours:.3}", seen.task);
        let within = lowest - 1.0 <= ours && ours <= highest + 1.0;
        check.that(within, || format!("{}: {ours} is not within 1 MiB of {lowest} to {highest}", seen.task));
        let tmpfs = seen.task.starts_with("lab_tmpfs.");
        check.that(!tmpfs || (256.0..260.0).contains(&ours), || format!("256 MiB in tmpfs count as {ours}"));
    }
    assert!(OBSERVATION.memory.iter().any(|seen| seen.task.starts_with("lab_tmpfs.")));
    check.done();
}

#[test]
fn network_block_and_pids_agree_with_docker_stats() {
    let mut check = Check::default();
    println!("docker stats --no-stream before | ours | docker stats after:");
    for Beside { task, earlier, ours, later } in &OBSERVATION.docker {
        let column = |name: &str| format!("{} .. {}", earlier[name].as_str().unwrap(), later[name].as_str().unwrap());
        let figure = |name: &str| ours["figures"][name].as_f64();
        let shown = |name: &str| figure(name).map_or("--".to_owned(), |value| format!("{value}"));
        println!(
            "  {task}: CPU {} ({}) MEM {} ({:.2}MiB)",
            column("CPUPerc"),
            shown("cpu_percent"),
            column("MemUsage"),
            figure("memory_used_bytes").unwrap() / MIB,
        );
        for (name, first, second) in [
            ("NetIO", "network_receive_bytes", "network_transmit_bytes"),
            ("BlockIO", "block_read_bytes", "block_written_bytes"),
        ] {
            println!("    {name} {} ({} / {})", column(name), shown(first), shown(second));
            let (low, high) = (pair(&earlier[name]), pair(&later[name]));
            for (ours, low, high) in [(first, low.0, high.0), (second, low.1, high.1)] {
                let value = figure(ours).unwrap_or(f64::NAN);
                // docker rounds to three digits.
                let between = low * 0.995 <= value && value <= high * 1.005 + 0.5;
                check.that(between, || format!("{task}: {ours} {value} is not between {low} and {high}"));
            }
        }
        println!("    PIDS {} ({})", column("PIDs"), shown("pids"));
        // The traffic tasks start and end processes all the time: two equal counts say nothing of the one between.
        if earlier["PIDs"] == later["PIDs"] && text(ours, "service_name") != "lab_traffic" {
            let pids = stat(ours, "pids").map(|pids| pids.to_string());
            check.that(pids.as_deref() == later["PIDs"].as_str(), || format!("{task}: {pids:?} PIDs"));
        }
    }
    assert!(OBSERVATION.docker.len() >= 13);
    check.done();
}

/// `1.2kB / 3.4MB` in bytes.
fn pair(column: &Value) -> (f64, f64) {
    let bytes = |text: &str| {
        let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        let factor = match &text[unit..] {
            "B" => 1.0,
            "kB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "TB" => 1e12,
            other => panic!("unit {other}"),
        };
        text[..unit].parse::<f64>().unwrap() * factor
    };
    let (first, second) = column.as_str().unwrap().split_once(" / ").unwrap();
    (bytes(first), bytes(second))
}

#[test]
fn a_frozen_engine_stops_no_figure() {
    let mut check = Check::default();
    println!("CPU seconds of tasks on {}, its dockerd and containerd stopped:", lab().nodes()[FROZEN]);
    for seen in &OBSERVATION.frozen {
        println!(
            "  after {:4.1} s {:44} {}: kernel {:.3} to {:.3}, ours {:.3}",
            seen.after, seen.task, seen.state, seen.earlier, seen.later, seen.ours
        );
        let good = seen.state == "running" && seen.earlier <= seen.ours && seen.ours <= seen.later;
        check.that(good, || format!("{} after {:.1} s", seen.task, seen.after));
    }
    assert!(OBSERVATION.frozen.iter().any(|seen| seen.after >= 60.0), "nothing was seen for 60 s");
    check.done();
}

#[test]
fn increase_over_two_minutes_agrees_with_the_kernel() {
    let mut check = Check::default();
    for seen in &OBSERVATION.increases {
        let off = |value: &f64| 100.0 * (value / seen.kernel - 1.0);
        let offs: Vec<f64> = seen.prometheus.iter().map(off).collect();
        println!(
            "{}: kernel {:.3} s, Prometheus {:.3?} s: off {offs:.2?} %",
            seen.service, seen.kernel, seen.prometheus
        );
        // The burning service is the steady load; the other one waits for disk and network, and by bursts: what the two
        // windows do not share is worth some per cent of it.
        let bound = if seen.service == "lab_burn" { 3.0 } else { 10.0 };
        check.that(offs.iter().all(|off| off.abs() <= bound), || format!("{}: off {offs:?} %", seen.service));
    }
    assert_eq!(OBSERVATION.increases.len(), BUSY.len());
    check.done();
}

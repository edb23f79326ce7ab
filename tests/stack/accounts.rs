//! The accounts of the lab's CPU, at rest: what the collectors' ledgers have, what the shippers' own rows have, and what
//! the kernels have.

use crate::env::{Lab, wait_for};
use crate::kernel::cpu_of_service;
use crate::poller::STEADY;
use crate::tier::{Container, containers, series};
use crate::watch::{Scraped, Watch, of_the_lab};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// CPU seconds are nanoseconds written as decimals; sums of some dozens of them as floats.
const ROUNDING: f64 = 1e-5;

/// `docker pause` or `unpause` of every task of the lab's services.
pub(crate) fn all(lab: &Lab, verb: &str) {
    for node in 0..lab.nodes().len() {
        let status = if verb == "pause" { "running" } else { "paused" };
        let filter = format!("--filter status={status} --filter label=com.docker.stack.namespace=lab");
        let ids = lab.docker(node, &format!("ps -q {filter}"));
        let ids: Vec<&str> = ids.split_whitespace().collect();
        if !ids.is_empty() {
            lab.docker(node, &format!("{verb} {}", ids.join(" ")));
        }
    }
}

/// Every shipper's page.
pub(crate) fn of_shippers(lab: &Lab) -> Vec<(Container, String)> {
    let page = |shipper: Container| {
        let page = shipper.get(lab, 7772, "/metrics").unwrap_or_else(|| panic!("{} is not scraped", shipper.name));
        (shipper, page)
    };
    containers(lab, "shipper").into_iter().map(page).collect()
}

/// The sum of a page's series of a name, which has some.
pub(crate) fn figure(page: &str, name: &str) -> f64 {
    let values: Vec<f64> = series(page, name).map(|(_, value)| value).collect();
    assert!(!values.is_empty(), "no {name}");
    values.iter().sum()
}

/// CPU seconds since each counter's beginning.
pub(crate) struct Accounts {
    ledgers: f64,
    rows: BTreeMap<String, f64>,
    kernel: f64,
    dropped: f64,
    returned: f64,
    shippers: Vec<Container>,
}

/// Pauses the lab's services, and waits until all that was read of them has been shown by a scrape.
pub(crate) fn at_rest(lab: &Lab, scraper: &Watch<Scraped>) -> Accounts {
    all(lab, "pause");
    // Two rounds more: one has begun since.
    two_rounds(lab);
    // Two more, and a batch to each owner: what was read by now has been sent.
    two_rounds(lab);
    let sent = Instant::now();
    wait_for("all that was sent is settled", Duration::from_secs(60), || {
        let owed = |page: &str| series(page, "swarmstats_shipper_owed_seconds").map(|(_, age)| age).fold(0.0, f64::max);
        of_shippers(lab).iter().all(|(_, page)| owed(page) < sent.elapsed().as_secs_f64() - 2.0)
    });
    let scraped = scraper.rounds();
    wait_for("the collectors are scraped", Duration::from_secs(60), || scraper.rounds() >= scraped + 2);
    let (mut rows, mut dropped, mut returned, mut shippers) = (BTreeMap::new(), 0.0, 0.0, Vec::new());
    for (shipper, page) in of_shippers(lab) {
        for (service, cpu) in of_the_lab(&page, "swarmstats_node_service_cpu_seconds_total") {
            *rows.entry(service).or_default() += cpu;
        }
        dropped += figure(&page, "swarmstats_shipper_dropped_cpu_seconds_total");
        returned += figure(&page, "swarmstats_shipper_returned_cpu_seconds_total");
        shippers.push(shipper);
    }
    let ledgers = scraper.found().values().flat_map(|shown| shown.ledger.values()).sum();
    Accounts { ledgers, rows, kernel: cpu_of_service(lab, STEADY).0, dropped, returned, shippers }
}

fn two_rounds(lab: &Lab) {
    let rounds = || of_shippers(lab).iter().map(|(_, page)| figure(page, "swarmstats_shipper_rounds_total")).collect();
    let before: Vec<f64> = rounds();
    wait_for("two rounds more of each shipper", Duration::from_secs(60), || {
        let now: Vec<f64> = rounds();
        before.iter().zip(&now).all(|(before, now)| *now >= before + 2.0)
    });
}

/// What the shippers read is what the ledgers gained, to rounding; and it is what the kernels counted.
pub(crate) fn conserved(before: &Accounts, after: &Accounts) {
    let names: Vec<&str> = after.rows.keys().map(String::as_str).collect();
    assert_eq!(names, ["lab_burn", "lab_hold", "lab_tmpfs", "lab_traffic"]);
    assert_eq!(before.shippers, after.shippers, "no shipper has changed");
    let sum = |accounts: &Accounts| accounts.rows.values().sum::<f64>();
    let (ledgers, rows) = (after.ledgers - before.ledgers, sum(after) - sum(before));
    let (dropped, returned) = (after.dropped - before.dropped, after.returned - before.returned);
    let (steady, kernel) = (after.rows[STEADY] - before.rows[STEADY], after.kernel - before.kernel);
    println!(
        "shippers read {rows:.6} s, ledgers gained {ledgers:.6} s ({:+.6}), dropped {dropped:.6}, handed on {returned:.3}; \
         {STEADY}: rows {steady:.6} s, kernel {kernel:.6} s",
        ledgers - rows
    );
    assert!(rows > 1.0, "nothing was counted");
    assert!((ledgers + dropped - rows).abs() <= ROUNDING, "ledgers {ledgers}, dropped {dropped}, rows {rows}");
    assert!((steady - kernel).abs() <= ROUNDING, "rows {steady}, kernel {kernel}");
}

//! The engine's own record of a container into the same figures as the kernel's files give.
//!
//! For where the cgroup cannot be seen. It has less: no swap, no pressure, no OOM kills, and its errors on interfaces
//! are always 0. Sums per interface and device are kept here as well, so that they never fall. Pure.

use super::{
    engine::api::{Blkio, Stats},
    files::{Devices, Figures},
    parse::{self, Inactive},
    sums::Sums,
};
use crate::{
    model::Values,
    stat::{self, Level, Stat},
};

/// What the engine said about one container so far.
#[derive(Debug)]
pub struct Record {
    figures: Figures,
    started_at: u64,
    network: bool,
}

impl Record {
    /// Of a container that was started then, nanoseconds since the Unix epoch. `network`: whether it has one that is
    /// not the host's.
    pub fn new(started_at: u64, network: bool) -> Record {
        Record { figures: Figures::default(), started_at, network }
    }

    /// Takes a record. False if it is the empty one that the engine gives of a container it cannot read.
    pub fn take(&mut self, stats: &Stats, devices: &mut Devices, memory_total: Option<u64>, level: Level) -> bool {
        if parse::rfc3339(&stats.read).is_none() {
            return false;
        }
        let f = &mut self.figures;
        f.values = Values::default();
        f.values.set(stat::START_TIME, self.started_at);
        let usage = &stats.cpu_stats.cpu_usage;
        let throttling = &stats.cpu_stats.throttling_data;
        let memory = &stats.memory_stats;
        let of = |name: &str| memory.stats.get(name).copied();
        let either = |v1: &str, v2: &str| of(v1).or_else(|| of(v2));
        for (stat, value) in [
            (stat::CPU, usage.total_usage),
            (stat::CPU_USER, usage.usage_in_usermode),
            (stat::CPU_SYSTEM, usage.usage_in_kernelmode),
            (stat::CPU_PERIODS, throttling.periods),
            (stat::THROTTLED_PERIODS, throttling.throttled_periods),
            (stat::THROTTLED, throttling.throttled_time),
            (stat::MEMORY_USAGE, memory.usage),
            (stat::MEMORY_PEAK, memory.max_usage),
            (stat::MEMORY_ANON, either("total_rss", "anon")),
            (stat::MEMORY_FILE, either("total_cache", "file")),
            (stat::MEMORY_SHMEM, either("total_shmem", "shmem")),
            (stat::PAGE_FAULTS, either("total_pgfault", "pgfault")),
            (stat::MAJOR_PAGE_FAULTS, either("total_pgmajfault", "pgmajfault")),
            (stat::MEMORY_MAPPED, either("total_mapped_file", "file_mapped")),
            (stat::MEMORY_DIRTY, either("total_dirty", "file_dirty")),
            (stat::MEMORY_WRITEBACK, either("total_writeback", "file_writeback")),
            (stat::MEMORY_ACTIVE_FILE, either("total_active_file", "active_file")),
            (stat::MEMORY_INACTIVE_FILE, either("total_inactive_file", "inactive_file")),
            (stat::PIDS, stats.pids_stats.current),
            (stat::PIDS_LIMIT, stats.pids_stats.limit.filter(|limit| !matches!(*limit, 0 | u64::MAX))),
        ] {
            f.values.put(stat, value);
        }
        f.inactive =
            memory.usage.map(|_| Inactive { hierarchical: of("total_inactive_file"), plain: of("inactive_file") });
        // The engine shows the machine's memory where there is no limit.
        f.limit = memory.limit.filter(|limit| *limit > 0 && Some(*limit) != memory_total);
        let (bytes, ops) = ([stat::BLOCK_READ, stat::BLOCK_WRITTEN], [stat::BLOCK_READS, stat::BLOCK_WRITES]);
        block(&stats.blkio_stats.io_service_bytes_recursive, devices, &mut f.block_bytes, bytes, &mut f.values);
        block(&stats.blkio_stats.io_serviced_recursive, devices, &mut f.block_ops, ops, &mut f.values);
        if let Some(networks) = stats.networks.as_ref().filter(|_| self.network) {
            f.network.begin();
            for (name, n) in networks {
                let mut interface = [0; 16];
                let len = name.len().min(interface.len());
                interface[..len].copy_from_slice(&name.as_bytes()[..len]);
                let row = [
                    n.rx_bytes,
                    n.rx_packets,
                    n.rx_errors,
                    n.rx_dropped,
                    n.tx_bytes,
                    n.tx_packets,
                    n.tx_errors,
                    n.tx_dropped,
                ];
                f.network.row(interface, row.map(Some));
            }
            for (stat, sum) in parse::NETWORK.into_iter().zip(f.network.end(true)) {
                f.values.set(stat, sum);
            }
        }
        f.derive(memory_total);
        f.values.retain(level.mask());
        true
    }

    /// What the newest record said.
    pub fn last(&self) -> &Values {
        &self.figures.values
    }
}

fn block(
    rows: &[Blkio],
    devices: &mut Devices,
    sums: &mut Sums<parse::Device, 2>,
    stats: [Stat; 2],
    values: &mut Values,
) {
    // An empty list is also what the engine gives where the controller is off: absent, not 0.
    if rows.is_empty() {
        return;
    }
    sums.begin();
    for row in rows.iter().filter(|row| devices.is_leaf((row.major, row.minor))) {
        let device = (row.major, row.minor);
        match row.op.as_bytes().first() {
            Some(b'R' | b'r') => sums.row(device, [Some(row.value), None]),
            Some(b'W' | b'w') => sums.row(device, [None, Some(row.value)]),
            _ => true,
        };
    }
    for (stat, sum) in stats.into_iter().zip(sums.end(true)) {
        values.set(stat, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::fake::{MEMORY_TOTAL, STARTED_AT, recording};

    fn take(json: &[u8]) -> Option<Values> {
        let mut record = Record::new(STARTED_AT, true);
        let stats: Stats = serde_json::from_slice(json).unwrap();
        let taken = record.take(&stats, &mut Devices::default(), Some(MEMORY_TOTAL), Level::All);
        taken.then(|| record.last().clone())
    }

    #[test]
    fn a_v1_record_gives_what_docker_stats_printed() {
        let values = take(&recording("v1/stats.json")).unwrap();
        // 9.141MiB / 64MiB, 1.18kB / 0B, 0B / 21MB, 1; the files said the same (see `reader`).
        for (stat, expected) in [
            (stat::CPU, 8_274_898_924),
            (stat::CPU_USER, 8_190_000_000),
            (stat::MEMORY_USED, 9_584_640),
            (stat::MEMORY_LIMIT, 64 << 20),
            (stat::MEMORY_PEAK, 31_948_800),
            (stat::RX_BYTES, 1182),
            (stat::TX_BYTES, 0),
            (stat::BLOCK_READ, 0),
            (stat::BLOCK_WRITTEN, 20_979_712),
            (stat::BLOCK_WRITES, 8),
            (stat::PIDS, 1),
            (stat::PIDS_LIMIT, 50),
            (stat::START_TIME, STARTED_AT),
        ] {
            assert_eq!(values.get(stat), Some(expected), "{stat:?}");
        }
    }

    #[test]
    fn b079_a_v2_record_has_lower_case_operations_and_a_limit_that_is_none() {
        let values = take(&recording("v2_linux_6.12/stats.json")).unwrap();
        for (stat, expected) in [
            (stat::CPU, Some(11_674_364_000)),
            (stat::MEMORY_USED, Some(22_704_128 - 21_590_016)),
            (stat::BLOCK_READ, Some(618_496)),
            (stat::BLOCK_WRITTEN, Some(20_754_432)),
            (stat::BLOCK_READS, None),
            (stat::MEMORY_PEAK, None),
            (stat::PIDS_LIMIT, None),
            (stat::RX_PACKETS, Some(13)),
        ] {
            assert_eq!(values.get(stat), expected, "{stat:?}");
        }
    }

    #[test]
    fn an_empty_record_is_none_and_not_zeros() {
        assert_eq!(take(br#"{"id":"x","name":"/x","read":"0001-01-01T00:00:00Z"}"#), None);
        assert_eq!(take(b"{}"), None);
    }

    #[test]
    fn b038_b076_b085_what_a_record_lacks_is_absent() {
        let json = br#"{"read":"2026-11-30T16:56:09Z","memory_stats":{},"cpu_stats":{"cpu_usage":{"total_usage":5}},
            "blkio_stats":{"io_service_bytes_recursive":null},"pids_stats":{},"networks":null,"new_in_api_9":[1]}"#;
        let values = take(json).unwrap();
        assert_eq!(values.iter().collect::<Vec<_>>(), [(stat::CPU, 5), (stat::START_TIME, STARTED_AT)]);
    }

    #[test]
    fn b037_the_machines_memory_is_no_limit() {
        let json = format!(r#"{{"read":"2026-11-30T16:56:09Z","memory_stats":{{"usage":9,"limit":{MEMORY_TOTAL}}}}}"#);
        let values = take(json.as_bytes()).unwrap();
        assert_eq!((values.get(stat::MEMORY_USED), values.get(stat::MEMORY_LIMIT)), (Some(9), None));
    }

    #[test]
    fn sums_of_records_never_fall() {
        let mut record = Record::new(STARTED_AT, true);
        for (networks, expected) in [
            (r#"{"eth0":{"rx_bytes":100},"eth1":{"rx_bytes":50}}"#, 150),
            (r#"{"eth0":{"rx_bytes":110}}"#, 160),
            (r#"{"eth0":{"rx_bytes":4}}"#, 164),
        ] {
            let json = format!(r#"{{"read":"2026-11-30T16:56:09Z","networks":{networks}}}"#);
            let stats: Stats = serde_json::from_str(&json).unwrap();
            assert!(record.take(&stats, &mut Devices::default(), None, Level::All));
            assert_eq!(record.last().get(stat::RX_BYTES), Some(expected));
        }
    }

    #[test]
    fn b008_b010_what_an_engine_says_of_the_machines_cpus_plays_no_part() {
        // podman's system_cpu_usage is another thing, old clients lack online_cpus, old kernels list CPUs that are off.
        for more in [
            "",
            r#","system_cpu_usage":1,"online_cpus":4"#,
            r#","system_cpu_usage":3890000000,"online_cpus":0"#,
            r#","system_cpu_usage":18446744073709551615,"percpu_usage":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]"#,
        ] {
            let cpu = format!(r#"{{"cpu_usage":{{"total_usage":731308110}}{more}}}"#);
            let json = format!(r#"{{"read":"2026-11-30T16:56:09Z","cpu_stats":{cpu},"precpu_stats":{{}}}}"#);
            assert_eq!(take(json.as_bytes()).unwrap().get(stat::CPU), Some(731_308_110), "{more}");
        }
    }

    #[test]
    fn b062_b094_every_device_and_every_network_counts() {
        let json = br#"{"read":"2026-11-30T16:56:09Z",
            "networks":{"eth0":{"rx_bytes":100,"tx_bytes":1},"eth1":{"rx_bytes":20,"tx_bytes":2},"eth2":{"rx_bytes":3,"tx_bytes":4}},
            "blkio_stats":{"io_service_bytes_recursive":[
                {"major":8,"minor":0,"op":"Read","value":5},{"major":8,"minor":16,"op":"Read","value":7},
                {"major":8,"minor":16,"op":"Total","value":7},{"major":8,"minor":16,"op":"","value":99}]}}"#;
        let values = take(json).unwrap();
        let of = [stat::RX_BYTES, stat::TX_BYTES, stat::BLOCK_READ].map(|stat| values.get(stat));
        assert_eq!(of, [Some(123), Some(7), Some(12)]);
    }
}

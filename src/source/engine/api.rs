//! The Engine API's JSON, as far as it is used, read leniently: any field may be missing, null, or new.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// Container labels.
pub type Labels = BTreeMap<String, String>;

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

macro_rules! lenient {
    ($($(#[$doc:meta])* $case:literal $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default, Deserialize)]
        #[serde(rename_all = $case, default)]
        pub struct $name { $($(#[$field_doc])* #[serde(deserialize_with = "or_default")] pub $field: $type),* }
    )*};
}

lenient! {
    /// `GET /info`.
    "PascalCase" Info {
        /// The engine's id, for where there is no swarm.
        #[serde(rename = "ID")] id: String,
        /// The host's name.
        name: String,
        /// CPUs.
        #[serde(rename = "NCPU")] n_cpu: u64,
        /// Memory in bytes.
        mem_total: u64,
        /// `cgroupfs` or `systemd`.
        cgroup_driver: String,
        /// `1` or `2`; engines before 20.10 do not say.
        cgroup_version: String,
        /// Where the engine keeps its data.
        docker_root_dir: String,
        /// The engine's release.
        server_version: String,
        /// Its part in a swarm.
        swarm: Swarm,
    }
    /// Of [`Info`].
    "PascalCase" Swarm {
        /// The node's id, empty outside a swarm.
        #[serde(rename = "NodeID")] node_id: String,
        /// `active` where there is one.
        local_node_state: String,
        /// Whether it is a manager.
        control_available: bool,
    }
    /// An element of `GET /containers/json`.
    "PascalCase" Listed {
        /// Its id.
        id: String,
        /// `running`, `exited`, … and whatever an engine thinks of next.
        state: String,
        /// For people: `Up 5 minutes (healthy)`.
        status: String,
        /// Its names, each with a leading `/`.
        names: Vec<String>,
        /// The image it was made of.
        image: String,
        /// Its labels.
        labels: Labels,
    }
    /// `GET /containers/{id}/json`.
    "PascalCase" Inspect {
        /// Its id.
        id: String,
        /// Its name, with a leading `/`.
        name: String,
        /// What it is doing.
        state: State,
        /// How often the engine restarted it.
        restart_count: u64,
        /// How it was configured for this host.
        host_config: HostConfig,
        /// How it was configured.
        config: ContainerConfig,
    }
    /// Of [`Inspect`].
    "PascalCase" State {
        /// Paused and restarting containers run as well.
        running: bool,
        /// Frozen.
        paused: bool,
        /// Waiting for its next start, with no process.
        restarting: bool,
        /// Of its health check, if it has one.
        health: Health,
        /// Its first process in the engine's host, 0 where it does not run.
        pid: u32,
        /// RFC 3339.
        started_at: String,
        /// Of its last end.
        exit_code: i64,
        /// The kernel killed it for want of memory.
        #[serde(rename = "OOMKilled")] oom_killed: bool,
    }
    /// Of [`State`].
    "PascalCase" Health {
        /// `none`, `starting`, `healthy`, `unhealthy`.
        status: String,
    }
    /// Of [`Inspect`].
    "PascalCase" HostConfig {
        /// `host`, `none`, `container:<id>`, or a network.
        network_mode: String,
        /// `--cgroup-parent`.
        cgroup_parent: String,
    }
    /// Of [`Inspect`].
    "PascalCase" ContainerConfig {
        /// The image as it was asked for.
        image: String,
        /// Its labels.
        labels: Labels,
    }
    /// A line of `GET /events`.
    "PascalCase" Event {
        /// `container`, …
        #[serde(rename = "Type")] kind: String,
        /// `start`, `die`, …
        action: String,
        /// Whom it happened to.
        actor: Actor,
        /// When, in nanoseconds since the Unix epoch.
        #[serde(rename = "timeNano")] time_nano: u64,
    }
    /// Of [`Event`].
    "PascalCase" Actor {
        /// A container's id.
        #[serde(rename = "ID")] id: String,
        /// Labels, and `image`, `name`, `exitCode`.
        attributes: Labels,
    }
    /// `GET /containers/{id}/stats`.
    "snake_case" Stats {
        /// When it was read, RFC 3339; the year 1 where nothing was.
        read: String,
        /// CPU.
        cpu_stats: CpuStats,
        /// Memory; empty where that controller is off.
        memory_stats: MemoryStats,
        /// Block I/O.
        blkio_stats: BlkioStats,
        /// Kernel tasks.
        pids_stats: PidsStats,
        /// Per interface; absent for the host's network and for none.
        networks: Option<BTreeMap<String, Network>>,
    }
    /// Of [`Stats`].
    "snake_case" CpuStats {
        /// Time used.
        cpu_usage: CpuUsage,
        /// CFS bandwidth control.
        throttling_data: Throttling,
    }
    /// Of [`CpuStats`], in nanoseconds.
    "snake_case" CpuUsage {
        /// All.
        total_usage: Option<u64>,
        /// In the kernel.
        usage_in_kernelmode: Option<u64>,
        /// In user mode.
        usage_in_usermode: Option<u64>,
    }
    /// Of [`CpuStats`].
    "snake_case" Throttling {
        /// Periods.
        periods: Option<u64>,
        /// Of them throttled.
        throttled_periods: Option<u64>,
        /// Nanoseconds.
        throttled_time: Option<u64>,
    }
    /// Of [`Stats`], in bytes.
    "snake_case" MemoryStats {
        /// Page cache included.
        usage: Option<u64>,
        /// v1 only.
        max_usage: Option<u64>,
        /// The machine's memory where there is no limit.
        limit: Option<u64>,
        /// `memory.stat`, in part.
        stats: BTreeMap<String, u64>,
    }
    /// Of [`Stats`].
    "snake_case" BlkioStats {
        /// Bytes.
        io_service_bytes_recursive: Vec<Blkio>,
        /// Operations, v1 only.
        io_serviced_recursive: Vec<Blkio>,
    }
    /// Of [`BlkioStats`].
    "snake_case" Blkio {
        /// Device.
        major: u32,
        /// Device.
        minor: u32,
        /// `Read`, `write`, `Total`, …
        op: String,
        /// How much.
        value: u64,
    }
    /// Of [`Stats`].
    "snake_case" PidsStats {
        /// Threads.
        current: Option<u64>,
        /// 0 and the largest number are "none".
        limit: Option<u64>,
    }
    /// Of [`Stats`].
    "snake_case" Network {
        /// Received.
        rx_bytes: u64,
        /// Received.
        rx_packets: u64,
        /// Received.
        rx_errors: u64,
        /// Received.
        rx_dropped: u64,
        /// Sent.
        tx_bytes: u64,
        /// Sent.
        tx_packets: u64,
        /// Sent.
        tx_errors: u64,
        /// Sent.
        tx_dropped: u64,
    }
}

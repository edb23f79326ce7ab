//! What of a machine can be seen from here at all: mounts, cgroup versions, the memory controller, pressure.
//!
//! For people who look for a fault, not for figures: it reads a few small files each time it is asked.

use super::{
    cgroup::Host,
    files::{Cgroup, Controller},
};
use crate::status::Machine;
use std::{fs, path::Path};

/// Looks at a machine whose `/proc` and `/sys` are seen at these paths.
pub fn look(proc_: &Path, sys: &Path) -> Machine {
    let mut machine = Machine {
        proc_path: proc_.display().to_string(),
        sys_path: sys.display().to_string(),
        // A kernel without it has no such file, one that has it off opens none.
        pressure: fs::read(proc_.join("pressure/cpu")).is_ok(),
        ..Machine::default()
    };
    let host = match Host::new(proc_, sys) {
        Ok(host) => host,
        Err(error) => {
            machine.mounts_trouble = Some(error.to_string());
            return machine;
        }
    };
    for mount in host.mounts() {
        let controllers = fs::read_to_string(mount.point.join("cgroup.controllers"));
        let (version, seen, memory) = match mount.cgroup {
            // Of a folder that is only a mount point elsewhere nothing can be listed.
            Cgroup::V1 => (1, fs::metadata(mount.point.join("tasks")).is_ok(), mount.has(Controller::Memory)),
            Cgroup::V2 => {
                let named = controllers.as_ref().is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"));
                (2, controllers.is_ok(), named)
            }
        };
        if seen {
            machine.cgroups.push(version);
            machine.memory_controller |= memory;
        }
    }
    machine.cgroups.sort_unstable();
    machine.cgroups.dedup();
    machine
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, Layout};
    use super::*;

    fn seen(machine: &fake::Machine) -> Machine {
        look(&machine.root.join("proc"), &machine.root.join("sys"))
    }

    #[test]
    fn a_machine_without_a_mount_table_says_so_and_has_no_cgroup() {
        let nowhere = look(Path::new("/nowhere/proc"), Path::new("/nowhere/sys"));
        assert!(nowhere.mounts_trouble.is_some() && nowhere.cgroups.is_empty() && !nowhere.pressure);
    }

    #[test]
    fn b038_the_memory_controller_is_off_where_cgroup_controllers_does_not_name_it() {
        let machine = fake::Machine::new(Layout::V2);
        machine.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
        assert_eq!((seen(&machine).cgroups, seen(&machine).memory_controller), (vec![2], true));
        machine.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io pids\n");
        assert_eq!((seen(&machine).cgroups, seen(&machine).memory_controller), (vec![2], false));
    }

    #[test]
    fn on_the_machine_this_runs_on_it_finds_what_the_kernel_lists() {
        let kernels = fs::read_to_string("/proc/self/mounts").unwrap();
        let has = |kind: &str| kernels.lines().any(|line| line.split(' ').nth(2) == Some(kind));
        let found = look(Path::new("/proc"), Path::new("/sys"));
        assert_eq!((found.cgroups.contains(&1), found.cgroups.contains(&2)), (has("cgroup"), has("cgroup2")));
        assert_eq!(found.mounts_trouble, None);
    }
}

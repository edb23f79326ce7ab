//! Where a container's kernel files are: the cgroup mounts of this machine, and a container's place in each.
//!
//! Mount points are read from mountinfo, never assumed: v1 controllers may be mounted apart or together, v2 alone or
//! beside them (then a controller is v1's). A container's place is what `/proc/PID/cgroup` says of its first process,
//! if that names the container; else the places Docker's two cgroup drivers give it. All of it works from inside a
//! container that has the host's `/proc` and `/sys/fs/cgroup` mounted, also with a cgroup namespace of its own.
//! It deliberately reads no figures.

use super::{
    files::{Cgroup, Controller, Devices},
    parse,
};
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// The kernel's view of this machine: where its files are mounted.
#[derive(Clone, Debug)]
pub struct Host {
    proc_: PathBuf,
    sys: PathBuf,
    mounts: Vec<Mount>,
}

/// A cgroup hierarchy's mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Its version.
    pub cgroup: Cgroup,
    /// v1: the controllers it has, as mount options name them.
    pub controllers: Vec<String>,
    /// Which directory of the hierarchy is mounted, seen from this process's cgroup namespace.
    pub root: String,
    /// Where.
    pub point: PathBuf,
}

/// At most so many levels are hidden between the top of the hierarchy and a container's cgroup namespace, or are not
/// looked through.
const MAX_HIDDEN: usize = 3;
/// At most so many directories of them are looked at.
const MAX_SEARCHED: usize = 4096;

/// What must be known of a container to find its files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// Its id.
    pub container_id: String,
    /// Its first process, in the host's numbering.
    pub pid: u32,
    /// `--cgroup-parent`, or empty.
    pub cgroup_parent: String,
    /// Whether its network figures are its own or another container's, and not the host's or none at all.
    pub network: bool,
    /// When it was started, nanoseconds since the Unix epoch.
    pub started_at: u64,
}

/// A container's place: its directory in each hierarchy that can be seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place(Vec<(Controller, Cgroup, PathBuf)>);

impl Place {
    /// Its directory for a controller.
    pub fn of(&self, controller: Controller) -> Option<(Cgroup, &Path)> {
        self.0.iter().find(|(of, ..)| *of == controller).map(|(_, cgroup, path)| (*cgroup, path.as_path()))
    }
    /// Whether nothing of it can be seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Host {
    /// Looks for the cgroup mounts. `proc_` and `sys` are `/proc` and `/sys` of the host: elsewhere inside a container.
    ///
    /// # Errors
    /// If the mount table cannot be read. A machine without any cgroup mount is no error: nothing will be found there.
    pub fn new(proc_: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> io::Result<Host> {
        let (proc_, sys) = (proc_.into(), sys.into());
        let mounts = mounts(&fs::read(proc_.join("self/mountinfo"))?, &sys);
        Ok(Host { proc_, sys, mounts })
    }

    /// The cgroup mounts, the least of a hierarchy first.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The machine's memory in bytes, if it can be read.
    pub fn memory_total(&self) -> Option<u64> {
        parse::memory_total(&fs::read(self.proc_.join("meminfo")).ok()?)
    }

    /// The block devices of this machine. A container that has only the cgroups of the host mounted sees the same
    /// devices in its own `/sys`.
    pub fn devices(&self) -> Devices {
        Devices::new(vec![self.sys.clone(), PathBuf::from("/sys")])
    }

    /// A file below `/proc/PID`.
    pub fn process_file(&self, pid: u32, name: &str) -> PathBuf {
        self.proc_.join(pid.to_string()).join(name)
    }

    /// The mount a directory is in.
    pub fn mount_point(&self, directory: &Path) -> Option<&Path> {
        let above = self.mounts.iter().map(|mount| mount.point.as_path()).filter(|point| directory.starts_with(point));
        above.max_by_key(|point| point.components().count())
    }

    /// A container's place, as far as it can be seen, and whether `pid` is certainly a process of that container: a
    /// process id alone may have passed to another.
    pub fn place(&self, target: &Target) -> (Place, bool) {
        let lines = fs::read_to_string(self.process_file(target.pid, "cgroup")).unwrap_or_default();
        let lines: Vec<Line<'_>> = lines.lines().filter_map(Line::new).collect();
        let named = lines.iter().any(|line| own_path(line.path, &target.container_id).is_some());
        let mut place = Place::default();
        for controller in Controller::ALL {
            let v1 = self.mounts.iter().any(|mount| mount.has(controller));
            let mounts =
                self.mounts.iter().filter(|mount| if v1 { mount.has(controller) } else { mount.cgroup == Cgroup::V2 });
            let said = lines.iter().find(|line| if v1 { line.has(controller) } else { line.controllers.is_empty() });
            let said = said.and_then(|line| own_path(line.path, &target.container_id));
            let n_said = usize::from(said.is_some());
            let candidates: Vec<PathBuf> = said.into_iter().chain(usual_places(target)).collect();
            let plain = mounts.clone().flat_map(|mount| candidates.iter().filter_map(|path| mount.join(path)));
            let found = plain
                .chain(mounts.flat_map(|mount| candidates.iter().take(n_said).flat_map(|path| mount.search(path))));
            if let Some(path) = found.into_iter().find(|path| path.is_dir()) {
                place.0.push((controller, if v1 { Cgroup::V1 } else { Cgroup::V2 }, path));
            }
        }
        let ours = named || self.has_process(&place, target.pid);
        (place, ours)
    }

    /// Whether the kernel lists a process in a place.
    fn has_process(&self, place: &Place, pid: u32) -> bool {
        let listed = |path: &PathBuf| fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        place.0.first().is_some_and(|(.., path)| listed(path).lines().any(|line| line.parse() == Ok(pid)))
    }
}

impl Mount {
    pub(super) fn has(&self, controller: Controller) -> bool {
        self.cgroup == Cgroup::V1 && self.controllers.iter().any(|name| name == controller.v1_name())
    }

    /// Where a path of the hierarchy is in the file system, if this mount shows it.
    ///
    /// In a cgroup namespace paths are relative to its root: `/../x` is a sibling. How far a mount's own root is above
    /// is not known then (the names in between are not shown); what is left after the `..` is looked for from the top,
    /// and by [`Mount::search`].
    fn join(&self, path: &Path) -> Option<PathBuf> {
        let below =
            if self.root == "/" || self.root.starts_with("/..") { path } else { path.strip_prefix(&self.root).ok()? };
        let names = below.components().filter(|part| matches!(part, Component::Normal(_)));
        Some(names.fold(self.point.clone(), |joined, name| joined.join(name)))
    }
}

impl Mount {
    /// Where a path of a cgroup namespace may be below directories whose names it hides: as many levels down as the
    /// mount's root is further up than the path.
    fn search(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let ups = |path: &Path| path.components().filter(|part| *part == Component::ParentDir).count();
        let hidden = ups(Path::new(&self.root)).saturating_sub(ups(path)).min(MAX_HIDDEN);
        let names: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let folders = |above: &PathBuf| {
            let entries = fs::read_dir(above).into_iter().flatten().flatten();
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
        };
        let mut above = vec![self.point.clone()];
        for _ in 0..hidden {
            above = above.iter().flat_map(folders).take(MAX_SEARCHED).collect();
        }
        above.into_iter().map(move |above| above.join(&names)).filter(move |_| hidden > 0)
    }
}

/// A line of `/proc/PID/cgroup`.
struct Line<'a> {
    controllers: &'a str,
    path: &'a str,
}

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Option<Line<'a>> {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Line { controllers, path })
    }
    fn has(&self, controller: Controller) -> bool {
        self.controllers.split(',').any(|name| name == controller.v1_name())
    }
}

/// The part of a path down to the directory that names the container: a process may sit in a child of it (a systemd in
/// the container makes some), and figures are the whole container's.
fn own_path(path: &str, container_id: &str) -> Option<PathBuf> {
    let at = path.find(container_id)? + container_id.len();
    let end = path[at..].find('/').map_or(path.len(), |slash| at + slash);
    Some(PathBuf::from(&path[..end]))
}

/// Where Docker's cgroup drivers, cgroupfs and systemd, put a container.
fn usual_places(target: &Target) -> [PathBuf; 2] {
    let id = &target.container_id;
    let (plain, slice) = match target.cgroup_parent.as_str() {
        "" => ("docker".to_owned(), "system.slice".to_owned()),
        parent => (parent.to_owned(), nested_slice(parent)),
    };
    [
        Path::new("/").join(plain.trim_matches('/')).join(id),
        Path::new("/").join(slice).join(format!("docker-{id}.scope")),
    ]
}

/// A slice's directory: `a-b.slice` lies in `a.slice`.
fn nested_slice(slice: &str) -> String {
    let name = slice.trim_matches('/');
    let Some(stem) = name.strip_suffix(".slice") else { return name.to_owned() };
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    ends.map(|end| format!("{}.slice", &stem[..end])).collect::<Vec<_>>().join("/")
}

/// The cgroup mounts of a mountinfo that are the host's: those below `sys`; if there are none, those below `/sys`, which
/// is then taken to be what `sys` shows.
fn mounts(mountinfo: &[u8], sys: &Path) -> Vec<Mount> {
    let text = String::from_utf8_lossy(mountinfo);
    let all: Vec<Mount> = text.lines().filter_map(mount).collect();
    let mut below: Vec<Mount> = all.iter().filter(|mount| mount.point.starts_with(sys)).cloned().collect();
    if below.is_empty() {
        below = all
            .into_iter()
            .filter_map(|mount| {
                let point = sys.join(mount.point.strip_prefix("/sys").ok()?);
                Some(Mount { point, ..mount })
            })
            .collect();
    }
    // A mount of the whole hierarchy shows more than one of a part of it.
    below.sort_by_key(|mount| mount.root.len());
    below
}

/// One line of mountinfo, if it is a cgroup mount: `id parent dev root point options … - type source super-options`.
fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let (kind, _source, options) = (after.next()?, after.next()?, after.next()?);
    let cgroup = match kind {
        "cgroup" => Cgroup::V1,
        "cgroup2" => Cgroup::V2,
        _ => return None,
    };
    let controllers = options.split(',').map(str::to_owned).collect();
    Some(Mount { cgroup, controllers, root: unescape(root), point: unescape(point).into() })
}

/// mountinfo writes white space and backslashes as `\` and three octal digits.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => plain.extend([char::from(byte)].into_iter().chain(part[3..].chars())),
            None => plain.extend(['\\'].into_iter().chain(part.chars())),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::fake::{ID, Layout, Machine, PID, target};

    const ALL: [Controller; 5] =
        [Controller::Cpuacct, Controller::Cpu, Controller::Memory, Controller::Pids, Controller::Blkio];

    /// A container's directory for a controller, from the cgroup mount on.
    fn found(machine: &Machine, target: &Target, controller: Controller) -> Option<(Cgroup, String)> {
        let (place, _) = machine.host().place(target);
        let (cgroup, path) = place.of(controller)?;
        let below = path.strip_prefix(machine.root.join("sys/fs/cgroup")).unwrap();
        Some((cgroup, below.to_str().unwrap().to_owned()))
    }

    #[test]
    fn controllers_mounted_apart_or_together_or_unified() {
        for (layout, cgroup, cpuacct, memory) in [
            (Layout::V1Apart, Cgroup::V1, "cpuacct/docker", "memory/docker"),
            (Layout::V1Together, Cgroup::V1, "cpu,cpuacct/docker", "memory/docker"),
            (Layout::V2, Cgroup::V2, "docker", "docker"),
        ] {
            let machine = Machine::new(layout);
            machine.container(&format!("/docker/{ID}"));
            let at = |controller| found(&machine, &target(), controller);
            assert_eq!(at(Controller::Cpuacct), Some((cgroup, format!("{cpuacct}/{ID}"))), "{layout:?}");
            assert_eq!(at(Controller::Memory), Some((cgroup, format!("{memory}/{ID}"))), "{layout:?}");
            assert_eq!(at(Controller::Pressure).is_some(), layout == Layout::V2);
        }
    }

    #[test]
    fn in_hybrid_mode_controllers_are_v1_and_pressure_is_v2() {
        let machine = Machine::new(Layout::Hybrid);
        machine.container(&format!("/docker/{ID}"));
        for controller in ALL {
            assert_eq!(found(&machine, &target(), controller).unwrap().0, Cgroup::V1, "{controller:?}");
        }
        let pressure = found(&machine, &target(), Controller::Pressure);
        assert_eq!(pressure, Some((Cgroup::V2, format!("unified/docker/{ID}"))));
    }

    #[test]
    fn b031_a_process_in_a_child_of_the_container_leads_to_the_container() {
        let machine = Machine::new(Layout::V2);
        machine.container(&format!("/system.slice/docker-{ID}.scope"));
        machine.write(&format!("proc/{PID}/cgroup"), format!("0::/system.slice/docker-{ID}.scope/init.scope\n"));
        let expected = format!("system.slice/docker-{ID}.scope");
        assert_eq!(found(&machine, &target(), Controller::Cpu), Some((Cgroup::V2, expected)));
    }

    #[test]
    fn without_a_process_to_ask_the_places_of_both_drivers_are_tried() {
        for (parent, place) in [
            ("", format!("/docker/{ID}")),
            ("", format!("/system.slice/docker-{ID}.scope")),
            ("/custom/deep", format!("/custom/deep/{ID}")),
            ("lab-web.slice", format!("/lab.slice/lab-web.slice/docker-{ID}.scope")),
        ] {
            for layout in [Layout::V1Together, Layout::V2] {
                let machine = Machine::new(layout);
                machine.container(&place);
                machine.remove(&format!("proc/{PID}/cgroup"));
                let target = Target { cgroup_parent: parent.into(), ..target() };
                let (_, memory) = found(&machine, &target, Controller::Memory).expect(&place);
                assert!(memory.ends_with(place.trim_start_matches('/')), "{memory}");
                assert!(!machine.host().place(&target).1, "whose process it is remains unknown");
            }
        }
    }

    #[test]
    fn paths_of_a_cgroup_namespace_are_followed_upwards() {
        // As seen from a container of its own: a sibling, and one elsewhere in the tree.
        for (place, said) in [
            (format!("/docker/{ID}"), format!("0::/../{ID}\n")),
            (format!("/other/{ID}"), format!("0::/../../other/{ID}\n")),
        ] {
            let machine = Machine::new(Layout::V2);
            machine.container(&place);
            machine.write(&format!("proc/{PID}/cgroup"), said);
            let mounts = "30 23 0:30 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
            machine.write("proc/self/mountinfo", mounts);
            assert_eq!(found(&machine, &target(), Controller::Cpu).unwrap().1, &place[1..]);
        }
    }

    #[test]
    fn a_mount_of_a_part_shows_what_is_in_that_part() {
        let machine = Machine::new(Layout::V2);
        machine.container(&format!("/docker/{ID}"));
        machine.write(&format!("proc/{PID}/cgroup"), format!("0::/outer/docker/{ID}\n"));
        machine.write("proc/self/mountinfo", "30 23 0:30 /outer /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        assert_eq!(found(&machine, &target(), Controller::Cpu).unwrap().1, format!("docker/{ID}"));
        machine.write("proc/self/mountinfo", "30 23 0:30 /elsewhere /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        assert_eq!(found(&machine, &target(), Controller::Cpu), None);
    }

    #[test]
    fn a_process_id_that_passed_to_another_is_noticed() {
        let machine = Machine::new(Layout::V2);
        machine.container(&format!("/docker/{ID}"));
        assert!(machine.host().place(&target()).1);
        machine.write(&format!("proc/{PID}/cgroup"), "0::/user.slice/session.scope\n");
        assert!(!machine.host().place(&target()).1);
        // Unless the kernel lists it: a process may have moved itself elsewhere in another hierarchy.
        machine.write(&format!("sys/fs/cgroup/docker/{ID}/cgroup.procs"), format!("1\n{PID}\n"));
        assert!(machine.host().place(&target()).1);
    }

    #[test]
    fn mounts_are_those_below_the_hosts_sys() {
        let table = b"31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n\
            40 23 0:28 /../.. /host/sys/fs/cgroup ro - cgroup2 cgroup rw\n\
            41 23 0:29 / /mnt/with\\040blank rw - cgroup cgroup rw,memory\n";
        let inside = mounts(table, Path::new("/host/sys"));
        assert_eq!(inside.len(), 1);
        assert_eq!((inside[0].point.as_path(), &*inside[0].root), (Path::new("/host/sys/fs/cgroup"), "/../.."));
        assert_eq!(mounts(table, Path::new("/mnt"))[0].point, Path::new("/mnt/with blank"));
        assert!(mounts(b"", Path::new("/sys")).is_empty());
        assert!(mounts(b"31 23 0:28\n - - -\nnonsense - cgroup", Path::new("/sys")).is_empty());
    }

    #[test]
    fn nothing_visible_is_nothing_found() {
        let machine = Machine::new(Layout::V2);
        let (place, ours) = machine.host().place(&target());
        assert!(place.is_empty() && !ours);
    }

    #[test]
    fn docker_in_docker_a_custom_parent_nested_slices_and_rootless_are_where_their_process_says() {
        let outer = "0ea7".repeat(16);
        for place in [
            // An engine in a container that shares the host's cgroup namespace, under either driver.
            format!("/docker/{outer}/docker/{ID}"),
            format!("/system.slice/docker-{outer}.scope/system.slice/docker-{ID}.scope"),
            format!("/custom/deep/{ID}"),
            format!("/a.slice/a-b.slice/a-b-c.slice/docker-{ID}.scope"),
            format!("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope"),
        ] {
            for layout in [Layout::V1Apart, Layout::V1Together, Layout::V2, Layout::Hybrid] {
                let machine = Machine::new(layout);
                machine.container(&place);
                let (cgroup, memory) = found(&machine, &target(), Controller::Memory).expect(&place);
                assert_eq!(cgroup == Cgroup::V2, layout == Layout::V2);
                assert!(memory.ends_with(place.trim_start_matches('/')), "{memory} {layout:?}");
                assert!(machine.host().place(&target()).1, "it is the container's process");
            }
        }
    }

    #[test]
    fn an_engine_in_a_container_is_that_container_and_what_it_runs_is_not() {
        // Its processes were moved into a child, so that the inner engine may switch controllers on.
        let outer = "0ea7".repeat(16);
        let machine = Machine::new(Layout::V2);
        machine.container(&format!("/docker/{outer}"));
        machine.write(&format!("sys/fs/cgroup/docker/{outer}/docker/{ID}/cpu.stat"), "usage_usec 1\n");
        machine.write(&format!("proc/{PID}/cgroup"), format!("0::/docker/{outer}/init\n"));
        let target = Target { container_id: outer.clone(), ..target() };
        assert_eq!(found(&machine, &target, Controller::Cpu), Some((Cgroup::V2, format!("docker/{outer}"))));
    }

    #[test]
    fn an_inner_engine_with_a_cgroup_namespace_of_its_own_is_read_from_inside_and_from_beside_it() {
        let outer = "0ea7".repeat(16);
        // From inside: the namespace begins at the outer container, which is what is mounted.
        let inside = Machine::new(Layout::V2);
        inside.container(&format!("/docker/{ID}"));
        inside.write(&format!("proc/{PID}/cgroup"), format!("0::/docker/{ID}\n"));
        assert_eq!(found(&inside, &target(), Controller::Cpu).unwrap().1, format!("docker/{ID}"));
        // From a container beside the outer one, with the host's hierarchy mounted: paths lead upwards first.
        let beside = Machine::new(Layout::V2);
        beside.container(&format!("/docker/{outer}/docker/{ID}"));
        beside.write(&format!("proc/{PID}/cgroup"), format!("0::/../{outer}/docker/{ID}\n"));
        beside.write("proc/self/mountinfo", "30 23 0:30 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let at = found(&beside, &target(), Controller::Cpu);
        assert_eq!(at.map(|(_, path)| path), Some(format!("docker/{outer}/docker/{ID}")));
    }
}

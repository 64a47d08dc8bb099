//! Allowed processors and memories: the process's affinity, and the cpusets of control groups of
//! both versions.

use super::error::DiscoverError;
use super::root::Root;
use crate::cpu_set::CpuSet;

/// Restrictions; `None` if nothing is restricted.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) processors: Option<CpuSet>,
    pub(super) memories: Option<CpuSet>,
}

impl Limits {
    fn restrict(&mut self, processors: Option<CpuSet>, memories: Option<CpuSet>) {
        restrict(&mut self.processors, processors);
        restrict(&mut self.memories, memories);
    }
}

fn restrict(limit: &mut Option<CpuSet>, set: Option<CpuSet>) {
    let Some(set) = set else { return };
    *limit = Some(limit.as_ref().map_or_else(|| set.clone(), |limit| limit.intersection(&set)));
}

/// The processors this process may run on; `None` if the machine has more than the call can report.
/// Then `/proc/self/status` has them.
pub(super) fn affinity() -> Result<Option<CpuSet>, DiscoverError> {
    let set = match rustix::thread::sched_getaffinity(None) {
        Ok(set) => set,
        Err(rustix::io::Errno::INVAL) => return Ok(None),
        Err(error) => return Err(DiscoverError::Affinity(error.into())),
    };
    let numbers = 0..rustix::thread::CpuSet::MAX_CPU;
    Ok(Some(numbers.filter(|&number| set.is_set(number)).map(|number| number as u32).collect()))
}

/// Reads all restrictions under a root, with the affinity if this process is concerned.
pub(super) fn read(files: &Root, affinity: Option<CpuSet>) -> Result<Limits, DiscoverError> {
    let mut limits = Limits { processors: affinity, memories: None };
    let (processors, memories) = status(files);
    limits.restrict(processors, memories);
    for directory in cpuset_directories(files) {
        if let Some((processors, memories)) = cpuset(files, &directory)? {
            limits.restrict(processors, memories);
        }
    }
    Ok(limits)
}

/// The lists that the kernel keeps in `/proc/self/status`.
fn status(files: &Root) -> (Option<CpuSet>, Option<CpuSet>) {
    let text = files.text("proc/self/status").unwrap_or_default();
    let list = |key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        CpuSet::parse_list(value.trim()).filter(|set| !set.is_empty())
    };
    (list("Cpus_allowed_list"), list("Mems_allowed_list"))
}

/// Directories in which the cpuset of this process may be mounted. For each version the first
/// existing one counts.
fn cpuset_directories(files: &Root) -> Vec<String> {
    let mut mounts = vec!["dev/cpuset".to_owned(), "sys/fs/cgroup/cpuset".to_owned()];
    let mut unified = vec!["sys/fs/cgroup".to_owned(), "sys/fs/cgroup/unified".to_owned()];
    let table = files.text("proc/self/mounts").or_else(|| files.text("proc/mounts")).unwrap_or_default();
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, place, kind, options, ..] = fields[..] else { continue };
        let place = place.trim_start_matches('/').to_owned();
        match kind {
            "cpuset" => mounts.insert(0, place),
            "cgroup" if options.split(',').any(|option| option == "cpuset") => mounts.insert(0, place),
            "cgroup2" => unified.insert(0, place),
            _ => {}
        }
    }
    let mut directories = Vec::new();
    if let Some(group) = first_version_group(files) {
        directories.extend(mounts.iter().filter_map(|mount| deepest(files, mount, &group)).next());
    }
    if let Some(group) = second_version_group(files) {
        directories.extend(unified.iter().filter_map(|mount| deepest(files, mount, &group)).next());
    }
    directories
}

/// The path of this process's group in the cpuset hierarchy of version 1.
fn first_version_group(files: &Root) -> Option<String> {
    let controller = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        controllers.split(',').any(|name| name == "cpuset").then(|| fields.next().map(str::to_owned))?
    };
    let groups = files.text("proc/self/cgroup");
    let named = groups.as_deref().and_then(|text| text.lines().find_map(controller));
    named.or_else(|| files.text("proc/self/cpuset"))
}

/// The path of this process's group in the unified hierarchy of version 2.
fn second_version_group(files: &Root) -> Option<String> {
    let groups = files.text("proc/self/cgroup");
    let named = groups
        .as_deref()
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::").map(str::to_owned)));
    named.or_else(|| files.text("proc/self/cpuset"))
}

/// Version 2 reports the effective list. For version 1 the configured list comes first, as in
/// hwloc, since its effective lists lag behind processors that go offline and come back.
const PROCESSORS: [&str; 4] = ["cpuset.cpus.effective", "cpuset.cpus", "cpus", "cpuset.effective_cpus"];
const MEMORIES: [&str; 4] = ["cpuset.mems.effective", "cpuset.mems", "mems", "cpuset.effective_mems"];

/// The group's directory, or that of its nearest ancestor with a cpuset: in version 2 a group
/// without the controller inherits, and in a container the path may be outside of the mount.
fn deepest(files: &Root, mount: &str, group: &str) -> Option<String> {
    let mut group = group.trim_matches('/');
    loop {
        let directory = if group.is_empty() { mount.to_owned() } else { format!("{mount}/{group}") };
        if PROCESSORS.iter().chain(&MEMORIES).any(|name| files.text(&format!("{directory}/{name}")).is_some())
        {
            return Some(directory);
        }
        if group.is_empty() {
            return None;
        }
        group = group.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
}

type Pair = (Option<CpuSet>, Option<CpuSet>);

fn cpuset(files: &Root, directory: &str) -> Result<Option<Pair>, DiscoverError> {
    let first = |names: &[&str]| {
        for name in names {
            if let Some(set) =
                files.strict_list(&format!("{directory}/{name}"))?.filter(|set| !set.is_empty())
            {
                return Ok(Some(set));
            }
        }
        Ok(None)
    };
    Ok(Some((first(&PROCESSORS)?, first(&MEMORIES)?)))
}

//! Online processors and their cores, clusters, dies and sockets.

use super::cpuinfo::CpuInfo;
use super::error::DiscoverError;
use super::root::Root;
use crate::cpu_set::CpuSet;
use crate::raw::{RawGroup, RawMachine};
use crate::topology::Level;

const DIRECTORY: &str = "sys/devices/system/cpu";

/// Fills in the online processors and their groups.
pub(super) fn read(
    files: &Root,
    cpuinfo: &[CpuInfo],
    affinity: Option<&CpuSet>,
    raw: &mut RawMachine,
) -> Result<(), DiscoverError> {
    raw.online = online(files, cpuinfo, affinity)?;
    let shown = raw.online.iter().any(|processor| has_topology(files, processor));
    if shown {
        from_sysfs(files, cpuinfo, raw);
    } else {
        from_cpuinfo(cpuinfo, raw);
    }
    Ok(())
}

fn has_topology(files: &Root, processor: u32) -> bool {
    files.exists(&format!("{DIRECTORY}/cpu{processor}/topology"))
}

/// Processors that are plugged in and switched on.
fn online(files: &Root, cpuinfo: &[CpuInfo], affinity: Option<&CpuSet>) -> Result<CpuSet, DiscoverError> {
    let listed = files.strict_list(&format!("{DIRECTORY}/online"))?;
    let directories = files.numbered(DIRECTORY, "cpu");
    let described = directories.iter().any(|&processor| has_topology(files, processor));
    if described {
        let switched_on = |&processor: &u32| {
            let flag = files.number(&format!("{DIRECTORY}/cpu{processor}/online"));
            // Kernels withdraw the topology directory of a processor that goes offline.
            flag != Some(0)
                && has_topology(files, processor)
                && listed.as_ref().is_none_or(|set| set.contains(processor))
        };
        return Ok(directories.iter().copied().filter(switched_on).collect());
    }
    if !cpuinfo.is_empty() {
        return Ok(cpuinfo.iter().map(|info| info.processor).collect());
    }
    // Sandboxes have neither; then the affinity of this process is the only source.
    Ok(listed.or_else(|| affinity.cloned()).unwrap_or_else(|| directories.into_iter().collect()))
}

fn from_sysfs(files: &Root, cpuinfo: &[CpuInfo], raw: &mut RawMachine) {
    let online = raw.online.clone();
    let has_modules = cpuinfo.first().is_some_and(|info| info.has_modules);
    let shared = |processor: u32, names: &[&str]| {
        let directory = format!("{DIRECTORY}/cpu{processor}/topology");
        let read =
            |name: &&str| files.set(&format!("{directory}/{name}"), &format!("{directory}/{name}_list"));
        let set = names.iter().find_map(read)?.intersection(&online);
        set.contains(processor).then_some(set)
    };
    let id =
        |processor: u32, name: &str| files.number(&format!("{DIRECTORY}/cpu{processor}/topology/{name}"));

    let core = |processor| {
        let own = id(processor, "core_id");
        let set = match shared(processor, &["core_cpus", "thread_siblings"]) {
            Some(set) => set,
            // Without the siblings, a core's number at least shows that there are cores.
            None => own.map(|_| CpuSet::single(processor))?,
        };
        let set = if has_modules {
            set.iter().filter(|&sibling| id(sibling, "core_id") == own).collect()
        } else {
            set
        };
        Some((set, own))
    };
    let package = |processor| {
        let own = id(processor, "physical_package_id");
        let same_id = || -> Option<CpuSet> {
            own?;
            Some(online.iter().filter(|&other| id(other, "physical_package_id") == own).collect())
        };
        // If siblings and socket numbers contradict each other, the numbers are more reliable.
        let agree =
            |set: &CpuSet| own.is_none() || set.iter().all(|other| id(other, "physical_package_id") == own);
        let set = shared(processor, &["package_cpus", "core_siblings"]).filter(agree).or_else(same_id)?;
        Some((set, own))
    };
    let die = |processor| {
        let own = id(processor, "die_id")?;
        Some((shared(processor, &["die_cpus"])?, Some(own)))
    };
    let cluster = |processor| {
        let own = id(processor, "cluster_id")?;
        Some((shared(processor, &["cluster_cpus"])?, Some(own)))
    };
    let cores = partition(&online, Level::Core, core);
    let packages = partition(&online, Level::Package, package);
    let mut dies = partition(&online, Level::Die, die);
    let mut clusters = partition(&online, Level::Cluster, cluster);
    // A die that equals its socket, or a cluster that equals a core, a die or a socket, adds
    // nothing.
    dies.retain(|die| packages.iter().all(|package| package.processors != die.processors));
    let others = [&cores, &packages, &dies];
    clusters.retain(|cluster| {
        others.iter().all(|groups| groups.iter().all(|group| group.processors != cluster.processors))
    });
    for groups in [packages, dies, clusters, cores] {
        raw.groups.extend(groups);
    }
}

/// Disjoint groups of one level. The lowest processor of a group determines its members, and
/// processors that belong to a group already stay there.
pub(super) fn partition(
    online: &CpuSet,
    level: Level,
    group: impl Fn(u32) -> Option<(CpuSet, Option<u32>)>,
) -> Vec<RawGroup> {
    let mut taken = CpuSet::default();
    let mut groups = Vec::new();
    for processor in online.iter() {
        if taken.contains(processor) {
            continue;
        }
        let Some((set, os_index)) = group(processor) else { continue };
        let set = set.intersection(online).difference(&taken);
        taken = taken.union(&set);
        groups.push(RawGroup::plain(level, set, os_index));
    }
    groups
}

/// Cores and sockets of `/proc/cpuinfo`. Without any in the file the machine reports none.
fn from_cpuinfo(cpuinfo: &[CpuInfo], raw: &mut RawMachine) {
    let online = raw.online.clone();
    let find = |processor: u32| cpuinfo.iter().find(|info| info.processor == processor);
    let package = |processor| {
        let own = find(processor)?.package?;
        let members = cpuinfo.iter().filter(|info| info.package == Some(own)).map(|info| info.processor);
        Some((members.collect(), Some(own)))
    };
    let core = |processor| {
        let own = find(processor)?;
        let id = own.core?;
        let members = cpuinfo.iter().filter(|info| info.core == Some(id) && info.package == own.package);
        Some((members.map(|info| info.processor).collect(), Some(id)))
    };
    raw.groups.extend(partition(&online, Level::Package, package));
    raw.groups.extend(partition(&online, Level::Core, core));
}

//! A described machine as a virtual machine.

use harness::{Control, Deployment, Measurement, Plan};
use machine::Description;
use platform::Place;
use repartitioning::Cores;
use sim::{CacheSizes, Config as SimConfig, Disk, DiskFaults, DiskModel, VirtualMachine};
use storage::Optimisation;

use super::{faults, remote_choice};
use crate::choices::{DiskKind, LogDisk, PageSize, Switch};
use crate::config::Config;
use crate::errors::Failure;
use crate::machines;

/// A new disk of this kind, with the log on a device of its own if it has one.
fn disk(kind: DiskKind, log: Option<LogDisk>) -> Disk {
    let model = match kind {
        DiskKind::Ram => DiskModel::RAM,
        DiskKind::Nvme => DiskModel::NVME,
        DiskKind::Hdd => DiskModel::HDD,
        DiskKind::StripedHdd => DiskModel { spindles: 2, ..DiskModel::HDD },
    };
    let disk = Disk::new(model, DiskFaults::default());
    let log = match log {
        None => return disk,
        Some(LogDisk::Ram) => DiskModel::RAM,
        Some(LogDisk::Ssd) => DiskModel::NVME,
        Some(LogDisk::Hdd) => DiskModel::HDD,
    };
    disk.with_device_of_files(log, is_of_log)
}

/// True for the files of the logs: segments of rows in memory and of pages.
fn is_of_log(name: &str) -> bool {
    redo_log::parse_segment_name(name).is_some() || pages::is_log_file_name(name)
}

/// Bytes of the copies of tables that are never written, roughly: each instance has them on each of
/// its memory nodes.
fn copied_bytes(config: &Config, deployment: &Deployment) -> f64 {
    if !config.plan.optimisations.has(Optimisation::Replicate) {
        return 0.0;
    }
    let copies = deployment.instances.iter().map(|instance| instance.nodes_in_use().len().max(1));
    copies.sum::<usize>().saturating_sub(1) as f64 * config.workload.read_only_bytes()
}

/// Bytes of rows and indexes at the end of the run, roughly: what is loaded, what is copied, and,
/// where tables grow, some two thirds of what workers may insert.
fn expected_bytes(config: &Config, plan: &Plan, deployment: &Deployment) -> usize {
    let loaded = config.workload.rows_loaded(config.deployment.all_workers()).bytes;
    let most = deployment.workers() * plan.inserted_bytes(deployment);
    let inserted = if config.workload.grows() { most * 2 / 3 } else { 0 };
    (loaded + copied_bytes(config, deployment)) as usize + inserted
}

/// Runs the benchmark inside a virtual machine of this description; also says which caches it had.
pub(super) fn run(
    description: &Description,
    config: &Config,
    control: Control<'_>,
) -> Result<(Measurement, CacheSizes), Failure> {
    let failed = |error| Failure::Failed(format!("--machine {}: {error}", description.name));
    let host_memory = machines::native()?.memory_bytes();
    let topology = description.whole();
    let deployment = Deployment::on(&config.deployment, &topology, &description.hops, host_memory)
        .map_err(|error| faults::fault(config, error))?;
    let config = &remote_choice::chosen(config, &deployment, &topology, &|from, to| {
        let hops = description.hops.get(from).and_then(|row| row.get(to));
        hops.copied().unwrap_or(0)
    })?;
    // Of a cluster only the machines that anything runs on. The peers of one instance may be on
    // two.
    let machine = |place: Place| place.thread.and_then(|thread| topology.machine_of(thread));
    let last = deployment.places().into_iter().filter_map(machine).max();
    let machines = deployment.machines().max(last.map_or(1, |last| last as usize + 1));
    let (workload, mut plan) = (config.harness_workload()?, config.plan.clone());
    if let Some(adaptation) = &mut plan.adaptation {
        let threads: Option<Vec<_>> = deployment.places().into_iter().map(|place| place.thread).collect();
        // Workers without a place are in the sockets of the deployment.
        adaptation.cores = threads.and_then(|threads| Cores::of(description, &threads).ok());
    }
    let described = SimConfig::of_machines(description, machines).map_err(failed)?;
    let model = match (config.scale_caches, config.workload.scale()) {
        (Switch::On, Some(scale)) => described.model.with_scaled_caches(scale),
        _ => described.model,
    };
    let model = match config.pages {
        PageSize::Small => model.with_small_pages(),
        PageSize::Huge => model,
    };
    let new_disk = |kind| disk(kind, config.log_disk);
    let sim = SimConfig {
        model,
        seed: config.plan.seed,
        slice_divisor: config.slice_divisor,
        expected_bytes: expected_bytes(config, &plan, &deployment),
        disk: config.disk.map(new_disk),
        more_disks: (1..machines).filter_map(|_| config.disk.map(new_disk)).collect(),
        ..described
    };
    let outcome =
        VirtualMachine::run(&sim, |c| harness::in_virtual_machine(c, &workload, &plan, &deployment, control));
    let measurement = outcome.map_err(failed)?.value.map_err(Failure::of_run)?;
    Ok((measurement, sim.model.caches()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::resolved_on;
    use crate::progress::Progress;

    /// A pool that is not asked for is twice what is said of pages, so it keeps what is loaded.
    #[test]
    fn rows_take_no_more_pages_than_is_said() {
        let octo = Description::shipped("octo-socket").expect("shipped");
        for workload in [
            "tatp --subscribers 4000",
            "tpcc --warehouses 4 --scale 0.01",
            "tpcc --warehouses 4 --scale 0.01 --schema small",
            "tpcb --scale 0.05",
            "ycsb --records 10000",
            "micro --rows-per-site 5000 --row-bytes 8",
            "dependent --rows-per-site 1000",
        ] {
            let line = format!("{workload} --engine paged --cores 8 --warmup 0 --transactions 1");
            let config = resolved_on(&octo.whole(), &line);
            let said = config.workload.rows_loaded(config.deployment.all_workers()).page_bytes();
            let control = Control { progress: &Progress::hidden(), stop_requested: &|| false };
            let (measured, _) =
                run(&octo, &config, control).unwrap_or_else(|fault| panic!("{line}: {fault}"));
            let used = measured.memory.expect("a database").used_bytes as f64;
            assert!(used <= said, "{line}: {used} bytes of pages, {said} said");
            let harness::Engine::Paged { pool_bytes } = config.plan.engine else { panic!("{line}") };
            assert!(pool_bytes >= (2.0 * said) as u64, "{line}: {pool_bytes}");
        }
    }
}

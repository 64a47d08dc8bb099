//! The machines and disks of a durable deployment in a trial.

use std::sync::OnceLock;

use harness::{Deployment, DeploymentRequest, Instance, Transport, WorkerPlace};
use machine::Description;
use sim::{Config, Disk, DiskFaults, DiskModel, SimError};
use terms::random::Random;

use crate::task::Task;

const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// A deployment, and its machines.
pub(super) struct Cluster {
    pub deployment: Deployment,
    /// The machines.
    config: Config,
    /// Disks by machine.
    disks: Vec<Disk>,
}

/// Description of four machines of one core, or of two.
fn description(cores: usize) -> &'static Description {
    static CLUSTERS: [OnceLock<Description>; 2] = [const { OnceLock::new() }; 2];
    CLUSTERS[cores - 1].get_or_init(|| {
        let text = format!(
            "sockets = 1\ncores_per_socket = {cores}\nclock_ghz = 2.0\nmemory_gib = 4\nl1d = 32\nl2 = 256\n\
             l3_shared = 1024\nload_to_use_cycles = {{ l1 = 4, l2 = 12, l3 = 40 }}\nmemory_ns = {{ local = 80 }}\n\
             machines = 4\nnetwork_one_way_us = 25\nnetwork_gbps = 1.25\n"
        );
        Description::from_toml(&text).expect("a description")
    })
}

/// The same faults with a seed of their own for each machine, so that disks do not fail in step.
fn seeded(machine: usize, faults: DiskFaults) -> DiskFaults {
    DiskFaults { seed: faults.seed ^ (machine as u64) << 32, ..faults }
}

impl Cluster {
    /// One machine of the task's configuration, with two instances or three.
    pub(super) fn of_one_machine(random: &mut Random, task: &Task<'_>, workers: usize) -> Cluster {
        let instances = 2 + random.below(2) as usize;
        let transport =
            [Transport::Shm, Transport::Shm, Transport::Shm, Transport::Uds][random.below(4) as usize];
        let mut deployment = Deployment { transport, ..Deployment::unpinned(0, MEMORY_BYTES_MAX) };
        deployment.instances = vec![Instance { machine: 0, workers: Vec::new() }; instances];
        for worker in 0..workers {
            deployment.instances[worker % instances].workers.push(WorkerPlace::default());
        }
        Cluster { deployment, config: task.machine.config(task), disks: Vec::new() }
    }

    /// Several machines of a small cluster, with an instance or two each.
    ///
    /// # Errors
    /// The machines cannot be described.
    pub(super) fn of_several_machines(
        random: &mut Random,
        task: &Task<'_>,
        workers: usize,
    ) -> Result<Cluster, SimError> {
        let cores = 1 + random.below(2) as usize;
        let description = description(cores);
        let instances = if cores == 1 { workers } else { 2 + random.below(workers as u64 - 1) as usize };
        let transport = [Transport::Shm, Transport::Uds, Transport::Tcp][random.below(3) as usize];
        let request = DeploymentRequest { workers, instances, transport, ..DeploymentRequest::default() };
        let refused = |why: String| SimError::Config(why);
        let deployment = Deployment::on(&request, &description.whole(), &description.hops, 0)
            .map_err(|error| refused(error.to_string()))?;
        let deployment = Deployment { memory_bytes_max: MEMORY_BYTES_MAX, ..deployment };
        let requested = task.machine.config(task);
        let described = Config::of_machines(description, deployment.machines())?;
        let config = Config { model: described.model, ..requested };
        Ok(Cluster { deployment, config, disks: Vec::new() })
    }

    /// The same with a new disk of this kind for each machine.
    pub(super) fn with_disks(mut self, model: DiskModel, faults: DiskFaults) -> Cluster {
        let machines = self.deployment.machines();
        self.disks = (0..machines).map(|machine| Disk::new(model, seeded(machine, faults))).collect();
        let mut disks = self.disks.iter().cloned();
        self.config.disk = disks.next();
        self.config.more_disks = disks.collect();
        self
    }

    /// Configuration of one boot of the machines.
    pub(super) fn boot_config(&self, seed: u64) -> Config {
        self.config.clone().with_seed(seed)
    }

    /// The power of all machines fails.
    pub(super) fn lose_power(&self) {
        self.disks.iter().for_each(Disk::lose_power);
    }

    /// Changes the faults of the disks.
    pub(super) fn set_faults(&self, faults: DiskFaults) {
        self.disks.iter().enumerate().for_each(|(machine, disk)| disk.set_faults(seeded(machine, faults)));
    }

    /// The instances on a machine.
    pub(super) fn instances_on(&self, machine: u32) -> Vec<usize> {
        let instances = self.deployment.instances.iter().enumerate();
        instances.filter(|(_, instance)| instance.machine == machine).map(|(number, _)| number).collect()
    }
}

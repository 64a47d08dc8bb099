//! The remote warehouses of each worker, where `--remote-choice` takes those at a distance.

use harness::{Choice, Deployment};
use machine::{HardwareThread, Topology};
use workloads::tpcc::RemoteWarehouses;

use crate::bad_input::BadInput;
use crate::choices::RemoteChoice;
use crate::config::{Config, Workload};
use crate::errors::Failure;

/// Nodes of warehouses and workers, by their positions in the topology.
struct Nodes<'a> {
    count: usize,
    warehouses: Vec<usize>,
    workers: Vec<usize>,
    distance: &'a dyn Fn(usize, usize) -> u32,
}

/// The configuration with the remote warehouses of each worker, on a machine with this distance
/// between the nodes at two positions.
///
/// # Errors
/// The machine has no such warehouses for some worker.
pub(super) fn chosen(
    config: &Config,
    deployment: &Deployment,
    topology: &Topology,
    distance: &dyn Fn(usize, usize) -> u32,
) -> Result<Config, Failure> {
    let mut config = config.clone();
    let Workload::Tpcc(tpcc) = &mut config.workload else { return Ok(config) };
    if tpcc.remote_choice == RemoteChoice::Any {
        return Ok(config);
    }
    let choice = tpcc.remote_choice;
    let refused =
        |problem: &str, accepted: &str| BadInput::value("--remote-choice", choice.name(), problem, accepted);
    let position = |node| topology.node_position(node).unwrap_or(0);
    let node_of = |thread: HardwareThread| topology.node_of(thread).map_or(0, position);
    let threads: Option<Vec<_>> = deployment.places().into_iter().map(|place| place.thread).collect();
    let workers = match threads {
        Some(threads) => threads.into_iter().map(node_of).collect(),
        None if topology.nodes().len() < 2 => vec![0; deployment.workers()],
        None => return Err(refused("workers are not pinned", "any, or --placement island").into()),
    };
    let count = tpcc.warehouses as usize;
    let home = |warehouse| deployment.home(warehouse, count).map_or(0, position);
    let warehouses = (0..count).map(home).collect();
    let nodes = Nodes { count: topology.nodes().len().max(1), warehouses, workers, distance };
    let remote = match choice {
        RemoteChoice::Farthest if nodes.count < 2 => {
            return Err(refused("the machine has one memory node", "any, local").into());
        }
        RemoteChoice::Farthest => nodes.farthest(),
        _ => nodes.local(),
    };
    let remote = remote.map_err(|worker| {
        let place = match choice {
            RemoteChoice::Farthest => "at the largest distance of the machine from",
            _ => "on",
        };
        let problem = format!("no other warehouse has its rows {place} the memory node of worker {worker}");
        refused(&problem, "any, or other --cores, --warehouses, --placement")
    })?;
    tpcc.remote_warehouses = Some(remote.clone());
    for at in &mut config.at {
        if let Workload::Tpcc(tpcc) = &mut at.workload {
            tpcc.remote_warehouses = Some(remote.clone());
        }
    }
    Ok(config)
}

impl Nodes<'_> {
    fn local(&self) -> Result<RemoteWarehouses, usize> {
        self.remote(|from, to| from == to)
    }

    fn farthest(&self) -> Result<RemoteWarehouses, usize> {
        let all = || 0..self.count;
        let largest = all().flat_map(|from| all().map(move |to| (self.distance)(from, to))).max();
        self.remote(|from, to| from != to && Some((self.distance)(from, to)) == largest)
    }

    /// The warehouses on the nodes that this relation names for the worker's; the first worker that
    /// would have none but its home is the error.
    fn remote(&self, is_chosen: impl Fn(usize, usize) -> bool) -> Result<RemoteWarehouses, usize> {
        let numbered = || self.warehouses.iter().zip(1..);
        let of_node = |from| {
            let chosen = numbered().filter(|(to, _)| is_chosen(from, **to));
            chosen.map(|(_, w_id)| w_id).collect::<Vec<u16>>()
        };
        let lists: Vec<_> = (0..self.count).map(of_node).collect();
        let has_none = |(worker, node): (usize, &usize)| {
            let home = (worker % self.warehouses.len()) as u16 + 1;
            lists[*node].iter().all(|w_id| *w_id == home)
        };
        match self.workers.iter().enumerate().position(has_none) {
            Some(worker) => Err(worker),
            None => Ok(RemoteWarehouses::new(lists, self.workers.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::Description;

    use super::*;
    use crate::config::tests::resolved_on;

    fn of_line(line: &str) -> Result<Config, Failure> {
        let octo = Description::shipped("octo-socket").expect("shipped");
        let topology = octo.whole();
        let config = resolved_on(&topology, line);
        let deployment = Deployment::on(&config.deployment, &topology, &octo.hops, 0).expect("deployed");
        chosen(&config, &deployment, &topology, &|from, to| octo.hops[from][to])
    }

    fn remote(line: &str) -> RemoteWarehouses {
        match of_line(line) {
            Ok(Config { workload: Workload::Tpcc(tpcc), .. }) => tpcc.remote_warehouses.expect("chosen"),
            _ => panic!("{line}: refused"),
        }
    }

    #[test]
    fn warehouses_at_a_distance_are_remote() {
        let line = "tpcc --cores 20 --warehouses 40 --remote-choice local";
        let (first, second): (Vec<u16>, Vec<u16>) = ((1..=10).collect(), (11..=20).collect());
        let lists = |first: &[u16], second: &[u16]| {
            let mut lists = vec![Vec::new(); 8];
            let again = |list: &[u16]| list.iter().flat_map(|w_id| [*w_id, w_id + 20]).collect();
            (lists[0], lists[1]) = (again(first), again(second));
            let workers = (0..20).map(|worker| worker / 10).collect();
            RemoteWarehouses::new(lists, workers)
        };
        assert_eq!(remote(line), lists(&first, &second));
        // Rows that are elsewhere are not local, and workers stay where they are.
        let elsewhere = "tpcc --cores 80 --remote-choice local --memory remote";
        assert_ne!(remote(elsewhere), remote("tpcc --cores 80 --remote-choice local"));
        assert_ne!(remote("tpcc --cores 80 --remote-choice farthest"), remote(elsewhere));
    }

    #[test]
    fn distances_without_warehouses_are_refused() {
        for (line, expected) in [
            (
                "tpcc --cores 10 --remote-choice farthest",
                "--remote-choice farthest: no other warehouse has its rows at the largest distance of the machine \
                 from the memory node of worker 0 (accepted: any, or other --cores, --warehouses, --placement)",
            ),
            (
                "tpcc --cores 11 --remote-choice local",
                "--remote-choice local: no other warehouse has its rows on the memory node of worker 10 \
                 (accepted: any, or other --cores, --warehouses, --placement)",
            ),
            (
                "tpcc --cores 20 --placement os --remote-choice local",
                "--remote-choice local: workers are not pinned (accepted: any, or --placement island)",
            ),
        ] {
            match of_line(line) {
                Err(Failure::BadInput(fault)) => assert_eq!(fault.to_string(), expected),
                _ => panic!("{line}: accepted"),
            }
        }
    }
}

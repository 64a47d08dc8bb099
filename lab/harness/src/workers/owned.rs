//! State that workers share if they own partitions.

use boundary::{SchemaBuilder, Traits};
use dora::{Map, Shared, Site};
use engine::instances;
use platform::{Hardware, Platform};
use repartitioning::PartitionMap;
use workloads::Workload;

use crate::deployment::Deployment;
use crate::error::RunError;
use crate::faults::failing::Failing;
use crate::owners::adapting::{Adapting, Monitoring};
use crate::owners::shifting;
use crate::plan::{Engine, Plan};
use crate::workers::partitions::Remembered;

/// The shared state of owners, and their places.
pub(crate) struct Owners<P: Platform> {
    pub shared: Shared<P>,
    /// The places of the workers.
    pub sites: Vec<Site>,
    /// The map at the beginning.
    pub partitions: PartitionMap,
    /// A note for the report.
    pub note: Option<String>,
    /// `Some` if partitions follow the workload.
    pub adapting: Option<Adapting<P>>,
}

impl<P: Platform> Owners<P> {
    /// The owners of a run; `None` if its workers own no partitions. Each worker owns the parts of
    /// each table on its node, or, if partitions follow the workload, the partitions that it owned
    /// at the end of an earlier run on the same database.
    ///
    /// # Errors
    /// The run is refused.
    pub(crate) fn of<W: Workload>(
        c: P::Core,
        workload: &W,
        plan: &Plan,
        deployment: &Deployment,
        remembered: Option<&Remembered>,
    ) -> Result<Option<Self>, RunError> {
        shifting::check(&plan.shifts, plan.execution.sharing().is_some(), plan.adapts())?;
        let Some(sharing) = plan.sharing() else { return Ok(None) };
        check(plan, deployment)?;
        let mut schema = SchemaBuilder::new();
        workload.create(&mut schema);
        let workers = deployment.workers();
        let sockets = deployment.sockets();
        let owner = |table: usize, part: usize, parts: usize| {
            let placed = workload.owner(table, part, &sockets);
            placed.unwrap_or_else(|| deployment.loader(part, parts))
        };
        let even = match workload.placed_tables() {
            0 => Map::new(&schema.divisions(), workers, &|part, parts| owner(0, part, parts)),
            _ => Map::by_table(&schema.divisions(), workers, &owner),
        };
        let even = even.map_err(RunError::of)?;
        let remembered = remembered.filter(|_| plan.adapts());
        let (map, note) = begin(even, remembered).map_err(RunError::of)?;
        let partitions = map.partitions().clone();
        let sites = deployment.nodes().into_iter().zip(deployment.sockets());
        let sites: Vec<Site> = sites.map(|(node, socket)| Site { node, socket }).collect();
        let shared = Shared::new(c, &sites, map, sharing).map_err(RunError::of)?;
        // One that spins would keep its hardware thread from the others.
        let shares = deployment.workers_per_thread > 1 || !plan.failures.is_empty();
        let sleeps = plan.partition_threads || shares;
        let shared = if sleeps { shared.sleeping_at_once() } else { shared };
        let adapting = plan.adaptation.as_ref().map(|how| Adapting::new(c, how, deployment, plan.borders()));
        let adapting = adapting.transpose().map_err(RunError::of)?;
        Ok(Some(Owners { shared: shared.with_faults(plan.faults), sites, partitions, note, adapting }))
    }
}

impl<P: Platform> Owners<P> {
    /// The monitoring for partitions that follow the workload, if they do; sockets may fail.
    pub(crate) fn monitoring<'a>(&'a self, failing: Option<&'a Failing>) -> Option<Monitoring<'a, P>> {
        Some(Monitoring::new(self.adapting.as_ref()?, failing, &self.partitions, self.note.as_deref()))
    }
}

/// The map with which a run begins, and a note for the report.
fn begin(
    even: Map,
    remembered: Option<&Remembered>,
) -> Result<(Map, Option<String>), repartitioning::MapError> {
    let Some(remembered) = remembered else { return Ok((even, None)) };
    match remembered.map(even.partitions(), even.workers()) {
        Ok(partitions) if partitions.tables() == even.partitions().tables() => Ok((even, None)),
        Ok(partitions) => {
            let count = partitions.partitions().count() as u64;
            let note =
                format!("{}, as an earlier run has left them", repartitioning::counted(count, "partition"));
            Ok((even.with_partitions(partitions)?, Some(note)))
        }
        Err(why) => Ok((even, Some(why))),
    }
}

/// Refuses plans that owners of partitions of rows in memory cannot run.
fn over_memory(plan: &Plan) -> Result<(), RunError> {
    let Traits { name, branches, .. } = instances::traits::<Hardware>(plan.scheme);
    if !branches {
        return Err(RunError::Refused(format!(
            "{name}: workers that own partitions of rows in memory need no locks of a scheme; take hstore, or run inline"
        )));
    }
    Ok(())
}

/// Refuses plans that owners of partitions cannot run.
fn check(plan: &Plan, deployment: &Deployment) -> Result<(), RunError> {
    if plan.engine == Engine::Memory {
        over_memory(plan)?;
    }
    match deployment.instances.len() {
        1 => Ok(()),
        several => Err(RunError::Refused(format!(
            "{several} instances: workers own partitions of one database; take one instance, or run inline"
        ))),
    }
}

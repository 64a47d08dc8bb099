//! What the workers of a run share that own partitions.

use engine::SchemaBuilder;
use oriented::{Map, Shared, Site};
use platform::Platform;
use workloads::Workload;

use crate::adapting::Adapting;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::plan::{Engine, Plan};

/// What they share, and where they are.
pub(crate) struct Owners<P: Platform> {
    pub shared: Shared<P>,
    /// By worker.
    pub sites: Vec<Site>,
    /// There where partitions follow the workload.
    pub adapting: Option<Adapting<P>>,
}

impl<P: Platform> Owners<P> {
    /// Of a run; none if its workers own nothing. Each worker owns the parts that lie on its node, of each table.
    ///
    /// # Errors
    /// Such a run is refused.
    pub(crate) fn of<W: Workload>(
        c: P::Core,
        workload: &W,
        (plan, deployment): (&Plan, &Deployment),
    ) -> Result<Option<Self>, RunError> {
        let Some(sharing) = plan.execution.sharing() else { return Ok(None) };
        check(plan, deployment)?;
        let mut schema = SchemaBuilder::new();
        workload.create(&mut schema);
        let workers = deployment.workers();
        let owner = |part: usize, parts: usize| deployment.loader(part, parts);
        let map = Map::new(&schema.divisions(), workers, &owner).map_err(RunError::of)?;
        let sites = deployment.nodes().into_iter().zip(deployment.sockets());
        let sites: Vec<Site> = sites.map(|(node, socket)| Site { node, socket }).collect();
        let shared = Shared::new(c, &sites, map, sharing).map_err(RunError::of)?;
        let names = schema.divisions().into_iter().map(|table| table.name).collect();
        let adapting = plan
            .adapt
            .map(|settings| Adapting::new(c, settings, plan.warm_up_seconds, (names, deployment.sockets())));
        let adapting = adapting.transpose().map_err(RunError::of)?;
        Ok(Some(Owners { shared: shared.with_broken(plan.owners_broken), sites, adapting }))
    }
}

/// Refuses what owners of partitions cannot run.
fn check(plan: &Plan, deployment: &Deployment) -> Result<(), RunError> {
    if plan.engine == Engine::Memory {
        let why = "workers own partitions of rows in pages only: take the engine `paged`, or run inline";
        return Err(RunError::Refused(why.to_owned()));
    }
    match deployment.instances.len() {
        1 => Ok(()),
        several => Err(RunError::Refused(format!(
            "{several} instances: workers own partitions of one database; take one instance, or run inline"
        ))),
    }
}

//! The clients of a run: who draws requests, and for which rows.

use workloads::Workload;

use crate::deployment::Deployment;
use crate::error::RunError;
use crate::plan::{Clients, Length, Plan};
use crate::requests::{Drawing, Requests};

/// The clients of a run.
pub(super) enum RunClients<Q> {
    /// Workers draw transactions for their homes.
    Workers,
    /// Workers draw transactions for all data.
    OfAll,
    /// Workers draw transactions for these homes, by instance.
    OfInstances(Vec<Vec<usize>>),
    /// Clients request all data.
    Global(Requests<Q>),
}

impl<Q> RunClients<Q> {
    /// The clients of a run, of which `here` instances are in this process. Owners of rows are
    /// workers if workers own partitions, else instances.
    ///
    /// # Errors
    /// The run cannot have such clients.
    pub(super) fn of<W: Workload<Procedure = Q>>(
        workload: &W,
        plan: &Plan,
        deployment: &Deployment,
        here: usize,
        workers_own: bool,
    ) -> Result<Self, RunError> {
        let (instances, workers) = (deployment.instances.len(), deployment.workers());
        match plan.clients {
            Clients::Worker => Ok(RunClients::Workers),
            Clients::Instance if instances == 1 => Ok(RunClients::OfAll),
            Clients::Global if instances == 1 && !workers_own => Ok(RunClients::OfAll),
            Clients::Instance => homes(workload, deployment).map(RunClients::OfInstances),
            Clients::Global if here < instances => Err(RunError::Refused(
                "clients that request all data need instances in one process, and these are processes: \
                 take a simulated machine, or clients of an instance"
                    .to_owned(),
            )),
            Clients::Global if matches!(plan.length, Length::Transactions(_)) => Err(RunError::Refused(
                "clients that request all data give workers different numbers of transactions".to_owned(),
            )),
            Clients::Global => {
                let owners = if workers_own { workers } else { instances };
                Ok(RunClients::Global(Requests::new(plan.seed, workers, owners)))
            }
        }
    }

    /// The drawing of the requests of workers of an instance.
    pub(super) fn drawing(&self, instance: usize) -> Drawing<'_, Q> {
        match self {
            RunClients::Workers => Drawing::Home,
            RunClients::OfAll => Drawing::Homes(None),
            RunClients::OfInstances(homes) => Drawing::Homes(Some(&homes[instance])),
            RunClients::Global(requests) => Drawing::Clients(requests),
        }
    }
}

/// The homes whose rows each instance has.
fn homes<W: Workload>(workload: &W, deployment: &Deployment) -> Result<Vec<Vec<usize>>, RunError> {
    let parts = workload.parts();
    let parts_each = parts / workload.homes();
    let mut homes = vec![Vec::new(); deployment.instances.len()];
    for part in 0..parts {
        let worker = deployment.loader(part, parts);
        homes[deployment.instance_of(worker)].push(part / parts_each);
    }
    homes.iter_mut().for_each(Vec::dedup);
    match homes.iter().position(Vec::is_empty) {
        Some(empty) => Err(RunError::Refused(format!(
            "clients of an instance request its data, and instance {empty} has none"
        ))),
        None => Ok(homes),
    }
}

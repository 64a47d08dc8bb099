//! Refuses flags that would have no effect: a user who gives one wants something that the run would
//! not do.
//!
//! A flag may name what the run does anyway, and `--deploy 1isl` may stand beside flags of several
//! instances, so that sweeps over deployments need no other line for one instance.

use concurrency::RowLock;
use harness::{Choice, Durability, Engine, Execution};
use storage::Optimisation;

use super::resolved::Config;
use crate::arguments::{AnyFlag, CommonFlags, Flag, refuse};
use crate::bad_input::BadInput;
use crate::choices::{ConcurrencyControl, WorkloadName};

/// Optimisations that rows in pages can do without; the others are of rows in memory, but for
/// looking ahead.
const OF_PAGES: [Optimisation; 2] = [Optimisation::InheritedLocks, Optimisation::Aether];
/// Those of both.
const OF_BOTH: [Optimisation; 3] =
    [Optimisation::PlainLocks, Optimisation::Prefetch, Optimisation::LookAhead];

/// Refuses the first flag that has no effect.
pub(super) fn check(common: &CommonFlags, run: &Config, has_database: bool) -> Result<(), BadInput> {
    if common.deploy.is_none() {
        let of_several: [&dyn AnyFlag; 3] = [&common.transport, &common.in_flight, &common.commit];
        refuse(&of_several, "there is one instance", "with --deploy")?;
    }
    if !has_database {
        return of_experiment(common, run.workload.name());
    }
    if run.plan.engine != Engine::Memory {
        of_memory(common)?;
    }
    optimisations(common, run)?;
    ways(common, run.cc)
}

/// An experiment has neither database nor transactions, and runs for a time.
fn of_experiment(common: &CommonFlags, workload: WorkloadName) -> Result<(), BadInput> {
    let of_databases: [&dyn AnyFlag; 10] = [
        &common.cc,
        &common.retry,
        &common.clients,
        &common.timestamp,
        &common.without,
        &common.row_lock,
        &common.row_copies,
        &common.commit_locks,
        &common.deadlocks,
        &common.like,
    ];
    let name = workload.name();
    refuse(&of_databases, &format!("{name} has no database"), "with another workload")?;
    refuse(&[&common.transactions], &format!("{name} runs for a time"), "--seconds")
}

/// Ways of rows in memory.
fn of_memory(common: &CommonFlags) -> Result<(), BadInput> {
    let ways: [&dyn AnyFlag; 5] =
        [&common.timestamp, &common.row_lock, &common.row_copies, &common.commit_locks, &common.deadlocks];
    refuse(&ways, "a way of rows in memory", "with --engine memory")
}

/// Optimisations of the other engine, and one of the log where there is none.
fn optimisations(common: &CommonFlags, run: &Config) -> Result<(), BadInput> {
    for one in &common.without.value()?.unwrap_or_default() {
        let refused = |problem, accepted| Err(BadInput::value("--without", one.name(), problem, accepted));
        match run.plan.engine {
            _ if OF_BOTH.contains(one) => {}
            _ if *one == Optimisation::Announcements && run.plan.execution == Execution::Atrapos => {}
            _ if *one == Optimisation::Announcements => {
                return refused("only --execution atrapos announces", "with --execution atrapos");
            }
            Engine::Memory if OF_PAGES.contains(one) => {
                return refused("an optimisation of rows in pages", "with --engine paged");
            }
            Engine::Paged { .. } if !OF_PAGES.contains(one) => {
                return refused("an optimisation of rows in memory", "with --engine memory");
            }
            Engine::Paged { .. }
                if *one == Optimisation::Aether && run.plan.durability == Durability::None =>
            {
                return refused("nothing is logged", "with --durability async, group, sync");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Ways of other schemes.
fn ways(common: &CommonFlags, cc: ConcurrencyControl) -> Result<(), BadInput> {
    let is_latch = common.row_lock.value()? == Some(RowLock::Latch);
    match cc {
        ConcurrencyControl::Scheme(scheme) if is_latch && !scheme.locks_rows() => {
            let others = concurrency::SchemeName::ALL.into_iter().filter(|other| other.locks_rows());
            let names: Vec<&str> = others.map(concurrency::SchemeName::name).collect();
            let accepted = format!("word, or --cc {}", names.join(", "));
            Err(BadInput::value("--row-lock", "latch", format!("{scheme} locks no rows so"), accepted))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use experiments::{Size, Study};
    use machine::Description;

    use crate::config::tests::{facts_of, resolved_with};

    /// All runs of the studies are accepted in all sizes, so their flags have effects.
    #[test]
    fn every_run_of_the_studies_is_accepted() {
        let studies = [
            include_str!("../../../../studies/findings.toml"),
            include_str!("../../../../studies/locks.toml"),
            include_str!("../../../../studies/thousand-cores.toml"),
            include_str!("../../../../studies/islands.toml"),
            include_str!("../../../../studies/cluster.toml"),
            include_str!("../../../../studies/atrapos.toml"),
        ];
        let mut lines = std::collections::BTreeSet::new();
        for (text, size) in studies.iter().flat_map(|text| Size::ALL.map(|size| (text, size))) {
            let study = Study::parse(text, size).expect("a study");
            let points = study.figures.iter().flat_map(|figure| &figure.series).flat_map(|one| &one.points);
            let runs = study.findings.iter().flat_map(|finding| &finding.runs);
            let runs = runs.chain(points.flat_map(|point| &point.runs));
            lines.extend(runs.map(|run| run.arguments.join(" ")));
        }
        let mut machines = BTreeMap::new();
        for line in &lines {
            let Some((_, rest)) = line.split_once("--machine ") else { continue };
            let name = rest.split_whitespace().next().expect("a machine");
            let facts = machines.entry(name).or_insert_with(|| {
                facts_of(&Description::shipped(name).expect("it ships with Isles").whole())
            });
            resolved_with(facts, line);
        }
        assert!(lines.len() > 1_000, "{}", lines.len());
    }
}

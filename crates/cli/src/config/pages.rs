//! What `--engine paged` asks for, and what it does not do yet.

use super::workloads::Workload;
use crate::arguments::CommonFlags;
use crate::bad_input::BadInput;
use crate::choices::{Choice, Deploy, Engine, WorkloadName};
use crate::machine_facts::{MachineFacts, NATIVE};
use crate::values;

/// Smallest and largest pool.
const POOL_BYTES: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 46;
/// Least default of a simulated machine.
const POOL_BYTES_VIRTUAL_MIN: f64 = (64u64 << 20) as f64;

/// Refuses what rows in pages cannot do.
pub(super) fn refuse(
    common: &CommonFlags,
    (workload, has_database): (WorkloadName, bool),
    deploy: Deploy,
) -> Result<(), BadInput> {
    if !has_database {
        let problem = format!("{} stores nothing", workload.name());
        return Err(BadInput::value("--engine", Engine::Paged.name(), problem, Engine::Memory.name()));
    }
    if deploy.instances() > 1 {
        let text = common.deploy.as_deref().unwrap_or_default();
        return Err(BadInput::later_value("--deploy", text, "1isl with --engine paged"));
    }
    Ok(())
}

/// Bytes of the pool, if there is one.
pub(super) fn pool(
    common: &CommonFlags,
    engine: Engine,
    (workload, cores): (&Workload, usize),
    machine: &MachineFacts,
) -> Result<Option<u64>, BadInput> {
    if let (Engine::Memory, Some(text)) = (engine, &common.pool) {
        return Err(BadInput::value(
            "--pool",
            text,
            "rows in memory have no pool",
            "no --pool, or --engine paged",
        ));
    }
    let given = values::bytes("--pool", common.pool.as_deref(), POOL_BYTES)?;
    let default = || match machine.host_memory_bytes.filter(|_| machine.name == NATIVE) {
        Some(bytes) => bytes / 2,
        None => (2.0 * workload.rows_loaded(cores).bytes).max(POOL_BYTES_VIRTUAL_MIN) as u64,
    };
    Ok((engine == Engine::Paged).then(|| given.unwrap_or_else(default)))
}

//! What `--engine paged` asks for.

use super::workloads::Workload;
use crate::arguments::CommonFlags;
use crate::bad_input::BadInput;
use crate::choices::{Choice, Engine, WorkloadName};
use crate::machine_facts::{MachineFacts, NATIVE};
use crate::values;

/// Smallest and largest pool.
const POOL_BYTES: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 46;
/// Least default of a simulated machine.
const POOL_BYTES_VIRTUAL_MIN: f64 = (64u64 << 20) as f64;

/// Refuses pages for workloads that have no rows.
pub(super) fn refuse(workload: WorkloadName, has_database: bool) -> Result<(), BadInput> {
    if has_database {
        return Ok(());
    }
    let problem = format!("{} stores nothing", workload.name());
    Err(BadInput::value("--engine", Engine::Paged.name(), problem, Engine::Memory.name()))
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
    if let (Some(bytes), Some(memory), Some(text)) = (given, machine.host_memory_bytes, &common.pool)
        && bytes > memory
    {
        let accepted = format!("up to {}MiB", memory >> 20);
        return Err(BadInput::value("--pool", text, "more than the memory of this machine", accepted));
    }
    let default = || match machine.host_memory_bytes.filter(|_| machine.name == NATIVE) {
        Some(bytes) => bytes / 2,
        None => (2.0 * workload.rows_loaded(cores).bytes).max(POOL_BYTES_VIRTUAL_MIN) as u64,
    };
    Ok((engine == Engine::Paged).then(|| given.unwrap_or_else(default)))
}

//! Flags of `--engine paged`.

use harness::{Choice, Length};

use super::workloads::{PAGE_BYTES_PER_BYTE, Workload};
use crate::arguments::{CommonFlags, Flag};
use crate::bad_input::BadInput;
use crate::choices::{Engine, WorkloadName};
use crate::machine_facts::{MachineFacts, NATIVE};

/// Least and largest default of a simulated machine: half of what its regions can be.
const POOL_BYTES_VIRTUAL: (f64, f64) = ((64u64 << 20) as f64, (32u64 << 30) as f64);

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
    default: impl FnOnce() -> u64,
    machine: &MachineFacts,
) -> Result<Option<u64>, BadInput> {
    let Some(given) = &common.pool else { return Ok((engine == Engine::Paged).then(default)) };
    if engine == Engine::Memory {
        return Err(given.refused("rows in memory have no pool", "no --pool, or --engine paged"));
    }
    let bytes = common.pool.value()?;
    if let Some(memory) = machine.host_memory_bytes.filter(|memory| bytes > Some(*memory)) {
        let accepted = format!("up to {}MiB", memory >> 20);
        return Err(given.refused("more than the memory of this machine", accepted));
    }
    Ok(bytes)
}

/// Bytes of the pool where `--pool` does not say it: of this machine half of its memory, of a
/// simulated one what keeps all pages in memory. Frames that no process uses cost the host nothing.
pub(super) fn pool_default(
    workload: &Workload,
    cores: usize,
    length: Length,
    warmup_seconds: f64,
    machine: &MachineFacts,
) -> u64 {
    if let Some(bytes) = machine.host_memory_bytes.filter(|_| machine.name == NATIVE) {
        return bytes / 2;
    }
    let each = if workload.grows() { length.inserted_bytes(warmup_seconds) } else { 0.0 };
    let inserted = each * cores as f64;
    let (least, most) = POOL_BYTES_VIRTUAL;
    // Memory nodes have equal parts of the pool, whatever is loaded on them.
    let bytes = 2.0 * workload.rows_loaded(cores).page_bytes() + PAGE_BYTES_PER_BYTE * inserted;
    bytes.clamp(least, most) as u64
}

//! The flags of each workload.

use ::workloads::micro::Operation;
use ::workloads::ycsb::YcsbWorkload;
use driver::{CounterGroups, Peers};

use super::types::{CounterWorkload, Hot, IpcWorkload, MemoryWorkload, Micro, Tpcc, Workload, Ycsb};
use crate::arguments::{BenchArguments, CounterFlags, IpcFlags, RowFlags, TpccFlags};
use crate::bad_input::BadInput;
use crate::choices::{Mechanism, Switch, TpccLoad, TpccMix, TpccSchema, WorkloadName, choose};
use crate::values;

/// Most rows of one transaction.
const ROWS_MAX: u64 = 1_000;
/// Most rows of one site, and most records: the key of a row is its number.
const TABLE_ROWS_MAX: u64 = 10_000_000_000;
/// Smallest row: it holds a counter that updates increment.
const ROW_BYTES_MIN: u64 = 8;
/// Largest row.
const ROW_BYTES_MAX: u64 = 65_536;
/// Most warehouses.
const WAREHOUSES_MAX: u64 = 65_535;
/// Smallest TPC-C: a district keeps three customers, the catalogue a hundred items.
const SCALE_MIN: f64 = 0.001;
/// Largest TPC-C.
const SCALE_MAX: f64 = 100.0;

/// Bytes of the rows of one warehouse at scale 1 by the specification's typical row lengths (clause 4.2.2).
const WAREHOUSE_BYTES: f64 = 68_000_000.0;
/// Bytes of a YCSB record.
const RECORD_BYTES: u64 = 100;

/// Resolves the flags of `workload` with `cores` workers.
pub fn resolve(
    arguments: &BenchArguments,
    workload: WorkloadName,
    cores: usize,
) -> Result<Workload, BadInput> {
    match workload {
        WorkloadName::Micro => micro(&arguments.row).map(Workload::Micro),
        WorkloadName::Ycsb => ycsb(&arguments.row).map(Workload::Ycsb),
        WorkloadName::Tpcc => tpcc(&arguments.tpcc, cores).map(Workload::Tpcc),
        WorkloadName::Counter => counter(&arguments.counter, cores).map(Workload::Counter),
        WorkloadName::Ipc => ipc(&arguments.ipc).map(Workload::Ipc),
        WorkloadName::Memory => memory(&arguments.row).map(Workload::Memory),
    }
}

/// The flag that decides how many rows there are, its value, and the bytes of the bare rows.
pub fn row_bytes(workload: &Workload, cores: usize) -> (&'static str, u64, f64) {
    match workload {
        Workload::Micro(micro) => {
            let bytes = micro.rows_per_site as f64 * micro.row_bytes as f64 * cores as f64;
            ("--rows-per-site", micro.rows_per_site, bytes)
        }
        Workload::Ycsb(ycsb) => ("--records", ycsb.records, ycsb.records as f64 * RECORD_BYTES as f64),
        Workload::Tpcc(tpcc) => {
            let warehouses = u64::from(tpcc.warehouses);
            // The small schema keeps about a third of the bytes.
            let share = if tpcc.schema == TpccSchema::Small { 0.3 } else { 1.0 };
            ("--warehouses", warehouses, warehouses as f64 * WAREHOUSE_BYTES * tpcc.scale * share)
        }
        Workload::Counter(counter) => ("--threads", counter.threads as u64, 0.0),
        Workload::Ipc(_) => ("--cores", cores as u64, 0.0),
        Workload::Memory(memory) => {
            ("--rows", memory.rows, memory.rows as f64 * platform::LINE_BYTES as f64 * cores as f64)
        }
    }
}

fn micro(flags: &RowFlags) -> Result<Micro, BadInput> {
    let rows = values::whole("--rows", flags.rows.as_deref(), 1..=ROWS_MAX)?.unwrap_or(10);
    let row_bytes = values::whole("--row-bytes", flags.row_bytes.as_deref(), ROW_BYTES_MIN..=ROW_BYTES_MAX)?;
    let rows_per_site = values::whole("--rows-per-site", flags.rows_per_site.as_deref(), 1..=TABLE_ROWS_MAX)?;
    let micro = Micro {
        op: choose("--op", flags.op.as_deref(), Operation::Read)?,
        rows,
        row_bytes: row_bytes.unwrap_or(250),
        rows_per_site: rows_per_site.unwrap_or(10_000),
        multisite: values::number("--multisite", flags.multisite.as_deref(), 0.0..=1.0)?.unwrap_or(0.0),
        zipf: values::number("--zipf", flags.zipf.as_deref(), 0.0..=1.0)?,
        hot: flags.hot.as_deref().map(hot).transpose()?,
    };
    if micro.hot.is_some() && micro.zipf.is_some() {
        return Err(BadInput::new(
            "--hot with --zipf",
            "each gives the skew of the choice of rows",
            "one of the two",
        ));
    }
    rows_fit(rows, "--rows-per-site", micro.rows_per_site)?;
    Ok(micro)
}

/// `FRACTION_OF_REQUESTS:FRACTION_OF_DATA`.
fn hot(text: &str) -> Result<Hot, BadInput> {
    let fault = |problem: &str| {
        let accepted =
            "F:F as in 0.8:0.2, a share of requests from 0 to 1 and a share of data above 0 up to 1";
        BadInput::value("--hot", text, problem, accepted)
    };
    let (requests, data) = text.split_once(':').ok_or_else(|| fault("not two shares"))?;
    let share = |part: &str| part.parse::<f64>().map_err(|_| fault("not two numbers"));
    let (requests, data) = (share(requests)?, share(data)?);
    if !(0.0..=1.0).contains(&requests) || !(0.0..=1.0).contains(&data) || data == 0.0 {
        return Err(fault("out of range"));
    }
    Ok(Hot { requests, data })
}

fn ycsb(flags: &RowFlags) -> Result<Ycsb, BadInput> {
    let records = values::whole("--records", flags.records.as_deref(), 1..=TABLE_ROWS_MAX)?;
    let ycsb = Ycsb {
        workload: choose("--workload", flags.ycsb_workload.as_deref(), YcsbWorkload::A)?,
        records: records.unwrap_or(1_000_000),
        rows: values::whole("--rows", flags.rows.as_deref(), 1..=ROWS_MAX)?.unwrap_or(10),
        zipf: values::number("--zipf", flags.zipf.as_deref(), 0.0..=1.0)?.unwrap_or(0.99),
    };
    rows_fit(ycsb.rows, "--records", ycsb.records)?;
    Ok(ycsb)
}

/// A transaction cannot choose more rows than there are.
fn rows_fit(rows: u64, table_flag: &str, table_rows: u64) -> Result<(), BadInput> {
    if rows <= table_rows {
        return Ok(());
    }
    let problem = format!("more rows a transaction than {table_flag} {table_rows}");
    Err(BadInput::value("--rows", &rows.to_string(), problem, format!("1 to {table_rows}")))
}

fn tpcc(flags: &TpccFlags, cores: usize) -> Result<Tpcc, BadInput> {
    let warehouses = values::whole("--warehouses", flags.warehouses.as_deref(), 1..=WAREHOUSES_MAX)?;
    let warehouses = warehouses.unwrap_or((cores as u64).min(WAREHOUSES_MAX));
    let percent = |flag, text: &Option<String>, default| {
        values::number(flag, text.as_deref(), 0.0..=100.0).map(|given| given.unwrap_or(default))
    };
    Ok(Tpcc {
        warehouses: u32::try_from(warehouses).expect("within WAREHOUSES_MAX"),
        mix: choose("--mix", flags.mix.as_deref(), TpccMix::Full)?,
        remote_payment_percent: percent("--remote-payment", &flags.remote_payment, 15.0)?,
        remote_items_percent: percent("--remote-items", &flags.remote_items, 1.0)?,
        schema: choose("--schema", flags.schema.as_deref(), TpccSchema::Full)?,
        scale: values::number("--scale", flags.scale.as_deref(), SCALE_MIN..=SCALE_MAX)?.unwrap_or(1.0),
        inserts: choose("--inserts", flags.inserts.as_deref(), Switch::On)?,
        load: choose("--load", flags.load.as_deref(), TpccLoad::Home)?,
    })
}

fn counter(flags: &CounterFlags, cores: usize) -> Result<CounterWorkload, BadInput> {
    let counters = choose("--counters", flags.counters.as_deref(), CounterGroups::All)?;
    Ok(CounterWorkload { threads: cores, counters })
}

fn ipc(flags: &IpcFlags) -> Result<IpcWorkload, BadInput> {
    Ok(IpcWorkload {
        mechanism: choose("--mechanism", flags.mechanism.as_deref(), Mechanism::Unix)?,
        peers: choose("--peers", flags.peers.as_deref(), Peers::SameSocket)?,
    })
}

fn memory(flags: &RowFlags) -> Result<MemoryWorkload, BadInput> {
    let rows = values::whole("--rows", flags.rows.as_deref(), 1..=TABLE_ROWS_MAX)?.unwrap_or(1_000_000);
    Ok(MemoryWorkload { rows })
}

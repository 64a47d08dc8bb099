//! Runs a configuration: picks platform, scheme and workload once, and hands over to code that is generic over all three.

mod setting;
mod transactions;
mod virtual_machine;
mod worker;

use std::time::Instant;

use platform::{Hardware, Platform};
use workloads::tpcc;

use crate::choices::{ConcurrencyControl, Switch};
use crate::config::{self, Config, Workload};
use crate::errors::Failure;
use crate::interrupt::Interrupt;
use crate::machines;
use crate::progress::Progress;
use crate::report::{Measurement, Report};

use setting::Setting;

/// What accompanies a run.
#[derive(Clone, Copy)]
pub(crate) struct Companions<'a> {
    pub config: &'a Config,
    pub progress: &'a Progress,
    pub interrupt: &'a Interrupt,
}

/// Loads, warms up, runs and checks what `config` says.
///
/// Called on the main thread. `progress` is called from this thread only. When `interrupt` is requested, loading ends
/// with [`Failure::Failed`] and a run ends early with a report of what ran.
///
/// # Errors
/// [`Failure::BadInput`] for what only the engine can know (rows that do not fit), otherwise [`Failure::Failed`].
/// A violated check is no error here: it stands in the report.
pub fn run(config: &Config, progress: &Progress, interrupt: &Interrupt) -> Result<Report, Failure> {
    let started = Instant::now();
    let with = Companions { config, progress, interrupt };
    let mut measured = if config.native() {
        let setting = Setting::of_topology(config, &machines::native()?)?;
        on_platform::<Hardware>(Hardware::core(), &setting, with)?
    } else {
        let description = machines::shipped(&config.machine)?;
        virtual_machine::run(&description, with)?
    };
    measured.host_seconds = started.elapsed().as_secs_f64();
    progress.done();
    Ok(Report::new(config, measured))
}

/// Runs on a platform that is there already.
pub(crate) fn on_platform<P: Platform>(
    c: P::Core,
    setting: &Setting,
    with: Companions<'_>,
) -> Result<Measurement, Failure> {
    match &with.config.workload {
        Workload::Tpcc(options) => with_scheme::<P, _>(c, &tpcc_workload(options)?, setting, with),
        Workload::Micro(_) | Workload::Ycsb(_) | Workload::Counter(_) => {
            Err(Failure::Failed("this workload is not wired yet".to_owned()))
        }
    }
}

fn with_scheme<P: Platform, W: workloads::Workload>(
    c: P::Core,
    workload: &W,
    setting: &Setting,
    with: Companions<'_>,
) -> Result<Measurement, Failure> {
    match with.config.cc {
        ConcurrencyControl::Silo => transactions::run::<P, cc::Silo, W>(c, workload, setting, with),
        ConcurrencyControl::NoWait => transactions::run::<P, cc::NoWait, W>(c, workload, setting, with),
    }
}

fn tpcc_workload(options: &config::Tpcc) -> Result<tpcc::Tpcc, Failure> {
    let warehouses = u16::try_from(options.warehouses)
        .map_err(|_| Failure::Failed("--warehouses: at most 65535".to_owned()))?;
    let by_name = |error: tpcc::UnknownName| Failure::Failed(error.to_string());
    let workload = tpcc::Tpcc {
        mix: options.mix.name().parse().map_err(by_name)?,
        schema: options.schema.name().parse().map_err(by_name)?,
        scale: options.scale,
        remote_payment_percent: options.remote_payment_percent,
        remote_items_percent: options.remote_items_percent,
        inserts: options.inserts == Switch::On,
        ..tpcc::Tpcc::new(warehouses)
    };
    workload.validate().map_err(Failure::Failed)?;
    Ok(workload)
}

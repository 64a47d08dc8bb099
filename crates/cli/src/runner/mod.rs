//! Runs a configuration: picks platform, scheme and workload once, and hands over to code that is generic over all three.

mod counted;
mod counter;
mod durable;
mod experiments;
mod setting;
mod transactions;
mod virtual_machine;
mod worker;
mod workload;

use std::time::Instant;

use platform::Hardware;
use platform::link::Links;

use crate::choices::ConcurrencyControl;
use crate::config::{Config, Workload};
use crate::errors::Failure;
use crate::interrupt::Interrupt;
use crate::machines;
use crate::progress::Progress;
use crate::report::{Measurement, Report};

use counted::Counted;
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
        let description = machines::described(&config.machine)?;
        virtual_machine::run(&description, with)?
    };
    measured.host_seconds = started.elapsed().as_secs_f64();
    progress.done();
    Ok(Report::new(config, measured))
}

/// Runs on a platform that is there already.
pub(crate) fn on_platform<P: Counted + Links>(
    c: P::Core,
    setting: &Setting,
    with: Companions<'_>,
) -> Result<Measurement, Failure> {
    match &with.config.workload {
        Workload::Tpcc(options) => with_scheme::<P, _>(c, &workload::tpcc(options)?, setting, with),
        Workload::Micro(options) => {
            with_scheme::<P, _>(c, &workload::micro(options, setting.workers())?, setting, with)
        }
        Workload::Ycsb(options) => {
            with_scheme::<P, _>(c, &workload::ycsb(options, setting.workers())?, setting, with)
        }
        Workload::Counter(options) => counter::run::<P>(c, options, setting, with),
        Workload::Ipc(options) => experiments::ipc::<P>(c, options, setting, with),
        Workload::Memory(options) => experiments::memory::<P>(c, options, setting, with),
    }
}

fn with_scheme<P: Counted, W: workloads::Workload>(
    c: P::Core,
    workload: &W,
    setting: &Setting,
    with: Companions<'_>,
) -> Result<Measurement, Failure> {
    match with.config.cc {
        ConcurrencyControl::Silo => transactions::run::<P, cc::Silo, W>(c, workload, setting, with),
        ConcurrencyControl::TicToc => transactions::run::<P, cc::TicToc, W>(c, workload, setting, with),
        ConcurrencyControl::Occ => transactions::run::<P, cc::Occ, W>(c, workload, setting, with),
        ConcurrencyControl::NoWait => transactions::run::<P, cc::NoWait, W>(c, workload, setting, with),
        ConcurrencyControl::WaitDie => transactions::run::<P, cc::WaitDie, W>(c, workload, setting, with),
        ConcurrencyControl::DlDetect => transactions::run::<P, cc::DlDetect, W>(c, workload, setting, with),
        ConcurrencyControl::Mvcc => transactions::run::<P, cc::Mvcc, W>(c, workload, setting, with),
        ConcurrencyControl::Hstore => transactions::run::<P, cc::Hstore, W>(c, workload, setting, with),
    }
}

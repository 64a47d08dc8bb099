//! Runs the workload of a task under a subject.

use concurrency::InstanceOptions;
use platform::Hardware;
use platform::link::Links;
use sim::{SimError, VirtualMachine};

use crate::journal::{EventCapture, Journal};
use crate::subject::{MakeDatabase, Subject};
use crate::task::{Machine, Observed, Task, Work};
use crate::{bank, benchmark, crashes, histories};

/// One in N seeds of [`Work::Crashes`] changes the form of tables, where rows are in memory.
const SEEDS_PER_FORMS: u64 = 8;

pub(crate) fn run(subject: &Subject, task: &Task<'_>, journal: &Journal) -> Result<Observed, SimError> {
    match (task.work, subject.driven()) {
        (Work::Islands, driven) if task.seed % 4 == 3 && !matches!(task.machine, Machine::Hardware) => {
            // Half of these trials crash the whole machine.
            match task.seed % 8 {
                3 => crashes::deployments::SCENARIO.run(driven, task),
                _ => crashes::instances::SCENARIO.run(driven, task),
            }
        }
        (Work::Tpcc | Work::Micro | Work::Ycsb | Work::Islands, driven) => {
            benchmark::run(task, driven, subject.ways, journal)
        }
        (Work::Owners, driven) if task.seed % 4 == 3 && !matches!(task.machine, Machine::Hardware) => {
            crashes::owners::run(driven, task, subject.faults)
        }
        (Work::Owners, driven) if !task.seed.is_multiple_of(4) => {
            benchmark::run_owners(task, driven, subject.faults, journal)
        }
        (Work::Crashes, _) if task.seed % SEEDS_PER_FORMS == 5 && !subject.has_pages() => {
            crashes::forms::run(subject, task)
        }
        (Work::Crashes, _) => crashes::run(subject, task),
        (Work::Files, _) => crashes::files::run(subject, task),
        (Work::Refusals, _) => crashes::refusals::run(subject, task),
        _ if matches!(task.machine, Machine::Hardware) => {
            let create = |options: &InstanceOptions, schema| {
                subject.create::<Hardware>(Hardware::core(), options, schema)
            };
            Ok(on_platform(Hardware::core(), subject, task, &create, journal))
        }
        _ => virtually(subject, task, journal),
    }
}

fn virtually(subject: &Subject, task: &Task<'_>, journal: &Journal) -> Result<Observed, SimError> {
    let config = task.machine.config(task);
    let run = VirtualMachine::run(&config, |c| {
        let _recall = EventCapture::new(c, journal);
        let create = |options: &InstanceOptions, schema| subject.create(c, options, schema);
        on_platform::<VirtualMachine>(c, subject, task, &create, journal)
    });
    run.map(|outcome| outcome.value)
}

fn on_platform<P: Links>(
    c: P::Core,
    subject: &Subject,
    task: &Task<'_>,
    create: MakeDatabase<'_, P>,
    journal: &Journal,
) -> Observed {
    match task.work {
        Work::Bank => bank::run::<P>(c, task, create),
        Work::Distributed => histories::deployed::run::<P>(c, task, create, subject, journal),
        Work::Owners => histories::owned::run::<P>(c, task, create, subject.faults, journal),
        _ => histories::run::<P>(c, task, create, journal),
    }
}

//! The schemes that campaigns verify: one line each.

use cc::Scheme;
use platform::{Hardware, Platform};
use sim::{SimError, VirtualMachine};

use crate::crashes::killed::Lives;
use crate::journal::{Journal, Recall};
use crate::trial::{Machine, Observed, Trial, Work};
use crate::{bank, benchmark, crashes, histories};

/// All schemes.
pub fn schemes() -> Vec<Subject> {
    vec![
        Subject::of::<cc::Silo>(),
        Subject::of::<cc::TicToc>(),
        Subject::of::<cc::Occ>(),
        Subject::of::<cc::Mvcc>(),
        Subject::of::<cc::NoWait>(),
        Subject::of::<cc::WaitDie>(),
        Subject::of::<cc::DlDetect>(),
        Subject::of::<cc::Hstore>().with_partitions(),
    ]
}

/// The scheme of this name on the command line.
pub fn scheme(name: &str) -> Option<Subject> {
    schemes().into_iter().find(|subject| subject.name == name)
}

/// A scheme, for code that is not generic over schemes.
#[derive(Clone, Copy)]
pub struct Subject {
    /// Its name on the command line.
    pub name: &'static str,
    /// Whether it fits tables that are divided into partitions only.
    pub(crate) partitioned: bool,
    run: fn(&Trial<'_>, &Journal) -> Result<Observed, SimError>,
    lives: Option<Lives>,
}

impl Subject {
    /// A scheme that runs everything everywhere.
    pub fn of<S: Scheme<Hardware> + Scheme<VirtualMachine>>() -> Self {
        let lives = Some(Lives::under::<S>());
        Subject { name: <S as Scheme<Hardware>>::NAME, partitioned: false, run: everywhere::<S>, lives }
    }

    /// A scheme that is broken on purpose: it runs [`Work::Histories`] and [`Work::Bank`] in the virtual machine.
    pub fn mutant<S: Scheme<VirtualMachine>>(name: &'static str) -> Self {
        Subject { name, partitioned: false, run: virtually::<S>, lives: None }
    }

    /// The same scheme, which fits tables that are divided into partitions only.
    pub fn with_partitions(self) -> Self {
        Subject { partitioned: true, ..self }
    }

    /// What processes that are killed do under it.
    pub(crate) fn lives(&self) -> Result<Lives, String> {
        self.lives.ok_or_else(|| format!("{} runs in the virtual machine only", self.name))
    }

    pub(crate) fn run(&self, trial: &Trial<'_>, journal: &Journal) -> Result<Observed, SimError> {
        (self.run)(trial, journal)
    }
}

fn everywhere<S: Scheme<Hardware> + Scheme<VirtualMachine>>(
    trial: &Trial<'_>,
    journal: &Journal,
) -> Result<Observed, SimError> {
    if trial.work == Work::Crashes {
        return crashes::run::<S>(trial);
    }
    match trial.machine {
        Machine::Hardware => Ok(any::<Hardware, S>(Hardware::core(), trial, journal)),
        machine => {
            let config = machine.config(trial);
            let run = VirtualMachine::run(&config, |c| {
                let _recall = Recall::new(c, journal);
                any::<VirtualMachine, S>(c, trial, journal)
            });
            run.map(|outcome| outcome.value)
        }
    }
}

fn virtually<S: Scheme<VirtualMachine>>(trial: &Trial<'_>, journal: &Journal) -> Result<Observed, SimError> {
    let config = trial.machine.config(trial);
    let run = VirtualMachine::run(&config, |c| {
        let _recall = Recall::new(c, journal);
        short::<VirtualMachine, S>(c, trial, journal)
    });
    run.map(|outcome| outcome.value)
}

fn any<P: Platform, S: Scheme<P>>(c: P::Core, trial: &Trial<'_>, journal: &Journal) -> Observed {
    match trial.work {
        Work::Histories | Work::Bank => short::<P, S>(c, trial, journal),
        Work::Tpcc => benchmark::tpcc::<P, S>(c, trial),
        Work::Micro => benchmark::micro::<P, S>(c, trial),
        Work::Ycsb => benchmark::ycsb::<P, S>(c, trial),
        // It boots machines of its own.
        Work::Crashes => Observed::default(),
    }
}

fn short<P: Platform, S: Scheme<P>>(c: P::Core, trial: &Trial<'_>, journal: &Journal) -> Observed {
    match trial.work {
        Work::Bank => bank::run::<P, S>(c, trial),
        _ => histories::run::<P, S>(c, trial, journal),
    }
}

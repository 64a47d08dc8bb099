//! The schemes that campaigns verify, those of the registry and mutants, as values.

use cc::mutants::{Broken, Rule};
use cc::{Scheme, SchemeName};
use platform::{Hardware, Platform};
use sim::{SimError, VirtualMachine};

use crate::crashes::process::Lives;
use crate::journal::{Journal, Recall};
use crate::task::{Machine, Observed, Task, Work};
use crate::{bank, benchmark, crashes, histories};

/// All schemes.
pub fn schemes() -> Vec<Subject> {
    let mut all = Vec::new();
    cc::for_each_scheme!(S => { all.push(Subject::of::<S>()); });
    all
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
    /// The rules that a mutant breaks.
    pub(crate) broken: Broken,
    /// Runs what campaigns have of their own.
    run: fn(&Task<'_>, &Journal) -> Result<Observed, SimError>,
    /// Its entry in the registry, which the driver knows; a mutant has none.
    scheme: Option<SchemeName>,
    lives: Option<Lives>,
}

impl Subject {
    /// A scheme of the registry: it runs everything everywhere.
    pub fn of<S: Scheme<Hardware> + Scheme<VirtualMachine>>() -> Self {
        let name = <S as Scheme<Hardware>>::NAME;
        Subject {
            name,
            partitioned: <S as Scheme<Hardware>>::LOCKS_PARTITIONS,
            broken: Broken::default(),
            run: everywhere::<S>,
            scheme: name.parse().ok(),
            lives: Some(Lives::under::<S>()),
        }
    }

    /// A scheme that breaks these rules on purpose: it runs [`Work::Histories`] and [`Work::Bank`] in the virtual
    /// machine.
    pub fn mutant<S: Scheme<VirtualMachine>>(name: &'static str, broken: &[Rule]) -> Self {
        let broken = Broken::rules(broken);
        Subject { name, partitioned: false, broken, run: virtually::<S>, scheme: None, lives: None }
    }

    /// The same scheme, which fits tables that are divided into partitions only.
    pub fn with_partitions(self) -> Self {
        Subject { partitioned: true, ..self }
    }

    /// What processes that are killed do under it.
    pub(crate) fn lives(&self) -> Result<Lives, String> {
        self.lives.ok_or_else(|| format!("{} runs in the virtual machine only", self.name))
    }

    pub(crate) fn run(&self, task: &Task<'_>, journal: &Journal) -> Result<Observed, SimError> {
        match (task.work, self.scheme) {
            (Work::Tpcc | Work::Micro | Work::Ycsb, Some(scheme)) => benchmark::run(task, scheme, journal),
            _ => (self.run)(task, journal),
        }
    }
}

fn everywhere<S: Scheme<Hardware> + Scheme<VirtualMachine>>(
    task: &Task<'_>,
    journal: &Journal,
) -> Result<Observed, SimError> {
    match (task.work, task.machine) {
        (Work::Crashes, _) => crashes::run::<S>(task),
        (_, Machine::Hardware) => Ok(on_platform::<Hardware, S>(Hardware::core(), task, journal)),
        _ => virtually::<S>(task, journal),
    }
}

fn virtually<S: Scheme<VirtualMachine>>(task: &Task<'_>, journal: &Journal) -> Result<Observed, SimError> {
    let config = task.machine.config(task);
    let run = VirtualMachine::run(&config, |c| {
        let _recall = Recall::new(c, journal);
        on_platform::<VirtualMachine, S>(c, task, journal)
    });
    run.map(|outcome| outcome.value)
}

fn on_platform<P: Platform, S: Scheme<P>>(c: P::Core, task: &Task<'_>, journal: &Journal) -> Observed {
    match task.work {
        Work::Bank => bank::run::<P, S>(c, task),
        _ => histories::run::<P, S>(c, task, journal),
    }
}

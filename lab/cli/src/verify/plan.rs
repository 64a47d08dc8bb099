//! The resolved campaign.

use ::verify::{Machine, Subject, Work, scheme, schemes};
use serde::Serialize;

use crate::arguments::{Flag, TextFlag, VerifyArguments};
use crate::bad_input::BadInput;
use crate::machine_facts::NATIVE;
use crate::machines;

/// The machine made for schedules.
const VIRTUAL: &str = "virtual";
const ALL: &str = "all";
const SEEDS_DEFAULT: u64 = 1_000;
/// Most workers where the machine does not say.
const CORES_MAX: u64 = 1_568;
/// Most threads of a run on hardware.
const THREADS_MAX: u64 = 256;

/// The plan of a campaign. Serialises as the `config` of the result.
#[derive(Serialize)]
pub(super) struct Plan {
    #[serde(rename = "cc", serialize_with = "names_of_schemes")]
    pub subjects: Vec<Subject>,
    #[serde(rename = "workload", serialize_with = "names_of_works")]
    pub works: Vec<Work>,
    #[serde(rename = "machine")]
    pub machine_name: String,
    #[serde(skip)]
    pub machine: Machine,
    /// Null: by seed and workload.
    pub cores: Option<usize>,
    pub first_seed: u64,
    pub seeds: u64,
    pub jobs: usize,
}

fn names_of_schemes<S: serde::Serializer>(subjects: &[Subject], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(subjects.iter().map(|subject| subject.name))
}

fn names_of_works<S: serde::Serializer>(works: &[Work], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(works.iter().map(|work| work.name()))
}

/// Resolves every flag.
///
/// # Errors
/// The first value that is not one of the accepted ones.
pub(super) fn resolve(arguments: &VerifyArguments) -> Result<Plan, BadInput> {
    let machine_name = arguments.machine.as_deref().unwrap_or(VIRTUAL);
    let (machine, cores_max) = machine(machine_name)?;
    let seeds = arguments.seeds.value_or(SEEDS_DEFAULT)?;
    let first_seed = arguments.first_seed.value_or(0)?;
    let jobs = arguments.jobs.value()?;
    let jobs = match (jobs, machine.repeats()) {
        (Some(jobs), _) => jobs as usize,
        (None, true) => std::thread::available_parallelism().map_or(1, usize::from),
        (None, false) => 1,
    };
    let subjects = subjects(arguments.cc.as_deref())?;
    let works = works(arguments.workload.as_deref(), &machine)?;
    // Of all schemes, and of all workloads, those that fit each other; of one of each, both.
    if let ([subject], [work]) = (&subjects[..], &works[..])
        && !subject.runs(*work)
    {
        let runs = Work::ALL.into_iter().filter(|work| subject.runs(*work)).map(Work::name);
        let runs: Vec<&str> = runs.collect();
        let problem = format!("not under --cc {}", subject.name);
        return Err(BadInput::value("--workload", work.name(), problem, runs.join(", ")));
    }
    Ok(Plan {
        subjects,
        works,
        cores: arguments.cores.whole(1..=cores_max)?.map(|cores| cores as usize),
        machine_name: machine_name.to_owned(),
        machine,
        first_seed,
        seeds,
        jobs,
    })
}

fn subjects(name: Option<&str>) -> Result<Vec<Subject>, BadInput> {
    match name {
        None | Some(ALL) => Ok(schemes().into_iter().chain(scheme(pages::TWO_PHASE_LOCKING)).collect()),
        Some(name) => scheme(name).map(|subject| vec![subject]).ok_or_else(|| {
            let of_memory = schemes();
            let names = of_memory.iter().map(|subject| subject.name);
            let names: Vec<&str> = names.chain([pages::TWO_PHASE_LOCKING, ALL]).collect();
            BadInput::value("--cc", name, "unknown value", names.join(", "))
        }),
    }
}

/// The workloads of this name: all that the machine runs, or one.
fn works(name: Option<&str>, machine: &Machine) -> Result<Vec<Work>, BadInput> {
    let Some(name) = name else { return Ok(vec![Work::Histories]) };
    let run: Vec<Work> = Work::ALL.into_iter().filter(|work| machine.runs(*work)).collect();
    if name == ALL {
        return Ok(run);
    }
    if let Some(work) = run.iter().find(|work| work.name() == name) {
        return Ok(vec![*work]);
    }
    let problem = match Work::ALL.iter().any(|work| work.name() == name) {
        true => "on a simulated disk, not with --machine native",
        false => "unknown value",
    };
    let names: Vec<&str> = run.iter().map(|work| work.name()).chain([ALL]).collect();
    Err(BadInput::value("--workload", name, problem, names.join(", ")))
}

/// The machine, and the most workers it has room for.
fn machine(name: &str) -> Result<(Machine, u64), BadInput> {
    match name {
        VIRTUAL => Ok((Machine::Small, CORES_MAX)),
        NATIVE => Ok((Machine::Hardware, THREADS_MAX)),
        _ => {
            let description = machines::described(name)?;
            let threads = description.topology.threads().len() as u64;
            let config = sim::Config::of(&description).map_err(|error| {
                BadInput::new(format!("--machine {name}"), error.to_string(), "another machine")
            })?;
            Ok((Machine::Described(Box::new(config)), threads))
        }
    }
}

impl Plan {
    /// The command line that runs one seed again.
    pub(super) fn command(&self, cc: &str, work: Work, seed: u64) -> String {
        let mut line = format!("isles verify --cc {cc} --workload {work} --first-seed {seed} --seeds 1");
        if self.machine_name != VIRTUAL {
            line += &format!(" --machine {}", self.machine_name);
        }
        if let Some(cores) = self.cores {
            line += &format!(" --cores {cores}");
        }
        line
    }
}

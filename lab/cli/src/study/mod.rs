//! `isles study`: the runs of study files, made by this very program in other processes.

mod figures;
mod files;
mod output;
mod progress;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ::experiments::cache::{Cache, digest_of_file};
use ::experiments::execute::Executor;
use ::experiments::report::{Origin, markdown};
use ::experiments::{
    FigureStatus, Plan, Resolution, Selection, Size, Study, StudyResults, Verdict, measured_figure, plan,
    report, verdict,
};

use crate::arguments::{Flag, StudyArguments, StudySize};
use crate::bad_input::BadInput;
use crate::commands::Command;
use crate::config;
use crate::errors::Failure;
use crate::interrupt::Interrupt;
use crate::machine_facts::MachineFacts;
use crate::output::print;
use crate::pages::Page;
use crate::{machines, usage};

use progress::{Counts, Follower};

/// Name of the page of several studies.
const INDEX: &str = "index.html";

/// Runs studies.
///
/// # Errors
/// Bad input; or, after everything was reported, that findings or figures failed or that the user
/// stopped the study.
pub(crate) fn run(arguments: &StudyArguments) -> Result<(), Failure> {
    let files = files::read(&arguments.files, size(arguments)?)?;
    let (names, studies): (Vec<String>, Vec<Study>) =
        files.into_iter().map(|file| (file.name, file.study)).unzip();
    let selections = select(&studies, arguments.only.as_deref())?;
    let program = std::env::current_exe().map_err(Failure::of)?;
    let executor = Executor { jobs: jobs(arguments)?, cache: cache(arguments, &program)?, program };
    let page = page(arguments, &names)?;
    let table = arguments.markdown.as_deref().map(|path| Page::of_flag("--markdown", path)).transpose()?;
    let known = Known::default();
    let plan = Plan::new(&selections, &|words| resolve(words, &known));
    let interrupt = Interrupt::on_signals()?;
    let follower = Follower::new(&plan, &interrupt);
    let outcomes = executor.execute(&plan, &follower);
    let counts = follower.done();
    let planned = studies.iter().zip(names).zip(&plan.studies);
    let results: Vec<StudyResults<'_>> = planned
        .map(|((study, file), planned)| StudyResults {
            study,
            file,
            judgements: verdict::judge(study, planned, &outcomes),
            figures: measured_figure::measure(study, planned, &outcomes),
        })
        .collect();
    let origin = Origin { version: env!("CARGO_PKG_VERSION").to_owned(), host: host()? };
    let text = if arguments.json {
        let page = page.as_ref().map(Page::path);
        format!("{}\n", output::json(&origin, &results, &counts, page))
    } else {
        output::text(&results)
    };
    let printed = print(&text);
    if let Some(table) = table {
        table.write(&markdown::tables(&results))?;
    }
    if let Some(page) = page {
        page.write(&report::page(&origin, &results))?;
        progress::note(&format!("report: {}", page.path().display()));
    }
    printed?;
    end(&results, &counts)
}

/// The end of a study after everything was reported.
fn end(results: &[StudyResults<'_>], counts: &Counts) -> Result<(), Failure> {
    let judgements = || results.iter().flat_map(|study| &study.judgements);
    let figures = || results.iter().flat_map(|study| &study.figures);
    let is_stopped = judgements().any(|one| one.verdict == Verdict::Stopped)
        || figures().any(|one| one.status == FigureStatus::Stopped);
    if is_stopped {
        return Err(Failure::Failed(format!("stopped after {} of {} runs", counts.done, counts.all)));
    }
    let findings = judgements().filter(|one| one.verdict.is_bad()).map(|one| one.finding.id.as_str());
    let figures = figures().filter(|one| one.status.is_bad()).map(|one| one.figure.id.as_str());
    let lists = [failed("finding", findings.collect()), failed("figure", figures.collect())];
    let failures: Vec<String> = lists.into_iter().flatten().collect();
    if failures.is_empty() { Ok(()) } else { Err(Failure::Violated(failures.join("; "))) }
}

/// The failed entries of a kind in words, if there are any.
fn failed(kind: &str, ids: Vec<&str>) -> Option<String> {
    match ids[..] {
        [] => None,
        [id] => Some(format!("{kind} failed: {id}")),
        _ => Some(format!("{} {kind}s failed: {}", ids.len(), ids.join(", "))),
    }
}

fn size(arguments: &StudyArguments) -> Result<Size, BadInput> {
    Ok(match arguments.size.value_or(StudySize::Normal)? {
        StudySize::Smoke => Size::Smoke,
        StudySize::Normal => Size::Normal,
        StudySize::Full => Size::Full,
    })
}

fn select<'a>(studies: &'a [Study], only: Option<&str>) -> Result<Vec<Selection<'a>>, BadInput> {
    let patterns: Vec<String> =
        only.map_or(Vec::new(), |only| only.split(',').map(|pattern| pattern.trim().to_owned()).collect());
    plan::select(studies, &patterns).map_err(|pattern| {
        let has_figures = studies.iter().any(|study| !study.figures.is_empty());
        let problem = if has_figures { "fits neither a finding nor a figure" } else { "fits no finding" };
        let ids: Vec<&str> = studies.iter().flat_map(plan::ids).collect();
        BadInput::value("--only", &pattern, problem, ids.join(", "))
    })
}

fn jobs(arguments: &StudyArguments) -> Result<usize, BadInput> {
    let given = arguments.jobs.value()?;
    let threads = || std::thread::available_parallelism().map_or(1, usize::from);
    Ok(given.map_or_else(threads, |jobs| jobs as usize))
}

/// The cache, if there is to be one. A default one that cannot be used is done without.
fn cache(arguments: &StudyArguments, program: &Path) -> Result<Option<Cache>, Failure> {
    if arguments.no_cache {
        return match &arguments.cache {
            Some(_) => Err(BadInput::new("--cache with --no-cache", "contradict", "one of the two").into()),
            None => Ok(None),
        };
    }
    let identity = digest_of_file(program).map_err(Failure::of)?;
    let identity = format!("isles {} {identity}", env!("CARGO_PKG_VERSION"));
    if let Some(directory) = &arguments.cache {
        let fault = |error: std::io::Error| {
            BadInput::value("--cache", directory, error.to_string(), "a directory that can be written")
        };
        return Ok(Some(Cache::open(Path::new(directory), &identity).map_err(fault)?));
    }
    let Some(directory) = Cache::default_directory() else { return Ok(None) };
    match Cache::open(&directory, &identity) {
        Ok(cache) => Ok(Some(cache)),
        Err(error) => {
            progress::note(&format!("no results are kept: {}: {error}", directory.display()));
            Ok(None)
        }
    }
}

/// The page: where `--report` says, otherwise beside the first study file, otherwise in the working
/// directory. `None` if none was given and neither can be written.
fn page(arguments: &StudyArguments, files: &[String]) -> Result<Option<Page>, BadInput> {
    if let Some(path) = &arguments.report {
        return Page::at(path).map(Some);
    }
    let first = Path::new(&files[0]);
    let beside = if files.len() == 1 { first.with_extension("html") } else { first.with_file_name(INDEX) };
    let here = beside.file_name().map(PathBuf::from);
    let page = Page::try_at(&beside).or_else(|error| here.map_or(Err(error), |here| Page::try_at(&here)));
    if let Err(error) = &page {
        progress::note(&format!("no report: {}: {error} (--report FILE)", beside.display()));
    }
    Ok(page.ok())
}

/// The machines that runs have named so far.
#[derive(Default)]
struct Known {
    by_name: RefCell<BTreeMap<Option<String>, Rc<MachineFacts>>>,
}

impl Known {
    /// The facts of the machine that a run names.
    fn facts(&self, name: Option<&str>) -> Result<Rc<MachineFacts>, BadInput> {
        let name = name.map(str::to_owned);
        if let Some(facts) = self.by_name.borrow().get(&name) {
            return Ok(facts.clone());
        }
        let facts = Rc::new(machines::facts(name.as_deref())?);
        self.by_name.borrow_mut().insert(name, facts.clone());
        Ok(facts)
    }
}

/// Resolves the arguments of a run. The resolved configuration identifies the run, with the
/// contents of the file that describes its machine.
fn resolve(words: &[String], known: &Known) -> Resolution {
    match try_resolve(words, known) {
        Ok((identity, native)) => Resolution::Ready { identity, native },
        Err(fault) if fault.is_later() => Resolution::NotYet(fault.to_string()),
        Err(fault) => Resolution::Wrong(fault.to_string()),
    }
}

fn try_resolve(words: &[String], known: &Known) -> Result<(String, bool), BadInput> {
    let line = ["isles", "bench"].into_iter().chain(words.iter().map(String::as_str)).map(OsString::from);
    let arguments = match usage::parse(line) {
        Ok(arguments) => match arguments.command {
            Command::Bench(arguments) => arguments,
            _ => return Err(BadInput::new("run", "not of isles bench", "arguments of isles bench")),
        },
        Err(usage::Stop::Fault(fault)) => return Err(fault),
        Err(usage::Stop::Show(_)) => return Err(BadInput::new("run", "asks for help", "a workload")),
    };
    let config = config::resolve(&arguments, &*known.facts(arguments.common.machine.as_deref())?)?;
    let mut identity = serde_json::to_string(&config)
        .map_err(|error| BadInput::new("run", error.to_string(), "arguments of isles bench"))?;
    if Path::new(&config.machine).is_file() {
        let digest = digest_of_file(Path::new(&config.machine));
        let digest = digest
            .map_err(|error| BadInput::value("--machine", &config.machine, error.to_string(), "a file"))?;
        identity.push_str(&digest);
    }
    Ok((identity, config.native()))
}

/// This machine in words.
fn host() -> Result<String, BadInput> {
    let topology = machines::native()?;
    let part = |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
    let sockets = part(topology.socket_count(), "socket");
    Ok(format!("{sockets}, {}", part(topology.counts().hardware_threads, "hardware thread")))
}

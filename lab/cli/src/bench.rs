//! `isles bench`, and the process of one instance of it.

use std::ffi::OsString;
use std::io::IsTerminal;

use crate::arguments::{BenchArguments, TextFlag};
use crate::config::{self, Config};
use crate::errors::Failure;
use crate::interrupt::Interrupt;
use crate::machine_facts::MachineFacts;
use crate::output::print;
use crate::progress::Progress;
use crate::report::{self, Repetitions, Report, Style};
use crate::{machines, pages, runner};

/// Runs it.
pub fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    let machine = machines::facts(arguments.common.machine.as_deref())?;
    let config = config::resolve(arguments, &machine)?;
    let page = config.report.as_deref().map(pages::Page::at).transpose()?;
    let interrupt = Interrupt::on_signals()?;
    let progress = Progress::on_standard_error();
    // Behind the names of program and command: processes of instances get the same flags.
    let flags: Vec<OsString> = std::env::args_os().skip(2).collect();
    let mut report = runner::run(&config, flags.clone(), &progress, &interrupt)?;
    if config.repeat > 1 {
        report = repeated(&config, report, &flags, &progress, &interrupt)?;
    }
    print_report(&config, &report, page.as_ref())
}

/// The report of the first run with the throughput of all; a run whose checks are violated is
/// reported instead.
fn repeated(
    config: &Config,
    first: Report,
    flags: &[OsString],
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let mut throughput = vec![first.throughput];
    for number in 1..config.repeat {
        if interrupt.requested() || first.verdict().is_err() {
            break;
        }
        let mut next = config.clone();
        next.plan.seed = config.plan.seed.wrapping_add(number);
        let report = runner::run(&next, with_seed(flags, next.plan.seed), progress, interrupt)?;
        if report.verdict().is_err() {
            return Ok(report);
        }
        if !report.interrupted {
            throughput.push(report.throughput);
        }
    }
    Ok(Report { repetitions: Some(Repetitions::of(throughput)), ..first })
}

/// The flags of one run with this seed.
fn with_seed(flags: &[OsString], seed: u64) -> Vec<OsString> {
    let mut with = Vec::new();
    let mut words = flags.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        match text.split('=').next().unwrap_or_default() {
            "--seed" | "--repeat" if text.contains('=') => {}
            "--seed" | "--repeat" => drop(words.next()),
            _ => with.push(word.clone()),
        }
    }
    with.extend(["--seed".into(), seed.to_string().into()]);
    with
}

/// Prints what came of a run, and writes the page of it.
pub fn print_report(config: &Config, report: &Report, page: Option<&pages::Page>) -> Result<(), Failure> {
    let text = if config.json {
        let json = serde_json::to_string(report).map_err(|error| Failure::Failed(error.to_string()))?;
        json + "\n"
    } else {
        report::render(report, Style::for_terminal(std::io::stdout().is_terminal()))
    };
    // A violated check must not go unnoticed because the report is not read.
    let printed = print(&text);
    let written = page.map_or(Ok(()), |page| write_page(page, report));
    report.verdict()?;
    written.and(printed)
}

/// Runs the process of an instance, whose command has accepted the same flags before.
pub fn instance(arguments: &BenchArguments) -> Result<(), Failure> {
    let asked = || -> Result<_, Failure> {
        let mut machine = machines::facts(arguments.common.machine.as_deref())?;
        let cores = arguments.common.cores.text().and_then(|cores| cores.parse().ok());
        // The workers of all instances may be more than this machine has threads: a file says so,
        // or others are on other machines.
        if let Some(cores) = cores.filter(|cores| machine.threads_by_smt.iter().all(|most| most < cores)) {
            machine =
                MachineFacts { threads_by_smt: vec![cores], sockets_by_smt: vec![vec![0; cores]], ..machine };
        }
        runner::asked(&config::resolve(arguments, &machine)?)
    };
    harness::run_instance(asked().map_err(|failure| failure.to_string())).map_err(Failure::of)
}

fn write_page(page: &pages::Page, report: &Report) -> Result<(), Failure> {
    let description = machines::described(&report.machine)?;
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let line = ::experiments::report::shell_line(std::iter::once("isles".to_owned()).chain(words));
    page.write(&report::page(report, &description, &line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_repetition_have_its_seed_only() {
        let flags = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        for line in
            ["tpcc --seed 3 --cores 2 --repeat 4", "tpcc --repeat=4 --cores 2 --seed=3", "tpcc --cores 2"]
        {
            assert_eq!(with_seed(&flags(line), 5), flags("tpcc --cores 2 --seed 5"), "{line}");
        }
    }
}

//! `isles verify`: campaigns over seeds.

mod plan;
mod progress;
mod report;

use std::io::{IsTerminal, Write};
use std::time::Instant;

use ::verify::Campaign;

use crate::arguments::VerifyArguments;
use crate::errors::Failure;
use crate::interrupt::Interrupt;
use plan::Plan;
use progress::Watch;
use report::{Report, Series};

/// Failures of one scheme and workload after which the next begins.
const FAILURES_MAX: usize = 5;

/// Runs what the arguments ask for and prints what was found. Ctrl-C ends a campaign early with a
/// report of what ran.
///
/// # Errors
/// [`Failure::BadInput`], or [`Failure::Violated`] after the report is printed.
pub(crate) fn run(arguments: &VerifyArguments) -> Result<(), Failure> {
    let plan = plan::resolve(arguments)?;
    let interrupt = Interrupt::on_signals()?;
    let started = Instant::now();
    let mut series = Vec::new();
    for work in &plan.works {
        for subject in plan.subjects.iter().filter(|subject| subject.runs(*work)) {
            if interrupt.requested() {
                break;
            }
            series.push(one(&plan, subject, *work, &interrupt));
        }
    }
    let report = Report::new(&plan, series, started.elapsed().as_secs_f64());
    let text = if arguments.json {
        serde_json::to_string(&report).map_err(Failure::of)? + "\n"
    } else {
        report.text()
    };
    let mut output = std::io::stdout().lock();
    let printed = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    // A violation must not go unnoticed because the report is not read.
    report.verdict()?;
    Ok(printed?)
}

/// One scheme and workload.
fn one(plan: &Plan, subject: &::verify::Subject, work: ::verify::Work, interrupt: &Interrupt) -> Series {
    let campaign = Campaign {
        subject,
        work,
        machine: &plan.machine,
        workers: plan.cores,
        seeds: plan.first_seed..plan.first_seed + plan.seeds,
        threads: plan.jobs,
        failures_max: FAILURES_MAX,
    };
    let title = format!("{} {work}", subject.name);
    let command = |seed| plan.command(subject.name, work, seed);
    let mut watch = Watch::new(title, plan.seeds, std::io::stderr().is_terminal(), &command);
    let tally = campaign.run(&mut |progress| {
        watch.see(progress);
        !interrupt.requested()
    });
    Series::new(plan, subject.name, work, tally)
}

//! Procedures of a deployment that run at the same time, each over parts of several instances:
//! their results must agree with a serial execution in some order.

use std::sync::Barrier;

use isles::{Deployment, Error};

use crate::calls;
use crate::deployed::Work;
use crate::engines::{Engine, Kind, PARTS, options};
use crate::interleaved::{Ended, Marks, TransactionTrace, explain};
use crate::model::{EngineTraits, Model};
use crate::operation::{Draw, Operation, RangeKind, SHAPES, Scope, Verb};
use crate::rows::Probe;

const IDS: u32 = 3;

/// Runs a procedure and returns its trace. A failed procedure has changed no row, and its reads do
/// not count.
fn run_one(deployment: &Deployment<Work>, operations: &[Operation]) -> Result<TransactionTrace, String> {
    let work = Work::new(operations, false, false);
    let operations = work.steps.iter().flat_map(|step| step.operations.clone()).collect();
    match deployment.run_with(&options(), work) {
        Ok(work) => {
            let outcomes = work.outcomes.into_iter().flatten().collect();
            Ok(TransactionTrace { operations, outcomes, ended: Some(Ended::Committed) })
        }
        Err(Error::Deadline) => Err("a procedure took five seconds".to_owned()),
        Err(_) => Ok(TransactionTrace {
            operations,
            outcomes: Vec::new(),
            ended: Some(Ended::GaveUp("Conflict".to_owned())),
        }),
    }
}

/// Operations that read every possible row.
fn reads() -> Vec<Operation> {
    let of_part = |part: u16| {
        (0..SHAPES.len()).map(move |table| {
            let probes = (0..IDS).map(|id| Probe { part, id, salt: 0 }).collect();
            Operation { table, index: 0, probe: Probe { part, id: 0, salt: 0 }, verb: Verb::GetMany(probes) }
        })
    };
    (0..PARTS).flat_map(of_part).collect()
}

/// Runs rounds of two or three procedures at once.
///
/// # Errors
/// The first round without a serial order, or in which a procedure does not end.
pub fn run(number: u64, rounds: u64) -> Result<Marks, String> {
    let opened = Engine::Deployment.open(number, None).map_err(|error| error.to_string())?;
    let Kind::Several { deployment, .. } = &opened.kind else {
        unreachable!("procedures run on deployments")
    };
    let (tables, ranges) = (vec![0, 1, 2, 3, 4, 5], &RangeKind::OF_ONE_PART[..]);
    let scope =
        Scope { parts: (0..PARTS).collect(), ids: IDS, one_part: true, only_reads: false, tables, ranges };
    let traits = EngineTraits { in_steps: true, ..Engine::Deployment.traits() };
    let (mut model, mut marks) = (Model::new(traits), Marks::default());
    for round in 0..rounds {
        let mut draw = Draw::new(round * 8 + number + 77);
        let plans: Vec<Vec<Operation>> = (0..2 + draw.below(2))
            .map(|_| (0..1 + draw.below(4)).map(|_| scope.operation(&mut draw)).collect())
            .collect();
        let together = Barrier::new(plans.len());
        let traces: Vec<Result<TransactionTrace, String>> = std::thread::scope(|threads| {
            let run = |plan| {
                let together = &together;
                move || {
                    calls::enter("deployment");
                    together.wait();
                    run_one(deployment, plan)
                }
            };
            let running: Vec<_> = plans.iter().map(|plan| threads.spawn(run(plan))).collect();
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let traces = traces.into_iter().collect::<Result<Vec<_>, _>>()?;
        let last = run_one(deployment, &reads())?;
        let explained = explain(&model, &traces, &last);
        model = explained.map_err(|why| format!("deployment {number}, round {round}: {why}"))?;
        let committed = traces.iter().filter(|trace| trace.ended == Some(Ended::Committed)).count();
        marks.several += u64::from(committed > 1);
        marks.gave_up += (traces.len() - committed) as u64;
    }
    opened.close().map_err(|error| error.to_string())?;
    Ok(marks)
}

//! Procedures of a deployment: the operations of each part are a step.

use isles::{Error, Procedure, Result, Transaction};
use serde::{Deserialize, Serialize};

use crate::apply::{Tables, apply};
use crate::calls;
use crate::operation::{Operation, Outcome, continues};

/// Operations on several parts, as one transaction.
#[derive(Debug)]
pub struct Work {
    pub steps: Vec<Step>,
    /// True if it rolls back at its end.
    pub rolls_back: bool,
    /// For each step the outcomes of its operations.
    pub outcomes: Vec<Vec<Outcome>>,
}

/// Operations on one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    pub part: u16,
    pub only_reads: bool,
    pub operations: Vec<Operation>,
}

impl Work {
    /// Groups the operations by part, in the order of the first operation of each part.
    pub fn new(operations: &[Operation], only_reads: bool, rolls_back: bool) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for operation in operations {
            let part = operation.probe.part;
            match steps.iter_mut().find(|step| step.part == part) {
                Some(step) => step.operations.push(operation.clone()),
                None => steps.push(Step { part, only_reads, operations: vec![operation.clone()] }),
            }
        }
        Work { steps, rolls_back, outcomes: Vec::new() }
    }
}

impl Procedure for Work {
    type Tables = Tables;
    type Step = Step;
    type Output = Vec<Outcome>;

    fn steps(&self, steps: &mut Vec<Step>) {
        steps.extend(self.steps.iter().cloned());
    }

    fn part(step: &Step) -> u16 {
        step.part
    }

    fn only_reads(step: &Step) -> bool {
        step.only_reads
    }

    fn run(tables: &Tables, step: &Step, t: &mut Transaction<'_>) -> Result<Vec<Outcome>> {
        calls::enter("deployment");
        let mut outcomes = Vec::new();
        for operation in &step.operations {
            let outcome = apply(t, tables, operation);
            if !continues(&outcome) {
                // The transaction ends with the verb's error, whatever the step returns.
                return Err(Error::RollBack);
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    fn conclude(&mut self, outcomes: Vec<Vec<Outcome>>) -> Result<()> {
        self.outcomes = outcomes;
        if self.rolls_back { Err(Error::RollBack) } else { Ok(()) }
    }
}

//! Ends transactions that were under way when all instances of a deployment went down, once all are
//! open again and before any of them works.
//!
//! A part in doubt commits if the instance of its coordinator has decided so, and is rolled back
//! otherwise: a decision is durable before it leaves, so what is not decided now was never sent.
//! When all parts of a transaction have ended durably, its decision is forgotten.
//!
//! The rule is [`ends`], over what all instances have; [`Unfinished`] is the work of each instance.

use std::collections::BTreeSet;

use boundary::{AnyPrepared, Database, Decision, GlobalId, Outcome, PartOf};
use platform::Platform;
use serde::{Deserialize, Serialize};
use terms::{Abort, Epoch, Fault, Faults};

/// Transactions and parts that were not over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Parts in doubt that were committed.
    pub committed: u64,
    /// Parts in doubt that were rolled back.
    pub aborted: u64,
    /// Decisions that were forgotten.
    pub forgotten: u64,
}

/// Why parts in doubt cannot be resolved.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DoubtError {
    /// The coordinator's instance is none of these.
    #[error(
        "instance {instance} holds a part of transaction {global}, which instance {coordinator} decides: there is no such instance"
    )]
    Missing {
        /// Where the part is.
        instance: usize,
        /// The transaction.
        global: GlobalId,
        /// The instance that decides.
        coordinator: u16,
    },
    /// There is no session left.
    #[error(transparent)]
    Sessions(#[from] concurrency::TooManySessions),
    /// A log has stopped.
    #[error(transparent)]
    Log(#[from] Abort),
}

/// The transactions that an instance had under way when it went down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    /// The transaction of each of its parts in doubt, and the instance that decides.
    pub in_doubt: Vec<(u128, u16)>,
    /// Transactions that it has decided to commit.
    pub decided: Vec<u128>,
}

impl Undecided {
    /// These parts and decisions.
    pub fn new<'a>(in_doubt: impl Iterator<Item = &'a PartOf>, decisions: &[Decision]) -> Self {
        Undecided {
            in_doubt: in_doubt.map(|part| (part.global.0, part.coordinator)).collect(),
            decided: decisions.iter().map(|decision| decision.global.0).collect(),
        }
    }
}

/// How parts in doubt end: of each instance, whether each of them commits. `all` is by the numbers
/// of the instances.
///
/// # Errors
/// [`DoubtError::Missing`].
pub fn ends(all: &[Undecided], faults: Faults) -> Result<Vec<Vec<bool>>, DoubtError> {
    let decided: Vec<BTreeSet<u128>> = all.iter().map(|one| one.decided.iter().copied().collect()).collect();
    let commits = |instance, (global, coordinator): (u128, u16)| {
        let decided = decided.get(usize::from(coordinator));
        let decided =
            decided.ok_or(DoubtError::Missing { instance, global: GlobalId(global), coordinator })?;
        Ok(decided.contains(&global) && !faults.has(Fault::LostDoubt))
    };
    let all = all.iter().enumerate();
    all.map(|(instance, one)| one.in_doubt.iter().map(|part| commits(instance, *part)).collect()).collect()
}

/// The transactions that an instance has to end before it begins to work.
pub struct Unfinished<'d, P: Platform> {
    database: &'d Database<P>,
    in_doubt: Vec<(PartOf, AnyPrepared<'d>)>,
    decisions: Vec<Decision>,
}

impl<'d, P: Platform> Unfinished<'d, P> {
    /// That of a database that was just opened.
    pub fn of(c: P::Core, database: &'d Database<P>) -> Self {
        Unfinished { database, in_doubt: database.in_doubt(c), decisions: database.decisions(c) }
    }

    /// The state that the other instances need.
    pub fn undecided(&self) -> Undecided {
        Undecided::new(self.in_doubt.iter().map(|(part, _)| part), &self.decisions)
    }

    /// Ends the parts in doubt, durably: those that commit by the result of [`ends`], in its order,
    /// and all others by rolling them back.
    ///
    /// # Errors
    /// [`DoubtError`]: what is in doubt stays so.
    pub fn finish(&mut self, c: P::Core, commits: &[bool]) -> Result<(), DoubtError> {
        if self.in_doubt.is_empty() {
            return Ok(());
        }
        let mut session = self.database.session(c, None, false)?;
        let session = session.object();
        let mut last = Epoch(0);
        let commits = commits.iter().copied().chain(std::iter::repeat(false));
        for ((_, prepared), commits) in self.in_doubt.drain(..).zip(commits) {
            let outcome = if commits { Outcome::Commit } else { Outcome::Abort };
            let commit = session.finish_as(prepared, outcome);
            last = last.max(commit.map_or(Epoch(0), |commit| commit.durable_with));
        }
        session.wait_durable_until(last, None)?;
        Ok(())
    }

    /// Forgets the decisions, once all parts of all instances have ended durably; how many.
    ///
    /// # Errors
    /// [`DoubtError::Sessions`].
    pub fn forget(self, c: P::Core) -> Result<u64, DoubtError> {
        if self.decisions.is_empty() {
            return Ok(0);
        }
        let mut session = self.database.session(c, None, false)?;
        let forgotten = self.decisions.iter().filter(|decision| session.object().forget(decision.global));
        Ok(forgotten.count() as u64)
    }
}

/// Resolves everything, durably; `databases` are the instances, by number.
///
/// # Errors
/// [`DoubtError`]: what is in doubt stays so.
pub fn resolve<P: Platform>(
    c: P::Core,
    databases: &[&Database<P>],
    faults: Faults,
) -> Result<Resolved, DoubtError> {
    resolve_apart(c, databases, faults, &mut |_| ())
}

/// As [`resolve`], of instances on several machines: `turn_to` receives the number of the
/// next one.
///
/// # Errors
/// [`DoubtError`]: what is in doubt stays so.
pub fn resolve_apart<P: Platform>(
    c: P::Core,
    databases: &[&Database<P>],
    faults: Faults,
    turn_to: &mut dyn FnMut(usize),
) -> Result<Resolved, DoubtError> {
    let each = databases.iter().enumerate().map(|(instance, database)| {
        turn_to(instance);
        Unfinished::of(c, *database)
    });
    let mut all: Vec<_> = each.collect();
    let undecided: Vec<Undecided> = all.iter().map(Unfinished::undecided).collect();
    let ends = ends(&undecided, faults)?;
    for (instance, (one, commits)) in all.iter_mut().zip(&ends).enumerate() {
        turn_to(instance);
        one.finish(c, commits)?;
    }
    let parts = ends.iter().flatten().count() as u64;
    let committed = ends.iter().flatten().filter(|commits| **commits).count() as u64;
    let mut resolved = Resolved { committed, aborted: parts - committed, forgotten: 0 };
    for (instance, one) in all.into_iter().enumerate() {
        turn_to(instance);
        resolved.forgotten += one.forget(c)?;
    }
    Ok(resolved)
}

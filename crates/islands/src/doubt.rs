//! What becomes of transactions that were under way when all instances of a deployment went down, once all are open again and before
//! any of them works.
//!
//! A part in doubt commits if the instance of its coordinator has decided so, and is rolled back otherwise: a decision is durable
//! before anybody hears of it, so what is not decided now was never told. When all parts of a transaction have ended durably, its
//! decision is forgotten.

use std::collections::BTreeSet;

use cc::Abort;
use engine::dynamic::Database;
use engine::{Epoch, GlobalId, Outcome};
use platform::Platform;

use crate::protocol::Rules;

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
        /// Who decides.
        coordinator: u16,
    },
    /// There is no session left.
    #[error(transparent)]
    Sessions(#[from] cc::TooManySessions),
    /// A log has stopped.
    #[error(transparent)]
    Log(#[from] Abort),
}

/// Resolves everything, durably; `databases` are the instances, by number.
///
/// # Errors
/// [`DoubtError`]: what is in doubt stays so.
pub fn resolve<P: Platform>(
    c: P::Core,
    databases: &[&Database<P>],
    rules: Rules,
) -> Result<Resolved, DoubtError> {
    let mut resolved = Resolved::default();
    let decided: Vec<BTreeSet<u128>> = databases
        .iter()
        .map(|database| database.decisions(c).iter().map(|decision| decision.global.0).collect())
        .collect();
    for (instance, database) in databases.iter().enumerate() {
        let in_doubt = database.in_doubt(c);
        if in_doubt.is_empty() {
            continue;
        }
        let mut session = database.session(c, None, false)?;
        let session = session.object();
        let mut last = Epoch(0);
        for (part, prepared) in in_doubt {
            let (global, coordinator) = (part.global, part.coordinator);
            let decisions = decided.get(usize::from(coordinator));
            let decisions = decisions.ok_or(DoubtError::Missing { instance, global, coordinator })?;
            let commits = decisions.contains(&global.0) && rules.adopts;
            let outcome = if commits { Outcome::Commit } else { Outcome::Abort };
            let commit = session.finish_as(prepared, outcome);
            last = last.max(commit.map_or(Epoch(0), |commit| commit.durable_with));
            *(if commits { &mut resolved.committed } else { &mut resolved.aborted }) += 1;
        }
        session.wait_durable_until(last, None)?;
    }
    for (database, decided) in databases.iter().zip(decided).filter(|(_, decided)| !decided.is_empty()) {
        let mut session = database.session(c, None, false)?;
        for global in decided {
            resolved.forgotten += u64::from(session.object().forget(GlobalId(global)));
        }
    }
    Ok(resolved)
}

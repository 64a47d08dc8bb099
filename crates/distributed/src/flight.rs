//! Transactions under way: a transaction over several instances that its coordinator has begun and
//! not finished, and a part that was prepared for another worker.

use boundary::{AnyPrepared, AnySession, AnyVerbs, Bounds, Commit, Plan, Procedure, Transaction, Verbs};
use platform::{Nanos, Work};
use schema::Routes;
use terms::{Abort, Epoch};

use crate::map::{Map, WorkerName};
use crate::messages::{GlobalId, Refusal, Unsendable};
use crate::protocol::{Coordinator, Participant};

/// The end of an attempt of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// It committed, with this commit of its coordinator's own part.
    Committed(Commit),
    /// It rolled back by its own decision. The caller may report that when this epoch of the
    /// coordinator's instance is durable: the decision follows from what the transaction has read
    /// there; what it has read elsewhere was durable before it came here.
    RolledBack(Epoch),
    /// It conflicted with another transaction, here or elsewhere.
    Conflict,
    /// It needs this worker, which is lost.
    Missing(WorkerName),
    /// It failed for good.
    Failed(Failure),
}

/// The reason for which a transaction failed for good.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Here.
    #[error(transparent)]
    Here(#[from] Abort),
    /// In another instance.
    #[error("{at}: {what}")]
    Elsewhere {
        /// Whose part failed.
        at: WorkerName,
        /// How.
        what: String,
    },
    /// The request to another instance cannot be sent.
    #[error("to {at}: {why}")]
    UnsendableRequest {
        /// Whose part it is.
        at: WorkerName,
        /// Why.
        why: Unsendable,
    },
    /// Another instance cannot send the outputs of its part.
    #[error("{at}: {why}")]
    UnsendableOutputs {
        /// Whose part it is.
        at: WorkerName,
        /// Why.
        why: Unsendable,
    },
}

impl End {
    /// The end of an attempt whose own part ended so.
    pub(crate) fn of(abort: Abort) -> End {
        match abort {
            // What it follows from is durable: `AnySession::prepare` has waited for it.
            Abort::RollBack => End::RolledBack(Epoch(0)),
            abort if abort.is_conflict() => End::Conflict,
            abort => End::Failed(abort.into()),
        }
    }

    /// The end of an attempt that `at` refuses.
    pub(crate) fn refused(refusal: Refusal, at: WorkerName) -> End {
        match refusal {
            Refusal::Conflict => End::Conflict,
            Refusal::RollBack => End::RolledBack(Epoch(0)),
            Refusal::Failed(what) => End::Failed(Failure::Elsewhere { at, what }),
            Refusal::Unsendable(why) => End::Failed(Failure::UnsendableOutputs { at, why }),
        }
    }
}

/// Actions of phase 0, each with its number.
pub(crate) type Numbered<T> = Vec<(usize, T)>;

/// The part of one other instance.
pub(crate) struct Part {
    /// Number of the peer that runs it, or of the one that has found it in doubt.
    pub peer: usize,
    /// The numbers of its actions.
    pub actions: Vec<usize>,
}

/// A transaction that is under way.
pub(crate) struct Flight<'d, Q: Procedure, T> {
    pub id: GlobalId,
    /// The transaction, with its caller's ticket, until its end is known.
    pub work: Option<(Q, T)>,
    pub bounds: Bounds,
    pub coordinator: Coordinator,
    pub parts: Vec<Part>,
    /// Where requests leave in turn: the frame of each request, until it leaves.
    pub requests: Vec<Vec<u8>>,
    /// Its own actions of phase 0, in [`Flow::First`](crate::protocol::Flow::First).
    pub here: Numbered<Q::Action>,
    /// Results of other instances.
    pub outputs: Numbered<Q::Output>,
    /// Its own part, if that has locked already: in [`Flow::Last`](crate::protocol::Flow::Last),
    /// and with [`Setting::own_first`](crate::Setting::own_first).
    pub early: Option<OwnPart<'d>>,
    /// Why it does not commit.
    pub refused: Option<End>,
    /// The epoch with which its decision is durable, if it has left one.
    pub decided: Option<Epoch>,
}

/// A part that was prepared for another worker.
pub(crate) struct PreparedPart<'d> {
    pub id: GlobalId,
    /// Number of the peer that requested it.
    pub peer: usize,
    pub participant: Participant,
    pub prepared: Option<AnyPrepared<'d>>,
    /// The vote, until it leaves: the frame of a yes, which was made when that could still be
    /// refused, or why not.
    pub vote: Option<Result<Vec<u8>, Refusal>>,
    /// The epoch with which everything that was done so far is durable.
    pub epoch: Epoch,
    /// The request again, for a mutant that applies decisions twice.
    pub request: Vec<u8>,
}

/// Whose turn it is, where own transactions and parts for others take turns.
#[derive(Default)]
pub(crate) struct OwnTurn {
    /// True if own transactions wait.
    pub waits: bool,
    /// True if a part for another worker was prepared since the last own transaction began.
    pub is_next: bool,
}

impl OwnTurn {
    /// An own transaction begins.
    pub(crate) fn is_over(&mut self) {
        self.is_next = false;
    }
}

/// A request that waits.
pub(crate) struct WaitingRequest<A> {
    /// Number of the peer.
    pub peer: usize,
    pub id: GlobalId,
    pub is_last: bool,
    pub only_reads: bool,
    pub actions: Vec<A>,
    pub since: Nanos,
}

/// The coordinator's own part, prepared.
pub(crate) struct OwnPart<'d> {
    pub prepared: AnyPrepared<'d>,
    /// True if it was prepared only to learn that what it has read was true: its procedure rolls
    /// back.
    pub rolls_back: bool,
    /// The epoch that has to be durable before a result leaves that the procedure concludes from
    /// what the part has read.
    pub read_until: Epoch,
}

/// The state that the own part runs with.
pub(crate) struct OwnPartRunner<'d, 'm, Q: Procedure> {
    pub tables: &'d Q::Tables,
    pub map: &'m Map,
    pub me: WorkerName,
    /// For the actions of later phases.
    pub actions: &'m mut Vec<Q::Action>,
    /// For what they touch.
    pub routes: &'m mut Routes,
}

impl<'d, Q: Procedure> OwnPartRunner<'d, '_, Q> {
    /// Prepares the own part: its actions of phase 0, and all later phases if the outputs of all
    /// others are there. A procedure that rolls back is prepared, too: its worker does not wait
    /// until what the decision follows from is durable.
    pub(crate) fn prepare(
        &mut self,
        session: &mut (dyn AnySession<'d> + 'd),
        bounds: &Bounds,
        procedure: &mut Q,
        here: &Numbered<Q::Action>,
        others: Option<Numbered<Q::Output>>,
    ) -> Result<OwnPart<'d>, Abort> {
        // A part is attempted once.
        let (mut others, mut rolls_back) = (others, false);
        session.turn_to_another(false);
        let prepared = session.prepare(bounds, &mut |verbs| {
            enlist::<Q>(self.tables, here.iter().map(|(_, action)| action), verbs);
            let verbs = &mut Transaction::new(verbs);
            verbs.work(Work::CopyWord, words(size_of::<Q>()));
            match self.run(procedure, here, others.take(), verbs) {
                Err(Abort::RollBack) => rolls_back = true,
                ended => return ended,
            }
            Ok(())
        });
        prepared.map(|(prepared, read_until)| OwnPart { prepared, rolls_back, read_until })
    }

    fn run(
        &mut self,
        procedure: &mut Q,
        here: &Numbered<Q::Action>,
        others: Option<Numbered<Q::Output>>,
        verbs: &mut Transaction<'_>,
    ) -> Result<(), Abort> {
        for (number, action) in here {
            procedure.absorb(0, *number, execute::<Q>(self.tables, action, verbs)?);
        }
        let Some(others) = others else { return Ok(()) };
        others.into_iter().for_each(|(number, output)| procedure.absorb(0, number, output));
        self.run_later_phases(procedure, verbs)
    }

    /// The phases after phase 0.
    fn run_later_phases(&mut self, procedure: &mut Q, verbs: &mut Transaction<'_>) -> Result<(), Abort> {
        let (actions, routes) = (&mut *self.actions, &mut *self.routes);
        for phase in 1.. {
            actions.clear();
            match procedure.plan(phase, actions) {
                Plan::Commit => break,
                Plan::RollBack => return Err(Abort::RollBack),
                Plan::Run => {}
            }
            for (number, action) in actions.iter().enumerate() {
                routes.clear();
                Q::route(self.tables, action, routes);
                if self.map.place(routes)?.instance != self.me.instance {
                    return Err(NOT_ONE_SHOT);
                }
                procedure.absorb(phase, number, execute::<Q>(self.tables, action, verbs)?);
            }
        }
        Ok(())
    }
}

/// The refusal of procedures that would need another round.
const NOT_ONE_SHOT: Abort = Abort::Misuse(
    "an action of a later phase belongs to another instance: over several, all such actions are in the first phase",
);

fn words(bytes: usize) -> u32 {
    bytes.div_ceil(8) as u32
}

/// Announces what `actions` touch, to schemes that enlist.
pub(crate) fn enlist<'a, Q: Procedure<Action: 'a>>(
    tables: &Q::Tables,
    actions: impl Iterator<Item = &'a Q::Action> + Clone,
    verbs: &mut dyn AnyVerbs,
) {
    if verbs.enlists() {
        verbs.enlist(&mut |to| actions.clone().for_each(|action| Q::route(tables, action, to)));
    }
}

/// Runs an action.
pub(crate) fn execute<Q: Procedure>(
    tables: &Q::Tables,
    action: &Q::Action,
    verbs: &mut Transaction<'_>,
) -> Result<Q::Output, Abort> {
    verbs.work(Work::CopyWord, words(size_of::<Q::Action>()) + words(size_of::<Q::Output>()));
    Q::execute(tables, action, verbs)
}

impl<Q: Procedure, T> Flight<'_, Q, T> {
    /// The number of the part that a peer runs.
    pub(crate) fn part_of(&self, peer: usize) -> Option<usize> {
        self.parts.iter().position(|part| part.peer == peer)
    }

    /// The number of the part of an instance; `instance` returns that of a peer.
    pub(crate) fn part_in(&self, of: u16, instance: impl Fn(usize) -> u16) -> Option<usize> {
        self.parts.iter().position(|part| instance(part.peer) == of)
    }
}

//! Runs procedures whose actions are executed by the owners of partitions.

use boundary::{AnySession, Bounds, Branches, Ending, Procedure, Session, look_ahead_of};
use dora::{Acting, Actions, Borders, Done, Dynamic, NO_BRANCHES, OwnerWorker, SelectedActions, Typed};
use platform::{Nanos, Platform};
use repartitioning::BorderAction;
use schema::Routes;
use terms::Abort;
use terms::random::Random;

use crate::execution::executor::{Executor, ExecutorArguments};
use crate::owners::adapting::AdaptingWorker;

/// If the map changes at random, a worker changes it after one in this many transactions.
const RESTLESS: u64 = 8;
/// Stream of the random numbers of these changes.
const RESTLESS_STREAM: u64 = 1 << 33;

/// The session of a worker that owns partitions.
pub(crate) trait OwnersSession<'d, Q: Procedure> {
    /// The execution of actions in the session.
    type Acting<'s>: Acting<Q>
    where
        Self: 's;

    /// The session as an object.
    fn object(&mut self) -> &mut (dyn AnySession<'d> + 'd);

    /// The execution of actions in the session now.
    ///
    /// # Errors
    /// The session has no branches.
    fn acting(&mut self) -> Result<Self::Acting<'_>, Abort>;
}

impl<'d, Q: Procedure> OwnersSession<'d, Q> for Session<'d> {
    type Acting<'s>
        = Dynamic<'s>
    where
        Self: 's;

    fn object(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        self.object()
    }

    fn acting(&mut self) -> Result<Dynamic<'_>, Abort> {
        self.object().branches().map(Dynamic).ok_or(NO_BRANCHES)
    }
}

impl<'d, Q: Procedure> OwnersSession<'d, Q> for Box<dyn fused::Owning<'d, Q> + 'd> {
    type Acting<'s>
        = FusedActing<'s, 'd, Q>
    where
        Self: 's;

    fn object(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        fused::Owning::object(&mut **self)
    }

    fn acting(&mut self) -> Result<FusedActing<'_, 'd, Q>, Abort> {
        Ok(FusedActing(&mut **self))
    }
}

/// A session that is compiled together with the actions.
pub(crate) struct FusedActing<'s, 'd, Q>(&'s mut (dyn fused::Owning<'d, Q> + 'd));

impl<Q: Procedure> Acting<Q> for FusedActing<'_, '_, Q> {
    fn branches(&mut self) -> &mut dyn Branches {
        self.0.branches()
    }

    fn act(
        &mut self,
        branch: usize,
        deadline: Option<Nanos>,
        actions: &SelectedActions<'_, Q>,
        done: &mut Done<'_, Q>,
    ) -> Result<(), Abort> {
        self.0.act(branch, deadline, actions, done)
    }
}

/// The executor of a worker that owns partitions.
pub(crate) struct Owning<'d, P: Platform, Q: Procedure, S> {
    c: P::Core,
    number: usize,
    session: S,
    tables: &'d Q::Tables,
    actions: Actions<Q>,
    worker: OwnerWorker<'d, P>,
    /// `None` unless partitions follow the workload.
    part: Option<AdaptingWorker<'d, P>>,
    /// `None` unless the map changes at random.
    restless: Option<Random>,
}

/// The action executor of a worker, for a procedure if there is one.
macro_rules! action_executor {
    ($owning:expr, $procedure:expr) => {
        Typed::new($owning.session.acting()?, $owning.tables, &mut $owning.actions, $procedure)
    };
}

impl<'d, P: Platform, Q: Procedure, S: OwnersSession<'d, Q>> Owning<'d, P, Q, S> {
    /// The executor for these arguments, which are those of an owner.
    pub(crate) fn new(arguments: &ExecutorArguments<'d, P, Q>, mut session: S) -> Self {
        let (shared, number, site) = arguments.owners.expect("what owners of partitions share is there");
        let mut worker = OwnerWorker::new(arguments.c, shared, number, site).expect("memory for a worker");
        let part = arguments.adapting.map(|all| AdaptingWorker::new(all, number));
        if part.is_some() {
            worker.count();
        }
        if let Some(branches) = session.object().branches() {
            branches.begin_owning();
        }
        let restless = arguments.restless.map(|seed| Random::new(seed, RESTLESS_STREAM));
        let (c, tables, actions) = (arguments.c, arguments.tables, Actions::new(shared.workers()));
        Owning { c, number, session, tables, actions, worker, part, restless }
    }
}

impl<'d, P: Platform, Q: Procedure, S: OwnersSession<'d, Q>> Executor<'d, Q> for Owning<'d, P, Q, S> {
    fn run(&mut self, procedure: &mut Q, bounds: &Bounds) -> Result<Ending<()>, Abort> {
        let executor = &mut action_executor!(self, Some(procedure));
        let ending = self.worker.run(executor, bounds)?;
        self.worker.copy_rows(executor);
        if let Some(part) = &mut self.part {
            part.turn(self.c, &mut self.worker, executor)?;
        }
        if let Some(random) = &mut self.restless
            && random.below(RESTLESS) == 0
        {
            let change = self.worker.map().any_change(&mut |limit| random.below(limit));
            let _may_not_fit = self.worker.rearrange(executor, &[change], Borders::Logical)?;
        }
        Ok(ending)
    }

    // Rows of other workers' partitions are not prefetched: they stay in the owners' caches.
    fn look_ahead(&mut self, procedure: Option<&Q>) {
        let (me, map) = (self.number as u16, self.worker.map());
        let is_near = |table, column| map.owner_of_column(table, column).is_none_or(|owner| owner == me);
        look_ahead_of(self.session.object(), self.tables, procedure, &is_near);
    }

    fn session(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        self.session.object()
    }

    fn stand_by(&mut self, absent: &mut Vec<usize>) -> Result<bool, Abort> {
        let Some(part) = &mut self.part else { return Ok(false) };
        let (known, is_absent) = part.absent();
        // Two empty lists are not compared: they have no valid address, and libc's comparison took
        // 200 ns for such a pair and 5 ns for others.
        if known.len() != absent.len() || (!known.is_empty() && known != absent) {
            known.clone_into(absent);
        }
        if is_absent {
            let executor = &mut action_executor!(self, None);
            self.worker.stand_by(executor)?;
            self.worker.copy_rows(executor);
            part.answer(self.c, &mut self.worker, executor)?;
        }
        Ok(is_absent)
    }

    fn attend(&mut self) -> Result<bool, Abort> {
        self.worker.attend(&mut action_executor!(self, None)).map(|()| true)
    }

    fn idle(&mut self, nanos: u64) -> Result<(), Abort> {
        let executor = &mut action_executor!(self, None);
        self.worker.idle(executor, nanos)?;
        self.worker.copy_rows(executor);
        match &mut self.part {
            Some(part) => part.turn(self.c, &mut self.worker, executor),
            None => Ok(()),
        }
    }

    fn owner(&self, routes: &Routes) -> Option<u16> {
        self.worker.map().owner_of(routes).ok().flatten()
    }

    fn shift(&mut self, action: BorderAction, count: usize) -> Result<(usize, usize), Abort> {
        let actions = self.worker.latest_map().partitions().border_changes(action, count);
        let changes = actions.concat();
        let executor = &mut action_executor!(self, None);
        let rearranged = self.worker.rearrange(executor, &changes, Borders::Physical)?;
        rearranged.expect("no other worker changes the map");
        Ok((actions.len(), changes.len()))
    }

    fn leave(&mut self) -> Result<(), Abort> {
        self.worker.leave(&mut action_executor!(self, None))?;
        if let Some(branches) = self.session.object().branches() {
            branches.end_owning();
        }
        Ok(())
    }

    fn counts(&self) -> dora::Counts {
        self.worker.counts()
    }
}

//! Several transactions over the same instances as one: they run one after the other, and commit or
//! roll back together.
//!
//! If a branch locks a whole partition until the commit of its transaction is durable, it blocks
//! all other transactions on that partition. So the transactions that wait are batched: there is
//! one request, one vote, one decision, and two groups of the log for all of them, as commits share
//! groups themselves (decision 0086).
//!
//! Actions on other instances belong to first phases, and run there in the order of the
//! transactions. The rest of each transaction, its first phase and the later ones, runs here before
//! the rest of the next transaction. So the effect is that of one transaction after the other.

use boundary::{Plan, Procedure, Verbs};
use schema::Routes;

use terms::Abort;

/// One transaction, or several transactions as one.
pub(crate) struct Batch<Q: Procedure> {
    first: Q,
    /// The state of a batch of several transactions. In a box, because most batches have one.
    rest: Option<Box<Rest<Q>>>,
}

/// The transactions after the first one, and the state of the batch.
struct Rest<Q: Procedure> {
    more: Vec<Q>,
    /// Actions of first phases on other instances, until they are planned.
    elsewhere: Vec<Q::Action>,
    /// For each of these actions: the transaction, and the action's number in its first phase.
    places: Vec<(usize, usize)>,
    /// By transaction: the other actions of its first phase, each with its number.
    here: Vec<Vec<(usize, Q::Action)>>,
    /// The transaction that runs, its next phase, and its current phase.
    at: usize,
    next: usize,
    phase: usize,
    /// By action of this phase: its number in the transaction's phase.
    numbers: Vec<usize>,
    /// The transaction that has requested the rollback.
    rolls_back: Option<usize>,
}

impl<Q: Procedure> Batch<Q> {
    /// A batch of one transaction.
    pub(crate) fn one(procedure: Q) -> Self {
        Batch { first: procedure, rest: None }
    }

    /// A batch of these transactions, at least one, each of which has actions on other instances;
    /// `is_here` returns true for an action that belongs to this instance.
    ///
    /// # Errors
    /// The errors of `is_here`.
    pub(crate) fn of(
        procedures: Vec<Q>,
        mut is_here: impl FnMut(&Q::Action) -> Result<bool, Abort>,
    ) -> Result<Self, Abort> {
        let count = procedures.len();
        let mut procedures = procedures.into_iter();
        let first = procedures.next().expect("a batch has transactions");
        if count == 1 {
            return Ok(Batch::one(first));
        }
        let rest = Rest {
            more: procedures.collect(),
            elsewhere: Vec::new(),
            places: Vec::new(),
            here: Vec::new(),
            at: 0,
            next: 0,
            phase: 0,
            numbers: Vec::new(),
            rolls_back: None,
        };
        let mut batch = Batch { first, rest: Some(Box::new(rest)) };
        let mut actions = Vec::new();
        for number in 0..count {
            actions.clear();
            let Plan::Run = batch.member(number).plan(0, &mut actions) else {
                return Err(Abort::Misuse("a transaction over several instances has a first phase"));
            };
            let rest = batch.rest.as_mut().expect("there are several");
            let mut here = Vec::new();
            for (place, action) in actions.drain(..).enumerate() {
                if is_here(&action)? {
                    here.push((place, action));
                } else {
                    rest.elsewhere.push(action);
                    rest.places.push((number, place));
                }
            }
            rest.here.push(here);
        }
        Ok(batch)
    }

    fn member(&mut self, number: usize) -> &mut Q {
        match (number, &mut self.rest) {
            (0, _) | (_, None) => &mut self.first,
            (number, Some(rest)) => &mut rest.more[number - 1],
        }
    }

    /// Number of transactions.
    pub(crate) fn count(&self) -> usize {
        1 + self.rest.as_ref().map_or(0, |rest| rest.more.len())
    }

    /// The transaction that has requested the rollback of all, if there are several.
    pub(crate) fn rolls_back(&self) -> Option<usize> {
        self.rest.as_ref().and_then(|rest| rest.rolls_back)
    }

    /// All transactions, in their order.
    pub(crate) fn into_members(self) -> impl Iterator<Item = Q> {
        let more = self.rest.map_or_else(Vec::new, |rest| rest.more);
        std::iter::once(self.first).chain(more)
    }

    /// Plans the rest of the transactions, one after the other.
    fn plan_rest(&mut self, actions: &mut Vec<Q::Action>) -> Plan {
        let count = self.count();
        loop {
            let Some(rest) = &mut self.rest else { return Plan::Commit };
            if rest.at == count {
                return Plan::Commit;
            }
            let (at, phase) = (rest.at, rest.next);
            (rest.phase, rest.next) = (phase, phase + 1);
            rest.numbers.clear();
            if phase == 0 {
                for (number, action) in std::mem::take(&mut rest.here[at]) {
                    rest.numbers.push(number);
                    actions.push(action);
                }
                if actions.is_empty() {
                    continue;
                }
                return Plan::Run;
            }
            let plan = self.member(at).plan(phase, actions);
            let Some(rest) = &mut self.rest else { return Plan::Commit };
            match plan {
                Plan::Run => {
                    rest.numbers.extend(0..actions.len());
                    return Plan::Run;
                }
                Plan::Commit => {
                    actions.clear();
                    (rest.at, rest.next) = (at + 1, 0);
                }
                Plan::RollBack => {
                    rest.rolls_back = Some(at);
                    return Plan::RollBack;
                }
            }
        }
    }
}

impl<Q: Procedure> Procedure for Batch<Q> {
    type Tables = Q::Tables;
    type Action = Q::Action;
    type Output = Q::Output;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Q::Action>) -> Plan {
        match &mut self.rest {
            None => self.first.plan(phase, actions),
            Some(rest) if phase == 0 => {
                actions.append(&mut rest.elsewhere);
                Plan::Run
            }
            Some(_) => self.plan_rest(actions),
        }
    }

    fn route(tables: &Q::Tables, action: &Q::Action, route: &mut Routes) {
        Q::route(tables, action, route);
    }

    fn execute<T: Verbs>(
        tables: &Q::Tables,
        action: &Q::Action,
        transaction: &mut T,
    ) -> Result<Q::Output, Abort> {
        Q::execute(tables, action, transaction)
    }

    fn absorb(&mut self, phase: usize, action: usize, output: Q::Output) {
        let (member, phase, action) = match &self.rest {
            None => (0, phase, action),
            Some(rest) if phase == 0 => (rest.places[action].0, 0, rest.places[action].1),
            Some(rest) => (rest.at, rest.phase, rest.numbers[action]),
        };
        self.member(member).absorb(phase, action, output);
    }

    fn has_one_phase(&self) -> bool {
        self.rest.is_none() && self.first.has_one_phase()
    }

    fn read_only(&self) -> bool {
        self.rest.is_none() && self.first.read_only()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A procedure that records the outputs of its actions.
    struct Sum {
        name: u64,
        outputs: Vec<(usize, usize, u64)>,
        rolls_back: bool,
    }

    impl Procedure for Sum {
        type Tables = ();
        /// The transaction and the place.
        type Action = (u64, u64);
        type Output = u64;

        fn plan(&mut self, phase: usize, actions: &mut Vec<(u64, u64)>) -> Plan {
            match phase {
                0 => actions.extend([(self.name, 10), (self.name, 1), (self.name, 11)]),
                1 => actions.extend([(self.name, 2), (self.name, 3)]),
                _ if self.rolls_back => return Plan::RollBack,
                _ => return Plan::Commit,
            }
            Plan::Run
        }

        fn route((): &(), _: &(u64, u64), _: &mut Routes) {}

        fn execute<T: Verbs>((): &(), action: &(u64, u64), _: &mut T) -> Result<u64, Abort> {
            Ok(action.1)
        }

        fn absorb(&mut self, phase: usize, action: usize, output: u64) {
            self.outputs.push((phase, action, output));
        }
    }

    fn sum(name: u64, rolls_back: bool) -> Sum {
        Sum { name, outputs: Vec::new(), rolls_back }
    }

    /// Runs a batch like a coordinator: first the actions on other instances, then the rest, in
    /// order.
    fn run(batch: &mut Batch<Sum>) -> (Vec<(u64, u64)>, Plan) {
        let (mut ran, mut actions) = (Vec::new(), Vec::new());
        for phase in 0.. {
            actions.clear();
            let plan = batch.plan(phase, &mut actions);
            if plan != Plan::Run {
                return (ran, plan);
            }
            ran.extend(&actions);
            for (number, action) in actions.iter().enumerate().rev() {
                batch.absorb(phase, number, action.1);
            }
        }
        unreachable!("it ends")
    }

    #[test]
    fn one_runs_after_the_other() {
        let batch = |rolls_back: usize| {
            let sums = (0..3).map(|name| sum(name, name as usize == rolls_back)).collect();
            Batch::of(sums, |action: &(u64, u64)| Ok(action.1 < 10)).expect("divided")
        };
        let mut all = batch(usize::MAX);
        let (ran, plan) = run(&mut all);
        let elsewhere = (0..3).flat_map(|name| [(name, 10), (name, 11)]);
        let here = (0..3).flat_map(|name| [(name, 1), (name, 2), (name, 3)]);
        assert_eq!((ran, plan), (elsewhere.chain(here).collect(), Plan::Commit));
        assert_eq!((all.count(), all.rolls_back()), (3, None));
        for sum in all.into_members() {
            assert_eq!(sum.outputs.len(), 5);
            for expected in [(0, 0, 10), (0, 1, 1), (0, 2, 11), (1, 0, 2), (1, 1, 3)] {
                assert!(sum.outputs.contains(&expected), "{expected:?} of {:?}", sum.outputs);
            }
        }
        let mut second = batch(1);
        assert_eq!((run(&mut second).1, second.rolls_back()), (Plan::RollBack, Some(1)));
    }

    #[test]
    fn one_alone_is_as_it_is() {
        let mut alone = Batch::of(vec![sum(7, false)], |_| Ok(true)).expect("divided");
        let (ran, plan) = run(&mut alone);
        assert_eq!((ran, plan), (vec![(7, 10), (7, 1), (7, 11), (7, 2), (7, 3)], Plan::Commit));
        assert_eq!(alone.count(), 1);
    }
}

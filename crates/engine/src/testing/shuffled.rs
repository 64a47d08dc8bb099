//! An executor that treats a stored procedure as badly as it may be treated.
//!
//! The contract of [`Procedure`] lets an executor run the actions of a phase in any order, on any
//! machine. Here each action, and each output, travels as bytes; the actions of a phase run in a
//! random order, and their outputs come back in another; an action that leaves its route panics. A
//! procedure that keeps the contract does under this executor what it does inline.

use boundary::{AnySession, AnyVerbs, Bounds, Ending, Plan, Procedure};
use schema::Routes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use terms::random::SplitMix;
use terms::{Abort, Mode};

use super::inside::Inside;
use super::watch::Watch;

/// A source of orders: the same seed gives the same.
#[derive(Clone, Debug)]
pub struct Shuffle {
    words: SplitMix,
}

impl Shuffle {
    /// Orders that depend on this seed.
    pub fn new(seed: u64) -> Self {
        Shuffle { words: SplitMix::new(seed) }
    }

    /// A number less than `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.words.next() % bound as u64) as usize
    }

    /// The numbers from 0 to `count`, exclusive, in some order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }
}

/// Runs a stored procedure as [`crate::MemorySession::run`] does, until it commits or fails for
/// good, but shuffled.
///
/// # Panics
/// If the procedure breaks its contract: a value that does not survive the way through bytes, a
/// route that is not the same each time, or an action that leaves its route.
// Out of line: not the code that is measured.
#[cold]
#[inline(never)]
pub fn run_shuffled<Q: Procedure>(
    session: &mut dyn AnySession<'_>,
    tables: &Q::Tables,
    procedure: &mut Q,
    bounds: &Bounds,
    shuffle: &mut Shuffle,
) -> Result<Ending<()>, Abort> {
    session.transact(Mode::Single, bounds, &mut |verbs| attempt(tables, procedure, verbs, shuffle))
}

fn attempt<Q: Procedure>(
    tables: &Q::Tables,
    procedure: &mut Q,
    verbs: &mut dyn AnyVerbs,
    shuffle: &mut Shuffle,
) -> Result<(), Abort> {
    for phase in 0.. {
        let mut actions = Vec::new();
        match procedure.plan(phase, &mut actions) {
            Plan::Commit => break,
            Plan::RollBack => return Err(Abort::RollBack),
            Plan::Run => run_phase(tables, procedure, phase, &actions, verbs, shuffle)?,
        }
    }
    Ok(())
}

fn run_phase<Q: Procedure>(
    tables: &Q::Tables,
    procedure: &mut Q,
    phase: usize,
    actions: &[Q::Action],
    verbs: &mut dyn AnyVerbs,
    shuffle: &mut Shuffle,
) -> Result<(), Abort> {
    let mut outputs: Vec<Option<Q::Output>> = actions.iter().map(|_| None).collect();
    for number in shuffle.order(actions.len()) {
        let route = route::<Q>(tables, &actions[number]);
        let action = travel(&actions[number], "an action");
        assert_eq!(
            route,
            self::route::<Q>(tables, &action),
            "an action is routed elsewhere after its travel"
        );
        assert!(route.home().is_some(), "an action belongs nowhere: {action:?}");
        let mut watch = Watch::new(route.clone());
        let output = Q::execute(tables, &action, &mut Inside::new(verbs, &mut watch));
        watch.assert_inside(&action);
        let output = output?;
        assert_eq!(route, self::route::<Q>(tables, &action), "an action is routed elsewhere after it ran");
        outputs[number] = Some(travel(&output, "an output"));
    }
    for number in shuffle.order(actions.len()) {
        if let Some(output) = outputs[number].take() {
            procedure.absorb(phase, number, output);
        }
    }
    Ok(())
}

fn route<Q: Procedure>(tables: &Q::Tables, action: &Q::Action) -> Routes {
    let mut route = Routes::new();
    Q::route(tables, action, &mut route);
    route
}

/// A value after its way to another machine as bytes.
fn travel<T: Serialize + DeserializeOwned>(value: &T, what: &str) -> T {
    let bytes = postcard::to_allocvec(value).unwrap_or_else(|error| panic!("{what} cannot be sent: {error}"));
    let (arrived, rest): (T, &[u8]) = postcard::take_from_bytes(&bytes)
        .unwrap_or_else(|error| panic!("{what} cannot be received: {error}"));
    assert!(rest.is_empty(), "{what} arrives with {} bytes left over", rest.len());
    let again =
        postcard::to_allocvec(&arrived).unwrap_or_else(|error| panic!("{what} cannot be sent on: {error}"));
    assert!(bytes == again, "{what} is not the same after its travel");
    arrived
}

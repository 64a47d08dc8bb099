//! The flow of a workload, known before it runs: which tables the actions of each kind of
//! transaction touch, which actions wait for which, and how many bytes come together where they
//! synchronize.
//!
//! Executors that place partitions on a machine need this in advance: the "static workload
//! information" of ATraPos (Porobic et al., ICDE 2014, section V) is a graph for each transaction,
//! of actions with their tables and of the points at which they synchronize. Here the graph is not
//! written beside the code but derived from it: [`Procedure::plan`] gives the actions of a phase,
//! at whose end all of them synchronize; [`Procedure::route`] gives their tables; actions and
//! outputs are serialized as bytes. [`flows`] therefore runs, traces and rolls back some
//! transactions of the workload, by the procedure [`Traced`].
//!
//! A flow is a sample: it lacks actions that no sampled transaction performed.

use std::collections::BTreeMap;

use boundary::{LookAhead, Plan, Procedure, Verbs};
use platform::Intent;
use schema::Routes;
use serde::{Deserialize, Serialize};
use terms::Abort;

use crate::workload::Workload;
use terms::random::Random;

/// A table that an action touches, by its number in the catalog, and the kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Touch {
    /// The table.
    pub table: usize,
    /// True if the action may write.
    pub writes: bool,
}

/// Actions of one phase that touch the same tables in the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Actions {
    /// The tables that they touch, each once; the first one is where the action belongs.
    pub touches: Vec<Touch>,
    /// Mean number of these actions in a transaction of the kind.
    pub count: f64,
    /// Mean bytes of such an action when it is sent.
    pub bytes: f64,
    /// Mean bytes of its output when it is sent.
    pub output_bytes: f64,
}

/// A phase: its actions wait for nothing but the phase before. Its end is a synchronization point
/// of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The share of the transactions that reach this phase.
    pub share: f64,
    /// Its actions.
    pub actions: Vec<Actions>,
}

/// The flow of one kind of transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Number of sampled transactions.
    pub samples: u64,
    /// The phases in their order.
    pub phases: Vec<Phase>,
}

/// Sums over the actions of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: u64,
    bytes: u64,
    output_bytes: u64,
}

/// Sums over the sampled transactions of one kind.
#[derive(Debug, Default)]
struct Samples {
    transactions: u64,
    phases: Vec<(u64, BTreeMap<Vec<Touch>, Sums>)>,
}

impl Samples {
    fn flow(&self) -> Flow {
        let share = |sum: u64, of: u64| sum as f64 / of.max(1) as f64;
        let of_class = |(touches, sums): (&Vec<Touch>, &Sums)| Actions {
            touches: touches.clone(),
            count: share(sums.count, self.transactions),
            bytes: share(sums.bytes, sums.count),
            output_bytes: share(sums.output_bytes, sums.count),
        };
        let of_phase = |(reached, classes): &(u64, BTreeMap<Vec<Touch>, Sums>)| Phase {
            share: share(*reached, self.transactions),
            actions: classes.iter().map(of_class).collect(),
        };
        Flow { samples: self.transactions, phases: self.phases.iter().map(of_phase).collect() }
    }

    fn add(&mut self, trace: &[Vec<(Vec<Touch>, Sums)>]) {
        self.transactions += 1;
        if self.phases.len() < trace.len() {
            self.phases.resize_with(trace.len(), Default::default);
        }
        for ((reached, classes), actions) in self.phases.iter_mut().zip(trace) {
            *reached += 1;
            for (touches, one) in actions {
                let sums = classes.entry(touches.clone()).or_default();
                sums.count += one.count;
                sums.bytes += one.bytes;
                sums.output_bytes += one.output_bytes;
            }
        }
    }
}

/// A procedure that runs another one unchanged, traces it, and rolls it back in the end.
pub struct Traced<Q: Procedure> {
    procedure: Q,
    tables: Q::Tables,
    /// For each phase and action: the tables that it touches, and its bytes.
    trace: Vec<Vec<(Vec<Touch>, Sums)>>,
    routes: Routes,
}

impl<Q: Procedure> Traced<Q> {
    /// Traces a transaction on these tables.
    pub fn new(procedure: Q, tables: &Q::Tables) -> Self {
        Traced { procedure, tables: *tables, trace: Vec::new(), routes: Routes::new() }
    }

    fn touches(&mut self, action: &Q::Action) -> Vec<Touch> {
        self.routes.clear();
        Q::route(&self.tables, action, &mut self.routes);
        let mut touches: Vec<Touch> = Vec::new();
        for route in self.routes.entries() {
            let writes = route.intent == Intent::Write;
            match touches.iter_mut().find(|touch| touch.table == route.table) {
                Some(touch) => touch.writes |= writes,
                None => touches.push(Touch { table: route.table, writes }),
            }
        }
        touches
    }
}

/// Bytes of a value when it is sent.
fn travelling(value: &impl Serialize) -> u64 {
    postcard::to_allocvec(value).map_or(0, |bytes| bytes.len() as u64)
}

impl<Q: Procedure> Procedure for Traced<Q> {
    type Tables = Q::Tables;
    type Action = Q::Action;
    type Output = Q::Output;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Q::Action>) -> Plan {
        // A new attempt discards the trace of the former one.
        self.trace.truncate(phase);
        match self.procedure.plan(phase, actions) {
            Plan::Run => {
                let mut traced = Vec::with_capacity(actions.len());
                for action in actions.iter() {
                    let bytes = travelling(action);
                    traced.push((self.touches(action), Sums { count: 1, bytes, output_bytes: 0 }));
                }
                self.trace.push(traced);
                Plan::Run
            }
            Plan::Commit | Plan::RollBack => Plan::RollBack,
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
        let traced = self.trace.get_mut(phase).and_then(|actions| actions.get_mut(action));
        if let Some((_, sums)) = traced {
            sums.output_bytes = travelling(&output);
        }
        self.procedure.absorb(phase, action, output);
    }

    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        self.procedure.homes(home)
    }

    fn look_ahead<L: LookAhead>(&self, tables: &Q::Tables, ahead: &mut L) {
        self.procedure.look_ahead(tables, ahead);
    }

    fn read_only(&self) -> bool {
        self.procedure.read_only()
    }
}

/// Derives the flows of the kinds of a workload, in the order of [`Workload::kinds`], from sampled
/// transactions. `run` runs a transaction on loaded tables to its end, which is a rollback.
///
/// # Errors
/// Those of `run`.
pub fn flows<W: Workload>(
    workload: &W,
    tables: &<W::Procedure as Procedure>::Tables,
    samples: u64,
    workers: usize,
    random: &mut Random,
    mut run: impl FnMut(&mut Traced<W::Procedure>) -> Result<(), Abort>,
) -> Result<Vec<Flow>, Abort> {
    let mut kinds: Vec<Samples> = workload.kinds().iter().map(|_| Samples::default()).collect();
    for number in 0..samples {
        let procedure = workload.next(number as usize % workers.max(1), random, 0);
        let kind = W::kind(&procedure);
        let mut traced = Traced::new(procedure, tables);
        run(&mut traced)?;
        kinds[kind].add(&traced.trace);
    }
    Ok(kinds.iter().map(Samples::flow).collect())
}

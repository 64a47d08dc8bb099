//! What is known of a workload before it runs: which tables the actions of each kind of transaction
//! touch, which of them wait for which, and how many bytes meet where they do.
//!
//! Executors that place partitions on a machine want this in advance: the "static workload
//! information" of ATraPos (Porobic et al., ICDE 2014, section V) is a graph for each transaction,
//! of actions with their tables and of the points at which they synchronize. Here nobody draws that
//! graph beside the code. A procedure says all of it of itself while it is planned:
//! [`Procedure::plan`] gives the actions of a phase, which ends where all of them meet;
//! [`Procedure::route`] gives their tables; actions and outputs travel as bytes. So some
//! transactions of the workload are run, traced, and rolled back: [`Traced`] is the procedure that
//! does so.
//!
//! A flow is of samples: what no sampled transaction did is not in it.

use std::collections::BTreeMap;

use boundary::{LookAhead, Plan, Procedure, Verbs};
use platform::Intent;
use schema::Routes;
use serde::{Deserialize, Serialize};
use terms::Abort;

use crate::workload::Workload;
use terms::random::Random;

/// A table that an action touches, by its number in the catalog, and whether it writes there.
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
    /// What they touch, each table once: first where they belong.
    pub touches: Vec<Touch>,
    /// How many there are in a transaction of the kind, on the average.
    pub count: f64,
    /// Mean bytes of such an action, as it travels.
    pub bytes: f64,
    /// Mean bytes of what it gives back.
    pub output_bytes: f64,
}

/// A phase: its actions wait for nothing but the phase before. All of them meet at its end, which
/// is a synchronization point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// The share of the transactions that get here.
    pub share: f64,
    /// Its actions.
    pub actions: Vec<Actions>,
}

/// The flow of one kind of transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Sampled transactions.
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

/// What the sampled transactions of one kind have done.
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

/// A transaction that runs as it is, is traced, and rolls back in the end.
pub struct Traced<Q: Procedure> {
    procedure: Q,
    tables: Q::Tables,
    /// By phase, each action: what it touches, and its bytes.
    trace: Vec<Vec<(Vec<Touch>, Sums)>>,
    routes: Routes,
}

impl<Q: Procedure> Traced<Q> {
    /// The transaction, on these tables.
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

/// Bytes of a value as it travels.
fn travelling(value: &impl Serialize) -> u64 {
    postcard::to_allocvec(value).map_or(0, |bytes| bytes.len() as u64)
}

impl<Q: Procedure> Procedure for Traced<Q> {
    type Tables = Q::Tables;
    type Action = Q::Action;
    type Output = Q::Output;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Q::Action>) -> Plan {
        // A new attempt forgets the former one.
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

/// The flows of the kinds of a workload, in the order of [`Workload::kinds`], by so many
/// transactions of `workers` workers. `run` runs a transaction to its end on loaded tables, of
/// which nothing stays.
///
/// # Errors
/// Those of `run`.
pub fn flows<W: Workload>(
    workload: &W,
    tables: &<W::Procedure as Procedure>::Tables,
    (samples, workers): (u64, usize),
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

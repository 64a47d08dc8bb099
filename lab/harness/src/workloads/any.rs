//! The workloads of the list as one type, so that the code that runs them is compiled once for each
//! platform and not once for each workload (decision 0051). A worker's executor is made for one
//! workload, and runs its procedures without checking the kind for each action.
//!
//! Actions and outputs are sent with a byte for the kind of workload.

use boundary::{AnySession, Bounds, Ending, LookAhead, Plan, Procedure, Verbs};
use fused::Compiled;
use repartitioning::BorderAction;
use schema::{Inspector, Loader, Routes, Schema};
use serde::{Deserialize, Serialize};
use terms::Abort;
use terms::random::Random;
use workloads::dependent::Dependent;
use workloads::micro::Micro;
use workloads::tatp::Tatp;
use workloads::tpcb::Tpcb;
use workloads::tpcc::Tpcc;
use workloads::ycsb::Ycsb;
use workloads::{ChangeError, Changing, Check, LoadedWith};

use crate::error::RunError;
use crate::execution::executor::{Executor, ExecutorArguments, ExecutorResult, MakeInline};
use crate::execution::executors::dynamic;
use crate::host::Host;
use crate::workloads::workload::{Stages, Workload};

type ProcedureOf<W> = <W as workloads::Workload>::Procedure;

/// The reason why procedures, tables, actions and outputs always belong to one workload.
const ONE: &str = "all of a run is of one workload: instances compare their plans before they begin";

/// Executors that are compiled together with the engine for each scheme, if real time is measured:
/// this saves 25 ns a verb, and takes long to compile (decision 0051; crate `fused`). Test builds
/// use [`Erased`] executors instead.
struct Fused;

impl Fused {
    /// Returns the constructor of inline executors for the procedures of a workload.
    fn inline<P: Host, Q: Compiled>() -> MakeInline<P, Q> {
        P::inline()
    }
}

/// Executors that use the engine's dynamic boundary.
struct Erased;

impl Erased {
    /// As [`Fused::inline`].
    fn inline<P: Host, Q: Procedure + 'static>() -> MakeInline<P, Q> {
        dynamic
    }
}

/// Runs the procedures of one workload of the list.
struct WorkloadExecutor<'d, Q> {
    executor: Box<dyn Executor<'d, Q> + 'd>,
    procedure: fn(&Transaction) -> Option<&Q>,
    procedure_mut: fn(&mut Transaction) -> Option<&mut Q>,
}

impl<'d, Q: Procedure> Executor<'d, Transaction> for WorkloadExecutor<'d, Q> {
    fn run(&mut self, procedure: &mut Transaction, bounds: &Bounds) -> Result<Ending<()>, Abort> {
        self.executor.run((self.procedure_mut)(procedure).expect(ONE), bounds)
    }

    fn look_ahead(&mut self, procedure: Option<&Transaction>) {
        self.executor.look_ahead(procedure.and_then(self.procedure));
    }

    fn session(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        self.executor.session()
    }

    fn stand_by(&mut self, absent: &mut Vec<usize>) -> Result<bool, Abort> {
        self.executor.stand_by(absent)
    }

    fn attend(&mut self) -> Result<bool, Abort> {
        self.executor.attend()
    }

    fn idle(&mut self, nanos: u64) -> Result<(), Abort> {
        self.executor.idle(nanos)
    }

    fn owner(&self, routes: &Routes) -> Option<u16> {
        self.executor.owner(routes)
    }

    fn shift(&mut self, action: BorderAction, count: usize) -> Result<(usize, usize), Abort> {
        self.executor.shift(action, count)
    }

    fn leave(&mut self) -> Result<(), Abort> {
        self.executor.leave()
    }

    fn counts(&self) -> dora::Counts {
        self.executor.counts()
    }
}

/// Calls a method of a transaction, a workload or tables of any kind.
macro_rules! each {
    ($Any:ident, $any:expr, $one:ident => $does:expr, $($Kind:ident)+) => {
        match $any { $($Any::$Kind($one) => $does),+ }
    };
}

/// The workloads of transactions, each with the kind of its inline executors on hardware.
macro_rules! workloads {
    ($($Kind:ident $inline:ident),+ $(,)?) => {
        /// A workload of the list, with its later stages, if it has any.
        pub(crate) enum AnyWorkload { $($Kind(Changing<$Kind>)),+ }

        /// A transaction of such a workload.
        #[allow(clippy::large_enum_variant, reason = "boxing would allocate for each transaction")]
        pub(crate) enum Transaction { $($Kind(ProcedureOf<$Kind>)),+ }

        /// The tables of such a workload.
        #[derive(Clone, Copy)]
        pub(crate) enum Tables { $($Kind(<ProcedureOf<$Kind> as Procedure>::Tables)),+ }

        /// An action.
        #[derive(Debug, Serialize, Deserialize)]
        #[allow(clippy::large_enum_variant, reason = "boxing would allocate for each action")]
        pub(crate) enum Action { $($Kind(<ProcedureOf<$Kind> as Procedure>::Action)),+ }

        /// The result of an action.
        #[derive(Serialize, Deserialize)]
        #[allow(clippy::large_enum_variant, reason = "boxing would allocate for each output")]
        pub(crate) enum Output { $($Kind(<ProcedureOf<$Kind> as Procedure>::Output)),+ }

        impl AnyWorkload {
            /// The workload `first` with its later stages; `None` if it is an experiment, which has
            /// no transactions.
            pub(crate) fn of(first: &Workload, later: &[(u64, Workload)]) -> Option<Result<Self, ChangeError>> {
                match first {
                    $(Workload::$Kind(first) => {
                        let of_kind = |(nanos, workload): &(u64, Workload)| match workload {
                            Workload::$Kind(workload) => Ok((*nanos, workload.clone())),
                            _ => Err(ChangeError::OtherData),
                        };
                        let later = later.iter().map(of_kind).collect::<Result<Vec<_>, _>>();
                        let all = later.and_then(|later| Changing::new(first.clone(), later));
                        Some(all.map(AnyWorkload::$Kind))
                    })+
                    _ => None,
                }
            }
        }

        /// Creates the inline executor of a worker.
        pub(crate) fn inline<P: Host>(arguments: ExecutorArguments<'_, P, Transaction>) -> ExecutorResult<'_, Transaction> {
            let ExecutorArguments { c, database, tables, node, measure, owners, adapting, restless } = arguments;
            match tables {
                $(Tables::$Kind(tables) => {
                    let make = $inline::inline::<P, ProcedureOf<$Kind>>();
                    Ok(Box::new(WorkloadExecutor {
                        executor: make(ExecutorArguments { c, database, tables, node, measure, owners, adapting, restless })?,
                        procedure: |any| if let Transaction::$Kind(one) = any { Some(one) } else { None },
                        procedure_mut: |any| if let Transaction::$Kind(one) = any { Some(one) } else { None },
                    }))
                })+
            }
        }

        impl Procedure for Transaction {
            type Tables = Tables;
            type Action = Action;
            type Output = Output;

            fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
                match self {
                    $(Transaction::$Kind(one) => {
                        let mut own = Vec::new();
                        let plan = one.plan(phase, &mut own);
                        actions.extend(own.into_iter().map(Action::$Kind));
                        plan
                    })+
                }
            }

            fn route(tables: &Tables, action: &Action, routes: &mut Routes) {
                match (tables, action) {
                    $((Tables::$Kind(tables), Action::$Kind(action)) => {
                        <ProcedureOf<$Kind>>::route(tables, action, routes);
                    })+
                    _ => unreachable!("{ONE}"),
                }
            }

            fn execute<T: Verbs>(tables: &Tables, action: &Action, t: &mut T) -> Result<Output, Abort> {
                match (tables, action) {
                    $((Tables::$Kind(tables), Action::$Kind(action)) => {
                        <ProcedureOf<$Kind>>::execute(tables, action, t).map(Output::$Kind)
                    })+
                    _ => Err(Abort::Misuse(ONE)),
                }
            }

            fn absorb(&mut self, phase: usize, action: usize, output: Output) {
                match (self, output) {
                    $((Transaction::$Kind(one), Output::$Kind(output)) => one.absorb(phase, action, output),)+
                    _ => unreachable!("{ONE}"),
                }
            }

            fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
                each!(Transaction, self, one => one.homes(home), $($Kind)+)
            }

            fn look_ahead<L: LookAhead>(&self, tables: &Tables, ahead: &mut L) {
                match (self, tables) {
                    $((Transaction::$Kind(one), Tables::$Kind(tables)) => one.look_ahead(tables, ahead),)+
                    _ => unreachable!("{ONE}"),
                }
            }

            fn has_one_phase(&self) -> bool {
                each!(Transaction, self, one => one.has_one_phase(), $($Kind)+)
            }

            fn read_only(&self) -> bool {
                each!(Transaction, self, one => one.read_only(), $($Kind)+)
            }
        }

        impl workloads::Workload for AnyWorkload {
            type Procedure = Transaction;

            fn create(&self, schema: &mut impl Schema) -> Tables {
                match self { $(AnyWorkload::$Kind(one) => Tables::$Kind(one.create(schema))),+ }
            }

            fn loaded_with(&self) -> LoadedWith {
                each!(AnyWorkload, self, one => one.loaded_with(), $($Kind)+)
            }

            fn parts(&self) -> usize {
                each!(AnyWorkload, self, one => one.parts(), $($Kind)+)
            }

            fn rows(&self, part: usize) -> u64 {
                each!(AnyWorkload, self, one => one.rows(part), $($Kind)+)
            }

            fn load(
                &self,
                tables: &Tables,
                part: usize,
                random: &mut Random,
                loader: &mut impl Loader,
            ) -> Result<(), Abort> {
                match (self, tables) {
                    $((AnyWorkload::$Kind(one), Tables::$Kind(tables)) => one.load(tables, part, random, loader),)+
                    _ => Err(Abort::Misuse(ONE)),
                }
            }

            fn placed_tables(&self) -> usize {
                each!(AnyWorkload, self, one => one.placed_tables(), $($Kind)+)
            }

            fn owner(&self, table: usize, part: usize, sockets: &[u32]) -> Option<usize> {
                each!(AnyWorkload, self, one => one.owner(table, part, sockets), $($Kind)+)
            }

            fn load_table(
                &self,
                tables: &Tables,
                table: usize,
                part: usize,
                loader: &mut impl Loader,
            ) -> Result<(), Abort> {
                match (self, tables) {
                    $((AnyWorkload::$Kind(one), Tables::$Kind(tables)) => one.load_table(tables, table, part, loader),)+
                    _ => Err(Abort::Misuse(ONE)),
                }
            }

            fn load_shared(
                &self,
                tables: &Tables,
                random: &mut Random,
                loader: &mut impl Loader,
            ) -> Result<(), Abort> {
                match (self, tables) {
                    $((AnyWorkload::$Kind(one), Tables::$Kind(tables)) => one.load_shared(tables, random, loader),)+
                    _ => Err(Abort::Misuse(ONE)),
                }
            }

            fn shared_part(&self) -> Option<usize> {
                each!(AnyWorkload, self, one => one.shared_part(), $($Kind)+)
            }

            fn undivided(&self) -> Option<&'static str> {
                each!(AnyWorkload, self, one => one.undivided(), $($Kind)+)
            }

            fn next(&self, worker: usize, random: &mut Random, now_nanos: u64) -> Transaction {
                match self { $(AnyWorkload::$Kind(one) => Transaction::$Kind(one.next(worker, random, now_nanos))),+ }
            }

            fn next_at(
                &self,
                elapsed_nanos: u64,
                worker: usize,
                random: &mut Random,
                now_nanos: u64,
            ) -> Transaction {
                match self {
                    $(AnyWorkload::$Kind(one) => {
                        Transaction::$Kind(one.next_at(elapsed_nanos, worker, random, now_nanos))
                    })+
                }
            }

            fn homes(&self) -> usize {
                each!(AnyWorkload, self, one => one.homes(), $($Kind)+)
            }

            fn request(
                &self,
                elapsed_nanos: u64,
                homes: Option<&[usize]>,
                random: &mut Random,
                now_nanos: u64,
            ) -> (Transaction, usize) {
                match self {
                    $(AnyWorkload::$Kind(one) => {
                        let (request, home) = one.request(elapsed_nanos, homes, random, now_nanos);
                        (Transaction::$Kind(request), home)
                    })+
                }
            }

            fn begin(&self, worker: usize, procedure: &mut Transaction, now_nanos: u64) {
                match (self, procedure) {
                    $((AnyWorkload::$Kind(one), Transaction::$Kind(procedure)) => one.begin(worker, procedure, now_nanos),)+
                    _ => unreachable!("{ONE}"),
                }
            }

            fn acknowledged(&self, worker: usize, now_nanos: u64) {
                each!(AnyWorkload, self, one => one.acknowledged(worker, now_nanos), $($Kind)+);
            }

            fn kinds(&self) -> &'static [&'static str] {
                each!(AnyWorkload, self, one => one.kinds(), $($Kind)+)
            }

            fn kind(procedure: &Transaction) -> usize {
                match procedure { $(Transaction::$Kind(one) => <$Kind as workloads::Workload>::kind(one)),+ }
            }

            fn code_lines(procedure: &Transaction) -> u16 {
                match procedure { $(Transaction::$Kind(one) => <$Kind as workloads::Workload>::code_lines(one)),+ }
            }

            fn check(
                &self,
                tables: &Tables,
                inspector: &mut impl Inspector,
                committed: Option<&[u64]>,
            ) -> Vec<Check> {
                match (self, tables) {
                    $((AnyWorkload::$Kind(one), Tables::$Kind(tables)) => one.check(tables, inspector, committed),)+
                    _ => unreachable!("{ONE}"),
                }
            }
        }
    };
}

impl Workload {
    /// A workload that changes: it is `first`, and each of `later` from that second of the measured
    /// time on. All are workloads of the same kind over the same data.
    ///
    /// # Errors
    /// The times do not ascend, the data are not the same, or the workload has no transactions.
    pub fn changing(first: Workload, later: Vec<(f64, Workload)>) -> Result<Self, RunError> {
        let later = later.into_iter().map(|(seconds, workload)| ((seconds * 1e9) as u64, workload));
        let stages = Stages { first: Box::new(first), later: later.collect() };
        match AnyWorkload::of(&stages.first, &stages.later) {
            Some(Ok(_)) => Ok(Workload::Changing(stages)),
            Some(Err(error)) => Err(RunError::of(error)),
            None => Err(RunError::Refused("this workload has nothing that could change".to_owned())),
        }
    }

    /// The workload of transactions; `None` for an experiment, which has no database.
    pub(crate) fn transactions(&self) -> Option<AnyWorkload> {
        let (first, later) = match self {
            Workload::Changing(stages) => (&*stages.first, &stages.later[..]),
            alone => (alone, &[][..]),
        };
        let any = AnyWorkload::of(first, later);
        any.map(|any| any.expect("stages are compared when they are put together"))
    }
}

workloads! {
    Micro Fused,
    Ycsb Fused,
    Tpcb Erased,
    Tpcc Fused,
    Tatp Erased,
    Dependent Erased,
}

//! The procedures whose speed is judged by real time, compiled together with the engine for
//! hardware, once for each scheme (decision 0051).
//!
//! They are compiled as one unit, which no second core can help with, beside the engine's objects
//! and whatever uses those: so they are a crate of their own, and users of it compile none of them
//! again. Programs that are built for tests compile no procedure with the engine.

#![forbid(unsafe_code)]

use boundary::{AnySession, Bounds, Branches, Database, Ending, Procedure};
use concurrency::{Branching, Scheme, SchemeName, SchemeVisitor, TooManySessions};
use dora::{Acting, Done, SelectedActions, execute_selected};
use engine::MemorySession;
use platform::{Hardware, Nanos, Node, Platform};
use terms::Abort;
use workloads::micro::MicroTransaction;
use workloads::tpcc;
use workloads::ycsb::YcsbTransaction;

/// Where a session is opened, and for what.
pub struct Place<'d> {
    /// The core of its worker.
    pub c: <Hardware as Platform>::Core,
    /// The database.
    pub database: &'d Database<Hardware>,
    /// The memory node that is near.
    pub node: Option<Node>,
    /// True if the time of transactions is divided into categories.
    pub measure: bool,
}

/// A session that runs procedures of one type inline.
pub trait Inline<'d, Q: Procedure> {
    /// See [`MemorySession::run`].
    ///
    /// # Errors
    /// See [`Abort`].
    fn run(
        &mut self,
        tables: &Q::Tables,
        procedure: &mut Q,
        actions: &mut Vec<Q::Action>,
        bounds: &Bounds,
    ) -> Result<Ending<()>, Abort>;

    /// See [`MemorySession::look_ahead`].
    fn look_ahead(&mut self, tables: &Q::Tables, procedure: Option<&Q>);

    /// The session as an object.
    fn object(&mut self) -> &mut (dyn AnySession<'d> + 'd);
}

impl<'d, S: Scheme<Hardware>, Q: Procedure> Inline<'d, Q> for MemorySession<'d, Hardware, S> {
    fn run(
        &mut self,
        tables: &Q::Tables,
        procedure: &mut Q,
        actions: &mut Vec<Q::Action>,
        bounds: &Bounds,
    ) -> Result<Ending<()>, Abort> {
        MemorySession::run(self, tables, procedure, actions, bounds)
    }

    fn look_ahead(&mut self, tables: &Q::Tables, procedure: Option<&Q>) {
        MemorySession::look_ahead(self, tables, procedure);
    }

    fn object(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        self
    }
}

/// A session of a worker that owns partitions, which runs actions of procedures of one type.
pub trait Owning<'d, Q: Procedure>: Acting<Q> {
    /// The session as an object.
    fn object(&mut self) -> &mut (dyn AnySession<'d> + 'd);
}

/// A session under the scheme that has branches.
struct Together<'d>(MemorySession<'d, Hardware, Branching>);

impl<Q: Procedure> Acting<Q> for Together<'_> {
    fn branches(&mut self) -> &mut dyn Branches {
        &mut self.0
    }

    fn act(
        &mut self,
        branch: usize,
        deadline: Option<Nanos>,
        actions: &SelectedActions<'_, Q>,
        done: &mut Done<'_, Q>,
    ) -> Result<(), Abort> {
        self.0.act_as(branch, deadline, |transaction| execute_selected::<Q>(actions, transaction, done))
    }
}

impl<'d, Q: Procedure> Owning<'d, Q> for Together<'d> {
    fn object(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        &mut self.0
    }
}

/// A session, or nothing where the procedure is not compiled with the database's engine: in a
/// program that is built for tests, over another storage manager than the engine's own, or under a
/// scheme that has no branches.
pub type Opened<T> = Result<Option<Box<T>>, TooManySessions>;

/// A procedure that is compiled with the engine.
pub trait Compiled: Procedure + 'static {
    /// A session that runs it inline.
    ///
    /// # Errors
    /// There are as many sessions as the database was made for.
    fn inline<'d>(place: Place<'d>) -> Opened<dyn Inline<'d, Self> + 'd>;

    /// A session of a worker that owns partitions.
    ///
    /// # Errors
    /// There are as many sessions as the database was made for.
    fn owning<'d>(place: &Place<'d>) -> Opened<dyn Owning<'d, Self> + 'd>;
}

macro_rules! compiled {
    ($($Procedure:ty),+) => {
        $(impl Compiled for $Procedure {
            fn inline<'d>(place: Place<'d>) -> Opened<dyn Inline<'d, Self> + 'd> {
                if cfg!(debug_assertions) { Ok(None) } else { inline(place) }
            }

            fn owning<'d>(place: &Place<'d>) -> Opened<dyn Owning<'d, Self> + 'd> {
                if cfg!(debug_assertions) { Ok(None) } else { owning(place) }
            }
        })+
    };
}

compiled!(MicroTransaction, YcsbTransaction, tpcc::Transaction);

fn inline<'d, Q: Procedure + 'static>(place: Place<'d>) -> Opened<dyn Inline<'d, Q> + 'd> {
    match place.database.traits().name.parse::<SchemeName>() {
        Ok(scheme) => scheme.visit::<Hardware, _>(Opening(place, std::marker::PhantomData)).map(Some),
        Err(_) => Ok(None),
    }
}

struct Opening<'d, Q>(Place<'d>, std::marker::PhantomData<Q>);

impl<'d, Q: Procedure + 'static> SchemeVisitor<Hardware> for Opening<'d, Q> {
    type Output = Result<Box<dyn Inline<'d, Q> + 'd>, TooManySessions>;

    fn visit<S: Scheme<Hardware>>(self) -> Self::Output {
        let Place { c, database, node, measure } = self.0;
        let database = database.object().as_any().downcast_ref::<engine::MemoryDatabase<Hardware, S>>();
        let session = database.expect("a database has the scheme that it names").session(c, node, measure)?;
        Ok(Box::new(session))
    }
}

fn owning<'d, Q: Procedure + 'static>(place: &Place<'d>) -> Opened<dyn Owning<'d, Q> + 'd> {
    let database = place.database.object().as_any();
    let Some(database) = database.downcast_ref::<engine::MemoryDatabase<Hardware, Branching>>() else {
        return Ok(None);
    };
    Ok(Some(Box::new(Together(database.session(place.c, place.node, place.measure)?))))
}

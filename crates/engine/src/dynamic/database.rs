//! Databases as objects.

use std::any::Any;

use boundary::{
    AnyDatabase, AnyPrepared, AnySession, ChangeSource, ChangesError, Decision, Occupant, PartOf,
    RoamingSession, Traits,
};
use concurrency::{Content, Scheme, TooManySessions};
use platform::{Address, Nanos, Node, OutOfMemory, Platform};
use redo_log::{LogError, LogUse};
use schema::TableDescription;
use storage::MemoryUse;
use terms::rows::KeyBounds;
use terms::{Abort, Epoch};

use super::session::any_prepared;
use crate::database::MemoryDatabase;

impl<P: Platform, S: Scheme<P>> AnyDatabase<P> for MemoryDatabase<P, S> {
    fn traits(&self) -> Traits {
        Traits::of::<P, S>()
    }

    fn tables(&self) -> &[TableDescription] {
        self.tables()
    }

    fn session<'d>(
        &'d self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<Box<dyn AnySession<'d> + 'd>, TooManySessions> {
        Ok(Box::new(self.session(c, node, measure)?))
    }

    fn session_to_send<'d>(
        &'d self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<Box<dyn AnySession<'d> + Send + 'd>, TooManySessions>
    where
        P::Core: Send,
    {
        Ok(Box::new(self.session(c, node, measure)?))
    }

    fn roaming_session<'d>(
        &'d self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Option<Result<Box<dyn RoamingSession<'d> + 'd>, TooManySessions>>
    where
        P::Core: Send,
    {
        let session = self.session(c, node, measure);
        Some(session.map(|session| Box::new(session) as Box<dyn RoamingSession<'d> + 'd>))
    }

    fn is_durable(&self, c: P::Core, outcome: Epoch) -> bool {
        self.is_durable(c, outcome)
    }

    fn whole_groups(&self, c: P::Core) -> u64 {
        self.whole_groups(c)
    }

    fn is_written(&self, c: P::Core, outcome: Epoch, begun: u64) -> bool {
        self.is_written(c, outcome, begun)
    }

    fn wait_written_until(&self, c: P::Core, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        self.wait_written_until(c, outcome, deadline)
    }

    fn wait_durable_until(&self, c: P::Core, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        self.wait_durable_until(c, outcome, deadline)
    }

    fn let_snapshots_show(&self, c: P::Core, deadline: Nanos) -> bool {
        self.let_snapshots_show(c, deadline)
    }

    fn loaded(&mut self, c: P::Core) -> Result<(), OutOfMemory> {
        self.loaded(c)
    }

    fn settle(&self, c: P::Core) {
        self.instance().settle(c);
    }

    fn memory_bytes(&self, c: P::Core) -> u64 {
        self.memory_bytes(c)
    }

    fn memory_use(&self, c: P::Core) -> MemoryUse {
        self.memory_use(c)
    }

    fn content(&self, c: P::Core) -> Content {
        self.instance().content(c)
    }

    fn log_used(&self, c: P::Core) -> Option<LogUse> {
        self.log_used(c)
    }

    fn epoch(&self, c: P::Core) -> Epoch {
        self.instance().epochs().current(c)
    }

    fn checkpoints(&self, c: P::Core) -> (u64, Result<(), LogError>) {
        self.checkpoints(c)
    }

    fn change_source(&self) -> Result<&dyn ChangeSource<P>, ChangesError> {
        Ok(self)
    }

    fn occupants(&self, c: P::Core, lines: &[Address]) -> Vec<Option<Occupant>> {
        self.occupants(c, lines)
    }

    fn inspect(
        &self,
        c: P::Core,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        visit: &mut dyn FnMut(&[u64], &[u8]),
    ) {
        self.instance().inspect(c, table, index, range, visit);
    }

    fn in_doubt(&self, c: P::Core) -> Vec<(PartOf, AnyPrepared<'_>)> {
        let any = |(part, prepared)| (part, any_prepared(prepared, self.instance()));
        self.in_doubt(c).into_iter().map(any).collect()
    }

    fn decisions(&self, c: P::Core) -> Vec<Decision> {
        self.decisions(c)
    }

    fn close(self: Box<Self>, c: P::Core) -> Result<(), LogError> {
        MemoryDatabase::close(*self, c)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

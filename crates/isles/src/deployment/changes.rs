//! Streams of the committed changes of one instance.

use crate::changes::{ChangeReader, Changes};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::position::{ChangePosition, ChangesFrom};

use super::{Deployment, Procedure};

impl<Q: Procedure> Deployment<Q> {
    fn instance(&self, instance: usize) -> Result<&Database> {
        self.instances.get(instance).ok_or(Error::Misuse("the deployment has no such instance"))
    }

    /// Opens a stream of the committed changes of one instance: see [`Database::changes`]. Each
    /// instance has a stream of its own, with positions of its own, and the streams of several
    /// instances have no common order. A procedure over several instances appears in the stream of
    /// each of them, with the changes that were made there.
    ///
    /// Errors: as [`Database::changes`]; [`Error::Misuse`] if there is no such instance.
    ///
    /// [`Changes`] has an example.
    pub fn changes(&self, instance: usize, from: impl Into<ChangesFrom>) -> Result<Changes> {
        self.instance(instance)?.changes(from)
    }

    /// Registers a reader of the changes of one instance: see [`Database::register_change_reader`].
    ///
    /// [`Changes`] has an example.
    pub fn register_change_reader(
        &self,
        instance: usize,
        name: &str,
        from: impl Into<ChangesFrom>,
    ) -> Result<ChangePosition> {
        self.instance(instance)?.register_change_reader(name, from)
    }

    /// Records the progress of a reader: see [`Database::acknowledge_changes`].
    ///
    /// [`Changes`] has an example.
    pub fn acknowledge_changes(&self, instance: usize, name: &str, position: ChangePosition) -> Result<()> {
        self.instance(instance)?.acknowledge_changes(name, position)
    }

    /// Forgets a reader: see [`Database::forget_change_reader`].
    ///
    /// [`Changes`] has an example.
    pub fn forget_change_reader(&self, instance: usize, name: &str) -> Result<bool> {
        self.instance(instance)?.forget_change_reader(name)
    }

    /// Returns the readers of one instance: see [`Database::change_readers`].
    ///
    /// [`Changes`] has an example.
    pub fn change_readers(&self, instance: usize) -> Result<Vec<ChangeReader>> {
        self.instance(instance)?.change_readers()
    }
}

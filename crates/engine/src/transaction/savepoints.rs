//! Savepoints of a transaction.

use boundary::Savepoint;
use concurrency::{Holder, Scheme};
use platform::Platform;
use terms::Abort;

use super::{Transaction, VERBS_PER_LOOK};

impl<P: Platform, S: Scheme<P>> Transaction<'_, '_, P, S> {
    /// As [`boundary::AnyVerbs::savepoint`].
    pub(crate) fn set_savepoint(&mut self) -> Result<Savepoint, Abort> {
        self.look()?;
        if self.scratch.savepoints.is_full(self.attempt) {
            return self
                .misuse("more than 1,048,576 savepoints at a time: release those that are not needed");
        }
        let (inner, _) = self.parts();
        let mark = S::set_savepoint(inner);
        Ok(self.scratch.savepoints.set(self.attempt, mark))
    }

    /// As [`boundary::AnyVerbs::roll_back_to`].
    pub(crate) fn return_to(&mut self, savepoint: Savepoint) -> Result<(), Abort> {
        if let Some(failed) = self.failed.as_ref().filter(|failed| !failed.ends_at_savepoint()) {
            return Err(failed.clone());
        }
        let Some(mark) = self.scratch.savepoints.return_to(self.attempt, savepoint) else {
            self.fail(&Abort::StaleSavepoint);
            return Err(Abort::StaleSavepoint);
        };
        let (inner, mut cx) = self.parts();
        S::roll_back_to(inner, &mut cx, mark);
        self.failed = None;
        self.until_look = VERBS_PER_LOOK;
        self.look()
    }

    /// As [`boundary::AnyVerbs::release`].
    pub(crate) fn release_savepoint(&mut self, savepoint: Savepoint) -> Result<(), Abort> {
        self.look()?;
        match self.scratch.savepoints.release(self.attempt, savepoint) {
            None => self.note(Err(Abort::StaleSavepoint)),
            Some(0) => {
                let (inner, mut cx) = self.parts();
                S::release_savepoints(inner, &mut cx);
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }
}

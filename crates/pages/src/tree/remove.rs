//! Removal of entries; leaves that become thin are [merged](super::merge) with others.
//!
//! Transactions lock the gap below a key, or below a fence between two leaves. A gap may be joined
//! with the one above only if no transaction depends on it by that name. The caller checks this
//! with the leaf latched, so that a transaction that locks the gap later notices that the leaf has
//! changed.

use platform::files::Files;

use super::Tree;
use super::descend::DescentTarget;
use crate::error::PagedError;
use crate::log::record::Takeback;
use crate::page::{Change, KeyPlace, THIN_FILL};
use crate::pool::{PoolWorker, Role};

impl Tree {
    /// Removes the ghost with this key, if there is one and `may_join` allows that the gap below a
    /// key is joined with the one above. Otherwise the ghost stays, which is harmless.
    pub(crate) fn remove_ghost<P: Files>(
        &self,
        worker: &mut PoolWorker<'_, P>,
        key: &[u64],
        may_join: &mut impl FnMut(&[u64]) -> bool,
    ) -> Result<(), PagedError> {
        let c = worker.c;
        loop {
            let way = self.descend(worker, DescentTarget::Key(key), 0)?;
            let page = way.at.page(self.width);
            let KeyPlace { entry: place, is_there } = page.find(c, key);
            let is_ghost = is_there && page.slot(c, place).is_ghost();
            if !way.at.validate(c) {
                continue;
            }
            if !is_ghost {
                return Ok(());
            }
            let Some(held) = way.at.latch(c) else { continue };
            if !may_join(key) {
                held.unchanged(c);
                return Ok(());
            }
            let (parts, change) = ([Role::Old(&held)], Change::Remove { key });
            let logged = worker.write_ahead(self.number, self.width, &parts, change, Takeback::None);
            if let Err(error) = logged {
                held.unchanged(c);
                return Err(error);
            }
            let page = held.page(self.width);
            let before = page.fill();
            page.remove(c, place);
            let after = page.fill();
            held.changed(c);
            if after < before && after <= THIN_FILL {
                self.merge(worker, key, may_join)?;
            }
            return Ok(());
        }
    }
}

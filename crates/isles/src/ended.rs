//! The verbs of a transaction object that was ended before its next call: none is left.

use boundary::{AnyVerbs, Direction, RowVisitor, Savepoint, Span};
use concurrency::NewRows;
use platform::{Intent, Work};
use schema::{Routes, RowId};

use terms::Abort;
use terms::rows::KeyBounds;

/// Refuses all verbs. The library reports the error that ended the transaction before it comes to
/// them.
pub(crate) struct EndedVerbs;

impl AnyVerbs for EndedVerbs {
    fn find(&mut self, _: usize, _: usize, _: &[u64], _: Intent) -> Result<Option<RowId>, Abort> {
        Err(Abort::Cancelled)
    }

    fn find_constant(&mut self, _: usize, _: usize, _: &[u64], _: u64) -> Result<Option<RowId>, Abort> {
        Err(Abort::Cancelled)
    }

    fn find_unvalidated(&mut self, _: usize, _: usize, _: &[u64]) -> Result<Option<RowId>, Abort> {
        Err(Abort::Cancelled)
    }

    fn find_prefetched(
        &mut self,
        _: usize,
        _: usize,
        _: &[u64],
        _: Intent,
        _: Option<Span>,
        _: &mut Vec<Option<RowId>>,
    ) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn prefetch_key(&mut self, _: usize, _: usize, _: &[u64]) {}

    fn is_told(&self) -> bool {
        false
    }

    fn prefetch(&mut self, _: RowId, _: Span, _: Intent) {}

    fn read(&mut self, _: RowId, _: Span, _: &mut [u64]) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn reads_apart(&self) -> bool {
        false
    }

    fn read_tail(&mut self, _: RowId, _: &mut Vec<u8>) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn write(&mut self, _: RowId, _: usize, _: &[u8]) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn write_tail(&mut self, _: RowId, _: &[u8]) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn insert(&mut self, _: usize, _: &[&[u64]], _: &[u8], _: &[u8]) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn insert_all(&mut self, _: usize, _: NewRows<'_>) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn insert_unindexed(&mut self, _: usize, _: &[&[u64]], _: &[u8], _: &[u8]) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn delete(&mut self, _: RowId, _: &[&[u64]]) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn replace(&mut self, _: RowId, _: &[&[u64]], _: &[&[u64]], _: &[u8], _: &[u8]) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn scan(
        &mut self,
        _: usize,
        _: usize,
        _: KeyBounds<'_>,
        _: Direction,
        _: Intent,
        _: &mut RowVisitor<'_>,
    ) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn savepoint(&mut self) -> Result<Savepoint, Abort> {
        Err(Abort::Cancelled)
    }

    fn roll_back_to(&mut self, _: Savepoint) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn release(&mut self, _: Savepoint) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn refuse(&mut self, _: &'static str) -> Result<(), Abort> {
        Err(Abort::Cancelled)
    }

    fn enlists(&self) -> bool {
        false
    }

    fn enlist(&mut self, _: &mut dyn FnMut(&mut Routes)) {}

    fn work(&mut self, _: Work, _: u32) {}
}

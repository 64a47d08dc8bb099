//! The rules of each scheme, one file a scheme, as small histories. `history` explains the
//! notation.
#![allow(missing_docs)]
// Results of workers are collected outside of the engine.
#![allow(clippy::disallowed_types)]

mod dl_detect;
mod history;
mod hstore;
mod mvcc;
mod no_wait;
mod occ;
mod silo;
mod sleeping;
mod tictoc;
mod wait_die;

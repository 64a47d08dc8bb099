//! Workers of a run, from the opening of the database to the end.

pub(crate) mod acknowledgements;
pub(crate) mod board;
pub(crate) mod loaded_with;
pub(crate) mod membership;
pub(crate) mod opening;
pub(crate) mod owned;
pub(crate) mod partitions;
pub(crate) mod preparation;
pub(crate) mod schedule;
pub(crate) mod summary;
pub(crate) mod upcoming;
pub(crate) mod worker;

//! The description of its tables that a directory keeps, as bytes.

mod constraints;
pub mod description;
pub mod undecided;
pub mod wire;

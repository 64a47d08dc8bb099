//! The description of its tables that a directory keeps, as bytes.

pub mod description;
pub mod wire;

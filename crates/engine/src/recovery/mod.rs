//! How a durable database begins and ends: [`opening`] brings a directory and a program together,
//! [`replay`] fills the tables, [`adoption`] locks the rows of parts in doubt.

mod adoption;
mod entries;
mod fillers;
mod opening;
mod replay;
mod rows;

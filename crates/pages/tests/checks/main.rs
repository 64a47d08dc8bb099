//! Databases of pages against models: alone and together, with pools that hold next to nothing.
#![allow(missing_docs)]
// Tests collect what workers saw, and damage files, behind the platform's back.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod damage;
mod examined;
mod files;
mod full_disk;
mod killed;
mod long_rows;
mod lost_files;
mod merges;
mod model;
mod parts;
mod read_ahead;
mod refused;
mod runs;
mod sleeping;
mod support;
mod together;

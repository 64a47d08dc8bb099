//! Described machines: a topology and the costs of its caches, links and memories.
//!
//! All numbers are facts about hardware, or follow from such facts by the rules at the head of
//! `data/machines.toml`; each has its confidence and source. No number comes from a database.

mod complete;
mod core;
mod estimate;
mod fact;
mod facts;
mod fill;
mod keys;
mod machines;
mod measured;
mod shape;
mod shipped;
mod tlbs;
mod translation;
mod value;
mod write;

use crate::topology::Topology;

pub use self::core::{CoreCost, CoreCosts};
pub use fact::{Confidence, Fact, FactMatrix};
pub use keys::DescriptionError;
pub(crate) use measured::median;
pub use measured::{CoreToCore, Measured, Measurements};
pub use translation::{PageSizes, TlbArrays, TlbLevel, TlbSize, Translation};
pub use value::{Access, AccessCosts, CacheFacts, Description, LineState, Network, Reach, SmtShare};

impl Description {
    /// Names of the descriptions that ship with Isles.
    pub fn names() -> &'static [&'static str] {
        &shipped::NAMES
    }

    /// A description that ships with Isles.
    pub fn shipped(name: &str) -> Option<Description> {
        let keys = keys::Keys::of(shipped::table(name)?);
        let facts = facts::read(&keys, name).expect("the shipped files are complete, as tests prove");
        Some(fill::fill(facts))
    }

    /// Reads a description file: hardware facts, which the rules complete, or, if it has a table
    /// `topology`, a complete file as written by [`Description::to_toml`].
    ///
    /// # Errors
    /// [`DescriptionError`]: no TOML, a missing or unknown key, a value or matrix that no machine
    /// can have.
    pub fn from_toml(text: &str) -> Result<Description, DescriptionError> {
        Self::from_toml_named(text, "described")
    }

    /// Like [`Description::from_toml`]; `name` is used if the file names no machine.
    pub(crate) fn from_toml_named(text: &str, name: &str) -> Result<Description, DescriptionError> {
        let table = keys::Keys::parse(text)?;
        if table.has("topology") {
            return complete::read(&table);
        }
        let facts = facts::read(&table, name)?;
        Ok(fill::fill(facts))
    }

    /// Describes a discovered machine with the usual costs of a machine of its shape. All latencies
    /// and bandwidths are estimates until the machine is measured.
    pub fn of_topology(topology: &Topology) -> Description {
        estimate::describe(topology, &Measurements::default())
    }

    /// Describes a machine by its measurements. Values that were not measured follow from the rules
    /// and are estimates.
    pub fn of_measurements(topology: &Topology, measured: &Measurements) -> Description {
        estimate::describe(topology, measured)
    }

    /// A complete description file, which [`Description::from_toml`] reads back to an equal
    /// description.
    pub fn to_toml(&self) -> String {
        write::write(self)
    }
}

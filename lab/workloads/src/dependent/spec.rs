//! Parameters of the dependent tables.

use super::placement::TablePlacement;

/// The workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependent {
    /// Number of sites, one a worker.
    pub sites: u16,
    /// Rows of each site in each table.
    pub rows_per_site: u32,
    /// Share of the transactions that may be of any site.
    pub multisite: f64,
    /// True if a transaction is one action: several instances divide the data among them, and send
    /// each other whole branches.
    pub divided: bool,
    /// The owners of partitions, where workers own them; `None`: they own none.
    pub placement: Option<TablePlacement>,
}

impl Dependent {
    /// Checks the parameters.
    ///
    /// # Errors
    /// The problem, in one line.
    pub fn validate(&self) -> Result<(), String> {
        if self.sites == 0 || self.rows_per_site == 0 {
            return Err("there is at least one site, and one row a site".to_owned());
        }
        if !(0.0..=1.0).contains(&self.multisite) {
            return Err(format!("multisite: {} is not a share, 0 to 1", self.multisite));
        }
        Ok(())
    }
}

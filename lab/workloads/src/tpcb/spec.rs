//! Parameters of TPC-B.

use terms::random::Random;

use crate::equal_instances::EqualInstances;

/// Tellers of a branch.
pub const TELLERS: u8 = 10;
/// Accounts of a branch at scale 1.
pub const ACCOUNTS: u32 = 100_000;
/// Largest amount of a deposit or a withdrawal.
pub(super) const DELTA_MAX: u64 = 999_999;

/// TPC-B.
#[derive(Clone, Debug, PartialEq)]
pub struct Tpcb {
    /// Number of branches.
    pub branches: u16,
    /// Percent of transactions whose account is of another branch, if there are several.
    pub remote_percent: f64,
    /// The instances, if the branch of a remote account is always in another instance.
    pub other_instances: Option<EqualInstances>,
    /// Accounts of a branch relative to the standard.
    pub scale: f64,
}

impl Tpcb {
    /// The standard's benchmark with this number of branches.
    pub fn new(branches: u16) -> Self {
        Tpcb { branches, remote_percent: 15.0, other_instances: None, scale: 1.0 }
    }

    /// Accounts of a branch, at least one.
    pub fn accounts(&self) -> u32 {
        ((f64::from(ACCOUNTS) * self.scale).round() as u32).max(1)
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// The problem, in one line.
    pub fn validate(&self) -> Result<(), String> {
        if self.branches == 0 {
            return Err("a bank has at least one branch".to_owned());
        }
        if !(0.0..=100.0).contains(&self.remote_percent) {
            return Err(format!("{} percent of transactions", self.remote_percent));
        }
        // Accounts are counted in 32 bits.
        if !(self.scale > 0.0 && self.scale <= 1_000.0) {
            return Err(format!("scale {} is not between 0 and 1000", self.scale));
        }
        Ok(())
    }

    /// The home branch of worker `worker`.
    pub(super) fn home(&self, worker: usize) -> u16 {
        (worker % usize::from(self.branches)) as u16 + 1
    }

    /// Draws a branch other than `b_id`.
    pub(super) fn other_branch(&self, random: &mut Random, b_id: u16) -> u16 {
        if let Some(instances) = self.other_instances {
            let own = u64::from(b_id) - 1;
            return instances.part_of_another(random, own, u64::from(self.branches)) as u16 + 1;
        }
        let other = random.between(1, u64::from(self.branches) - 1) as u16;
        if other >= b_id { other + 1 } else { other }
    }
}

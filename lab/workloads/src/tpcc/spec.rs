//! Parameters of TPC-C, and its cardinalities.

use std::fmt;
use std::str::FromStr;

use super::names::{UnknownName, named};
use super::remote::RemoteWarehouses;
use super::ways::Ways;
use crate::equal_instances::EqualInstances;
use terms::random::Random;

/// Districts of a warehouse.
pub const DISTRICTS: u8 = 10;
/// Most lines of an order.
pub const LINES_MAX: usize = 15;
/// Mean number of lines of an order: 5 to 15.
pub const LINES_MEAN: u64 = 10;
/// Different last names.
pub(super) const LAST_NAMES: u64 = 1000;

/// The shares of the transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// All five at the standard's minimum shares (clause 5.2.3): Payment 43 %, the three others 4 %
    /// each, NewOrder the rest.
    #[default]
    Full,
    /// Half NewOrder, half Payment.
    Narrow,
    /// Payment only.
    Payment,
    /// NewOrder only.
    NewOrder,
    /// OrderStatus only.
    OrderStatus,
    /// Delivery only.
    Delivery,
    /// StockLevel only.
    StockLevel,
}

impl Mix {
    /// All mixes.
    pub const ALL: [Mix; 7] = [
        Mix::Full,
        Mix::Narrow,
        Mix::Payment,
        Mix::NewOrder,
        Mix::OrderStatus,
        Mix::Delivery,
        Mix::StockLevel,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Full => "full",
            Mix::Narrow => "narrow",
            Mix::Payment => "payment",
            Mix::NewOrder => "new-order",
            Mix::OrderStatus => "order-status",
            Mix::Delivery => "delivery",
            Mix::StockLevel => "stock-level",
        }
    }

    /// Percent of NewOrder, Payment, OrderStatus, Delivery and StockLevel.
    pub fn shares(self) -> [u8; 5] {
        match self {
            Mix::Full => [45, 43, 4, 4, 4],
            Mix::Narrow => [50, 50, 0, 0, 0],
            Mix::NewOrder => [100, 0, 0, 0, 0],
            Mix::Payment => [0, 100, 0, 0, 0],
            Mix::OrderStatus => [0, 0, 100, 0, 0],
            Mix::Delivery => [0, 0, 0, 100, 0],
            Mix::StockLevel => [0, 0, 0, 0, 100],
        }
    }

    /// True if no transaction of the mix reads rows that another transaction has inserted.
    pub fn finds_no_insert(self) -> bool {
        matches!(self, Mix::Narrow | Mix::Payment | Mix::NewOrder)
    }

    /// Draws a kind of transaction: its number in [`KINDS`](super::KINDS).
    pub(super) fn draw(self, random: &mut Random) -> usize {
        let mut left = random.below(100);
        let shares = self.shares();
        for (kind, share) in shares.iter().enumerate() {
            match left.checked_sub(u64::from(*share)) {
                None => return kind,
                Some(rest) => left = rest,
            }
        }
        shares.len() - 1
    }
}

impl FromStr for Mix {
    type Err = UnknownName;
    fn from_str(given: &str) -> Result<Self, UnknownName> {
        named(given, &Mix::ALL, Mix::name)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// The size of a warehouse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullOrSmall {
    /// The standard's cardinalities: 100,000 items, 3,000 customers a district.
    #[default]
    Full,
    /// 10,000 items, 2,000 customers a district, and no transaction touches the long attributes:
    /// I_DATA, S_DATA, S_DIST_xx, C_DATA, a customer's address and phone. They keep their bytes in
    /// the rows, and are empty.
    Small,
}

impl FullOrSmall {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FullOrSmall::Full => "full",
            FullOrSmall::Small => "small",
        }
    }
}

impl FromStr for FullOrSmall {
    type Err = UnknownName;
    fn from_str(given: &str) -> Result<Self, UnknownName> {
        named(given, &[FullOrSmall::Full, FullOrSmall::Small], FullOrSmall::name)
    }
}

impl fmt::Display for FullOrSmall {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// Cardinalities: clause 1.2.1, scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Items, and stocks of a warehouse.
    pub items: u32,
    /// Customers of a district; also its initial orders and history rows.
    pub customers: u16,
    /// Initial orders of a district that are not delivered.
    pub new_orders: u16,
    /// True if the long attributes are in use.
    pub long_attributes: bool,
}

impl Sizes {
    /// Initial orders of a district that are delivered.
    pub fn delivered(self) -> u16 {
        self.customers - self.new_orders
    }
}

/// The workload and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Tpcc {
    /// Number of warehouses, at least 1.
    pub warehouses: u16,
    /// The shares of the transactions.
    pub mix: Mix,
    /// True if the mix may change later: then a column that any of the five transactions writes is
    /// not constant.
    pub mix_changes: bool,
    /// The size of a warehouse.
    pub schema: FullOrSmall,
    /// Factor on all cardinalities of a warehouse but its ten districts; 1 is the standard.
    pub scale: f64,
    /// Percent of payments by a customer of another warehouse; 15 in the standard.
    pub remote_payment_percent: f64,
    /// Percent of order lines supplied by another warehouse; 1 in the standard.
    pub remote_items_percent: f64,
    /// The instances, if a remote warehouse is always in another instance.
    pub other_instances: Option<EqualInstances>,
    /// The warehouses among which remote ones are drawn, if not among all.
    pub remote_warehouses: Option<RemoteWarehouses>,
    /// True if NewOrder and Payment insert rows.
    pub inserts: bool,
    /// Choices that the standard leaves open.
    pub ways: Ways,
}

impl Tpcc {
    /// The standard's workload over this many warehouses.
    pub fn new(warehouses: u16) -> Self {
        Tpcc {
            warehouses,
            mix: Mix::Full,
            mix_changes: false,
            schema: FullOrSmall::Full,
            scale: 1.0,
            remote_payment_percent: 15.0,
            remote_items_percent: 1.0,
            other_instances: None,
            remote_warehouses: None,
            inserts: true,
            ways: Ways::default(),
        }
    }

    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), String> {
        if self.warehouses == 0 {
            return Err("warehouses: expected 1 to 65535".to_string());
        }
        let customers = f64::from(self.base().customers) * self.scale;
        if !(10.0..=60_000.0).contains(&customers) {
            return Err(format!("scale: {} gives {customers} customers a district; 10 to 60000", self.scale));
        }
        if !self.ways.index_inserts && !self.mix.finds_no_insert() {
            return Err(format!("index-inserts: {} looks for inserted rows", self.mix));
        }
        for (name, percent) in
            [("remote-payment", self.remote_payment_percent), ("remote-items", self.remote_items_percent)]
        {
            if !(0.0..=100.0).contains(&percent) {
                return Err(format!("{name}: {percent} is not a percentage, 0 to 100"));
            }
        }
        Ok(())
    }

    fn base(&self) -> Sizes {
        match self.schema {
            FullOrSmall::Full => {
                Sizes { items: 100_000, customers: 3000, new_orders: 900, long_attributes: true }
            }
            FullOrSmall::Small => {
                Sizes { items: 10_000, customers: 2000, new_orders: 600, long_attributes: false }
            }
        }
    }

    /// Cardinalities of a warehouse.
    pub fn sizes(&self) -> Sizes {
        let base = self.base();
        // The conversion saturates; `validate` refuses values that would.
        let scaled = |count: f64| count * self.scale + 0.5;
        let customers = (scaled(f64::from(base.customers)) as u16).max(10);
        Sizes {
            items: (scaled(f64::from(base.items)) as u32).max(100),
            customers,
            new_orders: (u32::from(customers) * 3 / 10) as u16,
            long_attributes: base.long_attributes,
        }
    }

    /// W_ID of the home of worker `worker`.
    pub fn home(&self, worker: usize) -> u16 {
        (worker % usize::from(self.warehouses)) as u16 + 1
    }

    /// Draws a warehouse other than `w_id`, the home of `worker`; or `w_id` if it is the only one.
    pub(super) fn other_warehouse(&self, random: &mut Random, worker: usize, w_id: u16) -> u16 {
        if let Some(remote) = &self.remote_warehouses {
            return remote.draw(random, worker, w_id);
        }
        if let Some(instances) = self.other_instances {
            let own = u64::from(w_id) - 1;
            return instances.part_of_another(random, own, u64::from(self.warehouses)) as u16 + 1;
        }
        if self.warehouses == 1 {
            return w_id;
        }
        let other = random.between(1, u64::from(self.warehouses) - 1) as u16;
        if other >= w_id { other + 1 } else { other }
    }
}

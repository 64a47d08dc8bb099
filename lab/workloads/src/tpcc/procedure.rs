//! The five transactions as one procedure.

use boundary::{LookAhead, Plan, Procedure, Verbs};
use schema::Routes;
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::delivery::{self, Delivery};
use super::new_order::{self, NewOrder};
use super::order_status::{self, OrderStatus};
use super::payment::{self, Payment};
use super::spec::Mix;
use super::stock_level::{self, StockLevel};
use super::supply;
use super::tables::Tables;
use super::written::Written;

/// Columns that transactions of the mix write of rows that are neither inserted nor deleted.
pub(super) fn written(mix: Mix) -> Written {
    // In the order of `KINDS`; OrderStatus and StockLevel only read.
    let by_kind = [new_order::WRITTEN, payment::WRITTEN, Written::NONE, delivery::WRITTEN, Written::NONE];
    let running = by_kind.into_iter().zip(mix.shares()).filter(|(_, share)| *share > 0);
    running.fold(Written::NONE, |all, (one, _)| all.and(one))
}

/// One transaction: its input, and after it has run the output on its terminal.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "boxing would allocate for each transaction")]
pub enum Transaction {
    /// Clause 2.4.
    NewOrder(NewOrder),
    /// Clause 2.5.
    Payment(Payment),
    /// Clause 2.6.
    OrderStatus(OrderStatus),
    /// Clause 2.7.
    Delivery(Delivery),
    /// Clause 2.8.
    StockLevel(StockLevel),
}

/// One action. Each touches the partition of one warehouse, and item; routes name its hottest row
/// first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "boxing would allocate for each action")]
pub enum Action {
    /// NewOrder at the home warehouse: number, discount and taxes of the order.
    NewOrderHome(new_order::Home),
    /// NewOrder at one supplying warehouse.
    NewOrderSupply(supply::Supply),
    /// NewOrder at the home warehouse: inserts the order.
    NewOrderInsert(new_order::Insert),
    /// Payment at the home warehouse.
    PaymentHome(payment::Home),
    /// Payment at the customer's warehouse.
    PaymentCustomer(payment::Payer),
    /// Payment at the home warehouse: inserts the history.
    PaymentInsert(payment::Insert),
    /// All of OrderStatus.
    OrderStatus(order_status::Question),
    /// All of Delivery.
    Delivery(delivery::Batch),
    /// All of StockLevel.
    StockLevel(stock_level::Question),
}

macro_rules! actions {
    ($($action:ident = $content:ty),+ $(,)?) => {
        $(impl From<$content> for Action {
            #[inline]
            fn from(content: $content) -> Action {
                Action::$action(content)
            }
        })+
    };
}

actions! {
    NewOrderHome = new_order::Home,
    NewOrderSupply = supply::Supply,
    NewOrderInsert = new_order::Insert,
    PaymentHome = payment::Home,
    PaymentCustomer = payment::Payer,
    PaymentInsert = payment::Insert,
}

/// Result of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "boxing would allocate for each output")]
pub enum Output {
    /// An action that only writes has no result.
    Done,
    /// Result of [`Action::NewOrderHome`].
    NewOrderHome(new_order::HomeOutput),
    /// Result of [`Action::NewOrderSupply`].
    NewOrderSupply(supply::SupplyOutput),
    /// Result of [`Action::PaymentHome`].
    PaymentHome(payment::HomeOutput),
    /// Result of [`Action::PaymentCustomer`].
    PaymentCustomer(payment::PayerOutput),
    /// Result of [`Action::OrderStatus`].
    OrderStatus(order_status::Answer),
    /// Result of [`Action::Delivery`].
    Delivery(delivery::Delivered),
    /// Result of [`Action::StockLevel`].
    StockLevel(stock_level::Answer),
}

impl Transaction {
    /// Sets its date.
    #[inline]
    pub(super) fn begin(&mut self, now: u64) {
        match self {
            Transaction::NewOrder(transaction) => transaction.entry = now,
            Transaction::Payment(transaction) => transaction.date = now,
            Transaction::Delivery(transaction) => transaction.batch.date = now,
            Transaction::OrderStatus(_) | Transaction::StockLevel(_) => {}
        }
    }
}

impl Procedure for Transaction {
    type Tables = Tables;
    type Action = Action;
    type Output = Output;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        let only = match self {
            Transaction::NewOrder(transaction) => return transaction.plan(phase, actions),
            Transaction::Payment(transaction) => return transaction.plan(phase, actions),
            _ if phase > 0 => return Plan::Commit,
            Transaction::OrderStatus(transaction) => Action::OrderStatus(transaction.action()),
            Transaction::Delivery(transaction) => Action::Delivery(transaction.action()),
            Transaction::StockLevel(transaction) => Action::StockLevel(transaction.action()),
        };
        actions.push(only);
        Plan::Run
    }

    fn route(tables: &Tables, action: &Action, route: &mut Routes) {
        match action {
            Action::NewOrderHome(action) => action.route(tables, route),
            Action::NewOrderSupply(action) => action.route(tables, route),
            Action::NewOrderInsert(action) => action.route(tables, route),
            Action::PaymentHome(action) => action.route(tables, route),
            Action::PaymentCustomer(action) => action.route(tables, route),
            Action::PaymentInsert(action) => action.route(tables, route),
            Action::OrderStatus(action) => action.route(tables, route),
            Action::Delivery(action) => action.route(tables, route),
            Action::StockLevel(action) => action.route(tables, route),
        }
    }

    fn execute<T: Verbs>(tables: &Tables, action: &Action, transaction: &mut T) -> Result<Output, Abort> {
        match action {
            Action::NewOrderHome(action) => action.execute(tables, transaction).map(Output::NewOrderHome),
            Action::NewOrderSupply(action) => action.execute(tables, transaction).map(Output::NewOrderSupply),
            Action::NewOrderInsert(action) => action.execute(tables, transaction).map(|()| Output::Done),
            Action::PaymentHome(action) => action.execute(tables, transaction).map(Output::PaymentHome),
            Action::PaymentCustomer(action) => {
                action.execute(tables, transaction).map(Output::PaymentCustomer)
            }
            Action::PaymentInsert(action) => action.execute(tables, transaction).map(|()| Output::Done),
            Action::OrderStatus(action) => action.execute(tables, transaction).map(Output::OrderStatus),
            Action::Delivery(action) => action.execute(tables, transaction).map(Output::Delivery),
            Action::StockLevel(action) => action.execute(tables, transaction).map(Output::StockLevel),
        }
    }

    fn absorb(&mut self, _phase: usize, _action: usize, output: Output) {
        match (self, output) {
            (Transaction::NewOrder(transaction), Output::NewOrderHome(output)) => {
                transaction.absorb_home(output);
            }
            (Transaction::NewOrder(transaction), Output::NewOrderSupply(output)) => {
                transaction.absorb_supply(output);
            }
            (Transaction::Payment(transaction), Output::PaymentHome(output)) => {
                transaction.home = output;
            }
            (Transaction::Payment(transaction), Output::PaymentCustomer(output)) => {
                transaction.payer = output;
            }
            (Transaction::OrderStatus(transaction), Output::OrderStatus(output)) => {
                transaction.answer = output;
            }
            (Transaction::Delivery(transaction), Output::Delivery(output)) => {
                transaction.delivered = output;
            }
            (Transaction::StockLevel(transaction), Output::StockLevel(output)) => {
                transaction.answer = output;
            }
            (_, output) => debug_assert_eq!(output, Output::Done, "an output of another transaction"),
        }
    }

    #[inline]
    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        match self {
            Transaction::NewOrder(transaction) => {
                home(transaction.w_id);
                transaction.lines.iter().for_each(|line| home(line.supply_w_id));
            }
            Transaction::Payment(transaction) => {
                home(transaction.w_id);
                home(transaction.c_w_id);
            }
            Transaction::OrderStatus(transaction) => home(transaction.question.w_id),
            Transaction::Delivery(transaction) => home(transaction.batch.w_id),
            Transaction::StockLevel(transaction) => home(transaction.question.w_id),
        }
        true
    }

    #[inline]
    fn look_ahead<L: LookAhead>(&self, tables: &Tables, ahead: &mut L) {
        match self {
            Transaction::NewOrder(transaction) => transaction.look_ahead(tables, ahead),
            Transaction::Payment(transaction) => transaction.look_ahead(tables, ahead),
            Transaction::OrderStatus(transaction) => transaction.look_ahead(tables, ahead),
            // The rows that they touch depend on rows of the districts.
            Transaction::Delivery(_) | Transaction::StockLevel(_) => {}
        }
    }

    fn read_only(&self) -> bool {
        matches!(self, Transaction::OrderStatus(_) | Transaction::StockLevel(_))
    }
}

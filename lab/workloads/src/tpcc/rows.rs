//! The nine tables as rows (clause 1.3).
//!
//! Money is in cents, rates are in basis points, dates are nanoseconds of the platform's own time
//! with 0 for null, and a carrier of 0 is null. Identifiers have the smallest type that holds them,
//! so that every primary key fits 8 bytes. The columns that the frequent transactions touch come
//! first and next to each other: with a header of 8 bytes, rows of order_line and history fill one
//! cache line, and the first line of a row contains all columns of a customer that NewOrder reads,
//! and the counters of a stock.

use schema::{Row, Text, Value};
use serde::{Deserialize, Serialize};

/// Street, city, state and zip code.
#[derive(Value, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// First street line.
    pub street_1: Text<20>,
    /// Second street line.
    pub street_2: Text<20>,
    /// City.
    pub city: Text<20>,
    /// State.
    pub state: Text<2>,
    /// Zip code.
    pub zip: Text<9>,
}

/// The columns of a warehouse that Payment changes.
#[derive(Value, Clone, Copy, Debug, PartialEq)]
pub struct WarehouseTotals {
    /// W_YTD in cents.
    pub ytd: i64,
    /// Payments made here: not in the standard; part of the synthetic key of history.
    pub payments: u32,
}

/// WAREHOUSE.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(w_id))]
pub struct Warehouse {
    /// W_ID, from 1.
    pub w_id: u16,
    /// W_TAX in basis points.
    pub tax: u16,
    /// W_YTD and the number of payments.
    pub totals: WarehouseTotals,
    /// W_NAME.
    pub name: Text<10>,
    /// W_STREET_1 to W_ZIP.
    pub address: Address,
}

/// The columns of a district that NewOrder reads.
#[derive(Value, Clone, Copy, Debug, PartialEq)]
pub struct DistrictOrders {
    /// D_TAX in basis points.
    pub tax: u16,
    /// D_NEXT_O_ID.
    pub next_o_id: u32,
}

/// DISTRICT.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(w_id, d_id))]
pub struct District {
    /// D_W_ID.
    pub w_id: u16,
    /// D_ID, 1 to 10.
    pub d_id: u8,
    /// D_TAX and D_NEXT_O_ID.
    pub orders: DistrictOrders,
    /// D_YTD in cents.
    pub ytd: i64,
    /// D_NAME.
    pub name: Text<10>,
    /// D_STREET_1 to D_ZIP.
    pub address: Address,
}

/// A customer's discount and credit.
#[derive(Value, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CustomerTerms {
    /// C_DISCOUNT in basis points.
    pub discount: u16,
    /// C_CREDIT: `GC` or `BC`.
    pub credit: Text<2>,
}

/// The columns of a customer that Payment and Delivery change.
#[derive(Value, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CustomerAccount {
    /// C_BALANCE in cents.
    pub balance: i64,
    /// C_YTD_PAYMENT in cents.
    pub ytd_payment: i64,
    /// C_PAYMENT_CNT.
    pub payment_count: u32,
    /// C_DELIVERY_CNT.
    pub delivery_count: u32,
}

/// The columns of a customer that only the terminal of Payment shows.
#[derive(Value, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CustomerDetails {
    /// C_STREET_1 to C_ZIP.
    pub address: Address,
    /// C_PHONE.
    pub phone: Text<16>,
    /// C_SINCE.
    pub since: u64,
    /// C_CREDIT_LIM in cents.
    pub credit_limit: i64,
}

/// CUSTOMER.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(w_id, d_id, c_id), index(by_name(w_id, d_id, last, first)))]
pub struct Customer {
    /// C_W_ID.
    pub w_id: u16,
    /// C_D_ID.
    pub d_id: u8,
    /// C_ID, from 1.
    pub c_id: u16,
    /// C_DISCOUNT and C_CREDIT.
    pub terms: CustomerTerms,
    /// C_LAST.
    pub last: Text<16>,
    /// C_MIDDLE.
    pub middle: Text<2>,
    /// C_BALANCE and the counters.
    pub account: CustomerAccount,
    /// C_FIRST.
    pub first: Text<16>,
    /// Address, phone and the rest.
    pub details: CustomerDetails,
    /// C_DATA.
    pub data: Text<500>,
}

/// HISTORY. The standard gives it no key; this one is unique without a shared counter. The payment
/// takes `sequence` from the warehouse row, which it changes anyway, and workers with the same home
/// differ in `stream`, so that they append in different places.
#[derive(Row, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[row(key(w_id, stream, sequence))]
pub struct History {
    /// H_W_ID.
    pub w_id: u16,
    /// Number of the worker among those at home in this warehouse; [`Self::LOADED`] for the loader.
    pub stream: u16,
    /// Number of the payment.
    pub sequence: u32,
    /// H_DATE.
    pub date: u64,
    /// H_AMOUNT in cents.
    pub amount: i32,
    /// H_C_W_ID.
    pub c_w_id: u16,
    /// H_C_ID.
    pub c_id: u16,
    /// H_C_D_ID.
    pub c_d_id: u8,
    /// H_D_ID.
    pub d_id: u8,
    /// H_DATA.
    pub data: Text<24>,
}

impl History {
    /// The stream of rows that were loaded.
    pub const LOADED: u16 = u16::MAX;
}

/// NEW-ORDER.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(w_id, d_id, o_id))]
pub struct NewOrder {
    /// NO_W_ID.
    pub w_id: u16,
    /// NO_D_ID.
    pub d_id: u8,
    /// NO_O_ID.
    pub o_id: u32,
}

/// ORDER.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(w_id, d_id, o_id), index(by_customer(w_id, d_id, c_id)))]
pub struct Order {
    /// O_W_ID.
    pub w_id: u16,
    /// O_D_ID.
    pub d_id: u8,
    /// O_OL_CNT.
    pub line_count: u8,
    /// O_ID.
    pub o_id: u32,
    /// O_ENTRY_D.
    pub entry: u64,
    /// O_C_ID.
    pub c_id: u16,
    /// O_CARRIER_ID; 0 is null.
    pub carrier: u8,
    /// O_ALL_LOCAL.
    pub all_local: bool,
}

/// The columns of an order line that transactions read or change together.
#[derive(Value, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LineBody {
    /// OL_DELIVERY_D; 0 is null.
    pub delivery: u64,
    /// OL_AMOUNT in cents.
    pub amount: i32,
    /// OL_I_ID.
    pub i_id: u32,
    /// OL_SUPPLY_W_ID.
    pub supply_w_id: u16,
    /// OL_QUANTITY.
    pub quantity: u8,
}

/// ORDER-LINE.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(w_id, d_id, o_id, number))]
pub struct OrderLine {
    /// OL_W_ID.
    pub w_id: u16,
    /// OL_D_ID.
    pub d_id: u8,
    /// OL_NUMBER, from 1.
    pub number: u8,
    /// OL_O_ID.
    pub o_id: u32,
    /// OL_DELIVERY_D, OL_AMOUNT, OL_I_ID, OL_SUPPLY_W_ID and OL_QUANTITY.
    pub body: LineBody,
    /// OL_DIST_INFO.
    pub dist_info: Text<24>,
}

/// The columns of an item that the terminal of NewOrder shows.
#[derive(Value, Clone, Copy, Debug, PartialEq)]
pub struct ItemBody {
    /// I_PRICE in cents.
    pub price: i32,
    /// I_NAME.
    pub name: Text<24>,
}

/// ITEM.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(i_id))]
pub struct Item {
    /// I_ID, from 1.
    pub i_id: u32,
    /// I_PRICE and I_NAME.
    pub body: ItemBody,
    /// I_DATA.
    pub data: Text<50>,
    /// I_IM_ID.
    pub image: u16,
}

/// The columns of a stock that NewOrder changes.
#[derive(Value, Clone, Copy, Debug, PartialEq)]
pub struct StockLevels {
    /// S_QUANTITY.
    pub quantity: i32,
    /// S_YTD.
    pub ytd: u32,
    /// S_ORDER_CNT.
    pub order_count: u32,
    /// S_REMOTE_CNT.
    pub remote_count: u32,
}

/// STOCK.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(w_id, i_id))]
pub struct Stock {
    /// S_W_ID.
    pub w_id: u16,
    /// S_I_ID.
    pub i_id: u32,
    /// S_QUANTITY and the counters.
    pub levels: StockLevels,
    /// S_DATA.
    pub data: Text<50>,
    /// Padding: S_DIST_01 begins on a word, and can be copied word by word.
    pub unused: [u8; 6],
    /// S_DIST_01 to S_DIST_10.
    pub dist: [Text<24>; 10],
}

// The layouts that the head of the module describes.
const _: () = {
    assert!(<OrderLine as Row>::BYTES == 56 && <History as Row>::BYTES == 56);
    assert!(Customer::ACCOUNT.offset() + <CustomerAccount as Value>::BYTES <= 56);
    assert!(Stock::LEVELS.offset() + <StockLevels as Value>::BYTES <= 56);
};

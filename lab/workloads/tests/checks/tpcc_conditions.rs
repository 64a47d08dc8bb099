//! Each consistency condition detects its corruption.

use crate::model::Model;
use terms::random::Random;
use workloads::tpcc::rows::{Customer, District, NewOrder, Order, OrderLine, Warehouse};
use workloads::tpcc::{CONDITIONS, Tables, Tpcc};
use workloads::{Outcome, Workload};

/// Two warehouses after some thousand transactions.
fn prepared() -> (Tpcc, Model, Tables) {
    let tpcc = Tpcc { scale: 0.01, ..Tpcc::new(2) };
    let (mut model, tables) = Model::load(&tpcc, 1);
    let (mut random, mut shuffle) = (Random::new(2, 0), Random::new(3, 0));
    for number in 0..3000 {
        let mut transaction = tpcc.next(number % 2, &mut random, number as u64);
        model.run(&tables, &mut transaction, &mut shuffle);
    }
    (tpcc, model, tables)
}

/// Conditions that a corruption violates, and their messages.
fn violated(corruption: impl FnOnce(&mut Model, &Tables)) -> Vec<(usize, String)> {
    let (tpcc, mut model, tables) = prepared();
    corruption(&mut model, &tables);
    let checks = tpcc.check(&tables, &mut model, None).into_iter().zip(1..);
    let violated = checks.filter_map(|(check, condition)| {
        assert_eq!(check.name, CONDITIONS[condition - 1]);
        match check.result {
            Outcome::Ok => None,
            Outcome::NotApplicable(reason) => panic!("{}: {reason}", check.name),
            Outcome::Violated(message) => Some((condition, message)),
        }
    });
    violated.collect()
}

/// Asserts that the corruption violates exactly these conditions, and that the message of the first
/// contains these parts.
fn expect(conditions: &[usize], parts: &[&str], corruption: impl FnOnce(&mut Model, &Tables)) {
    let violated = violated(corruption);
    let numbers: Vec<_> = violated.iter().map(|(condition, _)| *condition).collect();
    assert_eq!(numbers, conditions, "{violated:?}");
    for part in parts {
        assert!(violated[0].1.contains(part), "{violated:?} lacks {part}");
    }
}

/// O_ID of the oldest undelivered order of district 2 of warehouse 1, which is the first one there.
fn oldest(model: &Model, tables: &Tables) -> u32 {
    let row = model.rows(tables.new_order).find(|row: &NewOrder| (row.w_id, row.d_id) == (1, 2));
    row.expect("there is an undelivered order").o_id
}

#[test]
fn nothing_is_wrong_without_corruption() {
    expect(&[], &[], |_, _| {});
}

#[test]
fn condition_1_warehouse_and_districts() {
    // The payment is missing only in the warehouse's total; history depends on that total, too.
    expect(&[1, 8], &["warehouse 2", "W_YTD is ", "the sum of D_YTD "], |model, tables| {
        model.corrupt(tables.warehouse, &2, |row: &mut Warehouse| row.totals.ytd -= 1);
    });
}

#[test]
fn condition_2_next_order() {
    expect(&[2], &["warehouse 1 district 3", "D_NEXT_O_ID - 1 is "], |model, tables| {
        model.corrupt(tables.district, &(1, 3), |row: &mut District| row.orders.next_o_id += 1);
    });
}

#[test]
fn condition_2_newest_new_order() {
    // The newest order counts as delivered, consistently but for the order.
    let found = violated(|model, tables| {
        let newest =
            model.rows(tables.new_order).filter(|row: &NewOrder| (row.w_id, row.d_id) == (1, 2)).last();
        let newest = newest.expect("there is an undelivered order");
        model.remove(tables.new_order, &(1, 2, newest.o_id));
    });
    assert!(found[0].0 == 2 && found[0].1.contains("the highest NO_O_ID"), "{found:?}");
}

#[test]
fn condition_3_new_orders_without_gaps() {
    expect(&[3, 5, 11], &["warehouse 1 district 2: NO_O_ID spans "], |model, tables| {
        let o_id = oldest(model, tables) + 1;
        model.remove(tables.new_order, &(1, 2, o_id));
    });
}

#[test]
fn condition_4_number_of_lines() {
    expect(&[4, 6], &["warehouse 1 district 1: the sum of O_OL_CNT is "], |model, tables| {
        model.corrupt(tables.order, &(1, 1, 1), |row: &mut Order| row.line_count += 1);
    });
}

#[test]
fn condition_5_undelivered_orders() {
    // Carrier, lines and customer count it as delivered, but it is still a new order.
    expect(
        &[5, 7],
        &["warehouse 1 district 2 order", "O_CARRIER_ID is 4, but NEW-ORDER has a row"],
        |model, tables| {
            let o_id = oldest(model, tables);
            model.corrupt(tables.order, &(1, 2, o_id), |row: &mut Order| row.carrier = 4);
        },
    );
}

#[test]
fn condition_6_lines_of_an_order() {
    // One line moves from an order to the next one: the district's sum is unchanged.
    expect(&[6], &["warehouse 1 district 1 order 1: O_OL_CNT is "], |model, tables| {
        let mut moved: OrderLine = model.rows(tables.order_line).next().expect("there are lines");
        model.remove(tables.order_line, &(1, 1, 1, 1));
        (moved.o_id, moved.number, moved.body.amount) = (2, 99, 0);
        model.add(tables.order_line, &moved);
    });
}

#[test]
fn condition_7_delivery_dates() {
    expect(
        &[7],
        &["warehouse 2 district 5 order 1 line 1: OL_DELIVERY_D is null, O_CARRIER_ID "],
        |model, tables| {
            // The loaded delivered lines cost nothing: no sum changes.
            model.corrupt(tables.order_line, &(2, 5, 1, 1), |row: &mut OrderLine| row.body.delivery = 0);
        },
    );
}

#[test]
fn condition_8_warehouse_and_history() {
    // Warehouse and districts agree with each other, but not with history.
    expect(&[8, 9], &["warehouse 1: W_YTD is ", "the sum of H_AMOUNT "], |model, tables| {
        model.corrupt(tables.warehouse, &1, |row: &mut Warehouse| row.totals.ytd += 500);
        model.corrupt(tables.district, &(1, 7), |row: &mut District| row.ytd += 500);
    });
}

#[test]
fn condition_9_district_and_history() {
    // Two districts' totals are exchanged in part: all sums over the warehouse are unchanged.
    expect(&[9], &["warehouse 2 district 1: D_YTD is "], |model, tables| {
        model.corrupt(tables.district, &(2, 1), |row: &mut District| row.ytd += 500);
        model.corrupt(tables.district, &(2, 2), |row: &mut District| row.ytd -= 500);
    });
}

#[test]
fn condition_10_balance_and_history() {
    // Balance and payments agree with each other and the deliveries, but not with history.
    expect(&[10], &["warehouse 1 district 4 customer 9: C_BALANCE is "], |model, tables| {
        model.corrupt(tables.customer, &(1, 4, 9), |row: &mut Customer| {
            row.account.balance -= 100;
            row.account.ytd_payment += 100;
        });
    });
}

#[test]
fn condition_11_orders_and_deliveries() {
    expect(&[11], &["warehouse 1 district 4", "counted by C_DELIVERY_CNT"], |model, tables| {
        model.corrupt(tables.customer, &(1, 4, 9), |row: &mut Customer| row.account.delivery_count += 1);
    });
}

#[test]
fn condition_12_balance_and_deliveries() {
    expect(
        &[12],
        &["warehouse 2 district 10 customer 30: C_BALANCE + C_YTD_PAYMENT is "],
        |model, tables| {
            model.corrupt(tables.customer, &(2, 10, 30), |row: &mut Customer| row.account.ytd_payment += 100);
        },
    );
}

//! TPC-C on the model: population, transactions and their results.

use std::collections::BTreeSet;

use crate::model::{End, Model};
use schema::Text;
use terms::random::Random;
use workloads::tpcc::rows::{Customer, District, NewOrder, Order, OrderLine};
use workloads::tpcc::{CONDITIONS, FullOrSmall, KINDS, Mix, Selection, Tables, Tpcc, Transaction};
use workloads::{Outcome, Workload};

/// 30 customers a district and 1,000 items, with much remote traffic.
fn small(warehouses: u16) -> Tpcc {
    Tpcc { scale: 0.01, remote_items_percent: 10.0, remote_payment_percent: 30.0, ..Tpcc::new(warehouses) }
}

/// Runs `count` transactions of alternating workers.
fn run(
    tpcc: &Tpcc,
    model: &mut Model,
    tables: &Tables,
    workers: usize,
    count: usize,
    mut see: impl FnMut(&mut Model, &Transaction, End),
) {
    let mut shuffle = Random::new(77, 0);
    let mut randoms: Vec<_> = (0..workers).map(|worker| Random::new(5, 1000 + worker as u64)).collect();
    for number in 0..count {
        let worker = number % workers;
        let mut transaction = tpcc.next(worker, &mut randoms[worker], number as u64);
        let end = model.run(tables, &mut transaction, &mut shuffle);
        see(model, &transaction, end);
    }
}

fn assert_consistent(tpcc: &Tpcc, tables: &Tables, model: &mut Model) {
    let checks = tpcc.check(tables, model, None);
    assert!(checks.iter().map(|check| check.name).eq(CONDITIONS));
    for check in checks {
        assert_eq!(check.result, Outcome::Ok, "{}", check.name);
    }
}

#[test]
fn the_population_has_the_standards_cardinalities() {
    let tpcc = small(2);
    let (mut model, tables) = Model::load(&tpcc, 1);
    assert_consistent(&tpcc, &tables, &mut model);
    assert_eq!(model.count(tables.warehouse), 2);
    assert_eq!(model.count(tables.district), 20);
    assert_eq!(model.count(tables.customer), 600);
    assert_eq!(model.count(tables.history), 600);
    assert_eq!(model.count(tables.order), 600);
    assert_eq!(model.count(tables.new_order), 180);
    assert_eq!(model.count(tables.item), 1000);
    assert_eq!(model.count(tables.stock), 2000);
    let lines = model.count(tables.order_line);
    assert!((5500..6500).contains(&lines), "{lines}");
    let announced: u64 = (0..tpcc.parts()).map(|part| tpcc.rows(part)).sum();
    let loaded = 2 + 20 + 600 * 3 + 180 + 1000 + 2000 + lines as u64;
    assert!(announced.abs_diff(loaded) < 600, "{announced} {loaded}");
    for row in model.rows(tables.warehouse) {
        assert_eq!((row.totals.ytd, row.tax <= 2000), (300_000, true));
    }
    let ids: BTreeSet<_> =
        model.rows(tables.order).map(|row: Order| (row.w_id, row.d_id, row.c_id)).collect();
    assert_eq!(ids.len(), 600, "each customer has one order");
    let full = Tpcc::new(1).sizes();
    assert_eq!((full.items, full.customers, full.new_orders, full.delivered()), (100_000, 3000, 900, 2100));
    let small = Tpcc { schema: FullOrSmall::Small, ..Tpcc::new(1) }.sizes();
    assert_eq!((small.items, small.customers), (10_000, 2000));
}

#[test]
fn loading_is_deterministic() {
    let tpcc = small(2);
    let images = [1, 1, 2].map(|seed| Model::load(&tpcc, seed).0.image());
    assert_eq!(images[0], images[1]);
    assert_ne!(images[0], images[2]);
}

#[test]
fn the_full_mix_keeps_all_conditions() {
    let tpcc = small(3);
    let (mut model, tables) = Model::load(&tpcc, 2);
    let mut kinds = [0u32; 5];
    let mut rollbacks = 0;
    // More workers than warehouses: some share one.
    run(&tpcc, &mut model, &tables, 7, 20_000, |_, transaction, end| {
        kinds[Tpcc::kind(transaction)] += 1;
        rollbacks += u32::from(end == End::RolledBack);
        assert_eq!(
            end == End::RolledBack,
            matches!(transaction, Transaction::NewOrder(order) if order.unused.is_some())
        );
    });
    for (kind, share) in Mix::Full.shares().iter().enumerate() {
        let expected = u32::from(*share) * 200;
        assert!(kinds[kind].abs_diff(expected) < 60 + expected / 20, "{}: {}", KINDS[kind], kinds[kind]);
    }
    assert!((60..125).contains(&rollbacks), "1 % of about 9,000: {rollbacks}");
    assert_consistent(&tpcc, &tables, &mut model);
}

#[test]
fn single_mixes_and_the_small_schema_keep_all_conditions() {
    for mix in Mix::ALL {
        let tpcc = Tpcc { mix, schema: FullOrSmall::Small, ..small(2) };
        let (mut model, tables) = Model::load(&tpcc, 3);
        run(&tpcc, &mut model, &tables, 2, 300, |_, transaction, _| {
            assert!(mix.shares()[Tpcc::kind(transaction)] > 0);
        });
        assert_consistent(&tpcc, &tables, &mut model);
        assert!(model.rows(tables.customer).all(|row: Customer| row.data == Text::default()), "not touched");
        assert_eq!(mix.name().parse(), Ok(mix));
    }
    assert!("fast".parse::<Mix>().unwrap_err().to_string().contains("order-status"));
}

#[test]
fn without_inserts_four_conditions_do_not_apply() {
    let tpcc = Tpcc { inserts: false, ..small(2) };
    let (mut model, tables) = Model::load(&tpcc, 4);
    let before = model.count(tables.order_line) + model.count(tables.history);
    run(&tpcc, &mut model, &tables, 2, 3000, |_, _, _| {});
    assert_eq!(model.count(tables.order_line) + model.count(tables.history), before);
    for (check, condition) in tpcc.check(&tables, &mut model, None).iter().zip(1..) {
        let expected = match condition {
            2 | 8 | 9 | 10 => Outcome::NotApplicable("inserts are off".to_string()),
            _ => Outcome::Ok,
        };
        assert_eq!(check.result, expected, "{}", check.name);
    }
}

#[test]
fn a_rollback_leaves_nothing() {
    let tpcc = Tpcc { mix: Mix::NewOrder, ..small(2) };
    let (mut model, tables) = Model::load(&tpcc, 5);
    let mut before = model.image();
    let mut seen = 0;
    run(&tpcc, &mut model, &tables, 2, 400, |model, _, end| {
        let after = model.image();
        assert_eq!(end == End::RolledBack, before == after);
        seen += usize::from(end == End::RolledBack);
        before = after;
    });
    assert!(seen > 0);
}

#[test]
fn new_order_does_what_its_profile_says() {
    let tpcc = Tpcc { mix: Mix::NewOrder, ..small(2) };
    let (mut model, tables) = Model::load(&tpcc, 6);
    let mut stocks: Vec<_> = model.rows(tables.stock).collect();
    let (mut remote, mut brands, mut twice) = (0, 0, 0);
    run(&tpcc, &mut model, &tables, 2, 1000, |model, transaction, end| {
        let Transaction::NewOrder(order) = transaction else { panic!("a NewOrder") };
        if end == End::RolledBack {
            return;
        }
        let distinct: BTreeSet<_> = order.lines.iter().map(|line| (line.supply_w_id, line.i_id)).collect();
        twice += usize::from(distinct.len() < order.lines.len());
        let row: Order = model
            .rows(tables.order)
            .find(|row: &Order| (row.w_id, row.d_id, row.o_id) == (order.w_id, order.d_id, order.home.o_id))
            .expect("the order is there");
        assert_eq!((row.c_id, usize::from(row.line_count), row.carrier), (order.c_id, order.lines.len(), 0));
        assert_eq!(row.all_local, order.lines.iter().all(|line| line.supply_w_id == order.w_id));
        let mut sum = 0;
        for line in order.lines.iter() {
            let shown = order.shown.iter().find(|shown| shown.number == line.number).expect("a result");
            let stock = stocks
                .iter_mut()
                .find(|stock| (stock.w_id, stock.i_id) == (line.supply_w_id, line.i_id))
                .expect("the stock is there");
            let levels = &mut stock.levels;
            let quantity = i32::from(line.quantity);
            let refill = if levels.quantity >= quantity + 10 { 0 } else { 91 };
            levels.quantity += refill - quantity;
            levels.ytd += u32::from(line.quantity);
            levels.order_count += 1;
            levels.remote_count += u32::from(line.supply_w_id != order.w_id);
            remote += usize::from(line.supply_w_id != order.w_id);
            let item = model.rows(tables.item).nth(line.i_id as usize - 1).expect("the item is there");
            assert_eq!((shown.price, shown.name), (item.body.price, item.body.name));
            assert_eq!(shown.dist_info, stock.dist[usize::from(order.d_id) - 1]);
            let original = |text: &Text<50>| text.as_str().contains("ORIGINAL");
            assert_eq!(shown.brand, original(&item.data) && original(&stock.data));
            brands += usize::from(shown.brand);
            assert_eq!(shown.amount, quantity * item.body.price);
            sum += i64::from(shown.amount);
        }
        let home = &order.home;
        let exact = sum as f64
            * (1.0 - f64::from(home.terms.discount) / 1e4)
            * (1.0 + f64::from(home.w_tax) / 1e4 + f64::from(home.d_tax) / 1e4);
        assert!((order.total as f64 - exact).abs() <= 0.51, "{} {exact}", order.total);
    });
    let after: Vec<_> = model.rows(tables.stock).collect();
    assert_eq!(after, stocks);
    assert!(remote > 500 && brands > 10 && twice > 10, "{remote} {brands} {twice}");
}

#[test]
fn orders_follow_the_distributions_of_the_standard() {
    let tpcc = Tpcc { mix: Mix::NewOrder, ..Tpcc::new(4) };
    let mut random = Random::new(9, 0);
    let (mut orders, mut lines, mut remote, mut unused) = (0u32, 0u32, 0u32, 0u32);
    for _ in 0..50_000 {
        let Transaction::NewOrder(order) = tpcc.next(5, &mut random, 0) else { panic!("a NewOrder") };
        assert_eq!(order.w_id, 2);
        orders += 1;
        lines += order.lines.len() as u32;
        remote += order.lines.iter().filter(|line| line.supply_w_id != 2).count() as u32;
        unused += u32::from(order.lines.iter().any(|line| line.i_id > 100_000));
        assert!(order.lines.iter().all(|line| (1..=4).contains(&line.supply_w_id)));
    }
    assert!(lines.abs_diff(orders * 10) < orders / 10, "{lines}");
    assert!(remote.abs_diff(orders / 10) < orders / 100, "1 % of the lines: {remote}");
    assert!(unused.abs_diff(orders / 100) < orders / 800, "1 % of the orders: {unused}");
}

#[test]
fn payments_follow_the_distributions_of_the_standard() {
    let tpcc = Tpcc { mix: Mix::Payment, ..Tpcc::new(4) };
    let mut random = Random::new(9, 0);
    let (mut by_name, mut remote) = (0u32, 0u32);
    for _ in 0..50_000 {
        let Transaction::Payment(payment) = tpcc.next(0, &mut random, 0) else { panic!("a Payment") };
        by_name += u32::from(matches!(payment.customer, Selection::LastName(_)));
        remote += u32::from(payment.c_w_id != payment.w_id);
        assert!((100..=500_000).contains(&payment.amount) && (1..=4).contains(&payment.c_w_id));
    }
    assert!(by_name.abs_diff(30_000) < 600, "60 % by last name: {by_name}");
    assert!(remote.abs_diff(7500) < 400, "15 % remote: {remote}");
}

#[test]
fn payment_does_what_its_profile_says() {
    // 2,000 customers a district: names are not unique.
    let tpcc = Tpcc { mix: Mix::Payment, scale: 0.66, schema: FullOrSmall::Full, ..Tpcc::new(1) };
    let (mut model, tables) = Model::load(&tpcc, 7);
    let mut customers: Vec<Customer> = model.rows(tables.customer).collect();
    let mut bad = 0;
    run(&tpcc, &mut model, &tables, 1, 500, |_, transaction, _| {
        let Transaction::Payment(payment) = transaction else { panic!("a Payment") };
        if let Selection::LastName(last) = payment.customer {
            let mut same: Vec<_> =
                customers.iter().filter(|row| row.d_id == payment.c_d_id && row.last == last).collect();
            same.sort_by_key(|row| row.first);
            assert_eq!(payment.payer.c_id, same[same.len().div_ceil(2) - 1].c_id);
        }
        let row = customers
            .iter_mut()
            .find(|row| (row.d_id, row.c_id) == (payment.c_d_id, payment.payer.c_id))
            .expect("the customer is there");
        row.account.balance -= i64::from(payment.amount);
        row.account.ytd_payment += i64::from(payment.amount);
        row.account.payment_count += 1;
        if row.terms.credit.as_str() == "BC" {
            let (whole, cents) = (payment.amount / 100, payment.amount % 100);
            let (c_id, c_d_id, d_id) = (row.c_id, row.d_id, payment.d_id);
            let text = format!("{c_id} {c_d_id} 1 {d_id} 1 {whole}.{cents:02} {}", row.data.as_str());
            row.data = Text::truncated(&text);
            assert_eq!(payment.payer.data.expect("shown").as_str(), &row.data.as_str()[..200]);
            bad += 1;
        } else {
            assert_eq!(payment.payer.data, None);
        }
        assert_eq!((payment.payer.account, payment.payer.details), (row.account, row.details));
    });
    assert!(bad > 20);
    assert!(model.rows(tables.customer).eq(customers));
    let receipt = model.rows(tables.history).next().expect("payments come before what was loaded");
    let names = receipt.data.as_str().split("    ").count();
    assert_eq!((receipt.stream, receipt.sequence, names), (0, 1, 2));
    assert_consistent(&tpcc, &tables, &mut model);
}

#[test]
fn readers_see_what_is_there() {
    let tpcc = small(2);
    let (mut model, tables) = Model::load(&tpcc, 8);
    let mut seen = [0; 2];
    run(&tpcc, &mut model, &tables, 2, 3000, |model, transaction, _| match transaction {
        Transaction::OrderStatus(status) => {
            let (question, answer) = (status.question, &status.answer);
            let order = answer.order.as_ref().expect("each customer has an order");
            let newest = model
                .rows(tables.order)
                .filter(|row: &Order| {
                    (row.w_id, row.d_id, row.c_id) == (question.w_id, question.d_id, answer.c_id)
                })
                .max_by_key(|row| row.o_id)
                .expect("each customer has an order");
            assert_eq!((order.o_id, order.carrier, order.entry), (newest.o_id, newest.carrier, newest.entry));
            assert_eq!(order.lines.len(), usize::from(newest.line_count));
            seen[0] += 1;
        }
        Transaction::StockLevel(level) => {
            let question = level.question;
            let place = (question.w_id, question.d_id);
            let district: District = model
                .rows(tables.district)
                .find(|row: &District| (row.w_id, row.d_id) == place)
                .expect("there");
            let next = district.orders.next_o_id;
            let items: BTreeSet<_> = model
                .rows(tables.order_line)
                .filter(|row: &OrderLine| {
                    (row.w_id, row.d_id) == place && row.o_id < next && row.o_id + 20 >= next
                })
                .map(|row| row.body.i_id)
                .collect();
            let low = model
                .rows(tables.stock)
                .filter(|stock| stock.w_id == question.w_id && items.contains(&stock.i_id))
                .filter(|stock| stock.levels.quantity < question.threshold);
            assert_eq!((level.answer.items as usize, level.answer.low as usize), (items.len(), low.count()));
            seen[1] += 1;
        }
        _ => {}
    });
    assert!(seen.iter().all(|count| *count > 80), "{seen:?}");
}

#[test]
fn delivery_takes_the_oldest_orders_until_none_is_left() {
    let tpcc = Tpcc { mix: Mix::Delivery, ..small(1) };
    let (mut model, tables) = Model::load(&tpcc, 9);
    let mut expected = 22;
    run(&tpcc, &mut model, &tables, 1, 11, |model, transaction, _| {
        let Transaction::Delivery(delivery) = transaction else { panic!("a Delivery") };
        let count = if expected <= 30 { 10 } else { 0 };
        assert_eq!(delivery.delivered.len(), count);
        for order in delivery.delivered.iter() {
            assert_eq!(order.o_id, expected);
            let lines = model.rows(tables.order_line).filter(|line: &OrderLine| {
                (line.d_id, line.o_id) == (order.d_id, order.o_id)
                    && line.body.delivery == delivery.batch.date
            });
            assert_eq!(lines.map(|line| i64::from(line.body.amount)).sum::<i64>(), order.amount);
        }
        assert!(model.rows(tables.new_order).all(|row: NewOrder| row.o_id > expected));
        expected += 1;
    });
    assert_eq!(model.count(tables.new_order), 0);
    assert_consistent(&tpcc, &tables, &mut model);
}

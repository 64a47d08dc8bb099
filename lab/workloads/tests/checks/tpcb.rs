//! TPC-B on the model and on the real engine; each check detects its corruption.

use concurrency::SchemeName;
use platform::Hardware;
use terms::random::Random;
use workloads::Workload;
use workloads::tpcb::rows::{Account, Branch, History, Teller};
use workloads::tpcb::{CHECKS, Tables, Tpcb, Transaction};

use crate::model::{End, Model};
use crate::support::{Load, assert_violated, run};

const TRANSACTIONS: u64 = 400;

/// Three branches of 20 accounts.
fn small() -> Tpcb {
    Tpcb { scale: 0.0002, remote_percent: 30.0, ..Tpcb::new(3) }
}

/// The bank after some transactions, and the sum of their amounts on accounts of other branches.
fn prepared() -> (Tpcb, Model, Tables, i64) {
    let tpcb = small();
    let (mut model, tables) = Model::load(&tpcb, 1);
    let (mut random, mut shuffle) = (Random::new(2, 0), Random::new(3, 0));
    let mut remote = 0;
    for number in 0..TRANSACTIONS {
        let mut transaction = tpcb.next(number as usize % 4, &mut random, number);
        assert_eq!(model.run(&tables, &mut transaction, &mut shuffle), End::Committed);
        let Transaction { b_id, a_b_id, a_id, delta, balance, .. } = transaction;
        remote += i64::from(delta) * i64::from(b_id != a_b_id);
        let account = model.rows(tables.account).find(|row: &Account| (row.b_id, row.a_id) == (a_b_id, a_id));
        assert_eq!(account.expect("it exists").balance, balance, "what the customer is told");
    }
    (tpcb, model, tables, remote)
}

/// Asserts that exactly these checks find the corruption, and that the message of the first
/// contains this.
fn expect(names: &[&str], says: &str, corruption: impl FnOnce(&mut Model, &Tables)) {
    let (tpcb, mut model, tables, _) = prepared();
    corruption(&mut model, &tables);
    let checks = tpcb.check(&tables, &mut model, Some(&[TRANSACTIONS - 100, 100]));
    assert!(checks.iter().map(|check| check.name).eq(CHECKS));
    assert_violated(&checks, names, says);
}

#[test]
fn money_is_neither_made_nor_lost() {
    let (tpcb, model, tables, remote) = prepared();
    assert_eq!((model.count(tables.branch), model.count(tables.teller)), (3, 30));
    assert_eq!((model.count(tables.account), model.count(tables.history)), (60, TRANSACTIONS as usize));
    assert_eq!((0..3).map(|part| tpcb.rows(part)).sum::<u64>(), 93);
    assert_ne!(remote, 0);
    let branches: i64 = model.rows(tables.branch).map(|row: Branch| row.totals.balance).sum();
    let accounts: i64 = model.rows(tables.account).map(|row: Account| row.balance).sum();
    assert!(branches == accounts && branches != 0);
    expect(&[], "", |_, _| {});
}

#[test]
fn checks_notice_corruption() {
    expect(&["tpcb_tellers"], "branch 2 has ", |model, tables| {
        model.corrupt(tables.branch, &2, |row: &mut Branch| row.totals.balance += 1);
    });
    expect(&["tpcb_tellers"], "branch 3 has ", |model, tables| {
        model.corrupt(tables.teller, &(3, 7), |row: &mut Teller| row.balance -= 1);
    });
    expect(&["tpcb_accounts"], "the accounts of branch 1 have ", |model, tables| {
        model.corrupt(tables.account, &(1, 5), |row: &mut Account| row.balance += 1);
    });
    expect(
        &["tpcb_rows", "tpcb_accounts"],
        "branch 1 has [1, 10, 19] rows where [1, 10, 20]",
        |model, tables| {
            model.remove(tables.account, &(1, 5));
        },
    );
}

#[test]
fn history_has_every_transaction() {
    // A transaction without a history row, or with two.
    let first = |model: &Model, tables: &Tables| {
        model.rows(tables.history).find(|row: &History| row.delta != 0).expect("there is one")
    };
    expect(&["tpcb_tellers", "tpcb_accounts", "tpcb_history"], "and history says", |model, tables| {
        let History { b_id, stream, sequence, .. } = first(model, tables);
        model.remove(tables.history, &(b_id, stream, sequence));
    });
    expect(&["tpcb_tellers", "tpcb_accounts", "tpcb_history"], "and history says", |model, tables| {
        let row = first(model, tables);
        model.add(tables.history, &History { sequence: 1 << 20, ..row });
    });
    expect(&["tpcb_accounts", "tpcb_history"], "the accounts of branch", |model, tables| {
        let History { b_id, stream, sequence, .. } = first(model, tables);
        let key = (b_id, stream, sequence);
        model.corrupt(tables.history, &key, |row: &mut History| row.a_b_id = 9);
    });
    // One transaction too many, consistently in all rows.
    let (tpcb, mut model, tables, _) = prepared();
    let checks = tpcb.check(&tables, &mut model, Some(&[TRANSACTIONS, 1]));
    assert_eq!(checks[3].result.to_string(), "400 rows of history where 401 transactions were committed");
}

#[test]
fn every_scheme_keeps_the_books() {
    let load = Load { workers: 2, transactions: 500, seed: 7 };
    for scheme in SchemeName::ALL {
        let is_remote = |procedure: &Transaction| u64::from(procedure.a_b_id != procedure.b_id);
        let ran = run::<Hardware, _>(Hardware::core(), scheme, small(), &load, is_remote, |_, _| ());
        ran.assert_consistent();
        assert_eq!(ran.committed, [1000 - ran.counted, ran.counted]);
        assert!((200..400).contains(&ran.counted), "{}", ran.counted);
    }
}

#[test]
fn wrong_parameters_are_refused() {
    let refused = |tpcb: Tpcb| tpcb.validate().expect_err("refused");
    assert_eq!(refused(Tpcb::new(0)), "a bank has at least one branch");
    assert!(refused(Tpcb { remote_percent: 101.0, ..Tpcb::new(1) }).contains("101 percent"));
    assert!(refused(Tpcb { scale: f64::NAN, ..Tpcb::new(1) }).contains("scale NaN"));
    assert_eq!(Tpcb { scale: 1e-9, ..Tpcb::new(1) }.accounts(), 1);
}

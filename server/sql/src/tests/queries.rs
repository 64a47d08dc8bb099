//! Queries and cursors.

use super::{Client, engine};

#[test]
fn functions_of_several_rows_stand_in_the_list() {
    let engine = engine(None);
    let mut client = Client::new(&engine);
    client.must("create table t (id int primary key, l int[]); insert into t values (1, '{5,6}'), (2, '{}')");
    assert_eq!(client.rows("select generate_series(1, 3)"), ["1", "2", "3"]);
    assert_eq!(client.rows("select generate_series(1, 3) * 2 as twice where true"), ["2", "4", "6"]);
    assert_eq!(client.rows("select id, unnest(l) from t order by 2 desc"), ["1|6", "1|5"]);
    assert_eq!(
        client.rows(
            "select id, (information_schema._pg_expandarray(l)).n,
                    (information_schema._pg_expandarray(l)).x from t order by n"
        ),
        ["1|1|5", "1|2|6"]
    );
    assert_eq!(client.run("insert into t select generate_series(3, 5)"), ["INSERT 0 3"]);
    // Different calls walk side by side.
    assert_eq!(client.rows("select generate_series(1, 2), generate_series(5, 7)"), ["1|5", "2|6", "null|7"]);
    assert_eq!(
        client.rows("select id, unnest(l) as v, generate_subscripts(l, 1) as n from t where id = 1"),
        ["1|5|1", "1|6|2"]
    );
    assert_eq!(client.run("select count(*), generate_series(1, 2) from t group by id"), ["! 0A000"]);
}

#[test]
fn cursors_move() {
    let engine = engine(None);
    let mut client = Client::new(&engine);
    client.must("begin; declare c cursor for select generate_series(1, 9)");
    assert_eq!(client.run("move 2 from c"), ["MOVE 2"]);
    assert_eq!(client.run("fetch c"), ["3", "FETCH 1"]);
    assert_eq!(client.run("move forward 3 in c; fetch next from c"), ["MOVE 3", "7", "FETCH 1"]);
    assert_eq!(client.run("move all in c; fetch c"), ["MOVE 2", "FETCH 0"]);
    assert_eq!(client.run("fetch c into move"), ["! 42601"]);
}

#[test]
fn a_sleep_takes_its_time_and_returns_a_row() {
    let engine = engine(None);
    let mut client = Client::new(&engine);
    let began = std::time::Instant::now();
    assert_eq!(client.run("select pg_sleep(0.05)"), ["", "SELECT 1"]);
    assert!(began.elapsed() >= std::time::Duration::from_millis(50));
    assert_eq!(client.run("set statement_timeout = '1ms'"), ["SET"]);
}

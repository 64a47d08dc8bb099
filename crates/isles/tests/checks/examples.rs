//! The examples run, and their assertions hold.

#[path = "../../examples/bank.rs"]
mod bank;
#[path = "../../examples/cache.rs"]
mod cache;
#[path = "../../examples/hot_row.rs"]
mod hot_row;
#[path = "../../examples/inventory.rs"]
mod inventory;
#[path = "../../examples/long_reader.rs"]
mod long_reader;
#[path = "../../examples/migrations.rs"]
mod migrations;
#[path = "../../examples/queue.rs"]
mod queue;
#[path = "../../examples/series.rs"]
mod series;
#[path = "../../examples/server.rs"]
mod server;
#[path = "../../examples/sessions.rs"]
mod sessions;
#[path = "../../examples/web.rs"]
mod web;

use hot_row::Report;

/// Schemes that keep state of their own for each session.
const SCHEMES: [isles::Scheme; 4] =
    [isles::Scheme::Silo, isles::Scheme::NoWait, isles::Scheme::Mvcc, isles::Scheme::DlDetect];

#[test]
fn sessions_that_wait_for_a_hot_row_do_not_conflict() {
    let hour = std::time::Duration::from_secs(3_600);
    let waiting = hot_row::run(isles::Scheme::DlDetect, Some(hour), 400).expect("all commit");
    assert_eq!(waiting.conflicts, 0, "{waiting:?}");
    let refused = hot_row::run(isles::Scheme::NoWait, None, 400).expect("all commit in the end");
    assert!(waiting.longest >= waiting.median && refused.longest >= refused.median);
    for Report { waited, median_wait, longest, .. } in [waiting, refused] {
        assert!(waited == 0 || (hot_row::WAITED < median_wait && median_wait <= longest));
    }
    println!("waiting {waiting:?}, refused {refused:?}");
}

#[test]
fn who_reads_a_table_commits_beside_those_who_change_it() {
    for scheme in [isles::Scheme::Silo, isles::Scheme::Mvcc] {
        let read = long_reader::run(scheme, 20_000, 3).expect("each reader commits");
        assert_eq!(read.attempts.len(), 3);
        println!("{scheme:?}: {read:?}");
    }
}

#[test]
fn bank_runs() {
    bank::run().expect("the bank");
}

#[test]
fn cache_runs() {
    cache::run().expect("the cache");
}

#[test]
fn series_runs() {
    series::run().expect("the series");
}

#[test]
fn migrations_run() {
    migrations::run().expect("all versions");
}

#[test]
fn queue_runs() {
    queue::run().expect("the queue");
}

#[test]
fn inventory_runs() {
    inventory::run().expect("the inventory");
}

#[test]
fn server_runs() {
    server::run().expect("the server");
}

#[test]
fn the_web_service_loses_nothing() {
    web::run().expect("the web service");
}

#[test]
fn a_client_of_the_server_receives_its_own_reply() {
    use server::Reply;
    let (sender, receiver) = std::sync::mpsc::channel();
    let failed = || Reply::Failed(isles::Error::RollBack);
    for reply in
        [(1, failed()), (2, Reply::Done), (3, Reply::Continues), (4, Reply::Continues), (4, failed())]
    {
        sender.send(reply).expect("the receiver exists");
    }
    assert!(server::continues(&receiver, 3), "another's failure is not this client's");
    assert!(server::continues(&receiver, 4));
    assert!(!server::continues(&receiver, 4));
    drop(sender);
    assert!(!server::continues(&receiver, 5), "the server has gone");
}

#[test]
fn ten_thousand_sessions_are_open_at_once() {
    for scheme in SCHEMES {
        sessions::run(scheme).expect("ten thousand sessions");
    }
}

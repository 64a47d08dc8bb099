//! Events that reach a subscriber of `tracing`, and figures that reach a recorder of `metrics`.
// What a program gives these crates.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use isles::{Database, record_metrics, trace_event};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

use crate::common::Directory;

#[derive(Clone, Default)]
struct Figures(Arc<Mutex<BTreeMap<String, f64>>>);

struct Figure {
    name: String,
    all: Figures,
}

impl Figure {
    fn set(&self, value: f64) {
        self.all.0.lock().expect("no test has failed").insert(self.name.clone(), value);
    }
}

impl CounterFn for Figure {
    fn increment(&self, _: u64) {
        panic!("statistics are totals");
    }
    fn absolute(&self, value: u64) {
        self.set(value as f64);
    }
}

impl GaugeFn for Figure {
    fn increment(&self, _: f64) {
        panic!("statistics are totals");
    }
    fn decrement(&self, _: f64) {
        panic!("statistics are totals");
    }
    fn set(&self, value: f64) {
        Figure::set(self, value);
    }
}

impl Figures {
    fn figure(&self, key: &Key) -> Arc<Figure> {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        Arc::new(Figure { name: key.name().to_owned() + &labels.collect::<String>(), all: self.clone() })
    }
}

impl Recorder for Figures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.figure(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.figure(key))
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn statistics_reach_a_recorder() {
    let directory = Directory::new("metrics");
    let database = Database::at(&directory.0).latencies(true).open().expect("a database");
    for _ in 0..3 {
        database.transaction(|_| Ok(())).expect("committed");
    }
    let _ = database.transaction(|_| Err::<(), _>(isles::Error::RollBack));
    let figures = Figures::default();
    metrics::with_local_recorder(&figures, || record_metrics(&database.statistics()));
    let figures = figures.0.lock().expect("no test has failed");
    assert_eq!(figures["isles_transactions_commits_total"], 3.0);
    assert_eq!(figures["isles_transactions_rollbacks_total"], 1.0);
    assert_eq!(figures["isles_transactions_conflicts_total kind=locked"], 0.0);
    assert!(figures["isles_transaction_seconds quantile=0.99"] > 0.0);
    assert!(figures["isles_memory_limit_bytes"] >= figures["isles_memory_used_bytes"]);
    assert!(figures.contains_key("isles_log_written_bytes_total"), "{figures:?}");
    assert!(figures["isles_sessions_max"] >= 1.0);
}

#[derive(Clone, Default)]
struct Subscriber(Arc<Mutex<Vec<String>>>);

/// The fields of an event, as `name=value`.
struct Fields<'f>(&'f mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "isles"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = event.metadata().level().to_string();
        event.record(&mut Fields(&mut line));
        self.0.lock().expect("no test has failed").push(line);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn events_reach_a_subscriber() {
    let subscriber = Subscriber::default();
    let directory = Directory::new("tracing");
    tracing::subscriber::with_default(subscriber.clone(), || {
        for _ in 0..2 {
            let builder = Database::at(&directory.0).slow_after(Duration::from_millis(5));
            let database = builder.on_event(trace_event).open().expect("a database");
            let slow = database.transaction(|_| {
                std::thread::sleep(Duration::from_millis(6));
                Ok(())
            });
            slow.expect("committed");
            database.close().expect("closed");
        }
    });
    let lines = subscriber.0.lock().expect("no test has failed");
    let has =
        |level: &str, text: &str| lines.iter().any(|line| line.starts_with(level) && line.contains(text));
    assert!(has("WARN", "a transaction was slow took="), "{lines:?}");
    assert!(has("WARN", "attempts=1 committed=true"), "{lines:?}");
    assert!(has("INFO", "an existing database was opened rows=0"), "{lines:?}");
    assert!(has("INFO", "the database was closed"), "{lines:?}");
}

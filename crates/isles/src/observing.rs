//! Events for `tracing` and figures for `metrics`, each behind the feature of that name.

#[cfg(feature = "tracing")]
use crate::event::Event;
#[cfg(feature = "metrics")]
use crate::statistics::{ConflictStatistics, LogStatistics, MemoryStatistics, Statistics};

/// Forwards an event to the crate `tracing` (feature `tracing`), with the target `isles`.
///
/// A log that has stopped and a checkpoint that failed are errors, slow transactions are warnings,
/// an opening and an end are information, other checkpoints are for debugging.
///
/// ```
/// use isles::{Database, trace_event};
///
/// let database = Database::in_memory().on_event(trace_event).open()?;
/// database.close()?; // INFO isles: the database was closed
/// # Ok::<(), isles::Error>(())
/// ```
#[cfg(feature = "tracing")]
pub fn trace_event(event: &Event) {
    match event {
        Event::Recovered { rows, changes, bytes, took } => {
            tracing::info!(target: "isles", rows, changes, bytes, ?took, "an existing database was opened");
        }
        Event::SlowTransaction { took, attempts, committed } => {
            tracing::warn!(target: "isles", ?took, attempts, committed, "a transaction was slow");
        }
        Event::Checkpoint { ended, failed: None } => {
            tracing::debug!(target: "isles", ended, "a checkpoint has ended");
        }
        Event::Checkpoint { ended, failed: Some(reason) } => {
            tracing::error!(target: "isles", ended, reason, "a checkpoint failed");
        }
        Event::LogStopped { why } => {
            tracing::error!(target: "isles", reason = why, "the log has stopped: no transaction commits");
        }
        Event::Closed => tracing::info!(target: "isles", "the database was closed"),
    }
}

/// Records statistics with the crate `metrics` (feature `metrics`). Call it as often as figures are
/// wanted, for example before each answer to a scrape. Names are those of the fields behind
/// `isles_`: `isles_transactions_commits_total`, `isles_memory_used_bytes`. Durations are in
/// seconds. A program with several databases records each within a recorder, or under a prefix, of
/// its own.
///
/// ```
/// use isles::{Database, record_metrics};
///
/// let database = Database::in_memory().latencies(true).open()?;
/// database.transaction(|_| Ok(()))?;
/// record_metrics(&database.statistics());
/// # Ok::<(), isles::Error>(())
/// ```
#[cfg(feature = "metrics")]
pub fn record_metrics(statistics: &Statistics) {
    use metrics::{counter, gauge};

    let Statistics { memory, log, epoch, checkpoints, transactions, latencies, sessions, sessions_max } =
        statistics;
    let MemoryStatistics { limit, reserved, touched, used } = *memory;
    gauge!("isles_memory_limit_bytes").set(limit as f64);
    gauge!("isles_memory_reserved_bytes").set(reserved as f64);
    gauge!("isles_memory_touched_bytes").set(touched as f64);
    gauge!("isles_memory_used_bytes").set(used as f64);
    if let Some(LogStatistics { written_bytes, flushes, groups, group_time }) = *log {
        counter!("isles_log_written_bytes_total").absolute(written_bytes);
        counter!("isles_log_flushes_total").absolute(flushes);
        counter!("isles_log_groups_total").absolute(groups);
        gauge!("isles_log_group_seconds_total").set(group_time.as_secs_f64());
    }
    gauge!("isles_epoch").set(*epoch as f64);
    counter!("isles_checkpoints_total").absolute(*checkpoints);
    counter!("isles_transactions_commits_total").absolute(transactions.commits);
    counter!("isles_transactions_rollbacks_total").absolute(transactions.rollbacks);
    counter!("isles_transactions_failures_total").absolute(transactions.failures);
    let ConflictStatistics { read_changed, phantom, locked, key_in_use, deadlock, at_commit } =
        transactions.conflicts;
    let kinds = [
        ("read_changed", read_changed),
        ("phantom", phantom),
        ("locked", locked),
        ("key_in_use", key_in_use),
        ("deadlock", deadlock),
        ("at_commit", at_commit),
    ];
    for (kind, conflicts) in kinds {
        counter!("isles_transactions_conflicts_total", "kind" => kind).absolute(conflicts);
    }
    if let Some(latencies) = latencies {
        for (quantile, share) in [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.999", 0.999), ("1", 1.0)] {
            let longest = latencies.at(share).map_or(0.0, |took| took.as_secs_f64());
            gauge!("isles_transaction_seconds", "quantile" => quantile).set(longest);
        }
    }
    gauge!("isles_sessions").set(*sessions as f64);
    gauge!("isles_sessions_max").set(*sessions_max as f64);
}

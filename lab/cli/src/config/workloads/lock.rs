//! Flags of `lock`.

use serde::Serialize;
use workloads::lock::{HeldLine, LockKind, LockSpec};

use super::terms::{BenchWorkload, RowCount, Split};
use crate::arguments::{AnyFlag, BenchArguments, Flag, refuse};
use crate::bad_input::BadInput;
use crate::errors::Failure;
use harness::{Choice, serialize_name};

/// Bytes of a lock and of what it protects, roughly.
const LOCK_BYTES: f64 = 512.0;

/// Flags of `lock`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lock {
    /// The lock or atomic operation.
    #[serde(serialize_with = "serialize_name")]
    pub lock: LockKind,
    /// Workers: always equal to the number of cores.
    pub threads: usize,
    /// Locks, or words for atomics.
    pub locks: usize,
    /// Computation of a holder, in work units.
    pub critical: u32,
    /// Computation between two operations, in work units.
    pub delay: u32,
    /// Words that a holder increments.
    pub held_words: usize,
    /// Where they lie.
    #[serde(serialize_with = "serialize_name")]
    pub held_line: HeldLine,
    /// Unit of pauses of waiters that back off, in nanoseconds.
    pub backoff: u64,
}

impl BenchWorkload for Lock {
    const HAS_DATABASE: bool = false;
    const COUNTS: &'static str = "operations";

    fn resolve(arguments: &BenchArguments, cores: usize) -> Result<Self, BadInput> {
        let flags = &arguments.lock;
        let lock = flags.lock.value_or(LockKind::Mcs)?;
        let resolved = Lock {
            lock,
            threads: cores,
            locks: flags.locks.value_or(1)? as usize,
            critical: flags.critical.value_or(0)? as u32,
            delay: flags.delay.value_or(0)? as u32,
            held_words: flags.held_words.value_or(1)? as usize,
            held_line: flags.held_line.value_or(HeldLine::Own)?,
            backoff: flags.backoff.value_or(0)?,
        };
        resolved.fits_kind(arguments)?;
        Ok(resolved)
    }

    fn rows_loaded(&self, _: usize) -> RowCount {
        let bytes = self.locks as f64 * LOCK_BYTES;
        RowCount { flag: "--locks", count: self.locks as u64, rows: 0.0, bytes }
    }

    fn describe(&self) -> String {
        let mut text = self.lock.name().to_owned();
        if self.locks > 1 {
            text += &format!(", {} of them", self.locks);
        }
        if self.lock.is_lock() {
            let words = if self.held_words == 1 { "word" } else { "words" };
            let line = match self.held_line {
                HeldLine::Own => "a line of its own",
                HeldLine::Lock => "the lock's line",
            };
            text += &format!(", critical {}, {} {words} on {line}", self.critical, self.held_words);
        }
        text += &format!(", delay {}", self.delay);
        if self.backoff > 0 { text + &format!(", backoff {} ns", self.backoff) } else { text }
    }

    fn for_harness(&self, _: usize, _: Split) -> Result<harness::Workload, Failure> {
        Ok(harness::Workload::Lock(LockSpec {
            locks: self.locks,
            critical: self.critical,
            delay: self.delay,
            held_words: self.held_words,
            held_line: self.held_line,
            backoff_nanos: self.backoff,
            ..LockSpec::new(self.lock, Vec::new(), 0)
        }))
    }
}

impl Lock {
    /// Refuses flags that mean nothing for what threads contend for.
    fn fits_kind(&self, arguments: &BenchArguments) -> Result<(), BadInput> {
        let (flags, kind) = (&arguments.lock, self.lock.name());
        if !self.lock.is_lock() {
            let problem = format!("nothing is held under --lock {kind}");
            let of_holders: [&dyn AnyFlag; 3] = [&flags.critical, &flags.held_words, &flags.held_line];
            refuse(&of_holders, &problem, &names(LockKind::is_lock))?;
        }
        if !self.lock.backs_off() {
            let problem = format!("waiters of --lock {kind} do not back off");
            refuse(&[&flags.backoff], &problem, &names(LockKind::backs_off))?;
        }
        if self.lock == LockKind::Poll && self.locks > 1 {
            let locks = self.locks.to_string();
            return Err(BadInput::value("--locks", &locks, "one word is polled", "1"));
        }
        if self.lock == LockKind::Poll && self.threads < 2 {
            let threads = self.threads.to_string();
            return Err(BadInput::value("--threads", &threads, "one writes and others poll", "2 or more"));
        }
        Ok(())
    }
}

/// The flag that gives what is meant.
fn names(of: fn(LockKind) -> bool) -> String {
    let names = LockKind::ALL.iter().filter(|(_, kind)| of(*kind)).map(|(name, _)| *name);
    format!("with --lock {}", names.collect::<Vec<_>>().join(", "))
}

//! A machine that does not exist: the engine's cores, memory and time, simulated on one host thread.
//!
//! [`VirtualMachine`] implements [`platform::Platform`]. Each simulated core is a fiber with a clock of its own; the
//! fiber with the smallest clock runs, so shared memory changes in the order of virtual time. Every atomic operation and
//! every declared line of data is an event: the fiber waits until it is the smallest, asks the cost model when the line
//! will have arrived, and goes on at that moment.
//!
//! ```
//! use platform::{Nanos, Place, Platform, SharedWord};
//! use sim::{Config, Shape, VirtualMachine, VirtualWord};
//! use std::sync::atomic::Ordering;
//!
//! let config = Config::new(Shape::new(4, 10, 2));
//! let outcome = VirtualMachine::run(&config, |c| {
//!     let counter = VirtualWord::new(0);
//!     let worker = |c, _| {
//!         VirtualMachine::fetch_add(c, &counter, 1, Ordering::AcqRel);
//!     };
//!     VirtualMachine::parallel(c, &[Place { thread: None }; 80], &worker, &mut |_| ());
//!     VirtualMachine::load(c, &counter, Ordering::Acquire)
//! })?;
//! assert_eq!(outcome.value, 80);
//! assert!(outcome.statistics.elapsed > Nanos(0));
//! # Ok::<(), sim::SimError>(())
//! ```
//!
//! # When an operation takes effect
//!
//! An operation takes effect, in the host's memory, when it is issued: at the moment when its core has the smallest
//! clock. The core then waits until the line has arrived, and the line is busy until then, so that no other core sees
//! the effect before it is complete. All effects form one order that agrees with each core's program order: the machine
//! is sequentially consistent and cannot show weak memory.
//!
//! # Determinism
//!
//! The same program, configuration and seed give the same clocks, counters and results. The cost model sees offsets in
//! the machine's own reservation, never host addresses; a fiber's stack and heap are outside the model, where every
//! access is a hit.
//!
//! # Limits of this cost model
//!
//! Shared caches have no capacity, links and memory controllers no bandwidth, SMT siblings share a private cache but not
//! issue slots, and two workers placed on one hardware thread do not take turns.

#![deny(unsafe_op_in_unsafe_fn)]
// This crate is the machine's side of the port: it may use what the engine may not.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod arena;
mod bandwidth;
mod config;
mod cores;
mod cost;
mod directory;
mod error;
mod fiber;
mod host;
mod implementation;
mod memory;
mod model;
mod parallel;
mod random;
mod ready;
mod seats;
mod simulation;
mod stack;
mod statistics;
mod tags;
mod trace;
mod waiting;
mod word;
mod work;

pub use config::Config;
pub use error::{SimError, WaitReason, Waiting};
pub use fiber::VirtualCore;
pub use implementation::{PRIVATE_ADDRESS, VirtualMachine};
pub use memory::VirtualRegion;
pub use model::{CacheSizes, Costs, Model, Shape};
pub use statistics::{Counts, HotLine, Outcome, PortKind, PortUse, Statistics};
pub use trace::{CoreEvents, Event, EventKind};
pub use word::VirtualWord;

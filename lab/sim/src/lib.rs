//! A simulated machine: the engine's cores, memory and time on one host thread.
//!
//! [`VirtualMachine`] implements [`platform::Platform`]. Each simulated core is a fiber with a
//! clock of its own. The fiber with the smallest clock runs, so shared memory changes in the order
//! of virtual time. Every atomic operation and every declared line of data is an event: the fiber
//! waits until its clock is the smallest, the cost model computes when the line will have arrived,
//! and the fiber continues at that moment.
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
//! A hit takes effect, in the host's memory, when it is issued: at the moment when its core has the
//! smallest clock. A load or atomic that misses takes effect when its line has arrived; the core
//! waits for that moment and its turn in it. A store to a line at rest takes effect when it is
//! issued and waits for its line in the store buffer; a core that wants the line queues behind that
//! store. All effects form one order that agrees with each core's program order: the machine is
//! sequentially consistent and cannot show weak memory.
//!
//! The rules of cost and arbitration, and their sources, are in `docs/cost-model.md`.
//!
//! # Determinism
//!
//! The same program, configuration and seed give the same clocks, counters and results. The cost
//! model sees offsets in the machine's own reservation, never host addresses; a fiber's stack and
//! heap are outside the model, where every access is a hit.
//!
//! # Files
//!
//! A file uses the files above it in this drawing, and those to its left.
//!
//! ```text
//! line, word, random, ready, recent, work, spin  lines and accesses, words, randomness, keys of fibers, what is under way, computation, loops
//! trace, error, arena, stack, memory, touches    last events, failures, memory and stacks from the host, regions, their accesses
//! code                                           first-level instruction caches
//! model, disk, faults, config, host              what is simulated, and whether the host has room for it
//! directory, tags, translation, cores, arrivals,  lines, caches, TLBs, what cores and L3s have under way,
//! bandwidth, statistics, instructions, network   ports, counters, what goes from machine to machine
//! coherence                                      where a line is, and when it arrives elsewhere
//! cost                                           what an access costs its core: hits, store buffers, prefetches
//! seats, slices, waiting, fiber, fibers, falls,  where workers run and when, what they wait for,
//! plans                                          their state
//! simulation                                     the scheduler: which fiber runs, sleeps and wakes
//! virtual_core, parallel                         a core's events; starting workers
//! run, implementation, remote, links, files      a run, the platform and its ports
//! ```

#![deny(unsafe_op_in_unsafe_fn)]
// This crate implements the platform on the host: it may use what the engine may not.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod arena;
mod arrivals;
mod bandwidth;
mod code;
mod coherence;
mod config;
mod cores;
mod cost;
mod declared;
mod directory;
mod disk;
mod error;
mod falls;
mod faults;
mod fiber;
mod fibers;
mod files;
mod host;
mod implementation;
mod instructions;
mod line;
mod links;
mod memory;
mod model;
mod network;
mod parallel;
mod plans;
mod random;
mod ready;
mod recent;
mod remote;
mod run;
mod seats;
mod simulation;
mod slices;
mod spin;
mod stack;
mod statistics;
mod tags;
mod touches;
mod trace;
mod translation;
mod virtual_core;
mod virtual_machine;
mod waiting;
mod word;
mod work;

pub use code::InstructionCache;
pub use config::{Config, Crash, Fall, Withdrawal};
pub use declared::UndeclaredAccess;
pub use disk::{Call, Disk, DiskFaults, DiskModel, DiskUse, Refusal, VirtualFile};
pub use error::{SimError, WaitReason, Waiting};
pub use faults::{Cut, NetworkFaults};
pub use files::{VirtualDirectory, VirtualQueue};
pub use implementation::PRIVATE_ADDRESS;
pub use links::{KernelCosts, VirtualReceiver, VirtualSender};
pub use memory::VirtualRegion;
pub use model::{CacheSizes, Costs, Model, Shape};
pub use statistics::{Counts, FaultCounts, HotLine, Outcome, PortKind, PortUse, Statistics};
pub use trace::{CoreEvents, Event, EventKind};
pub use virtual_core::VirtualCore;
pub use virtual_machine::VirtualMachine;
pub use word::VirtualWord;

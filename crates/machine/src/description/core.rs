//! Properties of a core: capacities, costs beside its caches, and costs of the operating system.
//! One list of keys, each with its rule. Files give them in a table `core`; values that they omit
//! follow from the rules.

use serde::ser::SerializeMap;

use super::fact::Fact;
use super::keys::{CODE_MISS_NS, DescriptionError, Keys};

/// A property of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreCost {
    /// Capacity for outstanding misses.
    FillBuffers,
    /// Capacity for waiting stores; siblings divide it.
    StoreBuffer,
    /// A store to an own line.
    StoreNs,
    /// Time between the starts of two overlapped accesses.
    IssueNs,
    /// Time for which a reader from behind another L3 keeps the home of a clean line busy.
    ReaderNs,
    /// Time for which one reader of a line keeps an L3 busy.
    L3ReaderNs,
    /// Reading the clock.
    ClockNs,
    /// One pause of a spin loop.
    PauseNs,
    /// Share of a core's issue slots that a hardware thread takes from its siblings while it spins
    /// or pauses.
    PauserShare,
    /// Yielding the processor to the operating system if no other thread is ready.
    YieldNs,
    /// A system call that does not wait.
    SystemCallNs,
    /// Time from the wake-up of a thread to its next instruction.
    WakeNs,
    /// Time that a thread spends on each thread that it wakes.
    WakeEachNs,
    /// Sending a message through TCP to another machine: the call, the protocol, the network card.
    MessageSendNs,
    /// Receiving a message that has arrived: the protocol, the call.
    MessageReceiveNs,
    /// For each byte of a message, sent or received: the copy, and all other costs that grow with
    /// it.
    MessageByteNs,
    /// An interrupt of the network card, which delivers all messages that have arrived.
    InterruptNs,
    /// Interval at which the operating system balances threads that are not pinned.
    BalanceNs,
    /// Share of these intervals after which the thread is moved.
    MoveShare,
    /// Capacity of the first-level instruction cache, in KiB; siblings share it.
    L1iKib,
    /// Its ways.
    L1iWays,
    /// Time for which a core waits for a line of code that this cache lacks; may be 0.
    CodeMissNs,
}

impl CoreCost {
    /// All properties, in the order of files.
    pub const ALL: [CoreCost; 22] = [
        CoreCost::FillBuffers,
        CoreCost::StoreBuffer,
        CoreCost::StoreNs,
        CoreCost::IssueNs,
        CoreCost::ReaderNs,
        CoreCost::L3ReaderNs,
        CoreCost::ClockNs,
        CoreCost::PauseNs,
        CoreCost::PauserShare,
        CoreCost::YieldNs,
        CoreCost::SystemCallNs,
        CoreCost::WakeNs,
        CoreCost::WakeEachNs,
        CoreCost::MessageSendNs,
        CoreCost::MessageReceiveNs,
        CoreCost::MessageByteNs,
        CoreCost::InterruptNs,
        CoreCost::BalanceNs,
        CoreCost::MoveShare,
        CoreCost::L1iKib,
        CoreCost::L1iWays,
        CoreCost::CodeMissNs,
    ];

    /// Key of the property in files; the unit is its ending.
    pub fn key(self) -> &'static str {
        match self {
            CoreCost::FillBuffers => "fill_buffers",
            CoreCost::StoreBuffer => "store_buffer",
            CoreCost::StoreNs => "store_ns",
            CoreCost::IssueNs => "issue_ns",
            CoreCost::ReaderNs => "reader_ns",
            CoreCost::L3ReaderNs => "l3_reader_ns",
            CoreCost::ClockNs => "clock_ns",
            CoreCost::PauseNs => "pause_ns",
            CoreCost::PauserShare => "pauser_share",
            CoreCost::YieldNs => "yield_ns",
            CoreCost::SystemCallNs => "system_call_ns",
            CoreCost::WakeNs => "wake_ns",
            CoreCost::WakeEachNs => "wake_each_ns",
            CoreCost::MessageSendNs => "message_send_ns",
            CoreCost::MessageReceiveNs => "message_receive_ns",
            CoreCost::MessageByteNs => "message_byte_ns",
            CoreCost::InterruptNs => "interrupt_ns",
            CoreCost::BalanceNs => "balance_ns",
            CoreCost::MoveShare => "move_share",
            CoreCost::L1iKib => "l1i_kib",
            CoreCost::L1iWays => "l1i_ways",
            CoreCost::CodeMissNs => CODE_MISS_NS,
        }
    }

    /// Value of the property by its rule, and the rule.
    fn rule(self, of: &Basis) -> (f64, &'static str) {
        let cycles = |count: f64| count / of.clock_ghz;
        let old = of.year.is_some_and(|year| year <= 2016);
        match self {
            CoreCost::FillBuffers => (12.0, "10 to 16: Intel's optimization manual"),
            CoreCost::StoreBuffer => (42.0, "36 to 56: Intel's optimization manual"),
            CoreCost::StoreNs => (cycles(1.0), "rule: one cycle"),
            CoreCost::IssueNs => (cycles(2.0), "rule: two cycles, 32 bytes each"),
            CoreCost::ReaderNs => (5.0, "rule: two reads of one bank of DDR4 or DDR5 (JEDEC, tCCD_L)"),
            CoreCost::L3ReaderNs => (cycles(2.0), "rule: two cycles, 32 bytes each"),
            CoreCost::ClockNs => (cycles(30.0), "rule: 30 cycles"),
            CoreCost::PauseNs if old => (cycles(10.0), "rule: 10 cycles until 2016 (Intel, before Skylake)"),
            CoreCost::PauseNs => (cycles(140.0), "rule: 140 cycles from 2017 on (Intel, since Skylake)"),
            CoreCost::PauserShare => {
                let turn_ns = of.pause_ns + of.l1_ns + cycles(1.0);
                (cycles(2.0) / turn_ns, "rule: two cycles' slots of each turn of the loop")
            }
            CoreCost::YieldNs => {
                (500.0, "usual on Linux; 420 to 570 ns on the machine of docs/calibration.md")
            }
            CoreCost::SystemCallNs => (500.0, "usual on Linux"),
            CoreCost::WakeNs => (4_000.0, "usual on Linux, with the exit of an idle state"),
            CoreCost::WakeEachNs => (1_000.0, "usual on Linux"),
            CoreCost::MessageSendNs => (3_400.0, TCP_TO_ITSELF),
            CoreCost::MessageReceiveNs => (3_340.0, TCP_TO_ITSELF),
            CoreCost::MessageByteNs => (cycles(0.125), "rule: a copy of 8 bytes a cycle"),
            CoreCost::InterruptNs => (1_000.0, "estimate of ours: as much as waking a thread"),
            CoreCost::BalanceNs => (20e6, "estimate of ours"),
            CoreCost::MoveShare => (0.25, "estimate of ours"),
            CoreCost::L1iKib => (32.0, "usual for a server processor"),
            CoreCost::L1iWays => (8.0, "usual for a server processor"),
            CoreCost::CodeMissNs => (0.0, "not charged: no measured wait of a line (decision 0109)"),
        }
    }
}

/// Source of the costs of messages. Through the loopback the sender's call executes the receiver's
/// protocol too: the sum is that of both sides, and its division between them is unknown.
const TCP_TO_ITSELF: &str = "TCP of one thread to itself, 256 bytes: measured on the machine of docs/calibration.md (the example kernel_links)";

/// Input of the rules.
pub(super) struct Basis {
    pub(super) clock_ghz: f64,
    pub(super) l1_ns: f64,
    pub(super) year: Option<usize>,
    pub(super) pause_ns: f64,
}

/// The value of each [`CoreCost`].
#[derive(Clone, Debug, PartialEq)]
pub struct CoreCosts {
    values: Vec<Fact<f64>>,
}

/// The properties that a file gives.
pub(super) type CoreFacts = [Option<Fact<f64>>; CoreCost::ALL.len()];

impl CoreCosts {
    /// The value of a property.
    pub fn get(&self, cost: CoreCost) -> &Fact<f64> {
        &self.values[cost as usize]
    }

    /// Changes the value of a property.
    pub fn set(&mut self, cost: CoreCost, fact: Fact<f64>) {
        self.values[cost as usize] = fact;
    }

    /// Each property with its value.
    pub fn all(&self) -> impl Iterator<Item = (CoreCost, &Fact<f64>)> {
        CoreCost::ALL.into_iter().zip(&self.values)
    }

    /// Completes the given values by the rules.
    pub(super) fn complete(given: &CoreFacts, mut basis: Basis) -> CoreCosts {
        let mut values = Vec::with_capacity(given.len());
        for (cost, given) in CoreCost::ALL.into_iter().zip(given) {
            let (value, source) = cost.rule(&basis);
            let fact = given.clone().unwrap_or_else(|| Fact::estimate(value, source));
            if cost == CoreCost::PauseNs {
                basis.pause_ns = fact.value;
            }
            values.push(fact);
        }
        CoreCosts { values }
    }
}

impl serde::Serialize for CoreCosts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.values.len()))?;
        for (cost, fact) in self.all() {
            map.serialize_entry(cost.key(), fact)?;
        }
        map.end()
    }
}

/// Reads the keys of a table `core`; `fact` reads one value. `more` are additional keys that the
/// table may have.
pub(super) fn read(
    table: &Keys,
    more: &[&str],
    fact: impl Fn(&Keys, &str) -> Result<Fact<f64>, DescriptionError>,
) -> Result<CoreFacts, DescriptionError> {
    let known: Vec<&str> = CoreCost::ALL.iter().map(|cost| cost.key()).chain(more.iter().copied()).collect();
    table.only(&known)?;
    let mut given = CoreFacts::default();
    for (cost, slot) in CoreCost::ALL.into_iter().zip(&mut given) {
        if table.has(cost.key()) {
            *slot = Some(fact(table, cost.key())?);
        }
    }
    Ok(given)
}

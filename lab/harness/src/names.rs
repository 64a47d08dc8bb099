//! The names of values on the command line, in results and in files.

use concurrency::{CommitLocks, Deadlocks, RowCopies, RowLock, TimestampSource};
use machine::{Peers, Placement};
use platform::link::Mechanism;
use serde::Serializer;
use storage::Optimisation;
use workloads::lock::{HeldLine, LockKind};
use workloads::micro::Operation;
use workloads::tatp::Mix as TatpMix;
use workloads::tpcc::{FullOrSmall, HotRows, Mix as TpccMix, Stocks};
use workloads::ycsb::YcsbWorkload;

/// A flag with a fixed set of values.
pub trait Choice: Copy + PartialEq + 'static {
    /// The accepted names, and their values.
    const ALL: &'static [(&'static str, Self)];

    /// The name on the command line and in results.
    fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, value)| *value == self);
        named.map(|(name, _)| *name).expect("every value has a name")
    }

    /// The accepted names, for messages.
    fn accepted() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

/// Serialises a value as its name.
pub fn serialize_name<C: Choice, S: Serializer>(value: &C, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.name())
}

/// The names of all values of a type.
macro_rules! names {
    ($choice:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl $crate::names::Choice for $choice {
            const ALL: &'static [(&'static str, Self)] = &[$(($text, $choice::$variant)),+];
        }

        // A value without a name does not compile.
        const _: fn($choice) = |value| match value {
            $($choice::$variant => ()),+
        };
    };
}

pub(crate) use names;

names! {
    Placement {
        Island = "island",
        Spread = "spread",
        Mix = "mix",
        Os = "os",
    }
}

names! { RowLock { Word = "word", Latch = "latch" } }

names! { RowCopies { Fields = "fields", Rows = "rows" } }

names! { CommitLocks { Ordered = "ordered", NoWait = "no-wait" } }

names! { Deadlocks { Graph = "graph", Lists = "lists" } }

names! {
    TimestampSource {
        Clock = "clock",
        Counter = "counter",
    }
}

names! {
    Optimisation {
        ThreadAlloc = "thread-alloc",
        HashIndex = "hash-index",
        QueueLatch = "queue-latch",
        Replicate = "replicate",
        Prefetch = "prefetch",
        CompiledRows = "compiled-rows",
        BoundedSpin = "bounded-spin",
        ReadOnlySkip = "read-only-skip",
        ReplicateIndex = "replicate-index",
        PlainLocks = "plain-locks",
        LookAhead = "lookahead",
        InheritedLocks = "sli",
        Aether = "aether",
        Announcements = "announcements",
    }
}

names! {
    Operation {
        Read = "read",
        Update = "update",
        Mixed = "mixed",
    }
}

names! {
    YcsbWorkload {
        A = "a",
        B = "b",
        C = "c",
        D = "d",
        E = "e",
        F = "f",
    }
}

names! {
    TatpMix {
        Full = "full",
        GetSubscriberData = "GetSubscriberData",
        GetNewDestination = "GetNewDestination",
        GetAccessData = "GetAccessData",
        UpdateSubscriberData = "UpdateSubscriberData",
        UpdateLocation = "UpdateLocation",
        InsertCallForwarding = "InsertCallForwarding",
        DeleteCallForwarding = "DeleteCallForwarding",
    }
}

names! {
    LockKind {
        TestAndSet = "tas",
        TestAndTestAndSet = "ttas",
        Ticket = "ticket",
        Mcs = "mcs",
        Clh = "clh",
        Hierarchical = "hierarchical",
        CompareAndSwap = "cas",
        RefusedCompareAndSwap = "cas-refused",
        FetchAndAdd = "faa",
        Swap = "swap",
        Poll = "poll",
    }
}

names! {
    HeldLine {
        Own = "own",
        Lock = "lock",
    }
}

names! {
    Peers {
        SameSocket = "same-socket",
        OtherSocket = "other-socket",
        OtherMachine = "other-machine",
    }
}

names! { TpccMix {
    Full = "full",
    Narrow = "narrow",
    Payment = "payment",
    NewOrder = "new-order",
    OrderStatus = "order-status",
    Delivery = "delivery",
    StockLevel = "stock-level",
} }
names! { FullOrSmall { Full = "full", Small = "small" } }
names! { HotRows { Late = "late", Early = "early" } }
names! { Stocks { Sorted = "sorted", Drawn = "drawn" } }

impl Choice for Mechanism {
    const ALL: &'static [(&'static str, Self)] = &Mechanism::ALL;
}

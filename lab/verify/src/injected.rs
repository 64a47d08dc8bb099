//! Counts of the faults that campaigns inject, which prove that they happened.

use std::fmt;

use serde::Serialize;

/// Counts of injected faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Injected {
    /// Crashes of the whole deployment.
    pub crashes: u64,
    /// Instances that crashed while others continued, and restarted.
    pub deaths: u64,
    /// Runs in which two or more instances were down at the same time.
    pub together: u64,
    /// Crashes of one of several machines, with all instances on it.
    pub machines: u64,
    /// Connections that were broken and restored, and partitions of the network between two
    /// machines.
    pub cuts: u64,
    /// Directions of connections that were slower than others.
    pub delays: u64,
    /// Messages that the network lost, and TCP sent again.
    pub losses: u64,
    /// Messages that the network delivered twice, and TCP accepted once.
    pub duplicates: u64,
    /// Messages that the protocol received twice.
    pub echoes: u64,
}

impl Injected {
    /// The counts with their labels.
    fn counts(self) -> [(u64, &'static str); 9] {
        let Injected { crashes, deaths, together, machines, cuts, delays, losses, duplicates, echoes } = self;
        [
            (crashes, "crashes of all"),
            (deaths, "instances died alone"),
            (together, "times several at once"),
            (machines, "times a machine of several"),
            (cuts, "connections cut"),
            (delays, "slow"),
            (losses, "messages lost and sent again"),
            (duplicates, "brought twice"),
            (echoes, "heard twice"),
        ]
    }

    /// True if no fault was injected.
    pub fn is_nothing(&self) -> bool {
        *self == Injected::default()
    }

    /// Adds other counts.
    pub fn add(&mut self, other: Injected) {
        self.crashes += other.crashes;
        self.deaths += other.deaths;
        self.together += other.together;
        self.machines += other.machines;
        self.cuts += other.cuts;
        self.delays += other.delays;
        self.losses += other.losses;
        self.duplicates += other.duplicates;
        self.echoes += other.echoes;
    }
}

impl fmt::Display for Injected {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts().into_iter().filter(|(count, _)| *count > 0);
        let texts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        to.write_str(&texts.join(", "))
    }
}

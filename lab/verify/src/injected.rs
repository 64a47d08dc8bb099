//! What campaigns let go wrong on purpose, counted: so that a reader can see that it happened.

use std::fmt;

use serde::Serialize;

/// What went wrong on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Injected {
    /// Crashes of all there is.
    pub crashes: u64,
    /// Instances that ended while others ran on, and came back.
    pub deaths: u64,
    /// Runs in which two or more of them were away at one time.
    pub together: u64,
    /// Crashes of one of several machines, with all instances on it.
    pub machines: u64,
    /// Connections that were broken and made again, and times that two machines were cut off from
    /// each other.
    pub cuts: u64,
    /// Directions of connections that were slower than others.
    pub delays: u64,
    /// Messages that the network lost, and TCP sent again.
    pub losses: u64,
    /// Messages that the network brought twice, and TCP took once.
    pub duplicates: u64,
    /// Messages that the protocol heard twice.
    pub echoes: u64,
}

impl Injected {
    /// The counts, with what they count.
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

    /// True if nothing went wrong on purpose.
    pub fn is_nothing(&self) -> bool {
        *self == Injected::default()
    }

    /// What went wrong elsewhere, too.
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
        let said = self.counts().into_iter().filter(|(count, _)| *count > 0);
        let said: Vec<String> = said.map(|(count, what)| format!("{count} {what}")).collect();
        to.write_str(&said.join(", "))
    }
}

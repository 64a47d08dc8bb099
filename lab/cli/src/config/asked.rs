//! One change of a workload, or a failure, as `--at` asks for it.

use harness::{BorderAction, Choice, Execution, FailureError};

use crate::bad_input::BadInput;
use crate::choices::named_value;
use crate::hot::Hot;
use crate::values;

const FLAG: &str = "--at";
/// The accepted changes, for messages.
const CHANGES: &str = "SECONDS=CHANGE, a change being mix=NAME, hot=F:F, multisite=F, fail-socket=N, split:N, \
                       merge:N or rearrange:N";
/// Planned changes of borders between partitions, by name.
const BORDER_ACTIONS: [(&str, BorderAction); 3] =
    [("split", BorderAction::Split), ("merge", BorderAction::Merge), ("rearrange", BorderAction::Rearrange)];

/// One change as it is asked for.
pub struct Asked<'a> {
    /// The flag's value.
    text: &'a str,
    /// The change.
    pub change: Change<'a>,
}

/// A change of a workload.
#[derive(Clone, Copy)]
pub enum Change<'a> {
    /// The transactions that run, by their name.
    Mix(&'a str),
    /// A hot spot.
    Hot(Hot),
    /// The share of transactions over several sites.
    Multisite(f64),
}

/// An event that `--at` asks for.
pub(super) struct Moment<'a> {
    /// The flag's value.
    text: &'a str,
    /// In seconds of the measured time.
    pub seconds: f64,
    /// The event as it was typed.
    pub said: &'a str,
    /// The event.
    pub what: What<'a>,
}

/// An event at a moment.
pub(super) enum What<'a> {
    /// The workload changes.
    Changes(Asked<'a>),
    /// A socket fails.
    SocketFails(u32),
    /// This many borders between partitions change.
    Rearranges(BorderAction, usize),
}

impl<'a> Moment<'a> {
    /// Parses the value of a flag.
    pub(super) fn of(text: &'a str) -> Result<Self, BadInput> {
        let fault = |problem: &str, accepted: &str| BadInput::value(FLAG, text, problem, accepted);
        let (moment, said) = text.split_once('=').ok_or_else(|| fault("no moment", CHANGES))?;
        let seconds = match moment.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => seconds,
            _ => return Err(fault("the moment is no number of seconds", CHANGES)),
        };
        let border = |(name, _): &&(&str, BorderAction)| {
            said.strip_prefix(*name).is_some_and(|rest| rest.starts_with([':', '=']))
        };
        let border = BORDER_ACTIONS.iter().find(border);
        let separator = if border.is_some() { &[':', '='][..] } else { &['='] };
        let (name, value) = said.split_once(separator).ok_or_else(|| fault("no change", CHANGES))?;
        let changes = |change| What::Changes(Asked { text, change });
        let what = match name {
            "mix" => changes(Change::Mix(value)),
            "hot" => changes(Change::Hot(Hot::parse(value, fault)?)),
            "multisite" => {
                let share = values::number("multisite", value, &(0.0..=1.0));
                let fault = |_| fault("no share", "multisite=F, 0 to 1");
                changes(Change::Multisite(share.map_err(fault)?))
            }
            "fail-socket" => {
                let fault = |_| fault("no number of a socket", "fail-socket=N");
                What::SocketFails(value.parse().map_err(fault)?)
            }
            _ => match border {
                Some((name, action)) => {
                    let fault = |_| fault("no number of actions", &format!("{name}:N"));
                    What::Rearranges(*action, value.parse().map_err(fault)?)
                }
                None => return Err(fault("unknown change", CHANGES)),
            },
        };
        Ok(Moment { text, seconds, said, what })
    }

    /// Refuses a moment at which the run is over, or of a run whose length in seconds is not known.
    pub(super) fn check_within(&self, seconds_max: Option<f64>) -> Result<(), BadInput> {
        let (problem, accepted) = match seconds_max {
            Some(most) if self.seconds < most => return Ok(()),
            Some(most) => ("the run is over by then", format!("a moment below {most}")),
            None => (
                "nobody knows how many seconds a number of transactions takes",
                "--seconds instead of --transactions".to_owned(),
            ),
        };
        Err(BadInput::value(FLAG, self.text, problem, accepted))
    }

    /// Refuses changes of borders where no worker owns partitions, or where they follow the
    /// workload.
    pub(super) fn check_rearranges(&self, execution: Execution, adapts: bool) -> Result<(), BadInput> {
        let (problem, accepted) = match execution {
            Execution::Inline => ("workers own no partitions", "--execution plp or atrapos"),
            _ if adapts => ("partitions follow the workload", "--adaptive off or monitor"),
            _ => return Ok(()),
        };
        Err(BadInput::value(FLAG, self.text, problem, accepted))
    }

    /// Refuses a failure that cannot be, where this many sockets have workers.
    pub(super) fn refuse_failure(&self, why: FailureError, sockets: usize) -> BadInput {
        let others = || "workers on two sockets, or no fail-socket".to_owned();
        let (problem, accepted) = match why {
            FailureError::SeveralInstances => {
                ("other instances wait for those of the socket", "--deploy 1isl".to_owned())
            }
            FailureError::NobodyLeft => ("nobody would be left", others()),
            FailureError::NoWorker(_) if sockets < 2 => ("no worker is on this socket", others()),
            FailureError::NoWorker(_) => {
                ("no worker is on this socket", format!("fail-socket=0 to {}", sockets - 1))
            }
        };
        BadInput::value(FLAG, self.text, problem, accepted)
    }
}

impl Asked<'_> {
    /// That the workload does not change in this way, but in those that are `accepted`.
    pub fn refused(&self, accepted: &str) -> BadInput {
        BadInput::value(FLAG, self.text, "this workload does not change so", accepted)
    }

    /// The mix of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn mix<C: Choice>(&self, name: &str) -> Result<C, BadInput> {
        let unknown = |_| BadInput::value(FLAG, self.text, "unknown mix", C::accepted());
        named_value("mix", name).map_err(unknown)
    }
}

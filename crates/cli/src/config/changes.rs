//! `--at SECONDS=CHANGE`: what a workload changes to while it runs.

use serde::{Serialize, Serializer};

use super::asked::Asked;
use super::workloads::Workload;
use crate::arguments::CommonFlags;
use crate::bad_input::BadInput;

/// A change at a moment, and the workload from then on. Serialises as the flag was given.
#[derive(Clone, Debug, PartialEq)]
pub struct At {
    /// Seconds of the measured time.
    pub seconds: f64,
    /// What changes, as it was given.
    pub change: String,
    /// The workload afterwards.
    pub workload: Workload,
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}={}", self.seconds, self.change))
    }
}

/// What the flags say, in the order of their moments, of a run of so many seconds; `None`: they are not known.
pub(super) fn changes(
    common: &CommonFlags,
    workload: &Workload,
    seconds_max: Option<f64>,
) -> Result<Vec<At>, BadInput> {
    let mut asked = common.at.iter().map(|text| Asked::of(text)).collect::<Result<Vec<_>, _>>()?;
    asked.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
    let (mut all, mut workload) = (Vec::new(), workload.clone());
    for (seconds, said, asked) in asked {
        asked.is_within(seconds, seconds_max)?;
        workload = workload.changed(&asked)?;
        all.push(At { seconds, change: said.to_owned(), workload: workload.clone() });
    }
    Ok(all)
}

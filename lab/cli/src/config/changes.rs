//! `--at SECONDS=CHANGE`: what a workload changes to while it runs, what fails, and which
//! partitions move.

use harness::{Execution, Failure, Shift};
use serde::{Serialize, Serializer};

use super::asked::{Moment, What};
use super::workloads::Workload;
use crate::arguments::CommonFlags;
use crate::bad_input::BadInput;

/// A change at a moment, and the workload from then on. Serialises as the flag was given.
#[derive(Clone, Debug, PartialEq)]
pub struct At {
    /// Seconds of the measured time.
    pub seconds: f64,
    /// The change as it was typed.
    pub change: String,
    /// The workload afterwards.
    pub workload: Workload,
    /// The socket that fails, if one does: then the workload stays what it was.
    pub fails: Option<u32>,
    /// The changes of borders between partitions, if there are some: then, too.
    pub shifts: Option<Shift>,
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}={}", self.seconds, self.change))
    }
}

/// The events that the flags ask for, in the order of their moments. `seconds_max` is the length of
/// the run, `None` if it is not known; `sockets` are those in use, and `adapts` is true if
/// partitions follow the workload.
pub(super) fn changes(
    common: &CommonFlags,
    workload: &Workload,
    seconds_max: Option<f64>,
    sockets: usize,
    instances: usize,
    execution: Execution,
    adapts: bool,
) -> Result<Vec<At>, BadInput> {
    let mut moments = common.at.iter().map(|text| Moment::of(text)).collect::<Result<Vec<_>, _>>()?;
    moments.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let (mut all, mut workload) = (Vec::new(), workload.clone());
    let mut failures = Vec::new();
    let with_workers = (0..sockets as u32).collect::<Vec<u32>>();
    for moment in moments {
        moment.check_within(seconds_max)?;
        let (mut fails, mut shifts) = (None, None);
        match &moment.what {
            What::Changes(asked) => workload = workload.changed(asked)?,
            What::SocketFails(socket) => {
                failures.push(Failure { seconds: moment.seconds, socket: *socket });
                Failure::check(&failures, &with_workers, instances)
                    .map_err(|why| moment.refuse_failure(why, sockets))?;
                fails = Some(*socket);
            }
            What::Rearranges(action, count) => {
                moment.check_rearranges(execution, adapts)?;
                shifts = Some(Shift { seconds: moment.seconds, action: *action, count: *count });
            }
        }
        let (seconds, change) = (moment.seconds, moment.said.to_owned());
        all.push(At { seconds, change, workload: workload.clone(), fails, shifts });
    }
    Ok(all)
}

//! Values that all parts of a run use.

use crate::control::Control;
use crate::deployment::Deployment;
use crate::plan::Plan;

/// Values that all parts of a run use.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub plan: &'a Plan,
    pub deployment: &'a Deployment,
    pub control: Control<'a>,
}

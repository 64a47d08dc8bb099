//! What all parts of a run see.

use crate::control::Control;
use crate::deployment::Deployment;
use crate::plan::Plan;

/// What all parts of a run see.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub plan: &'a Plan,
    pub deployment: &'a Deployment,
    pub control: Control<'a>,
}

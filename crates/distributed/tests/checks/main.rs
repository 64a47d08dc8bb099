//! Members of deployments in the virtual machine.
#![allow(missing_docs)]
// What workers report to the test is outside of the engine.
#![allow(clippy::disallowed_types)]

mod rollbacks;
mod strangers;
mod waits;

//! Members of deployments in the virtual machine.
#![allow(missing_docs)]

mod rollbacks;
mod waits;

//! Checks that programs declare the shared memory that they access.
//!
//! A line costs virtual time where an atomic operation, `read_words`, `write_words` or `touch`
//! names it. A machine that checks touches compares these declarations with the accesses of the
//! program: `guard` protects the pages of all regions, so that each access traps. An access of a
//! timed core has to be in a line that the same core declared since its transaction began, as one
//! of its last 512 lines, and declared as a write if it writes. Supervisors, untimed cores and
//! memory outside regions are not checked. See `docs/declaring-touches.md`.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod guard;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[path = "no_guard.rs"]
mod guard;

pub(crate) use guard::Guard;

//! Pauses of a session whose transaction ran out of memory.

use boundary::AnySession;

/// Pauses after which the memory of deleted rows can be reused, if no transaction of another
/// session lasts longer.
const PAUSES_FOR_MEMORY: u32 = 5;
/// Length of such a pause: a little more than an epoch.
const PAUSE_FOR_MEMORY: std::time::Duration = std::time::Duration::from_micros(1_100);

/// Waits for a few epochs, after which the memory of rows that this session deleted may be reused.
// The thread belongs to the program and runs on the machine itself, so it may sleep.
#[allow(clippy::disallowed_methods)]
pub(crate) fn wait_for_memory(session: &mut dyn AnySession<'_>) {
    for _ in 0..PAUSES_FOR_MEMORY {
        std::thread::sleep(PAUSE_FOR_MEMORY);
        session.tend(session.now());
    }
}

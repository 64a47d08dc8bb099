//! Catches the panics of trials and returns their messages.

use crate::mutex::lock;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once};

thread_local! {
    /// Inside a trial: the message of the last panic of this thread; `None` outside.
    static TRIAL_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Message of the last panic of a thread that runs no trial itself, such as a worker on hardware.
static WORKER_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs `body`; the error is the message and place of its panic.
pub(crate) fn catch_panic<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    install_hook();
    TRIAL_PANIC.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(body));
    let message = TRIAL_PANIC.take().unwrap_or_default();
    result.map_err(|_| {
        let elsewhere = lock(&WORKER_PANIC).take();
        elsewhere.unwrap_or(message)
    })
}

/// Installs a hook that records panics inside trials and prints all others as before.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let payload = panic.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("without a message");
            let place = panic.location().map_or(String::new(), |location| format!(" ({location})"));
            let message = format!("{text}{place}");
            let inside = TRIAL_PANIC
                .with_borrow_mut(|slot| slot.as_mut().map(|slot| *slot = message.clone()).is_some());
            if !inside {
                *lock(&WORKER_PANIC) = Some(message);
                before(panic);
            }
        }));
    });
}

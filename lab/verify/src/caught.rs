//! Panics of what is tried, as words.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

thread_local! {
    /// Inside a trial, what the last panic said; `None` outside.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What the last panic of a thread said that runs no trial itself: workers on hardware are such
/// threads.
static SAID_ELSEWHERE: Mutex<Option<String>> = Mutex::new(None);

/// Runs something that may panic; what the panic said, and where.
pub(crate) fn caught<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    listen();
    SAID.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(body));
    let said = SAID.take().unwrap_or_default();
    result.map_err(|_| {
        let elsewhere = SAID_ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner).take();
        elsewhere.unwrap_or(said)
    })
}

/// Panics inside trials are remembered instead of printed; others are printed as ever.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let payload = panic.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("without a message");
            let place = panic.location().map_or(String::new(), |location| format!(" ({location})"));
            let said = format!("{text}{place}");
            let inside =
                SAID.with_borrow_mut(|slot| slot.as_mut().map(|slot| *slot = said.clone()).is_some());
            if !inside {
                *SAID_ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
                before(panic);
            }
        }));
    });
}

//! Pinned threads and parking on a word (futex).

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::clock;
use super::handle::HardwareCore;
use crate::{Nanos, Place};
use terms::HardwareThread;

/// Longest sleep of one `park`: a waiter reads its word again at least this often, so a lost
/// wake-up costs time only.
const PARK_NANOS_MAX: u64 = 100_000_000;

/// Shortest rest: what a change of threads takes, several times.
const REST_NANOS_MIN: u64 = 50_000;

pub(super) fn parallel(
    c: HardwareCore,
    places: &[Place],
    worker: &(dyn Fn(HardwareCore, usize) + Sync),
    main: &mut dyn FnMut(HardwareCore),
) {
    std::thread::scope(|scope| {
        for (index, place) in places.iter().enumerate() {
            let place = *place;
            scope.spawn(move || {
                if let Some(thread) = place.thread {
                    pin(thread);
                }
                worker(c, index);
            });
        }
        main(c);
    });
}

/// Binds the calling thread. A refusal (the thread left the allowed set meanwhile) leaves it where
/// it is.
#[cfg_attr(miri, allow(unused_variables))]
fn pin(thread: HardwareThread) {
    #[cfg(not(miri))]
    {
        let mut set = rustix::thread::CpuSet::new();
        if (thread.0 as usize) < rustix::thread::CpuSet::MAX_CPU {
            set.set(thread.0 as usize);
            let _ = rustix::thread::sched_setaffinity(None, &set);
        }
    }
}

pub(super) fn offer_processor() {
    std::thread::yield_now();
}

/// Sleeping, and not yielding: a processor that is idle gets threads that wait for another one.
pub(super) fn rest(nanos: u64) {
    std::thread::sleep(Duration::from_nanos(nanos.max(REST_NANOS_MIN)));
}

/// The futex is the low half of the word: the engine's words change in their low half when they
/// announce something.
#[cfg(not(miri))]
fn low_half(word: &AtomicU64) -> *const u32 {
    std::ptr::from_ref(word).cast::<u32>()
}

pub(super) fn park(word: &AtomicU64, seen: u64, deadline: Option<Nanos>) {
    let left = deadline.map_or(PARK_NANOS_MAX, |end| end.since(clock::now())).min(PARK_NANOS_MAX);
    if left == 0 {
        return;
    }
    let timeout = Duration::from_nanos(left);
    #[cfg(not(miri))]
    {
        let time = libc::timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // SAFETY: the futex word is the low half of a live, aligned atomic; the time outlives the
        // call. The kernel compares and sleeps atomically, so a change between the caller's load
        // and this call is not lost.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                low_half(word),
                libc::FUTEX_WAIT,
                seen as u32,
                &raw const time,
                std::ptr::null::<u32>(),
                0u32,
            );
        }
    }
    #[cfg(miri)]
    {
        let _ = (word, seen, timeout);
        std::thread::yield_now();
    }
}

#[cfg_attr(miri, allow(unused_variables))]
pub(super) fn unpark(word: &AtomicU64, count: u32) {
    #[cfg(not(miri))]
    // SAFETY: as in `park`; waking reads no memory of ours.
    unsafe {
        libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE, count.min(i32::MAX as u32));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::{Hardware, Place, Platform};

    #[test]
    fn parked_cores_wake_up() {
        let c = Hardware::core();
        let word = AtomicU64::new(0);
        let places = [Place { thread: None }; 3];
        let worker = |c, _| {
            while Hardware::load(c, &word, Ordering::Acquire) == 0 {
                Hardware::park(c, &word, 0, None);
            }
        };
        Hardware::parallel(c, &places, &worker, &mut |c| {
            Hardware::store(c, &word, 1, Ordering::Release);
            Hardware::unpark(c, &word, u32::MAX);
        });
    }

    #[test]
    fn spinning_ends_at_the_deadline() {
        let c = Hardware::core();
        let word = AtomicU64::new(7);
        let end = Hardware::now(c).plus(1_000_000);
        assert_eq!(Hardware::spin_while(c, &word, 7, Some(end)), 7);
        assert!(Hardware::now(c) >= end);
    }
}

//! Which process this is, for what a child of `fork` has of its parent's without being its parent.
//!
//! A child has a copy of all memory, and shares open files and their locks. One word lies in memory
//! that the kernel empties in a child (`MADV_WIPEONFORK`): a process that finds it empty takes the
//! number behind the last one in its memory, which is its parent's. So a query costs two loads, and
//! no system call. Kernels before 4.14 empty nothing: there the C library calls a handler in each
//! child, which `fork` by a plain system call evades.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::{Hardware, HardwareRegion};
use crate::RegionBytes;

/// The word that a child finds empty; null until the first query.
static PLACE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// The word where no memory is emptied.
static PLAIN: AtomicU64 = AtomicU64::new(0);
/// The last number that this process, or one that it comes from, took.
static LAST: AtomicU64 = AtomicU64::new(0);

impl Hardware {
    /// A number that this process has, and no process that it comes from.
    #[inline]
    pub fn process() -> u64 {
        // Acquire: pairs with the release of the thread that made the word.
        let place = PLACE.load(Ordering::Acquire);
        if place.is_null() {
            return number(make());
        }
        // SAFETY: `make` left a word there that stays for good.
        number(unsafe { &*place })
    }
}

#[inline]
fn number(word: &AtomicU64) -> u64 {
    // Relaxed: only the number matters, which is the same for all threads that read one.
    match word.load(Ordering::Relaxed) {
        0 => take(word),
        number => number,
    }
}

#[cold]
fn take(word: &AtomicU64) -> u64 {
    // Relaxed: as above. Other threads of this process may take one too, of which one counts.
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed)
        .map_or_else(|first| first, |_| number)
}

#[cold]
fn make() -> &'static AtomicU64 {
    let emptied = emptied_word();
    let made = emptied.as_ref().map_or(ptr::from_ref(&PLAIN).cast_mut(), |region| region.base().cast());
    // AcqRel: a thread that finds the word finds it as it was made.
    let won = PLACE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    if won.is_ok() {
        match emptied {
            Some(region) => std::mem::forget(region),
            None => {
                // SAFETY: the handler stores to one word. A refusal means that there is no memory,
                // and forks go unnoticed.
                #[cfg(not(miri))]
                unsafe {
                    libc::pthread_atfork(None, None, Some(empty))
                };
            }
        }
    }
    let place = won.map_or_else(|first| first, |_| made);
    // SAFETY: the word is `PLAIN`, or lies in a region that is never unmapped: this one, or that of
    // the thread that was first.
    unsafe { &*place }
}

#[cfg(not(miri))]
unsafe extern "C" fn empty() {
    PLAIN.store(0, Ordering::Relaxed);
}

/// A word that the kernel empties in children, if it supports that.
fn emptied_word() -> Option<HardwareRegion> {
    if cfg!(miri) {
        return None;
    }
    let region = HardwareRegion::map(None, size_of::<AtomicU64>(), "number of the process").ok()?;
    // SAFETY: the range lies inside our mapping, which is private and holds zeros.
    let done = unsafe { libc::madvise(region.base().cast(), region.bytes(), libc::MADV_WIPEONFORK) };
    (done == 0).then_some(region)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// The numbers that a child reports of itself and of its own child.
    fn child_of(depth: u32) -> Vec<u64> {
        let mut ends = [0; 2];
        // SAFETY: two descriptors are written into the array.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the child uses its own memory and the pipe, and ends by `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                let mut numbers = vec![Hardware::process()];
                if depth > 1 {
                    numbers.extend(child_of(depth - 1));
                }
                for number in numbers {
                    // SAFETY: eight bytes are read from the number.
                    unsafe { libc::write(ends[1], ptr::from_ref(&number).cast(), 8) };
                }
                // SAFETY: nothing of the parent's is run at the end.
                unsafe { libc::_exit(0) }
            }
            child => {
                assert!(child > 0);
                let mut numbers = Vec::new();
                for _ in 0..depth {
                    let mut number = 0_u64;
                    // SAFETY: eight bytes are written into the number.
                    assert_eq!(unsafe { libc::read(ends[0], ptr::from_mut(&mut number).cast(), 8) }, 8);
                    numbers.push(number);
                }
                // SAFETY: the child is ours, and its state is not requested.
                unsafe {
                    libc::waitpid(child, ptr::null_mut(), 0);
                    libc::close(ends[0]);
                    libc::close(ends[1]);
                }
                numbers
            }
        }
    }

    #[test]
    fn a_child_is_another_process() {
        let own = Hardware::process();
        assert!(own != 0);
        assert_eq!(Hardware::process(), own);
        let [child, grandchild] = child_of(2)[..] else { panic!("two of them") };
        assert!(own < child && child < grandchild, "{own}, {child}, {grandchild}");
        assert_eq!(Hardware::process(), own);
    }
}

//! Settings of a process in the kernel: its hardware threads and its limits.

use std::io;
use std::sync::Once;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use terms::HardwareThread;

use super::{Hardware, HardwareCore};

impl Hardware {
    /// Keeps this thread, and those that it starts from now on, on these hardware threads. Of no
    /// threads it means nothing.
    ///
    /// # Errors
    /// The process may run on none of them.
    pub fn confine(_: HardwareCore, threads: &[HardwareThread]) -> io::Result<()> {
        if threads.is_empty() {
            return Ok(());
        }
        let mut set = rustix::thread::CpuSet::new();
        for thread in threads.iter().filter(|thread| (thread.0 as usize) < rustix::thread::CpuSet::MAX_CPU) {
            set.set(thread.0 as usize);
        }
        Ok(rustix::thread::sched_setaffinity(None, &set)?)
    }

    /// The hardware threads that the kernel lets this thread run on now: its affinity, its control
    /// group's, and those that are online. `None`: they are unknown.
    pub(super) fn allowed() -> Option<Vec<HardwareThread>> {
        let set = rustix::thread::sched_getaffinity(None).ok()?;
        let numbers = 0..rustix::thread::CpuSet::MAX_CPU;
        Some(
            numbers
                .filter(|number| set.is_set(*number))
                .map(|number| HardwareThread(number as u32))
                .collect(),
        )
    }

    /// Lets this process open as many files as it may ever: links between many workers need several
    /// each.
    pub fn allow_files(_: HardwareCore) {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // If it is refused, a link reports that later.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Has a write beyond the limit of a file's length (`ulimit -f`) fail, as any other that is
/// refused. Unless the program has set another action, the kernel ends the process instead
/// (`SIGXFSZ`), and whatever it had to acknowledge.
pub(super) fn survive_file_limits() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if cfg!(miri) {
            return;
        }
        // SAFETY: the old action is written into a local of that type; the new one runs no code.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut old) == 0
                && old.sa_sigaction == libc::SIG_DFL
            {
                let ignored = libc::sigaction { sa_sigaction: libc::SIG_IGN, ..old };
                libc::sigaction(libc::SIGXFSZ, &raw const ignored, std::ptr::null_mut());
            }
        }
    });
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::Platform;

    #[test]
    fn threads_stay_where_they_are_pinned() {
        std::thread::spawn(|| {
            let c = Hardware::core();
            Hardware::confine(c, &[]).expect("nothing is requested");
            let usable = Hardware::usable(c).expect("known");
            assert!(Hardware::bind(c, &usable[..1]));
            assert_eq!(Hardware::usable(c).as_deref(), Some(&usable[..1]));
            assert!(Hardware::bind(c, &usable), "it may go back");
            assert_eq!(Hardware::usable(c), Some(usable));
            let nowhere = HardwareThread(rustix::thread::CpuSet::MAX_CPU as u32 - 1);
            assert!(Hardware::confine(c, &[nowhere]).is_err() && !Hardware::bind(c, &[nowhere]));
        })
        .join()
        .expect("it ends");
    }
}

//! One poll of many descriptors: `epoll`, which reports those that are ready, however many are not.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::polling::check;

/// Descriptors that are polled together.
pub struct KernelWatch {
    /// `None` where the kernel has none to give: then each may be ready.
    epoll: Option<OwnedFd>,
    found: Vec<libc::epoll_event>,
}

fn watch(files: &[RawFd]) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let epoll = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } as isize)?;
    // SAFETY: the kernel has just handed out this descriptor to this call, and no other code knows
    // it.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll as RawFd) };
    for (place, file) in files.iter().enumerate() {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: place as u64 };
        // SAFETY: one event, which outlives the call.
        let added = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, *file, &raw mut event) };
        check(added as isize)?;
    }
    Ok(epoll)
}

impl KernelWatch {
    pub(super) fn new(files: &[RawFd]) -> KernelWatch {
        let none = libc::epoll_event { events: 0, u64: 0 };
        // At least one, as the call demands.
        KernelWatch { epoll: watch(files).ok(), found: vec![none; files.len().max(1)] }
    }

    /// Reports which descriptors are ready, without waiting.
    pub(super) fn poll(&mut self, ready: &mut dyn FnMut(usize)) {
        let all = self.found.len();
        let Some(epoll) = &self.epoll else { return (0..all).for_each(ready) };
        let (at, room) = (self.found.as_mut_ptr(), all as libc::c_int);
        // SAFETY: room for this many events.
        let found = unsafe { libc::epoll_wait(epoll.as_raw_fd(), at, room, 0) };
        // Interrupted: the next poll finds what this one has not.
        for event in &self.found[..usize::try_from(found).unwrap_or(0)] {
            ready(event.u64 as usize);
        }
    }
}

//! Waiting for descriptors.

use std::io::{self, Error, ErrorKind};
use std::os::fd::RawFd;

/// The result of a system call that returns a negative number when it fails.
pub(super) fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

/// Waits up to `nanos` until one of these descriptors can be read, or its peer is gone; returns
/// true if so.
///
/// # Errors
/// The operating system refuses.
pub fn poll(files: impl Iterator<Item = RawFd>, nanos: u64) -> io::Result<bool> {
    let mut entries: Vec<libc::pollfd> =
        files.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let time = libc::timespec {
        tv_sec: (nanos / 1_000_000_000).cast_signed(),
        tv_nsec: (nanos % 1_000_000_000).cast_signed(),
    };
    // SAFETY: entries and time outlive the call; no signal mask is given.
    let ready = unsafe {
        libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, &raw const time, std::ptr::null())
    };
    match check(ready as isize) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits until a socket can be written to, or its peer is gone, at most so long. May return early.
///
/// # Errors
/// The operating system refuses.
pub fn poll_room(fd: RawFd, nanos: u64) -> io::Result<()> {
    let mut entry = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    let millis = libc::c_int::try_from(nanos.div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX);
    // SAFETY: one entry, which outlives the call.
    match check(unsafe { libc::poll(&raw mut entry, 1, millis) } as isize) {
        Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

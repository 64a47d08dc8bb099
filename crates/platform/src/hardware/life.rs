//! Checks that the process at the other end of a connection still has it open.
//!
//! A process that ends, in whichever way, closes its sockets, and the kernel tells the other end at
//! once. Rings in shared memory have no such news: the socket over which their two sides met stays
//! open beside them for it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::clock;

/// The socket is looked at this often at most: a twentieth of the second within which a death is to
/// be noticed.
pub(super) const LOOK_NANOS: u64 = 50_000_000;

/// The socket between two processes.
#[derive(Debug)]
pub struct Life {
    socket: OwnedFd,
    closed: AtomicBool,
    /// When the socket was looked at.
    looked: AtomicU64,
}

impl Life {
    /// Over the socket at which the two have met.
    pub fn new(socket: OwnedFd) -> Self {
        Life { socket, closed: AtomicBool::new(false), looked: AtomicU64::new(clock::now().0) }
    }

    /// True if this side has found the connection closed.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed, here and below: what is found later is found too.
        self.closed.load(Ordering::Relaxed)
    }

    /// The same after a look, if the last one was long enough ago.
    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        let now = clock::now().0;
        let due = now.saturating_sub(self.looked.load(Ordering::Relaxed)) >= LOOK_NANOS;
        self.is_closed() || (due && self.look(now))
    }

    #[cold]
    fn look(&self, now: u64) -> bool {
        self.looked.store(now, Ordering::Relaxed);
        self.looks_closed()
    }

    /// The same after a look now.
    pub fn looks_closed(&self) -> bool {
        let mut entry = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: one entry, which outlives the call.
        let found = unsafe { libc::poll(&raw mut entry, 1, 0) };
        let gone = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        if found > 0 && entry.revents & gone != 0 {
            self.closed.store(true, Ordering::Relaxed);
        }
        self.is_closed()
    }

    /// Closes the connection, also for the other side.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        // A connection that is closed already is what was wanted.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

//! Checks that the process at the other end of a connection still has it open.
//!
//! A process that ends, in whichever way, closes its sockets, and the kernel notifies the other end
//! at once. Rings in shared memory are not notified: so the socket over which their two sides
//! connected stays open beside them.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::clock;

/// Shortest time between two polls of the socket: a twentieth of the second within which the end of
/// a process is to be detected.
pub(super) const PEER_CHECK_NANOS: u64 = 50_000_000;

/// The socket between two processes.
#[derive(Debug)]
pub struct Life {
    socket: OwnedFd,
    closed: AtomicBool,
    /// Time of the last poll of the socket.
    polled: AtomicU64,
}

impl Life {
    /// Over the socket by which the two processes have connected.
    pub fn new(socket: OwnedFd) -> Self {
        Life { socket, closed: AtomicBool::new(false), polled: AtomicU64::new(clock::now().0) }
    }

    /// True if this side has found the connection closed.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed, here and below: a later check finds what this one misses.
        self.closed.load(Ordering::Relaxed)
    }

    /// The same after a poll of the socket, if the last poll was long enough ago.
    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        let now = clock::now().0;
        let due = now.saturating_sub(self.polled.load(Ordering::Relaxed)) >= PEER_CHECK_NANOS;
        self.is_closed() || (due && self.poll_at(now))
    }

    #[cold]
    fn poll_at(&self, now: u64) -> bool {
        self.polled.store(now, Ordering::Relaxed);
        self.poll_closed()
    }

    /// The same after a poll of the socket.
    pub fn poll_closed(&self) -> bool {
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

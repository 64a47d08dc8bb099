//! Guests: connections whose other side has not yet identified and authenticated itself.
//!
//! Each guest is handled on a thread of its own, so that no guest delays another one, and the
//! result is returned to the receiving thread. There are at most [`GUESTS_MAX`] guests at a time.
//! One more guest evicts the oldest: a genuine peer completes its handshake within milliseconds, so
//! the oldest guest is most likely a silent one. An evicted peer tries again.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use rustix::net::Shutdown;

/// Most guests at a time.
pub const GUESTS_MAX: usize = 64;
/// Most threads at a time: the threads of evicted guests end soon after.
const THREADS_MAX: usize = 2 * GUESTS_MAX;
/// Bytes of a thread's stack: TLS needs some tens of thousands.
const STACK_BYTES: usize = 1 << 19;

struct WaitingGuest {
    number: u64,
    /// A copy of the socket, to evict the guest.
    socket: OwnedFd,
}

/// Handles guests, each of which yields a `T`.
pub struct Reception<T> {
    /// Oldest guest first.
    guests: VecDeque<WaitingGuest>,
    /// Number of guests so far.
    count: u64,
    guests_max: usize,
    results: Receiver<(u64, T)>,
    result_sender: Sender<(u64, T)>,
    /// Readable when a result was sent.
    bell: UnixStream,
    /// Written to by the threads of guests.
    wake_sender: Arc<UnixStream>,
    threads: Arc<AtomicUsize>,
}

/// Counts a thread.
struct CountedThread(Arc<AtomicUsize>);

impl Drop for CountedThread {
    fn drop(&mut self) {
        // SeqCst: this count limits threads.
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<T: Send + 'static> Reception<T> {
    /// Returns a reception without guests.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new() -> io::Result<Self> {
        let ((bell, wake_sender), (result_sender, results)) = (UnixStream::pair()?, mpsc::channel());
        bell.set_nonblocking(true)?;
        wake_sender.set_nonblocking(true)?;
        let (wake_sender, threads) = (Arc::new(wake_sender), Arc::default());
        let guests = VecDeque::new();
        Ok(Reception {
            guests,
            count: 0,
            guests_max: GUESTS_MAX,
            results,
            result_sender,
            bell,
            wake_sender,
            threads,
        })
    }

    /// Returns the descriptor that is readable when a result is available.
    pub fn descriptor(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// Returns true if another guest would evict none.
    pub fn has_room(&self) -> bool {
        self.guests.len() < self.guests_max
    }

    /// Returns true if new guests evict old ones.
    pub(super) fn sends_away(&self) -> bool {
        self.guests_max == GUESTS_MAX
    }

    /// Handles guests one at a time and evicts none: a fault planted for tests.
    pub(super) fn one_at_a_time(&mut self) {
        self.guests_max = 1;
    }

    /// Handles a guest. Without a free place, descriptor or thread the connection is closed; the
    /// guest may connect again.
    pub fn receive<S: AsFd + Send + 'static>(
        &mut self,
        socket: S,
        identify: impl FnOnce(S) -> T + Send + 'static,
    ) {
        while self.guests.len() >= self.guests_max {
            if let Some(WaitingGuest { socket, .. }) = self.guests.pop_front() {
                // The connection may be closed already.
                let _ = rustix::net::shutdown(&socket, Shutdown::Both);
            }
        }
        // SeqCst: this count limits threads.
        let counted = CountedThread(Arc::clone(&self.threads));
        if self.threads.fetch_add(1, Ordering::SeqCst) >= THREADS_MAX {
            return;
        }
        let Ok(copy) = socket.as_fd().try_clone_to_owned() else { return };
        self.count += 1;
        let (number, result_sender, wake_sender) =
            (self.count, self.result_sender.clone(), Arc::clone(&self.wake_sender));
        let thread = std::thread::Builder::new().name("isles-guest".to_owned()).stack_size(STACK_BYTES);
        let spawned = thread.spawn(move || {
            let _counted = counted;
            // The receiver may be gone; a full bell is already readable.
            let _ = result_sender.send((number, identify(socket)));
            let _ = (&*wake_sender).write(&[1]);
        });
        if spawned.is_ok() {
            self.guests.push_back(WaitingGuest { number, socket: copy });
        }
    }

    /// Returns the result of a guest, if one is available.
    pub fn take_identified(&mut self) -> Option<T> {
        let mut rung = [0; GUESTS_MAX];
        while (&self.bell).read(&mut rung).is_ok_and(|bytes| bytes > 0) {}
        loop {
            let (number, identified) = self.results.try_recv().ok()?;
            // The result of an evicted guest is dropped.
            if let Some(at) = self.guests.iter().position(|guest| guest.number == number) {
                self.guests.remove(at);
                return Some(identified);
            }
        }
    }
}

impl<T> Drop for Reception<T> {
    fn drop(&mut self) {
        for WaitingGuest { socket, .. } in &self.guests {
            // The connection may be closed already.
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }
}

//! Guests: connections whose other side has not said yet, or not proved, who it is.
//!
//! Each guest is heard on a thread of its own, so that nobody waits for another one, and what is
//! made of it comes back to whoever receives. There are [`GUESTS_MAX`] at a time. When one more
//! comes, the one goes that has been there longest: a friend proves who it is within milliseconds,
//! and a guest that is silent has had its time. A friend that was sent away tries again.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use rustix::net::Shutdown;

/// Guests at a time.
pub const GUESTS_MAX: usize = 64;
/// Threads at a time: those of guests that were sent away end soon after.
const THREADS_MAX: usize = 2 * GUESTS_MAX;
/// Bytes of a thread's stack: TLS needs some tens of thousands.
const STACK_BYTES: usize = 1 << 19;

struct Guest {
    number: u64,
    /// The socket once more, to send the guest away.
    socket: OwnedFd,
}

/// Guests under way, each of which becomes a `T`.
pub struct Reception<T> {
    /// Those who came first are in front.
    guests: VecDeque<Guest>,
    /// Guests that have come so far.
    count: u64,
    guests_max: usize,
    heard: Receiver<(u64, T)>,
    told: Sender<(u64, T)>,
    /// Can be read when something was told.
    bell: UnixStream,
    /// Written to by guests.
    button: Arc<UnixStream>,
    threads: Arc<AtomicUsize>,
}

/// Counts a thread.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        // SeqCst: a count that bounds threads.
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<T: Send + 'static> Reception<T> {
    /// Without guests so far.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new() -> io::Result<Self> {
        let ((bell, button), (told, heard)) = (UnixStream::pair()?, mpsc::channel());
        bell.set_nonblocking(true)?;
        button.set_nonblocking(true)?;
        let (button, threads) = (Arc::new(button), Arc::default());
        let guests = VecDeque::new();
        Ok(Reception { guests, count: 0, guests_max: GUESTS_MAX, heard, told, bell, button, threads })
    }

    /// Which descriptor can be read when a guest is done.
    pub fn descriptor(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// True if another guest could come without sending one away.
    pub fn has_room(&self) -> bool {
        self.guests.len() < self.guests_max
    }

    /// True if guests are sent away when others come.
    pub(super) fn sends_away(&self) -> bool {
        self.guests_max == GUESTS_MAX
    }

    /// Guests come one at a time, and none is sent away: what tests have to notice.
    pub(super) fn one_at_a_time(&mut self) {
        self.guests_max = 1;
    }

    /// Hears a guest. One for whom there is no room, descriptor or thread is sent away, and may
    /// come again.
    pub fn receive<S: AsFd + Send + 'static>(
        &mut self,
        socket: S,
        hear: impl FnOnce(S) -> T + Send + 'static,
    ) {
        while self.guests.len() >= self.guests_max {
            if let Some(Guest { socket, .. }) = self.guests.pop_front() {
                // It may be gone already.
                let _ = rustix::net::shutdown(&socket, Shutdown::Both);
            }
        }
        // SeqCst: a count that bounds threads.
        let counted = Counted(Arc::clone(&self.threads));
        if self.threads.fetch_add(1, Ordering::SeqCst) >= THREADS_MAX {
            return;
        }
        let Ok(copy) = socket.as_fd().try_clone_to_owned() else { return };
        self.count += 1;
        let (number, told, button) = (self.count, self.told.clone(), Arc::clone(&self.button));
        let thread = std::thread::Builder::new().name("isles-guest".to_owned()).stack_size(STACK_BYTES);
        let heard = thread.spawn(move || {
            let _counted = counted;
            // Nobody may be there to hear it; a bell that is full rings already.
            let _ = told.send((number, hear(socket)));
            let _ = (&*button).write(&[1]);
        });
        if heard.is_ok() {
            self.guests.push_back(Guest { number, socket: copy });
        }
    }

    /// A guest that was heard.
    pub fn take_heard(&mut self) -> Option<T> {
        let mut rung = [0; GUESTS_MAX];
        while (&self.bell).read(&mut rung).is_ok_and(|bytes| bytes > 0) {}
        loop {
            let (number, heard) = self.heard.try_recv().ok()?;
            // One that was sent away is forgotten.
            if let Some(at) = self.guests.iter().position(|guest| guest.number == number) {
                self.guests.remove(at);
                return Some(heard);
            }
        }
    }
}

impl<T> Drop for Reception<T> {
    fn drop(&mut self) {
        for Guest { socket, .. } in &self.guests {
            // It may be gone already.
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }
}

//! Connections that there are, and what they have done.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::stream::Socket;

/// Connections that have not said who they are, or not proved it.
pub const STRANGERS_MAX: usize = 64;

/// State of a connection, for the end of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It has not proved who it is.
    Stranger = 0,
    /// It waits for the client, without a transaction.
    Idle = 1,
    /// It waits for the client, within a block.
    InBlock = 2,
    /// A statement runs.
    Busy = 3,
    /// It was a stranger for too long, and others have come.
    Ended = 4,
}

/// A connection, as others see it.
pub struct Entry {
    socket: Socket,
    user: Mutex<String>,
    state: AtomicU8,
    /// Statements so far.
    pub statements: AtomicU64,
    /// Statements that have failed.
    pub errors: AtomicU64,
}

impl Entry {
    /// Says what the connection does.
    pub fn set_state(&self, state: State) {
        // Relaxed: others act on it a moment later just as well.
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn is_session(&self) -> bool {
        !self.is(State::Stranger) && !self.is(State::Ended)
    }

    fn is(&self, state: State) -> bool {
        self.state.load(Ordering::Relaxed) == state as u8
    }
}

/// Sums over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were turned away after they had said who they are.
    pub refused: u64,
    /// Wrong passwords.
    pub wrong_passwords: u64,
    /// Sessions, and those of them within a block or with a statement that runs.
    pub sessions: u64,
    /// Sessions within a block.
    pub in_block: u64,
    /// Sessions whose statement runs.
    pub busy: u64,
    /// Connections that have not proved who they are.
    pub strangers: u64,
    /// Statements.
    pub statements: u64,
    /// Statements that have failed.
    pub errors: u64,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<u64, Arc<Entry>>,
    next: u64,
    /// Sums over connections that have ended.
    past: Counts,
}

/// All connections.
#[derive(Default)]
pub struct Registry(Mutex<Inner>);

impl Registry {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a stranger. If there are too many, the oldest one is ended.
    pub fn add(&self, socket: Socket) -> (u64, Arc<Entry>) {
        let mut inner = self.inner();
        let strangers: Vec<_> = inner.entries.values().filter(|entry| entry.is(State::Stranger)).collect();
        if strangers.len() >= STRANGERS_MAX {
            strangers[0].set_state(State::Ended);
            strangers[0].socket.shutdown(Shutdown::Both);
        }
        inner.next += 1;
        inner.past.accepted += 1;
        let number = inner.next;
        let entry = Arc::new(Entry {
            socket,
            user: Mutex::default(),
            state: AtomicU8::new(State::Stranger as u8),
            statements: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        });
        inner.entries.insert(number, Arc::clone(&entry));
        (number, entry)
    }

    /// Makes a stranger a session, unless there are as many as there may be: all, or of this user.
    pub fn admit(&self, entry: &Entry, user: &str, most: usize, most_of_user: Option<usize>) -> bool {
        let inner = self.inner();
        let name = |entry: &Entry| entry.user.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let sessions = inner.entries.values().filter(|entry| entry.is_session());
        let (mut all, mut own) = (0, 0);
        for session in sessions {
            all += 1;
            own += usize::from(most_of_user.is_some() && name(session) == user);
        }
        if all >= most || most_of_user.is_some_and(|most| own >= most) {
            return false;
        }
        user.clone_into(&mut entry.user.lock().unwrap_or_else(PoisonError::into_inner));
        entry.set_state(State::Idle);
        true
    }

    /// Removes a connection, and ends it.
    pub fn remove(&self, number: u64) {
        let mut inner = self.inner();
        if let Some(entry) = inner.entries.remove(&number) {
            entry.socket.shutdown(Shutdown::Both);
            inner.past.statements += entry.statements.load(Ordering::Relaxed);
            inner.past.errors += entry.errors.load(Ordering::Relaxed);
        }
    }

    /// Counts a connection that was turned away.
    pub fn refused(&self) {
        self.inner().past.refused += 1;
    }

    /// Counts a wrong password.
    pub fn wrong_password(&self) {
        self.inner().past.wrong_passwords += 1;
    }

    /// Ends the input of connections in one of these states: their threads find its end, say why,
    /// and end.
    pub fn end_input(&self, states: &[State]) {
        let inner = self.inner();
        let ends = |entry: &&Arc<Entry>| states.iter().any(|state| entry.is(*state));
        inner.entries.values().filter(ends).for_each(|entry| entry.socket.shutdown(Shutdown::Read));
    }

    /// Ends all connections at once.
    pub fn end_all(&self) {
        self.inner().entries.values().for_each(|entry| entry.socket.shutdown(Shutdown::Both));
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.inner().entries.len()
    }

    /// Returns the sums.
    pub fn counts(&self) -> Counts {
        let inner = self.inner();
        let mut counts = inner.past;
        for entry in inner.entries.values() {
            let is_session = entry.is_session();
            counts.sessions += u64::from(is_session);
            counts.strangers += u64::from(!is_session);
            counts.in_block += u64::from(entry.is(State::InBlock));
            counts.busy += u64::from(entry.is(State::Busy));
            counts.statements += entry.statements.load(Ordering::Relaxed);
            counts.errors += entry.errors.load(Ordering::Relaxed);
        }
        counts
    }
}

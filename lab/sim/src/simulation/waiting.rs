//! Fibers that wait for a line or a word, and what wakes them.

use super::Simulation;
use crate::error::WaitReason;
use crate::fiber::Fiber;
use crate::line::{LineNumber, PRIVATE_LINE};
use crate::ready::key;
use crate::word::VirtualWord;

impl Simulation {
    /// Adds a fiber to the list of those that wait for a line.
    pub(crate) fn enlist(&self, fiber: &Fiber, line: LineNumber) {
        self.fibers.enlist(fiber, self.cost().waiters(line));
    }

    /// Removes a fiber from its list.
    pub(crate) fn delist(&self, fiber: &Fiber) {
        self.fibers.delist(fiber, self.cost().waiters(fiber.wait.line.get()));
    }

    /// The fibers that wait for a line and satisfy the condition, newest first.
    pub(super) fn waiting(&self, line: LineNumber, condition: impl Fn(&Fiber) -> bool) -> Vec<&Fiber> {
        self.fibers.listed(*self.cost().waiters(line)).filter(|fiber| condition(fiber)).collect()
    }

    /// Ends the wait of a fiber in a list: it continues at this moment.
    pub(super) fn end_wait(&self, fiber: &Fiber, at_ps: u64) {
        self.delist(fiber);
        fiber.wait.reason.set(None);
        self.cost().counts().wakes += 1;
        self.wake(fiber, at_ps);
    }

    /// Handles a write of a line at this moment: fibers that spin on it lose it and read their
    /// words again. With `all`, so do fibers whose line is private and supervisors, even if the
    /// word has not changed: the writer may yet `poke` it.
    #[inline(always)]
    pub(crate) fn written(&self, line: LineNumber, at_ps: u64, all: bool) {
        if *self.cost().waiters(line) != 0 {
            self.wake_spinners(line, at_ps, all);
        }
    }

    #[cold]
    fn wake_spinners(&self, line: LineNumber, at_ps: u64, all: bool) {
        let takes_time = |fiber: &Fiber| line != PRIVATE_LINE && !fiber.is_supervisor();
        let spins = |fiber: &Fiber| {
            fiber.wait.reason.get() == Some(WaitReason::Spin)
                && (all || takes_time(fiber) || fiber.wait.changed())
        };
        let spin = self.config.model.costs.spin_loop();
        for fiber in self.waiting(line, spins) {
            let next_read_ps = || spin.next_read_ps(fiber.wait.since_ps.get(), at_ps);
            let read_ps = if takes_time(fiber) { next_read_ps() } else { at_ps };
            self.end_wait(fiber, read_ps);
        }
    }

    /// Wakes up to `count` of the fibers parked on a word, in the order of their arrival, one after
    /// the other. Returns how many.
    pub(crate) fn unpark(&self, word: *const VirtualWord, count: u32, at_ps: u64, each_ps: u64) -> u64 {
        let parked = |fiber: &Fiber| {
            fiber.wait.reason.get() == Some(WaitReason::Park) && fiber.wait.word.get() == word
        };
        let mut fibers = self.waiting(self.line(word.addr()), parked);
        fibers.sort_by_key(|fiber| fiber.wait.ticket.get());
        fibers.truncate(count as usize);
        let woken = fibers.len() as u64;
        // Newest first, because the list begins with those.
        for (earlier, fiber) in fibers.into_iter().enumerate().rev() {
            self.end_wait(fiber, at_ps + (earlier as u64 + 1) * each_ps);
        }
        woken
    }

    /// Rings the network card's bell at this moment: changes the word. Fibers that are parked on it
    /// wake then, if not before.
    pub(crate) fn ring_at(&self, word: &VirtualWord, at_ps: u64) {
        word.set(word.get().wrapping_add(1));
        let parked = |fiber: &Fiber| {
            fiber.wait.reason.get() == Some(WaitReason::Park) && std::ptr::eq(fiber.wait.word.get(), word)
        };
        for fiber in self.waiting(self.line(std::ptr::from_ref(word).addr()), parked) {
            let key = key(at_ps, fiber.order.get());
            if key < fiber.wait.until.get() {
                fiber.wait.until.set(key);
                self.ready().set(fiber.id, key);
                self.first_other.set(self.first_other.get().min(key));
            }
        }
    }
}

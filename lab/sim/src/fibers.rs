//! All fibers of one machine, both running fibers and fibers that can be reused, their stacks, and
//! the lists of waiters.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use crate::SimError;
use crate::fiber::{FIBERS_MAX, Fiber, Stackful};
use crate::stack::ColouredStack;

#[derive(Default)]
pub(crate) struct Fibers {
    /// Every fiber ever made, by id.
    all: RefCell<Vec<NonNull<Fiber>>>,
    /// Ids of fibers that have finished.
    free: RefCell<Vec<u32>>,
    free_stacks: RefCell<Vec<ColouredStack>>,
    next_ticket: Cell<u64>,
}

impl Fibers {
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> &Fiber {
        let fiber = self.all.borrow()[id as usize];
        // SAFETY: made by `Box::leak` and freed only with this; only ever borrowed shared.
        unsafe { fiber.as_ref() }
    }

    /// All fibers that were ever made.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Fiber> {
        let fibers = self.all.borrow().len() as u32;
        (0..fibers).map(|id| self.get(id))
    }

    /// A fiber that does not run, and a stack for it.
    pub(crate) fn take(&self, stack_bytes: usize) -> Result<(&Fiber, ColouredStack), SimError> {
        let free = self.free.borrow_mut().pop();
        if free.is_none() && self.all.borrow().len() >= FIBERS_MAX {
            let reason = format!("{FIBERS_MAX} workers at one time are the most");
            return Err(SimError::Config(reason));
        }
        let id = free.unwrap_or_else(|| {
            let mut all = self.all.borrow_mut();
            let id = all.len() as u32;
            let fiber = Box::new(Fiber::new(id));
            all.push(NonNull::from(Box::leak(fiber)));
            id
        });
        let recycled = self.free_stacks.borrow_mut().pop();
        let stack = recycled.map_or_else(|| ColouredStack::new(stack_bytes, id), Ok)?;
        Ok((self.get(id), stack))
    }

    /// Takes back a fiber that no longer runs, and its stack.
    pub(crate) fn recycle(&self, fiber: &Fiber) {
        // SAFETY: the fiber has finished or was never to run again; no frame is inside its
        // coroutine.
        let coroutine = unsafe { (*fiber.coroutine.get()).take() };
        if let Some(coroutine) = coroutine.filter(Stackful::done) {
            self.free_stacks.borrow_mut().push(coroutine.into_stack());
        }
        self.free.borrow_mut().push(fiber.id);
    }

    /// Adds a fiber to the list that begins here (see `waiting`).
    pub(crate) fn enlist(&self, fiber: &Fiber, head: &mut u16) {
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        fiber.wait.ticket.set(ticket);
        fiber.wait.next.set(u32::from(*head));
        *head = fiber.id as u16 + 1;
    }

    /// Removes a fiber from the list that begins here.
    pub(crate) fn delist(&self, fiber: &Fiber, head: &mut u16) {
        let next = fiber.wait.next.replace(0);
        let mut at = u32::from(*head);
        if at == fiber.id + 1 {
            *head = next as u16;
            return;
        }
        while at != 0 {
            let previous = self.get(at - 1);
            at = previous.wait.next.get();
            if at == fiber.id + 1 {
                previous.wait.next.set(next);
                return;
            }
        }
    }

    /// The fibers of the list that begins here, newest first.
    pub(crate) fn listed(&self, head: u16) -> impl Iterator<Item = &Fiber> {
        let mut at = u32::from(head);
        std::iter::from_fn(move || {
            let fiber = self.get(at.checked_sub(1)?);
            at = fiber.wait.next.get();
            Some(fiber)
        })
    }
}

impl Drop for Fibers {
    fn drop(&mut self) {
        for fiber in self.all.get_mut().drain(..) {
            // SAFETY: made by `Box::leak` in `take`, freed here only; all fibers have finished or
            // were discarded.
            drop(unsafe { Box::from_raw(fiber.as_ptr()) });
        }
    }
}

//! Stacks of fibers.

use corosensei::stack::{DefaultStack, STACK_ALIGNMENT, Stack, StackPointer};

use crate::SimError;

/// Stacks begin at this many different places within their pages, one cache line apart.
const COLOURS: usize = 64;
const COLOUR_BYTES: usize = 64;
const _: () = assert!(COLOUR_BYTES.is_multiple_of(STACK_ALIGNMENT));

/// A stack that begins a few lines below its mapping's end, another number of lines for each fiber.
/// Otherwise the hot frames of all fibers would compete for the same few sets of the host's L1.
pub(crate) struct ColouredStack {
    mapping: DefaultStack,
    skipped: usize,
}

impl ColouredStack {
    /// A stack of at least `bytes` for this fiber.
    pub(crate) fn new(bytes: usize, fiber: u32) -> Result<ColouredStack, SimError> {
        let refused = |error: std::io::Error| SimError::Host {
            bytes,
            purpose: "the stack of a fiber",
            reason: error.to_string(),
        };
        // A step that is coprime to the number of colours keeps the stacks of neighbours apart.
        let skipped = fiber as usize * 11 % COLOURS * COLOUR_BYTES;
        Ok(ColouredStack {
            mapping: DefaultStack::new(bytes + COLOURS * COLOUR_BYTES).map_err(refused)?,
            skipped,
        })
    }
}

// SAFETY: the guard page is the mapping's; `new` requested as many additional bytes as are skipped,
// so at least the minimum remains; the base stays aligned, because a colour is a multiple of the
// alignment.
unsafe impl Stack for ColouredStack {
    #[inline]
    fn base(&self) -> StackPointer {
        let base = self.mapping.base().get() - self.skipped;
        match StackPointer::new(base) {
            Some(base) => base,
            None => unreachable!("inside the mapping"),
        }
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.mapping.limit()
    }
}

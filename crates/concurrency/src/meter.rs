//! The breakdown of a worker's time.
//!
//! A meter is always in one category: [`Meter::enter`] changes the category and returns the one
//! before, to which [`Meter::leave`] returns. Reading the clock at each step would cost several
//! percent on hardware, so there only one transaction in [`SAMPLE`] is measured; the shares come
//! out the same. In the virtual machine measuring costs no virtual time and every transaction is
//! measured. While a meter is off or between samples, a step costs one predictable branch.

use platform::{Nanos, Platform};
use terms::{CATEGORIES, Category};

/// On hardware, one transaction in this many is measured.
pub const SAMPLE: u32 = 64;
/// The same of what workers do between transactions: nearly as many, but odd, because such things
/// often come in pairs.
const SAMPLE_ASIDE: u32 = 65;

/// One worker's breakdown of time.
#[derive(Clone, Debug)]
pub struct Meter {
    on: bool,
    active: bool,
    current: Category,
    since: Nanos,
    until_sample: u32,
    until_aside: u32,
    nanos: [u64; CATEGORIES],
    /// `nanos` when the current attempt began, to move the attempt's time to `Abort` if it fails.
    at_attempt: [u64; CATEGORIES],
}

impl Meter {
    /// A meter that measures, or one that never does.
    pub fn new(on: bool) -> Self {
        Meter {
            on,
            active: false,
            current: Category::Useful,
            since: Nanos(0),
            until_sample: 0,
            until_aside: 0,
            nanos: [0; CATEGORIES],
            at_attempt: [0; CATEGORIES],
        }
    }

    /// A transaction begins, to be retried until it commits.
    #[inline]
    pub fn begin<P: Platform>(&mut self, c: P::Core) {
        if !self.on {
            return;
        }
        if self.until_sample > 0 && !P::VIRTUAL {
            self.until_sample -= 1;
            return;
        }
        self.until_sample = SAMPLE - 1;
        self.activate::<P>(c, Category::Useful);
    }

    /// Something begins that is done between transactions, and counts for `category`. [`Self::end`]
    /// ends it.
    #[inline]
    pub fn begin_aside<P: Platform>(&mut self, c: P::Core, category: Category) {
        if !self.on {
            return;
        }
        if self.until_aside > 0 && !P::VIRTUAL {
            self.until_aside -= 1;
            return;
        }
        self.until_aside = SAMPLE_ASIDE - 1;
        self.activate::<P>(c, category);
    }

    #[inline]
    fn activate<P: Platform>(&mut self, c: P::Core, category: Category) {
        self.active = true;
        self.current = category;
        self.since = P::now(c);
        self.at_attempt = self.nanos;
    }

    /// The transaction is over.
    #[inline]
    pub fn end<P: Platform>(&mut self, c: P::Core) {
        if self.active {
            self.enter::<P>(c, Category::Useful);
            self.active = false;
        }
    }

    /// Time counts for `category` from now on; returns what it counted for.
    #[inline(always)]
    pub fn enter<P: Platform>(&mut self, c: P::Core, category: Category) -> Category {
        if !self.active {
            return Category::Useful;
        }
        self.switch::<P>(c, category)
    }

    /// Back to what [`Self::enter`] returned.
    #[inline(always)]
    pub fn leave<P: Platform>(&mut self, c: P::Core, before: Category) {
        if self.active {
            self.switch::<P>(c, before);
        }
    }

    #[cold]
    fn switch<P: Platform>(&mut self, c: P::Core, category: Category) -> Category {
        let now = P::now(c);
        self.nanos[self.current as usize] += now.since(self.since);
        self.since = now;
        std::mem::replace(&mut self.current, category)
    }

    /// The current attempt failed: its time counts as [`Category::Abort`], but for the time it
    /// waited.
    pub fn attempt_failed<P: Platform>(&mut self, c: P::Core) {
        if !self.active {
            return;
        }
        self.switch::<P>(c, Category::Useful);
        let mut lost = 0;
        for category in Category::ALL {
            let index = category as usize;
            if !matches!(category, Category::Wait | Category::Abort | Category::Backoff) {
                lost += self.nanos[index] - self.at_attempt[index];
                self.nanos[index] = self.at_attempt[index];
            }
        }
        self.nanos[Category::Abort as usize] += lost;
        self.at_attempt = self.nanos;
    }

    /// The next attempt begins after the backoff.
    pub fn attempt_begins(&mut self) {
        self.at_attempt = self.nanos;
    }

    /// Nanoseconds by category, in the order of [`Category::ALL`].
    pub fn nanos(&self) -> [u64; CATEGORIES] {
        self.nanos
    }

    /// Forgets what was measured so far.
    pub fn reset(&mut self) {
        *self = Meter::new(self.on);
    }
}

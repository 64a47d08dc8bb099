//! Lists that grow while they are used, up to a length that is fixed when they are made.
//!
//! A value that was added never moves or changes, so that a reader keeps the slice that it was
//! given for as long as the list lives, and finds more values only by asking again.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{Ordering, fence};

use platform::{LINE_BYTES, OutOfMemory, Platform};

/// A list with room for further values.
///
/// Concurrency: a value is written before the count that includes it, by the core that holds the
/// latch. Readers read no value behind the count that they have read.
pub struct Places<P: Platform, T> {
    /// Words: the number of filled places, and the latch of the core that fills one. `None` if the
    /// list cannot grow.
    words: Option<P::Region>,
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a place is written once, with the latch held, before any core can read it; after that
// there are shared references only.
unsafe impl<P: Platform, T: Send + Sync> Sync for Places<P, T> {}

impl<P: Platform, T> Places<P, T> {
    /// A list of these values, with room for `spare` more; `name` is that of its words in reports.
    /// A list without room has no words.
    pub fn new(c: P::Core, name: &'static str, values: Vec<T>, spare: usize) -> Result<Self, OutOfMemory> {
        let words = match spare {
            0 => None,
            _ => Some(P::region(c, None, 2 * LINE_BYTES, name)?),
        };
        if let Some(words) = &words {
            // Relaxed: no other core knows the list yet.
            P::store(c, P::word_of(words, 0), values.len() as u64, Ordering::Relaxed);
        }
        // Empty places are memory that nothing has touched.
        let mut places = Box::new_uninit_slice(values.len() + spare);
        for (place, value) in places.iter_mut().zip(values) {
            place.write(UnsafeCell::new(MaybeUninit::new(value)));
        }
        // SAFETY: a place that holds no value is any bytes.
        Ok(Places { words, places: unsafe { places.assume_init() } })
    }

    /// Returns true if the list may get longer.
    #[inline(always)]
    pub fn grows(&self) -> bool {
        self.words.is_some()
    }

    /// The values so far.
    #[inline]
    pub fn get(&self, c: P::Core) -> &[T] {
        match &self.words {
            None => self.first(self.places.len()),
            // Acquire: pairs with the release in `push`.
            Some(words) => self.first(P::load(c, P::word_of(words, 0), Ordering::Acquire) as usize),
        }
    }

    /// Returns true if there is room for another value.
    pub fn has_room(&self, c: P::Core) -> bool {
        self.get(c).len() < self.places.len()
    }

    /// The values, for callers without a core: no event in the virtual machine. Otherwise like
    /// [`Self::get`].
    #[inline]
    pub fn seen(&self) -> &[T] {
        let Some(words) = &self.words else { return self.first(self.places.len()) };
        let count = P::peek(P::word_of(words, 0));
        // Acquire: as in `get`.
        fence(Ordering::Acquire);
        self.first(count as usize)
    }

    /// The values in the first `count` places, which were filled before the caller read that
    /// number.
    #[inline(always)]
    fn first(&self, count: usize) -> &[T] {
        let places = &self.places[..count];
        // SAFETY: the places are filled, and never written again; a cell has the layout of its
        // value.
        unsafe { std::slice::from_raw_parts(places.as_ptr().cast::<T>(), places.len()) }
    }

    /// Adds a value; gives it back if there is no room.
    pub fn push(&self, c: P::Core, value: T) -> Result<usize, T> {
        let Some(words) = &self.words else { return Err(value) };
        let (count, latch) = (P::word_of(words, 0), P::word_of(words, LINE_BYTES));
        // Acquire: pairs with the release of the holder before.
        while P::cas(c, latch, 0, 1, Ordering::Acquire).is_err() {
            P::spin_while(c, latch, 1, None);
        }
        // Relaxed: a thread that holds the latch changes it.
        let number = P::load(c, count, Ordering::Relaxed) as usize;
        let pushed = match self.places.get(number) {
            None => Err(value),
            Some(place) => {
                // SAFETY: the latch is held, and no thread reads the place before the count
                // includes it.
                unsafe { (*place.get()).write(value) };
                // Release: pairs with the acquire of readers.
                P::store(c, count, number as u64 + 1, Ordering::Release);
                Ok(number)
            }
        };
        // Release: pairs with the acquire of the next holder.
        P::store(c, latch, 0, Ordering::Release);
        pushed
    }
}

impl<P: Platform, T> Drop for Places<P, T> {
    fn drop(&mut self) {
        if !std::mem::needs_drop::<T>() {
            return;
        }
        let filled = self.seen().len();
        for place in &mut self.places[..filled] {
            // SAFETY: the place is filled, and the list is used no more.
            unsafe { place.get_mut().assume_init_drop() };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use platform::{Hardware, Place};

    use super::*;

    #[test]
    fn values_stay_where_they_are_and_go_with_the_list() {
        let c = Hardware::core();
        let (one, two) = (Arc::new(1), Arc::new(2));
        let list = Places::<Hardware, _>::new(c, "list", vec![one.clone()], 1).expect("memory");
        let before = list.get(c);
        assert_eq!((before.len(), list.grows()), (1, true));
        assert_eq!(list.push(c, two.clone()), Ok(1));
        assert_eq!(list.push(c, two.clone()), Err(two.clone()), "there is no more room");
        assert!(std::ptr::eq(&before[0], &list.seen()[0]));
        assert_eq!(list.get(c), [one.clone(), two.clone()]);
        drop(list);
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&two)), (1, 1));
        let fixed = Places::<Hardware, _>::new(c, "list", vec![3], 0).expect("memory");
        assert_eq!((fixed.get(c), fixed.push(c, 4), fixed.grows()), (&[3][..], Err(4), false));
    }

    #[test]
    fn cores_that_add_at_the_same_time_get_places_of_their_own() {
        let c = Hardware::core();
        let list = Places::<Hardware, _>::new(c, "list", Vec::new(), 200).expect("memory");
        let add = |c, number: usize| {
            for value in 0..100 {
                let value = Box::new(number * 100 + value);
                let place = list.push(c, value.clone()).expect("room");
                assert_eq!(list.get(c)[place], value);
            }
        };
        Hardware::parallel(c, &[Place { thread: None }; 2], &add, &mut |_| ());
        let mut all: Vec<usize> = list.get(c).iter().map(|value| **value).collect();
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
    }
}

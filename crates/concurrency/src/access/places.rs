//! Which number the row at a place has in a transaction.

use platform::{Address, Platform};

use super::row::Access;

/// Rows up to which a transaction is searched one by one.
const SMALL_ROWS: usize = 64;

/// The places of a transaction's rows.
#[derive(Default)]
pub(super) struct Places {
    /// Which places may be in the list: a filter of one bit a row, good for small transactions.
    filter: [u64; 8],
    /// Places of a large transaction: open addressing, number + 1 of each row, 0 where free. Empty
    /// while it is small.
    large: Vec<u32>,
}

impl Places {
    pub(super) fn clear(&mut self) {
        self.filter = [0; 8];
        self.large.clear();
    }

    fn hash(place: Address) -> u64 {
        (place.0 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn filter_bits(place: Address) -> (usize, u64) {
        let mixed = Self::hash(place);
        ((mixed >> 61) as usize, 1 << (mixed >> 55 & 63))
    }

    /// The number of the row at this place.
    #[inline]
    pub(super) fn find<P: Platform, H>(&self, place: Address, list: &[Access<P, H>]) -> Option<u32> {
        let (word, bits) = Self::filter_bits(place);
        if self.filter[word] & bits == 0 {
            return None;
        }
        if self.large.is_empty() {
            return list.iter().position(|access| access.place == place).map(|index| index as u32);
        }
        self.find_large(place, list)
    }

    fn find_large<P: Platform, H>(&self, place: Address, list: &[Access<P, H>]) -> Option<u32> {
        let mask = self.large.len() - 1;
        let mut slot = (Self::hash(place) >> 20) as usize & mask;
        loop {
            let number = self.large[slot].checked_sub(1)?;
            if list[number as usize].place == place {
                return Some(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Enters the last row of the list.
    #[inline]
    pub(super) fn enter<P: Platform, H>(&mut self, list: &[Access<P, H>]) {
        let Some(last) = list.last() else { return };
        let (word, bits) = Self::filter_bits(last.place);
        self.filter[word] |= bits;
        if list.len() > SMALL_ROWS {
            self.enter_large(list);
        }
    }

    /// Enters the last row into the table of places, which is made, or made larger, when it is
    /// time.
    #[cold]
    fn enter_large<P: Platform, H>(&mut self, list: &[Access<P, H>]) {
        let number = list.len() - 1;
        let first = if (number + 1) * 2 > self.large.len() {
            let slots = (number * 4).next_power_of_two();
            self.large.clear();
            self.large.resize(slots, 0);
            0
        } else {
            number
        };
        let mask = self.large.len() - 1;
        for (number, access) in list.iter().enumerate().skip(first) {
            let mut slot = (Self::hash(access.place) >> 20) as usize & mask;
            while self.large[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.large[slot] = number as u32 + 1;
        }
    }
}

//! A row in memory: the header of its concurrency-control scheme, then its fixed part as shared
//! words, then, if the table has a variable-length part, one word that points to the tail.
//!
//! A tail is a block of its own: one word with its length in bytes, then its bytes in words. A tail
//! never changes once published; an update replaces it and retires the old one.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use platform::{Intent, OutOfMemory, Platform, SharedWord};

use crate::local::Local;

/// The words that a scheme keeps in front of each row: shared words only.
pub trait RecordHeader<P: Platform>: Sized + Send + Sync + 'static {
    /// The header of a row that is being inserted: invisible to other transactions until its own
    /// commits.
    fn inserting() -> Self;
}

/// Address and length of a row.
///
/// The row stays readable as long as the caller's epoch, or as long as the scheme's lock on it.
pub struct RecordRef<P: Platform, H> {
    at: NonNull<u8>,
    /// Words after the header, the tail's pointer included.
    words: u32,
    kind: PhantomData<(P, H)>,
}

impl<P: Platform, H> Clone for RecordRef<P, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, H> Copy for RecordRef<P, H> {}

// SAFETY: a record consists of shared words only; `from_bits` states which cores may reach it.
unsafe impl<P: Platform, H: Sync> Send for RecordRef<P, H> {}

impl<P: Platform, H: RecordHeader<P>> RecordRef<P, H> {
    const HEADER_BYTES: usize = size_of::<H>();
    const ALIGNED: () = assert!(size_of::<H>().is_multiple_of(8) && align_of::<H>() == 8);

    /// A new row with header [`RecordHeader::inserting`], which no other core can reach: `fixed`, a
    /// multiple of 8 bytes, then `last` if there is one.
    ///
    /// # Safety
    /// The row is used no longer than the memory behind `local` is there, and not after it was
    /// given back.
    #[inline]
    pub unsafe fn allocate(
        c: P::Core,
        local: &mut Local<P>,
        fixed: &[u8],
        last: Option<u64>,
    ) -> Result<Self, OutOfMemory> {
        let words = (fixed.len() / 8) as u32 + u32::from(last.is_some());
        let at = local.allocate(c, Self::bytes(words))?;
        // SAFETY: a fresh block of this length; the caller's promise.
        Ok(unsafe { Self::fill(c, at, fixed, last) })
    }

    /// Makes a row in a block of [`Self::bytes`] that was allocated for it; otherwise like
    /// [`Self::allocate`].
    ///
    /// # Safety
    /// As [`Self::allocate`]; the block is as long, and the caller's alone.
    #[inline(always)]
    pub unsafe fn fill(c: P::Core, at: NonNull<u8>, fixed: &[u8], last: Option<u64>) -> Self {
        let () = Self::ALIGNED;
        assert!(fixed.len().is_multiple_of(8), "rows consist of words");
        let words = (fixed.len() / 8) as u32 + u32::from(last.is_some());
        P::touch(c, at.as_ptr(), Self::bytes(words), Intent::Write);
        // SAFETY: a fresh block of sufficient size, aligned to 16, which no other core knows.
        unsafe {
            at.cast::<H>().write(H::inserting());
            let mut next = at.add(Self::HEADER_BYTES).cast::<P::Word>();
            for bytes in fixed.chunks_exact(8) {
                next.write(P::Word::new(u64::from_le_bytes(bytes.try_into().unwrap_or_default())));
                next = next.add(1);
            }
            if let Some(last) = last {
                next.write(P::Word::new(last));
            }
        }
        RecordRef { at, words, kind: PhantomData }
    }

    /// Bytes of a row with this many words.
    pub fn bytes(words: u32) -> usize {
        Self::HEADER_BYTES + words as usize * 8
    }

    /// The row that an index names `bits`.
    ///
    /// # Safety
    /// `bits` came from [`Self::to_bits`] of a record with the same platform, header type and word
    /// count, and was read from an index in the caller's current epoch or is protected by a lock of
    /// the caller.
    pub unsafe fn from_bits(bits: u64, words: u32) -> Self {
        let at = std::ptr::with_exposed_provenance_mut::<u8>(bits as usize);
        // SAFETY: `to_bits` never gives 0.
        RecordRef { at: unsafe { NonNull::new_unchecked(at) }, words, kind: PhantomData }
    }

    /// The name of this row in indexes; never 0.
    pub fn to_bits(self) -> u64 {
        self.at.as_ptr().expose_provenance() as u64
    }

    /// The scheme's header.
    #[inline(always)]
    pub fn header<'a>(self) -> &'a H {
        // SAFETY: initialised by `allocate`; readable by the contract of `from_bits`.
        unsafe { self.at.cast::<H>().as_ref() }
    }

    /// All words after the header.
    #[inline(always)]
    pub fn words<'a>(self) -> &'a [P::Word] {
        // SAFETY: `allocate` initialised this many words; readable by the contract of `from_bits`.
        unsafe {
            std::slice::from_raw_parts(
                self.at.add(Self::HEADER_BYTES).cast::<P::Word>().as_ptr(),
                self.words as usize,
            )
        }
    }

    /// First byte of the header, for prefetches and for ordering by address.
    #[inline(always)]
    pub fn start(self) -> *const u8 {
        self.at.as_ptr()
    }

    /// A copy of the row behind another header, which no other core can reach. The tail is shared.
    /// No core writes the row meanwhile.
    ///
    /// # Safety
    /// As [`Self::allocate`].
    pub unsafe fn copy(self, c: P::Core, local: &mut Local<P>, header: H) -> Result<Self, OutOfMemory> {
        let bytes = Self::bytes(self.words);
        let at = local.allocate(c, bytes)?;
        P::touch(c, self.at.as_ptr(), bytes, Intent::Read);
        P::touch(c, at.as_ptr(), bytes, Intent::Write);
        // SAFETY: a fresh block of this size, aligned to 16, which no other core knows.
        unsafe {
            at.cast::<H>().write(header);
            let mut next = at.add(Self::HEADER_BYTES).cast::<P::Word>();
            for word in self.words() {
                next.write(P::Word::new(P::peek(word)));
                next = next.add(1);
            }
        }
        Ok(RecordRef { at, ..self })
    }

    /// A copy of the row with its header and, if it has one, its tail, which no other core can
    /// reach. No core uses the row meanwhile.
    ///
    /// # Safety
    /// As [`Self::allocate`]; `has_tail` is what is true of the row's table.
    pub unsafe fn duplicate(
        self,
        c: P::Core,
        local: &mut Local<P>,
        has_tail: bool,
    ) -> Result<Self, OutOfMemory> {
        let () = Self::ALIGNED;
        let last = match self.words().last() {
            Some(word) if has_tail => {
                let mut bytes = Vec::new();
                // SAFETY: the row's last word, and no core writes the row meanwhile.
                unsafe { tail::read::<P>(c, P::peek(word), &mut bytes) };
                Some(tail::allocate::<P>(c, local, &bytes)?)
            }
            _ => None,
        };
        // SAFETY: passed on to the caller.
        let copy = unsafe { self.copy(c, local, H::inserting())? };
        for word in 0..Self::HEADER_BYTES / 8 {
            // SAFETY: a header consists of words, and both rows have one.
            let (from, to) = unsafe {
                (self.at.cast::<P::Word>().add(word).as_ref(), copy.at.cast::<P::Word>().add(word).as_ref())
            };
            P::poke(to, P::peek(from));
        }
        if let (Some(bits), Some(word)) = (last, copy.words().last()) {
            P::poke(word, bits);
        }
        Ok(copy)
    }

    /// Gives the row back when no core can find it any more, though some may still read it.
    ///
    /// # Safety
    /// The caller has removed the row from all indexes and is inside an epoch; the row is retired
    /// once.
    pub unsafe fn retire(self, c: P::Core, local: &mut Local<P>) {
        // SAFETY: allocated by `allocate` with this size; the rest is the caller's promise.
        unsafe { local.retire(c, self.at, Self::bytes(self.words)) };
    }

    /// Gives back a row that was never published.
    ///
    /// # Safety
    /// No index ever held the row, and it is not used again.
    pub unsafe fn free(self, c: P::Core, local: &mut Local<P>) {
        // SAFETY: allocated by `allocate` with this size; the rest is the caller's promise.
        unsafe { local.free(c, self.at, Self::bytes(self.words)) };
    }
}

/// Variable-length parts of rows.
pub mod tail {
    use super::*;

    /// Longest tail in bytes.
    pub const BYTES_MAX: usize = terms::rows::TAIL_BYTES_MAX;

    fn bytes_of(length: usize) -> usize {
        8 + length.next_multiple_of(8)
    }

    /// A new tail with these bytes; the result goes into the row's last word. An empty tail is 0.
    #[inline(always)]
    pub fn allocate<P: Platform>(c: P::Core, local: &mut Local<P>, bytes: &[u8]) -> Result<u64, OutOfMemory> {
        if bytes.is_empty() { Ok(0) } else { allocate_some(c, local, bytes) }
    }

    // Out of line: most rows have no tail.
    #[inline(never)]
    fn allocate_some<P: Platform>(
        c: P::Core,
        local: &mut Local<P>,
        bytes: &[u8],
    ) -> Result<u64, OutOfMemory> {
        let at = local.allocate(c, bytes_of(bytes.len()))?;
        P::touch(c, at.as_ptr(), bytes_of(bytes.len()), Intent::Write);
        let (whole, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mut next = at.cast::<P::Word>();
        // SAFETY: the block has room for the length and all words; no other core knows it.
        unsafe {
            next.write(P::Word::new(bytes.len() as u64));
            for bytes in whole.iter().chain((!rest.is_empty()).then_some(&last)) {
                next = next.add(1);
                next.write(P::Word::new(u64::from_le_bytes(*bytes)));
            }
        }
        // Release: pairs with the acquire fence of a reader that has read the row's last word
        // without the scheme's protocol.
        P::fence(c, Ordering::Release);
        Ok(at.as_ptr().expose_provenance() as u64)
    }

    fn words<'a, P: Platform>(c: P::Core, bits: u64) -> (usize, &'a [P::Word]) {
        let at = std::ptr::with_exposed_provenance::<P::Word>(bits as usize);
        // SAFETY: `bits` names a tail (callers' contract), which begins with its length and never
        // changes.
        let length = P::load(c, unsafe { &*at }, Ordering::Relaxed) as usize;
        // SAFETY: `allocate` initialised that many words behind the length.
        (length, unsafe { std::slice::from_raw_parts(at.add(1), length.div_ceil(8)) })
    }

    /// Appends the bytes of a tail to `to`.
    ///
    /// # Safety
    /// `bits` is the last word of a row, read under the scheme's protocol within the caller's
    /// current epoch or lock.
    pub unsafe fn read<P: Platform>(c: P::Core, bits: u64, to: &mut Vec<u8>) {
        if bits == 0 {
            return;
        }
        let (length, words) = words::<P>(c, bits);
        P::touch(c, words.as_ptr(), length, Intent::Read);
        let start = to.len();
        for word in words {
            to.extend_from_slice(&P::peek(word).to_le_bytes());
        }
        to.truncate(start + length);
    }

    /// Retires a tail that was replaced or whose row was removed.
    ///
    /// # Safety
    /// `bits` named the tail of a row that does not hold it any more; the caller is inside an epoch
    /// and retires it once.
    pub unsafe fn retire<P: Platform>(c: P::Core, local: &mut Local<P>, bits: u64) {
        if bits == 0 {
            return;
        }
        let (length, _) = words::<P>(c, bits);
        let at = std::ptr::with_exposed_provenance_mut::<u8>(bits as usize);
        if let Some(at) = NonNull::new(at) {
            // SAFETY: allocated by `allocate` with this size; the rest is the caller's promise.
            unsafe { local.retire(c, at, bytes_of(length)) };
        }
    }
}

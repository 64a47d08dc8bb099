//! Keys longer than a place for a key in a node.
//!
//! A tree with keys of [`PLACE_WORDS`] words is a tree of long keys: the first words of a place are
//! those of the key, and the last one refers to the rest of the key, which has no zeros at its end;
//! it is 0 if there is no rest. So keys that fit into the first words are compared as in any other
//! tree, and so are most others. A reference has the address of the rest and the number of its
//! words.
//!
//! - Each place in a node owns the rest that its word refers to. An insertion copies the rest
//!   before it latches anything; a split copies that of a separator, if the separator has one;
//!   removals retire the rests of what they remove.
//! - What a reference names does not change, and stays until the end of every epoch in which the
//!   reference could be found. A word that was read in a node is a reference only when the node's
//!   version has been validated: it may be half of a change before.
//! - The reference of a key to be searched for names the words of the caller.

use std::cmp::Ordering;
use std::ptr::NonNull;

use platform::{Intent, OutOfMemory, Platform, Work};

use crate::Local;

/// Words of a place for a long key.
pub const PLACE_WORDS: usize = 7;
/// Words of the longest key.
pub const LONG_KEY_WORDS_MAX: usize = 256;

/// Words of a key that lie in its place.
const FIRST_WORDS: usize = PLACE_WORDS - 1;
/// Bits of a reference that are the address.
const ADDRESS_BITS: u32 = 56;
const _: () = assert!(LONG_KEY_WORDS_MAX - FIRST_WORDS < 1 << (u64::BITS - ADDRESS_BITS));

/// The first words of a key, and the reference to the rest of it.
///
/// Pre: the tree uses the result only while `key` is borrowed.
pub(crate) fn place_of<const W: usize>(key: &[u64]) -> [u64; W] {
    assert!(W == PLACE_WORDS && key.len() <= LONG_KEY_WORDS_MAX, "no place for such a key");
    let (first, rest) = key.split_at(FIRST_WORDS.min(key.len()));
    let mut place = [0; W];
    place[..first.len()].copy_from_slice(first);
    let words = rest.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    place[FIRST_WORDS] = reference_to(&rest[..words]);
    place
}

/// Appends the words of a key, and zeros up to `words` of them.
///
/// # Safety
/// The reference names the rest of a key, which is there during the call.
pub(crate) unsafe fn append_words<const W: usize>(place: &[u64; W], words: usize, to: &mut Vec<u64>) {
    let end = to.len() + words;
    to.extend_from_slice(&place[..W - 1]);
    // SAFETY: passed on to the caller.
    to.extend_from_slice(unsafe { rest_of(place[W - 1]) });
    to.resize(end, 0);
}

fn reference_to(rest: &[u64]) -> u64 {
    if rest.is_empty() {
        return 0;
    }
    let address = rest.as_ptr().expose_provenance() as u64;
    assert!(address >> ADDRESS_BITS == 0, "an address of a rest has {ADDRESS_BITS} bits");
    address | (rest.len() as u64) << ADDRESS_BITS
}

/// # Safety
/// The reference names the rest of a key, which is there as long as the result is used.
unsafe fn rest_of<'k>(reference: u64) -> &'k [u64] {
    let words = (reference >> ADDRESS_BITS) as usize;
    if words == 0 {
        return &[];
    }
    let address = (reference & ((1 << ADDRESS_BITS) - 1)) as usize;
    // SAFETY: by the caller's promise the words are there; nothing changes them.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), words) }
}

/// Compares two long keys.
///
/// Pre: each of the references is that of a key to be searched for, or was validated within the
/// caller's epoch.
pub(super) fn compare<P: Platform, const W: usize>(
    c: P::Core,
    left: &[u64; W],
    right: &[u64; W],
) -> Ordering {
    match left[..FIRST_WORDS].cmp(&right[..FIRST_WORDS]) {
        Ordering::Equal if left[FIRST_WORDS] == right[FIRST_WORDS] => Ordering::Equal,
        Ordering::Equal => {
            // SAFETY: the references name what this function demands; `Tree::new` demands the words
            // of keys to be searched for.
            let (left, right) = unsafe { (rest_of(left[FIRST_WORDS]), rest_of(right[FIRST_WORDS])) };
            P::touch(c, left.as_ptr(), left.len().min(right.len()) * 8, Intent::Read);
            P::work(c, Work::KeyCompare, 1);
            // Neither has zeros at its end.
            left.cmp(right)
        }
        different => different,
    }
}

/// Returns true if the left key is less than the right one.
///
/// Pre: in a tree of long keys, as [`compare`].
#[inline(always)]
pub(super) fn is_less<P: Platform, const W: usize>(c: P::Core, left: &[u64; W], right: &[u64; W]) -> bool {
    if W == PLACE_WORDS { compare::<P, W>(c, left, right).is_lt() } else { left < right }
}

/// The key with a copy of its rest, which belongs to the caller.
///
/// Pre: in a tree of long keys, as [`compare`].
pub(super) fn own<P: Platform, const W: usize>(
    c: P::Core,
    local: &mut Local<P>,
    key: &[u64; W],
) -> Result<[u64; W], OutOfMemory> {
    let mut own = *key;
    if W == PLACE_WORDS && own[FIRST_WORDS] != 0 {
        // SAFETY: a reference, as this function demands.
        let rest = unsafe { rest_of(own[FIRST_WORDS]) };
        let block = local.allocate(c, rest.len() * 8)?.cast::<u64>();
        P::touch(c, block.as_ptr(), rest.len() * 8, Intent::Write);
        // SAFETY: a fresh block of this many words, which no other core knows. The latch that
        // publishes the reference publishes the words.
        let copy = unsafe {
            std::ptr::copy_nonoverlapping(rest.as_ptr(), block.as_ptr(), rest.len());
            std::slice::from_raw_parts(block.as_ptr(), rest.len())
        };
        own[FIRST_WORDS] = reference_to(copy);
    }
    Ok(own)
}

/// Gives back the copy that [`own`] has made of a key, which was linked nowhere.
pub(super) fn disown<P: Platform, const W: usize>(c: P::Core, local: &mut Local<P>, key: &[u64; W]) {
    if let Some((block, bytes)) = block_of(key) {
        // SAFETY: allocated by `own` with this length; no other core has seen the block.
        unsafe { local.free(c, block, bytes) };
    }
}

/// Retires the rest of a key that was removed from a node.
///
/// Pre: the node was latched, so that no other core retires the rest.
pub(super) fn retire<P: Platform, const W: usize>(c: P::Core, local: &mut Local<P>, key: &[u64; W]) {
    if let Some((block, bytes)) = block_of(key) {
        // SAFETY: allocated by `own` with this length; the place that owned the block is gone,
        // and the caller is inside an epoch (see `Tree::new`).
        unsafe { local.retire(c, block, bytes) };
    }
}

/// The block of the rest of a key, and its length.
fn block_of<const W: usize>(key: &[u64; W]) -> Option<(NonNull<u8>, usize)> {
    let reference = key[W - 1];
    if W != PLACE_WORDS || reference == 0 {
        return None;
    }
    let address = (reference & ((1 << ADDRESS_BITS) - 1)) as usize;
    let block = NonNull::new(std::ptr::with_exposed_provenance_mut(address))?;
    Some((block, (reference >> ADDRESS_BITS) as usize * 8))
}

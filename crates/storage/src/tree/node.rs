//! Layout of a node, and search within it.
//!
//! ```text
//! word 0        version latch
//! word 1        shape, from the lowest bit: count (16 bits), level (8), 8 unused, place of the last insertion (16),
//!               score of ascending insertions (8)
//! word 2        removed stamp
//! words 3..8    unused; the header fills one line
//! words 8..     keys, W words each, ascending; of long keys their places, see `long`
//! then          leaf: values; inner node: children, one more than keys
//! ```
//!
//! Child `i` covers the keys from separator `i - 1` (inclusive) to separator `i` (exclusive).
//! Whether a node is a leaf never changes. A load of the version declares the header's line.
//!
//! Concurrency: words are read by `peek` while others may write them, so everything read is a guess
//! until the version has been validated; counts are clamped so that a guess stays within the node.
//! Methods that write need the latch, or a node that no other core can reach.

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::ptr::NonNull;

use platform::{Intent, LINE_BYTES, Platform, Work};

use super::long;
use super::store::NodeStore;
use super::types::{Entry, NodeId, Restart};
use crate::latch::VersionLatch;

const VERSION: usize = 0;
const SHAPE: usize = 1;
const STAMP: usize = 2;
const KEYS: usize = 8;

/// Score from which a full node is split at the place of insertion: this many insertions came
/// shortly above the one before.
const ASCENDING_SCORE: u64 = 3;
const SCORE_MAX: u64 = 15;
/// The next insertion counts as a neighbour of the last one within this distance: two cores that
/// append in turns are not exactly in order.
const NEAR: usize = 3;

/// Key bytes of a node of which all lines are worth prefetching.
const PREFETCH_BYTES_MAX: usize = 512;

/// A frame with a node in it.
pub(super) struct Node<P: Platform, S, const W: usize> {
    frame: NonNull<P::Word>,
    store: PhantomData<fn() -> S>,
}

impl<P: Platform, S, const W: usize> Clone for Node<P, S, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform, S, const W: usize> Copy for Node<P, S, W> {}

#[derive(Clone, Copy, Debug)]
struct Shape {
    count: usize,
    level: u64,
    last: usize,
    score: u64,
}

impl Shape {
    fn unpack(word: u64) -> Self {
        Shape {
            count: (word & 0xffff) as usize,
            level: (word >> 16) & 0xff,
            last: ((word >> 32) & 0xffff) as usize,
            score: (word >> 48) & 0xff,
        }
    }

    fn pack(self) -> u64 {
        self.count as u64 | (self.level << 16) | ((self.last as u64) << 32) | (self.score << 48)
    }

    /// The shape after an insertion at `at`.
    #[inline]
    fn inserted(self, at: usize) -> Self {
        let above = at.wrapping_sub(self.last);
        let score = match () {
            () if above.wrapping_sub(1) < NEAR => (self.score + 1).min(SCORE_MAX),
            () if self.last - at.min(self.last) < NEAR => self.score,
            () => 0,
        };
        Shape { count: self.count + 1, last: at, score, ..self }
    }
}

impl<P: Platform, S: NodeStore<P>, const W: usize> Node<P, S, W> {
    const WORDS: usize = {
        assert!(S::NODE_BYTES.is_multiple_of(LINE_BYTES) && S::NODE_BYTES <= 1 << 17);
        S::NODE_BYTES / 8
    };
    /// Entries of a full leaf.
    pub(super) const LEAF_CAPACITY: usize = {
        let capacity = (Self::WORDS - KEYS) / (W + 1);
        assert!(W >= 1 && capacity >= 3, "a leaf must hold three entries");
        capacity
    };
    /// Separators of a full inner node.
    pub(super) const INNER_CAPACITY: usize = {
        let capacity = (Self::WORDS - KEYS - 1) / (W + 1);
        assert!(capacity >= 3, "an inner node must hold three separators");
        capacity
    };
    const VALUES: usize = KEYS + Self::LEAF_CAPACITY * W;
    const CHILDREN: usize = KEYS + Self::INNER_CAPACITY * W;

    /// The node in a frame.
    ///
    /// # Safety
    /// The frame came from the store within the caller's epoch.
    #[inline(always)]
    pub(super) unsafe fn new(frame: NonNull<P::Word>) -> Self {
        Node { frame, store: PhantomData }
    }

    #[inline(always)]
    fn at(&self, index: usize) -> *const P::Word {
        debug_assert!(index < Self::WORDS);
        self.frame.as_ptr().wrapping_add(index)
    }

    #[inline(always)]
    fn word(&self, index: usize) -> &P::Word {
        // SAFETY: `new` demands a frame of `WORDS` valid words; indexes come from clamped counts
        // and capacities.
        unsafe { &*self.at(index) }
    }

    #[inline(always)]
    fn peek(&self, index: usize) -> u64 {
        P::peek(self.word(index))
    }

    #[inline(always)]
    fn poke(&self, index: usize, value: u64) {
        P::poke(self.word(index), value);
    }

    #[inline(always)]
    pub(super) fn latch(&self) -> &VersionLatch<P> {
        VersionLatch::from_word(self.word(VERSION))
    }

    /// Fills the header of a new node, which stays latched until it is [`Self::release_new`]: a
    /// store that moves nodes must not move this one while a core fills it.
    pub(super) fn initialise(&self, c: P::Core, level: u64, stamp: u64) {
        P::touch(c, self.at(0), KEYS * 8, Intent::Write);
        self.poke(VERSION, VersionLatch::<P>::latched(VersionLatch::<P>::INITIAL));
        for index in VERSION + 1..KEYS {
            self.poke(index, 0);
        }
        self.poke(SHAPE, Shape { count: 0, level, last: 0, score: 0 }.pack());
        self.poke(STAMP, stamp);
    }

    /// Ends the filling of a new node, which is not used any more through this frame.
    pub(super) fn release_new(&self, c: P::Core) {
        self.latch().unlock_unchanged(c, VersionLatch::<P>::INITIAL);
    }

    #[inline(always)]
    fn shape(&self) -> Shape {
        Shape::unpack(self.peek(SHAPE))
    }

    /// Distance from the leaves.
    #[inline(always)]
    pub(super) fn level(&self) -> u64 {
        self.shape().level
    }

    #[inline(always)]
    pub(super) fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    /// Entries of a leaf.
    #[inline(always)]
    pub(super) fn entries(&self) -> usize {
        self.shape().count.min(Self::LEAF_CAPACITY)
    }

    /// Separators of an inner node.
    #[inline(always)]
    pub(super) fn separators(&self) -> usize {
        self.shape().count.min(Self::INNER_CAPACITY)
    }

    /// Largest stamp of a key removed from the part of the key space that the node covers, except
    /// those that nodes below have.
    pub(super) fn stamp(&self) -> u64 {
        self.peek(STAMP)
    }

    pub(super) fn raise_stamp(&self, stamp: u64) {
        self.poke(STAMP, self.stamp().max(stamp));
    }

    /// Returns true if recent insertions came in ascending order.
    pub(super) fn is_ascending(&self, at: usize) -> bool {
        self.shape().inserted(at).score >= ASCENDING_SCORE
    }

    #[inline(always)]
    pub(super) fn key(&self, index: usize) -> [u64; W] {
        std::array::from_fn(|word| self.peek(KEYS + index * W + word))
    }

    /// Key `index`, declared.
    pub(super) fn touched_key(&self, c: P::Core, index: usize) -> [u64; W] {
        P::touch(c, self.at(KEYS + index * W), W * 8, Intent::Read);
        self.key(index)
    }

    /// Returns true if key `index` equals `key`. Fails, in a tree of long keys, if that cannot be
    /// told since the node has not this version any more.
    #[inline(always)]
    pub(super) fn has_key(
        &self,
        c: P::Core,
        index: usize,
        key: &[u64; W],
        version: u64,
    ) -> Result<bool, Restart> {
        P::touch(c, self.at(KEYS + index * W), W * 8, Intent::Read);
        P::work(c, Work::KeyCompare, W as u32);
        if W == long::PLACE_WORDS {
            return Ok(self.compare_long(c, index, key, version)? == Ordering::Equal);
        }
        Ok(self.key(index) == *key)
    }

    /// The place of a key that belongs right behind the last insertion, if insertions come in
    /// ascending order: no search.
    #[inline(always)]
    pub(super) fn place_after_last(&self, c: P::Core, key: &[u64; W]) -> Option<usize> {
        let shape = self.shape();
        let (at, entries) = (shape.last + 1, shape.count.min(Self::LEAF_CAPACITY));
        // Long keys are searched for: comparing them may fail.
        if shape.score == 0 || at > entries || W == long::PLACE_WORDS {
            return None;
        }
        let to = (at + 1).min(entries);
        P::touch(c, self.at(KEYS + shape.last * W), (to - shape.last) * W * 8, Intent::Read);
        P::work(c, Work::KeyCompare, 2 * W as u32);
        (self.key(shape.last) < *key && (at == entries || *key < self.key(at))).then_some(at)
    }

    #[inline(always)]
    pub(super) fn value(&self, c: P::Core, index: usize) -> u64 {
        P::touch(c, self.at(Self::VALUES + index), 8, Intent::Read);
        self.peek(Self::VALUES + index)
    }

    pub(super) fn touch_value(&self, c: P::Core, index: usize, intent: Intent) {
        P::touch(c, self.at(Self::VALUES + index), 8, intent);
    }

    pub(super) fn set_value(&self, index: usize, value: u64) {
        self.poke(Self::VALUES + index, value);
    }

    #[inline(always)]
    pub(super) fn child(&self, c: P::Core, index: usize) -> NodeId {
        P::touch(c, self.at(Self::CHILDREN + index), 8, Intent::Read);
        NodeId(self.peek(Self::CHILDREN + index))
    }

    /// Compares key `index` with `key` in a tree of long keys. Fails if the node has not this
    /// version any more, and the version matters.
    fn compare_long(
        &self,
        c: P::Core,
        index: usize,
        key: &[u64; W],
        version: u64,
    ) -> Result<Ordering, Restart> {
        let own = self.key(index);
        match own[..W - 1].cmp(&key[..W - 1]) {
            Ordering::Equal if own[W - 1] | key[W - 1] == 0 => Ok(Ordering::Equal),
            // From here on the last word is a reference.
            Ordering::Equal if self.latch().validate(c, version) => Ok(long::compare::<P, W>(c, &own, key)),
            Ordering::Equal => Err(Restart),
            different => Ok(different),
        }
    }

    /// Returns true if key `index` is less than `key`, or equal with `OR_EQUAL`, in a tree of long
    /// keys.
    fn is_long_below<const OR_EQUAL: bool>(
        &self,
        c: P::Core,
        index: usize,
        key: &[u64; W],
        version: u64,
    ) -> Result<bool, Restart> {
        Ok(match self.compare_long(c, index, key, version)? {
            Ordering::Less => true,
            Ordering::Equal => OR_EQUAL,
            Ordering::Greater => false,
        })
    }

    /// Returns true if key `index` is less than `key`, or equal with `OR_EQUAL`.
    #[inline(always)]
    fn is_below<const OR_EQUAL: bool>(&self, index: usize, key: &[u64; W]) -> bool {
        let first = KEYS + index * W;
        if W == 1 {
            let word = self.peek(first);
            return if OR_EQUAL { word <= key[0] } else { word < key[0] };
        }
        for (offset, wanted) in key.iter().enumerate() {
            let word = self.peek(first + offset);
            if word != *wanted {
                return word < *wanted;
            }
        }
        OR_EQUAL
    }

    /// The number of keys among the first `count` that are less than `key` (or equal, with
    /// `OR_EQUAL`): a binary search without branches on the keys. Fails, in a tree of long keys, if
    /// that cannot be told since the node has not this version any more.
    #[inline(always)]
    pub(super) fn rank<const OR_EQUAL: bool>(
        &self,
        c: P::Core,
        key: &[u64; W],
        count: usize,
        version: u64,
    ) -> Result<usize, Restart> {
        let mut base = 0;
        let mut left = count;
        let mut line = 0;
        let mut steps = 0;
        while left > 0 {
            let half = left.div_ceil(2);
            let probe = base + half - 1;
            let at = self.at(KEYS + probe * W);
            if at.addr() / LINE_BYTES != line {
                line = at.addr() / LINE_BYTES;
                P::touch(c, at, W * 8, Intent::Read);
            }
            let is_below = match W {
                long::PLACE_WORDS => self.is_long_below::<OR_EQUAL>(c, probe, key, version)?,
                _ => self.is_below::<OR_EQUAL>(probe, key),
            };
            base = select_unpredictable(is_below, base + half, base);
            left -= half;
            steps += 1;
        }
        P::work(c, Work::KeyCompare, steps);
        Ok(base)
    }

    /// Prefetches the lines that a search may probe: a binary search would miss on one after the
    /// other. With long keys a search probes few of many lines, so only the first probes are
    /// prefetched.
    #[inline(always)]
    pub(super) fn prefetch(&self, c: P::Core) {
        let bytes = Self::LEAF_CAPACITY * W * 8;
        if bytes <= PREFETCH_BYTES_MAX {
            P::prefetch(c, self.at(0), KEYS * 8 + bytes, Intent::Read);
            return;
        }
        P::prefetch(c, self.at(0), LINE_BYTES, Intent::Read);
        for quarter in 1..=2 {
            let probe = Self::LEAF_CAPACITY * quarter / 4;
            P::prefetch(c, self.at(KEYS + probe * W), LINE_BYTES, Intent::Read);
        }
    }

    /// Declares that entries or separators from `from` to before `to` are read or written, with
    /// what belongs to them.
    pub(super) fn touch(&self, c: P::Core, from: usize, to: usize, intent: Intent) {
        if from >= to {
            return;
        }
        let (slots, more) = if self.is_leaf() { (Self::VALUES, 0) } else { (Self::CHILDREN, 1) };
        P::touch(c, self.at(KEYS + from * W), (to - from) * W * 8, intent);
        P::touch(c, self.at(slots + from), (to - from + more) * 8, intent);
        P::work(c, Work::CopyWord, ((to - from) * (W + 1)) as u32);
    }

    /// Declares that the separators on both sides of child `index` are read.
    pub(super) fn touch_fences(&self, c: P::Core, index: usize, separators: usize) {
        let (from, to) = (index.saturating_sub(1), (index + 1).min(separators));
        P::touch(c, self.at(KEYS + from * W), to.saturating_sub(from) * W * 8, Intent::Read);
    }

    /// Entry of a leaf whose place was declared by [`Self::touch`].
    pub(super) fn entry(&self, index: usize) -> Entry<W> {
        Entry { key: self.key(index), value: self.peek(Self::VALUES + index) }
    }

    fn set_key(&self, index: usize, key: &[u64; W]) {
        for (offset, word) in key.iter().enumerate() {
            self.poke(KEYS + index * W + offset, *word);
        }
    }

    /// Moves `words` words within the node.
    fn shift(&self, from: usize, to: usize, words: usize) {
        if from < to {
            for offset in (0..words).rev() {
                self.poke(to + offset, self.peek(from + offset));
            }
        } else {
            for offset in 0..words {
                self.poke(to + offset, self.peek(from + offset));
            }
        }
    }

    /// Inserts an entry into a leaf with room.
    pub(super) fn insert_entry(&self, c: P::Core, at: usize, key: &[u64; W], value: u64) {
        self.insert_entries(c, at, std::slice::from_ref(key), std::slice::from_ref(&value));
    }

    /// Inserts entries with ascending keys, one behind the other, into a leaf with room for all.
    #[inline]
    pub(super) fn insert_entries(&self, c: P::Core, at: usize, keys: &[[u64; W]], values: &[u64]) {
        let mut shape = self.shape();
        let (count, more) = (shape.count, keys.len());
        assert!(at <= count && count + more <= Self::LEAF_CAPACITY && shape.level == 0);
        self.touch(c, at, count + more, Intent::Write);
        self.shift(KEYS + at * W, KEYS + (at + more) * W, (count - at) * W);
        self.shift(Self::VALUES + at, Self::VALUES + at + more, count - at);
        for (place, (key, value)) in (at..).zip(keys.iter().zip(values)) {
            self.set_key(place, key);
            self.poke(Self::VALUES + place, *value);
            shape = shape.inserted(place);
        }
        self.poke(SHAPE, shape.pack());
    }

    /// Removes an entry from a leaf.
    pub(super) fn remove_entry(&self, c: P::Core, at: usize) {
        let shape = self.shape();
        let count = shape.count;
        assert!(at < count && shape.level == 0);
        self.touch(c, at, count, Intent::Write);
        self.shift(KEYS + (at + 1) * W, KEYS + at * W, (count - at - 1) * W);
        self.shift(Self::VALUES + at + 1, Self::VALUES + at, count - at - 1);
        let last = if at < shape.last { shape.last - 1 } else { shape.last };
        self.poke(SHAPE, Shape { count: count - 1, last, ..shape }.pack());
    }

    /// Inserts a separator at `at` into an inner node with room, and the child above it.
    pub(super) fn insert_child(&self, c: P::Core, at: usize, separator: &[u64; W], child: NodeId) {
        let shape = self.shape();
        let count = shape.count;
        assert!(at <= count && count < Self::INNER_CAPACITY && shape.level > 0);
        self.touch(c, at, count + 1, Intent::Write);
        self.shift(KEYS + at * W, KEYS + (at + 1) * W, (count - at) * W);
        self.shift(Self::CHILDREN + at + 1, Self::CHILDREN + at + 2, count - at);
        self.set_key(at, separator);
        self.poke(Self::CHILDREN + at + 1, child.0);
        self.poke(SHAPE, shape.inserted(at).pack());
    }

    /// Removes child `at` from an inner node that has another one; a neighbour takes over its keys.
    /// Returns the separator that goes with it, in a tree of long keys.
    pub(super) fn remove_child(&self, c: P::Core, at: usize) -> [u64; W] {
        let shape = self.shape();
        let count = shape.count;
        assert!(at <= count && count > 0 && shape.level > 0);
        let separator = at.saturating_sub(1);
        self.touch(c, separator, count, Intent::Write);
        let removed = if W == long::PLACE_WORDS { self.key(separator) } else { [0; W] };
        self.shift(KEYS + (separator + 1) * W, KEYS + separator * W, (count - separator - 1) * W);
        self.shift(Self::CHILDREN + at + 1, Self::CHILDREN + at, count - at);
        let last = if separator < shape.last { shape.last - 1 } else { shape.last };
        self.poke(SHAPE, Shape { count: count - 1, last, ..shape }.pack());
        removed
    }

    /// Makes a new inner node the parent of one child.
    pub(super) fn set_first_child(&self, c: P::Core, child: NodeId) {
        P::touch(c, self.at(Self::CHILDREN), 8, Intent::Write);
        self.poke(Self::CHILDREN, child.0);
    }

    /// Moves the entries from `from` on to the new, empty leaf `to`, and what is known about
    /// ascending insertions.
    pub(super) fn move_entries(&self, c: P::Core, from: usize, to: &Self) {
        let shape = self.shape();
        let moved = shape.count - from;
        self.touch(c, from, shape.count, Intent::Read);
        to.touch(c, 0, moved, Intent::Write);
        for offset in 0..moved * W {
            to.poke(KEYS + offset, self.peek(KEYS + from * W + offset));
        }
        for offset in 0..moved {
            to.poke(Self::VALUES + offset, self.peek(Self::VALUES + from + offset));
        }
        self.divide_shape(to, from, from, moved);
    }

    /// Moves the separators above `middle`, and their children, to the new inner node `to`; returns
    /// the separator between the two nodes.
    pub(super) fn move_children(&self, c: P::Core, middle: usize, to: &Self) -> [u64; W] {
        let shape = self.shape();
        let first = middle + 1;
        let moved = shape.count - first;
        self.touch(c, middle, shape.count, Intent::Read);
        to.touch(c, 0, moved.max(1), Intent::Write);
        for offset in 0..moved * W {
            to.poke(KEYS + offset, self.peek(KEYS + first * W + offset));
        }
        for offset in 0..=moved {
            to.poke(Self::CHILDREN + offset, self.peek(Self::CHILDREN + first + offset));
        }
        let separator = self.key(middle);
        self.divide_shape(to, middle, first, moved);
        separator
    }

    fn divide_shape(&self, to: &Self, kept: usize, first: usize, moved: usize) {
        let shape = self.shape();
        let score = if shape.last >= first { shape.score } else { 0 };
        to.poke(SHAPE, Shape { count: moved, last: shape.last.saturating_sub(first), score, ..shape }.pack());
        let score = if shape.last < kept { shape.score } else { 0 };
        self.poke(SHAPE, Shape { count: kept, last: shape.last.min(kept), score, ..shape }.pack());
    }

    /// Copies the score of ascending insertions to the node where they continue.
    pub(super) fn set_score(&self, score: u64) {
        let shape = self.shape();
        self.poke(SHAPE, Shape { score, ..shape }.pack());
    }

    /// Score of ascending insertions.
    pub(super) fn score(&self) -> u64 {
        self.shape().score
    }
}

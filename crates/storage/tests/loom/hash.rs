//! The hash index.

use std::sync::Arc;

use loom::thread;
use storage::hash::{HashIndex, Spread};

use crate::platform::*;
use crate::{Mark, World};

/// Bytes of the first chunk that the models use: one bucket and the stamps.
const USED_BYTES: usize = 640;

/// A key leaves and another takes its place in the bucket; a lookup of either never gets the
/// other's value.
fn lookups_against_changes<O: Weakening>(c: LoomCore, marks: &[Mark; 4]) {
    type P<O> = LoomPlatform<O>;
    let world = World::<O>::new(c, 2);
    let mut local = world.local(0);
    local.enter(c);
    // SAFETY: the world outlives the index.
    let index = unsafe { HashIndex::<P<O>>::new(c, &mut local, Spread::Dense(1, |key| key)) };
    let index = index.expect("memory");
    index.insert(c, &mut local, 1, 10, || true).expect("memory");
    declare(USED_BYTES);
    let index = Arc::new(index);
    let writer = {
        let (world, index) = (Arc::clone(&world), Arc::clone(&index));
        thread::spawn(move || {
            let mut local = world.local(1);
            assert_eq!(index.remove(c, 1, 5), Some(10));
            index.insert(c, &mut local, 2, 20, || true).expect("memory");
        })
    };
    let second = index.get(c, 2);
    let first = index.get(c, 1);
    assert!(matches!(first.value, None | Some(10)), "key 1 with the value {:?}", first.value);
    assert!(matches!(second.value, None | Some(20)), "key 2 with the value {:?}", second.value);
    assert!(first.value.is_none() || second.value.is_none(), "both keys at once");
    marks[usize::from(first.value.is_some()) * 2 + usize::from(second.value.is_some())].hit();
    writer.join().expect("the writer");
    assert_eq!((index.get(c, 1).value, index.get(c, 2).value), (None, Some(20)));
    drop(world);
}

#[test]
fn hash_lookups_against_changes() {
    let marks: [Mark; 4] = Default::default();
    let inside = marks.clone();
    explore(2, move |c| lookups_against_changes::<AsWritten>(c, &inside));
    marks[0].assert_reached("the key was gone and the other not there yet");
    marks[1].assert_reached("the other key was there");
    marks[2].assert_reached("the key was still there");
}

#[test]
fn mutant_lookups_without_the_acquire_fence() {
    expect_caught("key", 2, |c| {
        lookups_against_changes::<WithoutAcquireFences>(c, &Default::default());
    });
}

#[test]
fn mutant_changes_without_the_release_fence() {
    expect_caught("key", 2, |c| {
        lookups_against_changes::<WithoutReleaseFences>(c, &Default::default());
    });
}

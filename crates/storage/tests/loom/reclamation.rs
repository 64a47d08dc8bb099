//! Epochs: what was unlinked is reused only when nobody can read it any more.

use std::sync::Arc;

use ::platform::{LINE_BYTES, Platform};
use loom::thread;
use std::sync::atomic::Ordering;

use crate::platform::*;
use crate::{Mark, Shared, World};

/// A writer unlinks a block, retires it, and takes it again as soon as it may; a reader that finds it never sees what the
/// writer puts into it then.
fn readers_never_see_reused_blocks<O: Weakening>(c: LoomCore, marks: &[Mark; 3]) {
    type P<O> = LoomPlatform<O>;
    let world = World::<O>::new(c, 2);
    let mut writer = world.local(0);
    writer.enter(c);
    let block = writer.allocate(c, LINE_BYTES).expect("memory");
    // SAFETY: a block of words that lives as long as the world.
    let word = |address: u64| unsafe { &*std::ptr::with_exposed_provenance::<LoomWord>(address as usize) };
    let address = block.as_ptr().expose_provenance() as u64;
    P::<O>::poke(word(address), 1);
    let shared = Shared::new::<O>(c, 1);
    P::<O>::store(c, shared.at(0), address, Ordering::Release);
    // The worst moment to retire: the writer is still in the epoch before, and readers enter the current one.
    assert!(world.epochs.try_advance(c));
    let reader = {
        let (world, shared, marks) = (Arc::clone(&world), Arc::clone(&shared), marks.clone());
        thread::spawn(move || {
            let mut reader = world.local(1);
            reader.enter(c);
            let address = P::<O>::load(c, shared.at(0), Ordering::Acquire);
            if address != 0 {
                assert_eq!(P::<O>::peek(word(address)), 1, "a reader sees a reused block");
                marks[0].hit();
            }
            reader.leave(c);
        })
    };
    P::<O>::store(c, shared.at(0), 0, Ordering::Release);
    // SAFETY: allocated above with this size and unlinked.
    unsafe { writer.retire(c, block, LINE_BYTES) };
    for _ in 0..3 {
        world.epochs.try_advance(c);
        writer.enter(c);
    }
    if writer.retired_blocks() == 0 {
        let again = writer.allocate(c, LINE_BYTES).expect("memory");
        assert_eq!(again, block);
        P::<O>::poke(word(address), 2);
        marks[1].hit();
    } else {
        marks[2].hit();
    }
    writer.leave(c);
    reader.join().expect("the reader");
}

#[test]
fn epochs_readers_never_see_reused_blocks() {
    let marks: [Mark; 3] = Default::default();
    let inside = marks.clone();
    explore(4, move |c| readers_never_see_reused_blocks::<AsWritten>(c, &inside));
    marks[0].assert_reached("a reader found the block");
    marks[1].assert_reached("the block was reused");
    marks[2].assert_reached("a reader kept the block from being reused");
}

#[test]
fn mutant_announcing_without_a_fence() {
    expect_caught("reused block", 4, |c| {
        readers_never_see_reused_blocks::<WithoutSeqCstFences>(c, &Default::default());
    });
}

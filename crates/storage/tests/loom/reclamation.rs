//! Epochs: what was unlinked is reused only when no core can read it any more, and what is complete
//! stays complete.

use std::sync::Arc;

use ::platform::{LINE_BYTES, Platform};
use loom::thread;
use std::sync::atomic::Ordering;
use storage::last_complete;

use crate::platform::*;
use crate::{Mark, Shared, World};

/// Lines of the epochs of two workers.
const EPOCH_LINES: usize = 4;

/// A writer unlinks a block, retires it, and takes it again as soon as it may; a reader that finds
/// it never sees what the writer puts into it then. `early`: the block gets its date before it is
/// unlinked.
fn readers_never_see_reused_blocks<O: Weakening>(c: LoomCore, early: bool, marks: &[Mark; 3]) {
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
    // The writer is still in the epoch before, and readers enter the current one.
    assert!(world.epochs.try_advance(c));
    if early {
        // SAFETY: allocated above with this size; a mutant that breaks the other promise.
        unsafe { writer.retire(c, block, LINE_BYTES) };
        writer.enter(c);
        assert!(world.epochs.try_advance(c));
    }
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
    if !early {
        // SAFETY: allocated above with this size and unlinked.
        unsafe { writer.retire(c, block, LINE_BYTES) };
    }
    for _ in 0..3 {
        assert!(world.epochs.try_advance(c), "a worker inside does not hold the epoch");
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
    explore(4, move |c| readers_never_see_reused_blocks::<AsWritten>(c, false, &inside));
    marks[0].assert_reached("a reader found the block");
    marks[1].assert_reached("the block was reused");
    marks[2].assert_reached("a reader kept the block from being reused");
}

#[test]
fn mutant_announcing_without_a_fence() {
    expect_caught("reused block", 4, |c| {
        readers_never_see_reused_blocks::<WithoutSeqCstFences>(c, false, &Default::default());
    });
}

#[test]
fn mutant_dates_from_before_the_unlinking() {
    expect_caught("reused block", 4, |c| {
        readers_never_see_reused_blocks::<AsWritten>(c, true, &Default::default());
    });
}

/// No worker enters in an epoch before the horizon, however late its announcement is seen.
fn no_participant_enters_before_the_horizon<O: Weakening>(c: LoomCore, marks: &[Mark; 1]) {
    let world = World::<O>::new(c, 1);
    declare(EPOCH_LINES * LINE_BYTES);
    let reader = {
        let (world, marks) = (Arc::clone(&world), marks.clone());
        thread::spawn(move || {
            let mut reader = world.local(0);
            reader.enter(c);
            let horizon = world.epochs.horizon(c);
            assert!(horizon <= reader.epoch(), "a reader is behind the horizon");
            if horizon.0 > 1 {
                marks[0].hit();
            }
        })
    };
    for _ in 0..3 {
        assert!(world.epochs.try_advance(c));
    }
    reader.join().expect("the reader");
}

#[test]
fn epochs_no_participant_enters_before_the_horizon() {
    let marks: [Mark; 1] = Default::default();
    let inside = marks.clone();
    explore(4, move |c| no_participant_enters_before_the_horizon::<AsWritten>(c, &inside));
    marks[0].assert_reached("a reader entered behind an advance");
}

#[test]
fn mutant_horizon_without_a_fence() {
    expect_caught("behind the horizon", 4, |c| {
        no_participant_enters_before_the_horizon::<WithoutSeqCstFences>(c, &Default::default());
    });
}

/// A core that takes what was left, after an epoch is complete, has all of it.
fn complete_epochs_stay_complete<O: Weakening>(c: LoomCore, marks: &[Mark; 2]) {
    type P<O> = LoomPlatform<O>;
    let world = World::<O>::new(c, 1);
    let shared = Shared::new::<O>(c, 1);
    declare(EPOCH_LINES * LINE_BYTES);
    let writer = {
        let (world, shared) = (Arc::clone(&world), Arc::clone(&shared));
        thread::spawn(move || {
            let mut writer = world.local(0);
            let epoch = writer.announce_commit(c);
            // Relaxed: a record, which the retraction publishes.
            P::<O>::store(c, shared.at(0), 1, Ordering::Relaxed);
            writer.retract_commit(c);
            epoch
        })
    };
    let advances = (0..3).filter(|_| world.epochs.try_advance(c)).count();
    let completed = last_complete(world.epochs.current(c));
    let left = P::<O>::load(c, shared.at(0), Ordering::Relaxed);
    let epoch = writer.join().expect("the writer");
    if epoch <= completed {
        assert_eq!(left, 1, "a record of a complete epoch is missing");
        marks[0].hit();
    }
    if advances < 3 {
        marks[1].hit();
    }
}

#[test]
fn epochs_complete_ones_stay_complete() {
    let marks: [Mark; 2] = Default::default();
    let inside = marks.clone();
    explore(4, move |c| complete_epochs_stay_complete::<AsWritten>(c, &inside));
    marks[0].assert_reached("the record was left in a complete epoch");
    marks[1].assert_reached("a commit held the epoch");
}

#[test]
fn mutant_commits_without_a_fence() {
    expect_caught("is missing", 4, |c| {
        complete_epochs_stay_complete::<WithoutSeqCstFences>(c, &Default::default());
    });
}

#[test]
fn mutant_retraction_without_release() {
    expect_caught("is missing", 4, |c| {
        complete_epochs_stay_complete::<WithRelaxedStores>(c, &Default::default());
    });
}

/// A commit that overwrites what another has read and validated draws an epoch that is not earlier.
fn epochs_follow_conflicts<O: Weakening>(c: LoomCore, marks: &[Mark; 2]) {
    type P<O> = LoomPlatform<O>;
    let world = World::<O>::new(c, 2);
    let shared = Shared::new::<O>(c, 1);
    declare(EPOCH_LINES * LINE_BYTES);
    let writer = {
        let (world, shared) = (Arc::clone(&world), Arc::clone(&shared));
        thread::spawn(move || {
            let mut writer = world.local(0);
            // Acquire: as schemes lock rows.
            P::<O>::cas(c, shared.at(0), 0, 1, Ordering::Acquire).expect("no other thread locks it");
            writer.announce_commit(c)
        })
    };
    let reader = {
        let (world, shared) = (Arc::clone(&world), Arc::clone(&shared));
        thread::spawn(move || {
            let mut reader = world.local(1);
            let epoch = reader.announce_commit(c);
            (epoch, P::<O>::load(c, shared.at(0), Ordering::Acquire))
        })
    };
    world.epochs.try_advance(c);
    let (epoch, locked) = reader.join().expect("the reader");
    let later = writer.join().expect("the writer");
    if locked == 0 {
        assert!(epoch <= later, "a writer has an earlier epoch than a reader before it");
        marks[usize::from(epoch < later)].hit();
    }
}

#[test]
fn epochs_follow_conflicting_commits() {
    let marks: [Mark; 2] = Default::default();
    let inside = marks.clone();
    explore(2, move |c| epochs_follow_conflicts::<AsWritten>(c, &inside));
    marks[0].assert_reached("the same epoch");
    marks[1].assert_reached("a later epoch");
}

#[test]
fn mutant_epochs_read_without_a_fence() {
    expect_caught("earlier epoch", 2, |c| {
        epochs_follow_conflicts::<WithoutSeqCstFences>(c, &Default::default())
    });
}

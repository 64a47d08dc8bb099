//! The version latch and the queue latch.

use std::sync::Arc;

use ::platform::Platform;
use loom::thread;
use storage::latch::{Obsolete, QueueLatch, QueueNode, VersionLatch};

use crate::platform::*;
use crate::{Mark, Shared};

type Word = LoomWord;

/// A reader whose validation succeeds has read both words of one change.
fn readers_see_whole_changes<O: Weakening>(c: LoomCore, marks: &[Mark; 3]) {
    type P<O> = LoomPlatform<O>;
    let shared = Shared::new::<O>(c, 3);
    let writer = {
        let shared = Arc::clone(&shared);
        move || {
            let latch = shared.at::<VersionLatch<P<O>>>(0);
            let version = latch.acquire(c).expect("not obsolete");
            P::<O>::poke(shared.at::<Word>(1), 1);
            P::<O>::poke(shared.at::<Word>(2), 1);
            latch.unlock_changed(c, version);
        }
    };
    let writer = thread::spawn(writer);
    let latch = shared.at::<VersionLatch<P<O>>>(0);
    let version = latch.read_begin(c).expect("not obsolete");
    let pair = (P::<O>::peek(shared.at(1)), P::<O>::peek(shared.at(2)));
    if latch.validate(c, version) {
        assert_eq!(pair.0, pair.1, "a torn pair passed validation");
        assert_eq!(pair.0 == 1, version != 0, "the data is not that of the version");
        marks[pair.0 as usize].hit();
    } else {
        marks[2].hit();
    }
    writer.join().expect("the writer");
}

#[test]
fn version_latch_readers_see_whole_changes() {
    let marks: [Mark; 3] = Default::default();
    let inside = marks.clone();
    explore(4, move |c| readers_see_whole_changes::<AsWritten>(c, &inside));
    marks[0].assert_reached("a valid read before the change");
    marks[1].assert_reached("a valid read after the change");
    marks[2].assert_reached("a read that validation refuses");
}

macro_rules! mutants {
    ($($test:ident: $model:ident $weakening:ident $message:expr;)*) => { $(
        #[test]
        fn $test() {
            expect_caught($message, 4, |c| $model::<$weakening>(c, &Default::default()));
        }
    )* };
}

mutants! {
    mutant_validation_without_its_acquire_fence: readers_see_whole_changes WithoutAcquireFences "torn pair";
    mutant_latching_without_its_release_fence: readers_see_whole_changes WithoutReleaseFences "torn pair";
    mutant_unlocking_relaxed: readers_see_whole_changes WithRelaxedStores "not that of the version";
    mutant_reading_the_version_relaxed: readers_see_whole_changes WithRelaxedLoads "not that of the version";
}

/// Holders of a version latch exclude each other, and see what the one before wrote, whichever way
/// it unlocked.
fn writers_exclude_each_other<O: Weakening>(c: LoomCore, marks: &[Mark; 1]) {
    type P<O> = LoomPlatform<O>;
    let shared = Shared::new::<O>(c, 2);
    let add = move |shared: &Shared, changed: bool| {
        let latch = shared.at::<VersionLatch<P<O>>>(0);
        let version = latch.acquire(c).expect("not obsolete");
        let seen = P::<O>::peek(shared.at(1));
        P::<O>::poke(shared.at(1), seen + 1);
        if changed {
            latch.unlock_changed(c, version);
        } else {
            latch.unlock_unchanged(c, version);
        }
        seen
    };
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || add(&shared, false))
    };
    if add(&shared, true) == 1 {
        marks[0].hit();
    }
    other.join().expect("the other writer");
    assert_eq!(P::<O>::peek(shared.at(1)), 2, "an addition is lost");
}

#[test]
fn version_latch_writers_exclude_each_other() {
    let marks: [Mark; 1] = Default::default();
    let inside = marks.clone();
    explore(4, move |c| writers_exclude_each_other::<AsWritten>(c, &inside));
    marks[0].assert_reached("the spawned writer came first");
}

mutants! {
    mutant_writers_unlock_relaxed: writers_exclude_each_other WithRelaxedStores "an addition is lost";
}

/// A core that finds an object obsolete sees that the object was unlinked.
fn obsolete_means_unlinked<O: Weakening>(c: LoomCore, marks: &[Mark; 2]) {
    type P<O> = LoomPlatform<O>;
    let shared = Shared::new::<O>(c, 2);
    let unlinker = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            let latch = shared.at::<VersionLatch<P<O>>>(0);
            let version = latch.acquire(c).expect("not obsolete");
            P::<O>::poke(shared.at(1), 1);
            latch.unlock_obsolete(c, version);
        })
    };
    let latch = shared.at::<VersionLatch<P<O>>>(0);
    match latch.read_begin(c) {
        Err(Obsolete) => {
            marks[0].hit();
            assert_eq!(P::<O>::peek(shared.at(1)), 1, "obsolete but still linked");
        }
        Ok(version) if !latch.validate(c, version) => marks[1].hit(),
        Ok(_) => {}
    }
    unlinker.join().expect("the unlinker");
    assert_eq!(latch.read_begin(c), Err(Obsolete));
    assert!(latch.is_obsolete_now(c) && latch.acquire(c).is_err());
}

#[test]
fn version_latch_obsolete_means_unlinked() {
    let marks: [Mark; 2] = Default::default();
    let inside = marks.clone();
    explore(4, move |c| obsolete_means_unlinked::<AsWritten>(c, &inside));
    marks[0].assert_reached("an object found obsolete");
    marks[1].assert_reached("an object that became latched or obsolete meanwhile");
}

mutants! {
    mutant_unlinking_relaxed: obsolete_means_unlinked WithRelaxedStores "still linked";
}

/// Two transactions each latch one object and then check the version of the other's: they cannot
/// both find it current.
fn one_of_two_checks_fails<O: Weakening>(c: LoomCore, marks: &[Mark; 2]) {
    type P<O> = LoomPlatform<O>;
    let shared = Shared::new::<O>(c, 2);
    let transaction = move |shared: &Shared, own: usize| {
        let (mine, theirs) = (shared.at::<VersionLatch<P<O>>>(own), shared.at::<VersionLatch<P<O>>>(1 - own));
        assert!(mine.try_upgrade(c, 0));
        theirs.is_current(c, 0)
    };
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || transaction(&shared, 1))
    };
    let first = transaction(&shared, 0);
    let second = other.join().expect("the other transaction");
    assert!(!first || !second, "both saw a world without the other");
    marks[usize::from(first || second)].hit();
}

#[test]
fn version_latch_one_of_two_checks_fails() {
    let marks: [Mark; 2] = Default::default();
    let inside = marks.clone();
    explore(4, move |c| one_of_two_checks_fails::<AsWritten>(c, &inside));
    marks[0].assert_reached("both checks failed");
    marks[1].assert_reached("one check succeeded");
}

mutants! {
    mutant_checks_that_no_order_covers: one_of_two_checks_fails WithoutSeqCstOperations "without the other";
}

/// Holders of a queue latch exclude each other and see what the one before wrote.
fn queue_excludes<O: Weakening, const OTHERS: usize>(c: LoomCore, marks: &[Mark; 2]) {
    type P<O> = LoomPlatform<O>;
    let shared = Shared::new::<O>(c, 3 + OTHERS);
    // SAFETY: each thread has a node of its own and uses it for this latch only.
    let add = move |shared: &Shared, index: usize, try_first: bool| unsafe {
        let latch = shared.at::<QueueLatch<P<O>>>(0);
        let node = shared.at::<QueueNode<P<O>>>(2 + index);
        let taken = try_first && latch.try_acquire(c, node);
        if !taken {
            latch.acquire(c, node);
        }
        let seen = P::<O>::peek(shared.at(1));
        P::<O>::poke(shared.at(1), seen + 1);
        latch.release(c, node);
        taken
    };
    let others: Vec<_> = (1..=OTHERS)
        .map(|index| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || add(&shared, index, false))
        })
        .collect();
    marks[usize::from(add(&shared, 0, true))].hit();
    for other in others {
        other.join().expect("another holder");
    }
    assert_eq!(P::<O>::peek(shared.at(1)), 1 + OTHERS as u64, "an addition is lost");
    assert!(!shared.at::<QueueLatch<P<O>>>(0).is_held(c));
}

fn queue_of_two<O: Weakening>(c: LoomCore, marks: &[Mark; 2]) {
    queue_excludes::<O, 1>(c, marks);
}

#[test]
fn queue_latch_of_two() {
    let marks: [Mark; 2] = Default::default();
    let inside = marks.clone();
    explore(4, move |c| queue_of_two::<AsWritten>(c, &inside));
    marks[0].assert_reached("the latch was held when it was tried");
    marks[1].assert_reached("the latch was free when it was tried");
}

#[test]
fn queue_latch_of_three() {
    explore_within(2, |c| queue_excludes::<AsWritten, 2>(c, &Default::default()));
}

// The hand-over and the link are one chain: without it a waiter's own `waiting = 1` may come after
// the holder's 0.
mutants! {
    mutant_handing_over_relaxed: queue_of_two WithRelaxedStores HANGS;
    mutant_exchanging_relaxed: queue_of_two WithRelaxedExchanges "an addition is lost";
    mutant_waiting_relaxed: queue_of_two WithRelaxedLoads HANGS;
}

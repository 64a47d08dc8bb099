//! Checks of arenas: what they cut, what comes back, and what is provided ahead.

use platform::Hardware;

use super::*;

fn memory(bytes_max: u64) -> Memory<Hardware> {
    Memory::new(Hardware::core(), bytes_max).expect("memory")
}

#[test]
fn blocks_do_not_overlap_nor_straddle() {
    let c = Hardware::core();
    let memory = memory(1 << 30);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    let mut blocks = Vec::new();
    for round in 0..400usize {
        let bytes = [8, 16, 72, 24, 72, 32, 90, 40, 64, 65, 200, 96, 4096, 5000, 100_000][round % 15];
        let at = arena.allocate(c, bytes).expect("memory").addr().get();
        assert_eq!(at % 16, 0);
        let lines = (at + bytes - 1) / LINE_BYTES - at / LINE_BYTES + 1;
        assert_eq!(lines, bytes.div_ceil(LINE_BYTES), "{bytes} bytes at {at}");
        if bytes.is_multiple_of(LINE_BYTES) {
            assert_eq!(at % LINE_BYTES, 0);
        }
        blocks.push((at, bytes));
    }
    blocks.sort_unstable();
    assert!(blocks.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
}

#[test]
fn freed_blocks_come_back() {
    let c = Hardware::core();
    let memory = memory(1 << 30);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    let first = arena.allocate(c, 100).expect("memory");
    // SAFETY: allocated above with the same size and forgotten here.
    unsafe { arena.free(c, first, 100) };
    assert_eq!(arena.bytes_live(), 0);
    assert_eq!(arena.allocate(c, 120).expect("memory"), first);
}

#[test]
fn the_limit_is_a_typed_error() {
    let c = Hardware::core();
    let memory = memory(1 << 20);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    let error = (0..).find_map(|_| arena.allocate(c, 4096).err()).expect("the limit is reached");
    assert!(error.reason.contains("memory limit"), "{error}");
    assert!(memory.bytes_used(c) <= 1 << 20);
}

#[test]
fn what_the_machine_refuses_is_not_in_use() {
    const ABSURD: usize = 1 << 60;
    let c = Hardware::core();
    let memory = memory(u64::MAX);
    for _ in 0..32 {
        let error = memory.chunk(c, None, ABSURD, "too much").expect_err("no machine has that much");
        assert!(!error.reason.contains("memory limit"), "{error}");
    }
    assert_eq!(memory.bytes_used(c), 0);
    assert!(memory.chunk(c, None, 4096, "a little").is_ok());
    assert_eq!(memory.bytes_used(c), 4096);
}

#[test]
fn what_one_arena_frees_another_uses() {
    let c = Hardware::core();
    let memory = memory(4 << 20);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let (mut first, mut second) = unsafe { (Arena::new(&memory, 0, None), Arena::new(&memory, 0, None)) };
    for _ in 0..if cfg!(miri) { 3_000 } else { 300_000 } {
        let block = first.allocate(c, 100).expect("blocks come back");
        // SAFETY: allocated just now with the same size, and forgotten.
        unsafe { second.free(c, block, 100) };
    }
}

#[test]
fn the_limit_can_be_used_up() {
    let c = Hardware::core();
    let memory = memory(1 << 20);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    let blocks = (0..).take_while(|_| arena.allocate(c, 4096).is_ok()).count();
    assert!(blocks * 4096 > (1 << 20) - 16 * 4096, "{blocks} blocks fit");
}

#[test]
fn what_is_cut_between_two_checks_is_ready() {
    let c = Hardware::core();
    let memory = Memory::<Hardware>::with_optimisations(c, 1 << 30, 1, Optimisations::ALL).expect("memory");
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    arena.tend(c);
    assert_eq!(memory.bytes_used(c), 0, "a worker that inserts nothing takes nothing");
    arena.allocate(c, 1024).expect("memory");
    arena.tend(c);
    for round in 0..if cfg!(miri) { 200 } else { 40_000 } {
        arena.allocate(c, 1024).expect("memory");
        assert!(arena.unready <= arena.left, "block {round} is from memory that was not ready");
        arena.tend(c);
    }
    arena.publish();
    let MemoryUse { reserved, touched, used } = memory.memory_use(c);
    assert_eq!((touched, used), (arena.bytes_live(), arena.bytes_live()), "nothing is lost between chunks");
    assert!(touched <= reserved && reserved < touched * 5 / 4 + (512 << 10), "{touched} of {reserved}");
}

#[test]
fn a_worker_that_takes_much_at_once_has_as_much_ready() {
    const MUCH: usize = 3 << 20;
    let c = Hardware::core();
    let memory = memory(1 << 30);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    let mut surprised = [0; 2];
    for round in 0..30 {
        for _ in 0..MUCH / 4096 {
            arena.allocate(c, 4096).expect("memory");
            surprised[round / 15] += usize::from(arena.left < arena.unready);
        }
        arena.tend(c);
    }
    assert!(surprised[1] * 4 < surprised[0], "blocks that were not ready: {surprised:?}");
    let most = arena.ahead;
    assert!(most >= MUCH);
    for _ in 0..80_000 {
        arena.allocate(c, 1024).expect("memory");
        arena.tend(c);
    }
    assert!(arena.ahead < most, "less is enough again");
}

#[test]
fn memory_for_a_run_is_provided_before_the_run() {
    const RUN: usize = 40 << 20;
    let c = Hardware::core();
    let memory = memory(64 << 20);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    arena.allocate(c, 1024).expect("memory");
    let mut provided = 0;
    while provided < RUN {
        let more = arena.provide(c, RUN - provided);
        assert!(more > 0, "{provided} bytes of {RUN}");
        provided += more;
    }
    let reserved = memory.bytes_used(c);
    for number in 0..RUN / 1024 {
        arena.allocate(c, 1024).expect("memory");
        assert!(arena.unready <= arena.left, "block {number} is from memory that was not ready");
        arena.tend(c);
    }
    // At the end of what was provided, the next chunk is taken ahead as ever.
    assert!(memory.bytes_used(c) <= reserved + CHUNK_BYTES_MAX as u64);
    while arena.provide(c, RUN) > 0 {}
    assert!(memory.bytes_used(c) <= (64 << 20) / 8 * 7, "nothing is provided near the limit");
}

#[test]
fn several_blocks_are_like_single_ones() {
    const COUNT: usize = 12;
    let c = Hardware::core();
    let memory = memory(4 << 20);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    let mut all = Vec::new();
    for bytes in [16, 48, 64, 72, 96, 200, 72, 72] {
        arena.allocate(c, 24).expect("memory");
        let mut blocks = [NonNull::dangling(); COUNT];
        arena.allocate_several(c, bytes, &mut blocks).expect("memory");
        for block in blocks {
            let (first, last) = (block.addr().get(), block.addr().get() + bytes - 1);
            assert!(first.is_multiple_of(16));
            let lines = last / LINE_BYTES - first / LINE_BYTES + 1;
            assert_eq!(lines, bytes.div_ceil(LINE_BYTES), "no more lines than it must");
            all.push((first, last));
        }
        // SAFETY: allocated above with this length, and no longer used.
        unsafe { arena.free(c, blocks[0], bytes) };
        all.retain(|(first, _)| *first != blocks[0].addr().get());
    }
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].0), "they do not overlap");
    let live = arena.bytes_live();
    let mut blocks = [NonNull::dangling(); COUNT];
    arena.allocate_several(c, 512 << 10, &mut blocks).expect_err("there is no room for all");
    assert_eq!(arena.bytes_live(), live, "nothing is taken of what is not there for all");
}

#[test]
fn what_is_taken_ahead_is_for_whoever_needs_it() {
    const LIMIT: usize = 4 << 20;
    let c = Hardware::core();
    let memory = memory(LIMIT as u64);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let (mut first, mut second) =
        unsafe { (Arena::new(&memory, 0, Some(Node(0))), Arena::new(&memory, 1, Some(Node(1)))) };
    while first.spares == 0 || first.chunk_bytes < 1 << 20 {
        first.allocate(c, 4096).expect("memory");
        first.tend(c);
    }
    let rest = first.left;
    let taken = (0..).take_while(|_| second.allocate(c, 4096).is_ok()).count() * 4096;
    assert_eq!(memory.bytes_used(c), LIMIT as u64, "all of it is taken");
    let used = first.bytes_live() as usize + rest + taken;
    assert!(used + 4096 > LIMIT, "{used} of {LIMIT}: the spare of the first was given to the second");
}

#[test]
fn after_loading_there_is_memory_at_hand() {
    let c = Hardware::core();
    let memory = memory(16 << 20);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    arena.allocate(c, 1024).expect("memory");
    arena.get_ready(c);
    let taken = memory.bytes_used(c);
    assert_eq!(taken as usize, CHUNK_BYTES_FIRST + CHUNK_BYTES_MAX);
    for _ in 0..3 << 10 {
        arena.allocate(c, 1024).expect("memory");
        arena.tend(c);
        assert!(arena.unready <= arena.left, "it is provided ahead, too");
    }
    arena.get_ready(c);
    assert_eq!(memory.bytes_used(c), taken, "nothing more was taken meanwhile");
    while arena.allocate(c, 1024).is_ok() {}
    arena.get_ready(c);
    assert_eq!(memory.bytes_used(c), 16 << 20, "the limit holds");
}

#[test]
fn nothing_is_taken_ahead_near_the_limit() {
    const LIMIT: u64 = 1 << 20;
    let c = Hardware::core();
    let memory = memory(LIMIT);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    let mut ahead = 0;
    while arena.allocate(c, 1024).is_ok() {
        let before = memory.bytes_used(c);
        arena.tend(c);
        if memory.bytes_used(c) > before {
            ahead = memory.bytes_used(c);
        }
    }
    assert!(ahead > LIMIT / 4 && ahead <= LIMIT - LIMIT / 8, "taken ahead up to {ahead}");
    assert!(arena.bytes_live() > LIMIT - 4096, "the limit can be used up");
}

/// Nothing touches the memory: it is address space only.
#[test]
#[cfg(not(miri))]
fn large_arenas_have_few_chunks() {
    const BYTES: u64 = 2 << 30;
    let c = Hardware::core();
    let memory = memory(2 * BYTES);
    // SAFETY: `memory` is declared before, so it is dropped after.
    let mut arena = unsafe { Arena::new(&memory, 0, None) };
    while arena.bytes_live() < BYTES {
        arena.allocate(c, 1 << 16).expect("memory");
    }
    let chunks = memory.chunks.count(c);
    assert!(chunks < 150, "{chunks} chunks, where chunks of one size would be 512");
    let reserved = memory.bytes_used(c);
    assert!(reserved <= BYTES + BYTES / CHUNK_PART, "{reserved} bytes for {BYTES}");
}

#[test]
fn classes_fit_their_sizes() {
    let mut last = 0;
    for bytes in 1..20_000 {
        let (class, rounded) = class_of(bytes);
        assert!(rounded >= bytes && class >= last && class <= last + 1 && class < CLASSES);
        last = class;
    }
}

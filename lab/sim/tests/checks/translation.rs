//! TLBs and walks of page tables: chases over pages, huge pages, siblings.

use std::sync::atomic::Ordering::Relaxed;

use machine::Description;
use platform::Platform;
use sim::{Config, Counts, VirtualCore, VirtualMachine as Vm};

use crate::common::{Words, places, small};

const SMALL: usize = 4 << 10;
const HUGE: usize = 2 << 20;

/// A described machine with little memory.
fn described(name: &str) -> Config {
    let description = Description::shipped(name).expect("shipped");
    Config { memory_bytes: 8 << 30, ..Config::of(&description).expect("a machine") }
}

/// The same without huge pages.
fn with_small_pages(config: Config) -> Config {
    Config { model: config.model.clone().with_small_pages(), ..config }
}

/// Loads one word of each of this many pages. Their lines are in different sets of the caches.
fn chase(c: VirtualCore, words: &Words, pages: std::ops::Range<usize>, page_bytes: usize) {
    for page in pages {
        Vm::load(c, words.line(page * page_bytes / 64 + page / 8 % 64), Relaxed);
    }
}

/// Counts of a chase, with the time of one access, when the pages have been visited before.
struct Chase {
    counts: Counts,
    access_ps: f64,
}

fn chased(config: &Config, pages: usize, page_bytes: usize) -> Chase {
    let run = |c| {
        let words = Words::new(c, 0, pages * page_bytes / 8, "pages");
        let worker = |c, _| {
            (0..3).for_each(|_| chase(c, &words, 0..pages, page_bytes));
            Vm::count_from_here(c);
            (0..10).for_each(|_| chase(c, &words, 0..pages, page_bytes));
        };
        Vm::parallel(c, &places([0]), &worker, &mut |_| ());
    };
    let statistics = Vm::run(config, run).expect("a run").statistics;
    let access_ps = statistics.counts.running_ps as f64 / (10 * pages) as f64;
    Chase { counts: statistics.counts, access_ps }
}

/// Cycles of octo-socket in this many picoseconds.
fn cycles(picoseconds: f64) -> f64 {
    picoseconds * 2.13 / 1000.0
}

#[test]
fn pages_within_the_reach_of_the_first_tlb_cost_nothing() {
    let config = with_small_pages(described("octo-socket"));
    let within = chased(&config, 64, SMALL);
    assert_eq!((within.counts.tlb_misses, within.counts.translation_ps), (0, 0));
    assert!((cycles(within.access_ps) - 5.0).abs() < 0.1, "{}", cycles(within.access_ps));
}

#[test]
fn a_hit_of_the_second_tlb_costs_what_the_description_says() {
    let config = with_small_pages(described("octo-socket"));
    let second = chased(&config, 256, SMALL);
    assert_eq!((second.counts.tlb_misses, second.counts.page_walks), (2560, 0));
    // 5 cycles of the L1 and 7 of the second TLB.
    assert!((cycles(second.access_ps) - 12.0).abs() < 0.1, "{}", cycles(second.access_ps));
}

#[test]
fn a_page_that_no_tlb_has_costs_the_read_of_its_entry() {
    let config = with_small_pages(described("octo-socket"));
    let walks = chased(&config, 1024, SMALL);
    assert_eq!((walks.counts.tlb_misses, walks.counts.page_walks), (10_240, 10_240));
    // The lines are in the L2, and so are their 128 lines of entries, each of which is read eight
    // times in a row.
    let expected = 11.0 + 7.0 + (7.0 * 5.0 + 11.0) / 8.0;
    assert!((cycles(walks.access_ps) - expected).abs() < 1.0, "{} {expected}", cycles(walks.access_ps));
    assert_eq!(walks.counts.events, 2 * 10_240, "the reads of entries are events");
}

#[test]
fn the_entries_of_pages_are_lines_like_any_other() {
    let mut config = with_small_pages(described("octo-socket"));
    // More lines of data, 32,768, and of entries, 4,096, than an L3 of 1 MiB can keep.
    let caches = sim::CacheSizes { l3_bytes: 1 << 20, ..config.model.caches() };
    config.model = config.model.with_caches(caches);
    let free = Config { model: config.model.clone().with_free_translation(), ..config.clone() };
    let (walks, without) = (chased(&config, 1 << 15, SMALL), chased(&free, 1 << 15, SMALL));
    assert_eq!(walks.counts.page_walks, 10 << 15);
    // One of eight reads of entries comes from memory, as every line of data does: 355 cycles.
    assert_eq!(without.counts.local_memory_misses, 10 << 15);
    let far = walks.counts.local_memory_misses - without.counts.local_memory_misses;
    let near = walks.counts.l3_hits - without.counts.l3_hits;
    assert_eq!(far + near, 10 << 12, "one of eight reads of entries leaves the core");
    assert!(far > 10_000, "{far}");
    let more = cycles(walks.access_ps - without.access_ps);
    let entries = (far as f64 * 355.0 + near as f64 * 44.0) / walks.counts.page_walks as f64;
    let expected = 7.0 + entries + 7.0 / 8.0 * 5.0;
    assert!((more - expected).abs() < 3.0, "{more} {expected}");
}

#[test]
fn huge_pages_extend_the_reach() {
    let config = described("octo-socket");
    let huge = chased(&config, 4096, SMALL);
    assert_eq!((huge.counts.tlb_misses, huge.counts.page_walks), (0, 0), "8 huge pages");
    let within = chased(&config, 32, HUGE);
    assert_eq!((within.counts.tlb_misses, within.counts.page_walks), (0, 0));
    // The second TLB of Westmere has no huge pages, that of Skylake has.
    let beyond = chased(&config, 64, HUGE);
    assert_eq!((beyond.counts.tlb_misses, beyond.counts.page_walks), (640, 640));
    let skylake = chased(&described("superdome-flex"), 64, HUGE);
    assert_eq!((skylake.counts.tlb_misses, skylake.counts.page_walks), (640, 0));
}

#[test]
fn siblings_share_the_tlbs_of_their_core() {
    // 48 pages each, of the 64 that the first TLB has.
    let misses = |threads: [u32; 2]| {
        let config = with_small_pages(described("superdome-flex"));
        let run = |c| {
            let words = Words::new(c, 0, 96 * SMALL / 8, "pages");
            let worker = |c, index: usize| {
                (0..100).for_each(|_| chase(c, &words, index * 48..(index + 1) * 48, SMALL));
            };
            Vm::parallel(c, &places(threads), &worker, &mut |_| ());
        };
        Vm::run(&config, run).expect("a run").statistics.counts.tlb_misses
    };
    let topology = Description::shipped("superdome-flex").expect("shipped").topology;
    let of_core = |core| topology.threads().iter().filter(move |info| info.core == core);
    let threads = |core| of_core(core).map(|info| info.thread.0).collect::<Vec<u32>>();
    assert_eq!(misses([threads(0)[0], threads(1)[0]]), 96, "cores of their own");
    assert!(misses([threads(0)[0], threads(0)[1]]) > 1000);
}

#[test]
fn a_prefetch_walks_and_its_core_does_not_wait() {
    let config = with_small_pages(described("octo-socket"));
    let run = |c| {
        let words = Words::new(c, 0, 64 * SMALL / 8, "pages");
        let worker = |c, _| {
            for page in 0..8 {
                Vm::prefetch(c, words.line(page * 64), 8, platform::Intent::Read);
            }
        };
        Vm::parallel(c, &places([0]), &worker, &mut |_| ());
    };
    let counts = Vm::run(&config, run).expect("a run").statistics.counts;
    assert_eq!((counts.tlb_misses, counts.page_walks), (8, 8));
    assert_eq!((counts.translation_ps, counts.stalled_ps), (0, 0));
}

#[test]
fn a_machine_without_facts_translates_for_free() {
    let counts = chased(&small(), 1024, SMALL).counts;
    assert_eq!((counts.tlb_misses, counts.page_walks, counts.translation_ps), (0, 0, 0));
    let octo = described("octo-socket");
    let free = Config { model: octo.model.clone().with_free_translation(), ..octo.clone() };
    let (free, huge) = (chased(&free, 64, SMALL), chased(&octo, 64, SMALL));
    let without_time = |counts: Counts| Counts { running_ps: 0, ..counts };
    assert_eq!(without_time(free.counts), without_time(huge.counts), "what the TLBs reach costs the same");
}

#[test]
fn equal_runs_translate_equally() {
    let config = with_small_pages(described("power8"));
    let counts = || chased(&config, 3000, 64 << 10).counts;
    assert_eq!(counts(), counts());
    assert!(counts().page_walks > 0);
}

#[test]
fn memory_beyond_what_lines_can_number_is_refused_with_its_page_tables() {
    let config = Config { memory_bytes: 256 << 30, ..described("octo-socket") };
    let error = Vm::run(&config, |_| ()).expect_err("too many lines").to_string();
    assert!(error.contains("bytes for regions"), "{error}");
}

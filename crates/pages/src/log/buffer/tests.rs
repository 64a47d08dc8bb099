//! Tests of the buffer, also with workers that fill it side by side.

use platform::{Hardware, Node, Place};
use sim::{Config, Shape, VirtualMachine};

use super::*;
use crate::log::segments::SegmentNames;

/// The plan of a log with a buffer of four blocks.
fn log_plan(segment_blocks: u64, workers: usize) -> LogPlan {
    let block = BLOCK_BYTES as u64;
    let names = SegmentNames { life: 1, ..SegmentNames::default() };
    let bytes = segment_blocks * block;
    let segments = SegmentPlan { bytes, names, generation: 1, continues: Lsn(0) };
    LogPlan {
        segments,
        buffer_bytes: 4 * block,
        workers,
        owners: 1,
        nodes: (0..4).map(Node).collect(),
        begins: segments.first_in_segment(Lsn(0)),
        fills_apart: true,
    }
}

/// The content of a buffer of four blocks, in a segment of `segment_blocks`, after records of
/// these numbers of words, each of which fits or not; the end of the group, and its words.
fn filled(segment_blocks: u64, records: &[u64]) -> (Vec<bool>, u64, Vec<u64>) {
    let (c, block) = (Hardware::core(), BLOCK_BYTES as u64);
    let begins = Lsn(block);
    let buffer = LogBuffer::<Hardware>::new(c, log_plan(segment_blocks, 1)).expect("memory");
    let mut writer = buffer.writer(0, None);
    let window = buffer.open(c, &mut writer, None);
    let fits = records.iter().map(|count| {
        let mut record = vec![count << 8 | 0xff; *count as usize];
        buffer.fill(c, &mut writer, &window, &mut record).is_some()
    });
    let fits = fits.collect();
    buffer.close(c, window);
    let fixed = buffer.fix_end(c, begins.0);
    let mut out = vec![0; (fixed - begins.0) as usize / 8];
    buffer.copy_out(c, begins.0, &mut out);
    (fits, fixed, out)
}

const BLOCK_WORDS: u64 = BLOCK_BYTES as u64 / 8;

/// The place of a record at this word of a group, which begins behind the first block.
fn place(at: usize) -> RecordPlace {
    RecordPlace { life: 1, lsn: Lsn((BLOCK_BYTES + at * 8) as u64) }
}

/// The places of marks in this group, which begins behind the first block.
fn marks(words: &[u64]) -> Vec<u64> {
    let is_mark = |at: &usize| {
        let found = record::find(&words[*at..], words.len() - at, place(*at));
        found
            .is_some_and(|found| record::may_be_group(found.words[0]) && found.words[1] == BLOCK_BYTES as u64)
    };
    (0..words.len()).filter(is_mark).map(|at| at as u64).collect()
}

#[test]
fn a_full_buffer_has_room_for_a_mark() {
    for left in [3, 2, 1, 0] {
        let words = 4 * BLOCK_WORDS - 2 - left;
        let (fits, fixed, out) = filled(64, &[2, words]);
        assert_eq!(fits, [true, left >= 2], "{left} words are left");
        let (blocks, mark) = if left >= 2 { (4, 2 + words) } else { (1, 2) };
        assert_eq!(
            (fixed / BLOCK_BYTES as u64, marks(&out)),
            (1 + blocks, vec![mark]),
            "{left} words are left"
        );
        let found = record::find(&out, out.len(), place(0)).expect("the first record");
        assert_eq!(found.count, 2, "{left} words are left");
    }
}

#[test]
fn what_fills_a_segment_ends_with_a_mark() {
    // A segment has a block of records. Its last words are left, or are just enough for a mark;
    // the group ends with it, or goes on.
    for (records, expected) in [
        (vec![BLOCK_WORDS - 10], vec![BLOCK_WORDS - 10]),
        (vec![BLOCK_WORDS - 2], vec![BLOCK_WORDS - 2]),
        (vec![BLOCK_WORDS - 10, 9], vec![BLOCK_WORDS - 2, 2 * BLOCK_WORDS + 9]),
        (vec![BLOCK_WORDS - 2, 9], vec![BLOCK_WORDS - 2, 2 * BLOCK_WORDS + 9]),
    ] {
        let (fits, _, out) = filled(2, &records);
        assert!(fits.iter().all(|fits| *fits));
        assert_eq!(marks(&out), expected, "{records:?}");
        // A reader finds its way from record to record.
        let (mut at, mut count) = (0, 0);
        while at < BLOCK_WORDS as usize {
            let found = record::find(&out[at..], BLOCK_WORDS as usize - at, place(at));
            at += found.expect("a record").count;
            count += 1;
        }
        assert!(at == BLOCK_WORDS as usize && count <= 3, "{records:?}");
    }
}

#[test]
fn a_transaction_begins_behind_the_last_checkpoint() {
    let c = Hardware::core();
    let buffer = LogBuffer::<Hardware>::new(c, log_plan(64, 2)).expect("memory");
    let (mut first, mut second) = (buffer.writer(0, None), buffer.writer(1, None));
    let window = buffer.open(c, &mut first, None);
    let end = buffer.fill(c, &mut first, &window, &mut [2 << 8 | 0xff, 0]);
    buffer.close(c, window);
    assert_eq!(end, Some(buffer.begin_checkpoint(c)));
    // The second worker has seen no end, and the first one sees no other.
    for writer in [&mut first, &mut second] {
        let window = buffer.open(c, writer, Some(0));
        buffer.close(c, window);
        assert_eq!(buffer.oldest(c), end);
        buffer.rests(c, 0);
    }
}

/// Records that each worker of [`reserves_side_by_side`] writes.
const RECORDS: u64 = 300;

/// Workers that reserve side by side, alone and in groups, while one of them takes the filled
/// groups from the buffer. The buffer is full time and again, and segments end. Each record is
/// in the log once, in a place of its own. Returns how many reservations were in groups.
fn reserves_side_by_side<P: Files>(c: P::Core, workers: usize, longest: u64) -> u64 {
    let plan = log_plan(3, workers);
    let (begins, names) = (plan.begins.0, plan.segments);
    let buffer = LogBuffer::<P>::new(c, plan).expect("memory");
    let shared = P::region(c, None, 2 * LINE_BYTES, "test").expect("memory");
    let (ended, grouped) = (P::word_of(&shared, 0), P::word_of(&shared, LINE_BYTES));
    let work = |c: P::Core, worker: usize| {
        let mut writer = buffer.writer(worker, Some(Node(worker as u32 % 4)));
        for number in 0..RECORDS {
            let count = 2 + (number * 7 + worker as u64) % longest;
            let mut record = vec![(worker as u64) << 32 | number; count as usize];
            loop {
                record[0] = count << 8 | 0xff;
                let window = buffer.open(c, &mut writer, None);
                let joins = writer.joins;
                let end = buffer.fill(c, &mut writer, &window, &mut record);
                P::fetch_add(c, grouped, u64::from(joins && writer.joins), Ordering::Relaxed);
                // Some workers join whether they have to or not.
                writer.joins |= !(worker as u64 + number).is_multiple_of(3);
                buffer.close(c, window);
                if end.is_some() {
                    break;
                }
                P::rest(c, 1_000);
            }
        }
        P::fetch_add(c, ended, 1, Ordering::Release);
    };
    let take = |c: P::Core| {
        let mut found = vec![0; workers];
        let (mut taken, mut is_last) = (begins, false);
        while !is_last {
            is_last = P::load(c, ended, Ordering::Acquire) == workers as u64;
            if buffer.end(c).0 == taken {
                P::rest(c, 1_000);
                continue;
            }
            let fixed = buffer.fix_end(c, taken);
            while taken < fixed {
                if taken.is_multiple_of(names.bytes) {
                    taken += BLOCK_BYTES as u64;
                }
                let until = fixed.min(names.end_of_segment(Lsn(taken + 1)));
                let mut out = vec![0; (until - taken) as usize / 8];
                buffer.copy_out(c, taken, &mut out);
                let mut at = 0;
                while at < out.len() {
                    let place = RecordPlace { life: 1, lsn: Lsn(taken + at as u64 * 8) };
                    let record = record::find(&out[at..], out.len() - at, place).expect("a record");
                    if record.words[0] & 0xff == 0xff {
                        let (worker, number) = (record.words[1] >> 32, record.words[1] & 0xffff_ffff);
                        // Records of a worker come in its order.
                        assert_eq!(found[worker as usize], number);
                        found[worker as usize] += 1;
                    }
                    at += record.count;
                }
                taken = until;
                buffer.set_taken(c, Lsn(taken));
            }
        }
        assert_eq!(found, vec![RECORDS; workers]);
    };
    let places = vec![Place { thread: None }; workers + 1];
    let worker = |c, index| if index < workers { work(c, index) } else { take(c) };
    P::parallel(c, &places, &worker, &mut |_| ());
    P::load(c, grouped, Ordering::Relaxed)
}

#[test]
fn records_of_groups_have_places_of_their_own() {
    for longest in [4, 100] {
        reserves_side_by_side::<Hardware>(Hardware::core(), 5, longest);
    }
}

#[test]
fn records_of_simulated_groups_have_places_of_their_own() {
    for (workers, longest) in [(5, 100), (7, 4), (30, 14)] {
        let config = Config::new(Shape::new(4, 8, 1));
        let ran = VirtualMachine::run(&config, |c| {
            let grouped = reserves_side_by_side::<VirtualMachine>(c, workers, longest);
            assert!(grouped > 0, "{workers} workers form groups");
        });
        ran.expect("it ends");
    }
}

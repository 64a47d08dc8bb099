//! Files that are missing, cut, or another's: a directory is opened with all that was acknowledged,
//! or refused with nothing touched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use boundary::{AnyDatabase, Bounds, Ending, SchemaBuilder, Verbs};
use pages::{PagedDatabase, PagedError, PagedLogOptions, PagedOptions, copy_pages};
use platform::{Hardware, Intent, Platform};
use schema::{Row, Schema, Table, TableOptions};

use crate::support::{options, session};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Entry {
    id: u64,
    #[row(tail)]
    note: Vec<u8>,
}

const SEGMENT_BYTES: u64 = 64 << 10;
const BLOCK: usize = 4096;
const CHECKPOINT: &str = "pages.checkpoint";
const PAGES: &str = "pages.data";

/// A directory that is gone afterwards.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lost-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Place(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Names and contents of all files.
    fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(&self.0).expect("a directory").map(|entry| entry.expect("an entry"));
        let file = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().expect("a plain name");
            (name, std::fs::read(entry.path()).expect("it can be read"))
        };
        entries.map(file).collect()
    }

    /// The files of the log, ascending.
    fn segments(&self) -> Vec<String> {
        self.contents().into_keys().filter(|name| name.starts_with("wal-")).collect()
    }

    fn copy_to(&self, name: &str) -> Place {
        let copy = Place::new(name);
        std::fs::create_dir(&copy.0).expect("a directory");
        for (name, bytes) in self.contents() {
            std::fs::write(copy.path(&name), bytes).expect("written");
        }
        copy
    }

    /// It is not opened, for a reason that says this, and is as it was.
    fn is_refused(&self, says: &str) {
        let before = self.contents();
        let error = opened(self).err().expect("something is missing").to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
        assert!(before == self.contents(), "{error}: files have changed");
        let error = pages::examine::<Hardware>(Hardware::core(), &self.0).err();
        assert!(error.is_some(), "an examination says nothing");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Entries {
    database: PagedDatabase<Hardware>,
    table: Table<Entry>,
}

fn opened(place: &Place) -> Result<Entries, PagedError> {
    opened_with(place, 1 << 40)
}

/// The same, with a checkpoint when the log has grown by this many bytes.
fn opened_with(place: &Place, checkpoint_bytes: u64) -> Result<Entries, PagedError> {
    let log = PagedLogOptions { segment_bytes: SEGMENT_BYTES, buffer_bytes: 1 << 20, checkpoint_bytes };
    let options = PagedOptions { directory: Some(place.0.clone()), log: Some(log), ..options(400, 4096, 3) };
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Entry>("entries", TableOptions::default());
    let (database, _) = PagedDatabase::open(Hardware::core(), &options, schema, None)?;
    Ok(Entries { database, table })
}

/// Inserts a row, which is on disk when this returns.
fn insert(entries: &Entries, id: u64, note: &[u8]) {
    let Entries { database, table } = entries;
    let mut session = session(database, Hardware::core());
    let row = Entry { id, note: note.to_vec() };
    let ended = session.transact(&Bounds::default(), |t| t.insert(*table, &row));
    let Ok(Ending::Committed((), commit)) = ended else { panic!("{ended:?}") };
    session.wait_durable(commit).expect("the disk is there");
    session.tend(Hardware::now(Hardware::core()));
}

/// A database of rows 0 to 39, of this many bytes each, that was not closed.
fn left_open(name: &str, bytes: usize) -> Place {
    let place = Place::new(name);
    let entries = opened(&place).expect("a new database");
    (0..40).for_each(|id| insert(&entries, id, &vec![id as u8; bytes]));
    place
}

fn count(entries: &Entries, ids: u64) -> u64 {
    let Entries { database, table } = entries;
    let mut session = session(database, Hardware::core());
    let found = session.transact(&Bounds::default(), |t| {
        let mut found = 0;
        for id in 0..ids {
            found += u64::from(t.find(table.primary(), &id, Intent::Read)?.is_some());
        }
        Ok(found)
    });
    let Ok(Ending::Committed(found, _)) = found else { panic!("{found:?}") };
    found
}

#[test]
fn a_directory_without_one_of_its_files_is_refused() {
    for (name, bytes) in [("empty", 0), ("one-segment", 100), ("segments", 9_000)] {
        let killed = match bytes {
            0 => {
                let place = Place::new("without-empty");
                opened(&place).expect("a new database");
                place
            }
            _ => left_open(&format!("without-{name}"), bytes),
        };
        let closed = killed.copy_to(&format!("without-{name}-closed"));
        let Entries { database, .. } = opened(&closed).expect("a database");
        AnyDatabase::close(Box::new(database), Hardware::core()).expect("it closes");
        for place in [&killed, &closed] {
            for (lost, says) in [
                (CHECKPOINT, "pages.checkpoint: damaged at byte 0: it is missing"),
                (PAGES, "the file of pages is missing"),
            ] {
                let kept = std::fs::read(place.path(lost)).expect("it is there");
                std::fs::remove_file(place.path(lost)).expect("it is there");
                place.is_refused(says);
                std::fs::write(place.path(lost), kept).expect("it is put back");
            }
            let pages = place.copy_to("without-alone");
            for segment in place.segments() {
                let kept = std::fs::read(place.path(&segment)).expect("it is there");
                std::fs::remove_file(place.path(&segment)).expect("it is there");
                place.is_refused("missing");
                std::fs::write(place.path(&segment), kept).expect("it is put back");
                std::fs::remove_file(pages.path(&segment)).expect("it is there");
            }
            std::fs::remove_file(pages.path(CHECKPOINT)).expect("it is there");
            let before = pages.contents();
            assert!(opened(&pages).is_err() && before == pages.contents(), "pages are left alone");
            let rows = if bytes == 0 { 0 } else { 40 };
            assert_eq!(count(&opened(place).expect("it is whole again"), 40), rows);
        }
    }
}

#[test]
fn a_log_that_was_cut_is_refused() {
    let place = left_open("cut", 9_000);
    let segments = place.segments();
    assert!(segments.len() > 4, "{segments:?}");
    for (number, segment) in segments.iter().enumerate() {
        let kept = std::fs::read(place.path(segment)).expect("it is there");
        let is_used = kept.iter().skip(4096).any(|byte| *byte != 0);
        for length in [4096, 4097, kept.len() / 2, kept.len() - 1] {
            std::fs::write(place.path(segment), &kept[..length]).expect("it is cut");
            place.is_refused("the file ends here");
        }
        // Emptied, or without a head. Of the last one nothing may be missed.
        if is_used || number + 1 < segments.len() {
            std::fs::write(place.path(segment), []).expect("it is cut");
            place.is_refused("damaged");
        }
        std::fs::write(place.path(segment), &kept).expect("it is put back");
    }
    let pages = std::fs::read(place.path(PAGES)).expect("pages");
    let closed = place.copy_to("cut-closed");
    let Entries { database, .. } = opened(&closed).expect("a database");
    AnyDatabase::close(Box::new(database), Hardware::core()).expect("it closes");
    let pages_closed = std::fs::read(closed.path(PAGES)).expect("pages");
    assert!(pages_closed.len() > pages.len());
    for length in [0, 4096, pages_closed.len() / 2, pages_closed.len() - 1] {
        std::fs::write(closed.path(PAGES), &pages_closed[..length]).expect("it is cut");
        let before = closed.contents();
        let error = opened(&closed).err().expect("pages are missing").to_string();
        assert!(error.contains("ends before its last pages") && before == closed.contents(), "{error}");
    }
    std::fs::write(closed.path(PAGES), &pages_closed).expect("it is put back");
    assert_eq!(count(&opened(&closed).expect("it is whole again"), 40), 40);
    assert_eq!(count(&opened(&place).expect("it is whole again"), 40), 40);
}

#[test]
fn files_of_other_databases_and_lives_are_refused() {
    let (one, other) = (left_open("one", 1_000), left_open("other", 1_000));
    let name = &one.segments()[0];
    assert_eq!(one.segments(), other.segments());
    // The same file of another database, of which everything else is alike.
    let kept = std::fs::read(one.path(name)).expect("it is there");
    std::fs::copy(other.path(name), one.path(name)).expect("a copy");
    one.is_refused("belongs to another database");
    std::fs::write(one.path(name), &kept).expect("it is put back");
    // Under another name.
    let behind = format!("wal-{:016x}.log", 1 << 30);
    std::fs::write(one.path(&behind), &kept).expect("a copy");
    one.is_refused("the head of the file is damaged");
    std::fs::remove_file(one.path(&behind)).expect("it is there");
    // A copy that has gone on for itself has a log that goes on alike.
    let copy = Place::new("one-copy");
    std::fs::create_dir(&copy.0).expect("a directory");
    copy_pages(&one.0, &copy.0).expect("a copy");
    for (place, note) in [(&one, b"one"), (&copy, b"two")] {
        let entries = opened(place).expect("a database");
        insert(&entries, 77, note);
    }
    let last = one.segments().pop().expect("a segment");
    assert_eq!(one.segments(), copy.segments());
    std::fs::copy(copy.path(&last), one.path(&last)).expect("a copy");
    one.is_refused("another life of the database");
}

#[test]
fn pages_of_another_database_are_not_taken_for_own_ones() {
    let (one, other) = (left_open("own", 1_000), left_open("foreign", 1_000));
    for place in [&one, &other] {
        let Entries { database, .. } = opened(place).expect("a database");
        AnyDatabase::close(Box::new(database), Hardware::core()).expect("it closes");
    }
    let (own, mut foreign) = (one.contents().remove(PAGES).expect("pages"), other.contents());
    let foreign = foreign.get_mut(PAGES).expect("pages");
    std::fs::write(one.path(PAGES), &foreign).expect("written");
    one.is_refused("belongs to another database");
    // Nor with a head that says otherwise.
    foreign[..4096].copy_from_slice(&own[..4096]);
    std::fs::write(one.path(PAGES), &foreign).expect("written");
    let examined = pages::examine::<Hardware>(Hardware::core(), &one.0).expect("it can be read");
    assert!(examined.wrong.iter().any(|wrong| wrong.contains("checksum")), "{:?}", examined.wrong);
}

#[test]
fn a_damaged_head_of_pages_is_refused_and_made_anew() {
    let (place, backup) = (left_open("head", 1_000), Place::new("head-backup"));
    std::fs::create_dir(&backup.0).expect("a directory");
    copy_pages(&place.0, &backup.0).expect("a copy");
    let mut pages = std::fs::read(place.path(PAGES)).expect("pages");
    pages[17] ^= 1;
    std::fs::write(place.path(PAGES), &pages).expect("written");
    place.is_refused("its head is damaged");
    let repaired = pages::repair::<Hardware>(Hardware::core(), &place.0, &backup.0);
    assert_eq!(repaired.expect("both can be read"), pages::Repaired::default());
    pages[17] ^= 1;
    assert!(pages == std::fs::read(place.path(PAGES)).expect("pages"), "nothing else has changed");
    assert_eq!(count(&opened(&place).expect("it is whole again"), 40), 40);
}

/// Gives row 0 another note, which is on disk when this returns.
fn change(entries: &Entries, note: u8) {
    let Entries { database, table } = entries;
    let mut session = session(database, Hardware::core());
    let row = Entry { id: 0, note: vec![note; 100] };
    let ended = session.transact(&Bounds::default(), |t| {
        let old = t.find(table.primary(), &0, Intent::Write)?.expect("it was put");
        t.delete(old)?;
        t.insert(*table, &row)
    });
    let Ok(Ending::Committed((), commit)) = ended else { panic!("{ended:?}") };
    session.wait_durable(commit).expect("the disk is there");
}

/// The first note of a row, or why it is not shown.
fn first_byte(entries: &Entries, id: u64) -> Result<u8, String> {
    let Entries { database, table } = entries;
    let mut session = session(database, Hardware::core());
    let read = session.transact(&Bounds::default(), |t| {
        let row = t.find(table.primary(), &id, Intent::Read)?.expect("it was put");
        Ok(t.row(row)?.note[0])
    });
    match read {
        Ok(Ending::Committed(byte, _)) => Ok(byte),
        Ok(other) => panic!("{other:?}"),
        Err(abort) => Err(abort.to_string()),
    }
}

/// A directory whose log has lost its end after a change of row 0, which is in the file of pages;
/// before that there were this many changes since the last checkpoint. Its pages as they were
/// without that change.
fn without_the_end(name: &str, changes: u8) -> (Place, Vec<u8>) {
    let place = left_open(&format!("{name}-made"), 200);
    let entries = opened(&place).expect("it was killed");
    (0..changes).for_each(|number| change(&entries, 100 + number));
    let copy = place.copy_to(name);
    change(&entries, 200);
    let checkpoint = session(&entries.database, Hardware::core()).checkpoint();
    assert_eq!(checkpoint, Ok(true));
    let before = std::fs::read(copy.path(PAGES)).expect("pages");
    std::fs::copy(place.path(PAGES), copy.path(PAGES)).expect("a copy");
    (copy, before)
}

const LOST: &str = "it has changes that the log has lost";

#[test]
fn pages_that_are_ahead_of_the_log_are_not_taken_for_its_end() {
    let (place, before) = without_the_end("ahead", 1);
    let whole = place.copy_to("ahead-whole");
    // What the machine may leave of a group that was under way: here of one that was on disk.
    let last = place.segments().pop().expect("a segment");
    let end = used(&place.path(&last)).next_multiple_of(4096);
    let mut bytes = std::fs::read(place.path(&last)).expect("it is there");
    bytes[end + 100] = 1;
    std::fs::write(place.path(&last), &bytes).expect("written");
    place.is_refused(LOST);
    // Without the page, what is left of the group is that of one that was not.
    std::fs::write(place.path(PAGES), &before).expect("written");
    assert_eq!(first_byte(&opened(&place).expect("as after a crash"), 0), Ok(100));
    // With nothing left of the group it is seen while the log is repeated; nothing is lost by that.
    for _ in 0..2 {
        let error = opened(&whole).err().expect("a page is ahead").to_string();
        assert!(error.contains(LOST), "{error}");
    }
    std::fs::write(whole.path(PAGES), &before).expect("written");
    let entries = opened(&whole).expect("as after a crash");
    assert_eq!((first_byte(&entries, 0), count(&entries, 40)), (Ok(100), 40));
}

#[test]
fn a_page_that_is_ahead_of_the_log_is_refused_in_later_lives_too() {
    let (place, _) = without_the_end("ahead-later", 0);
    for _ in 0..3 {
        let entries = opened(&place).expect("the log does not name the page");
        let refused = first_byte(&entries, 0).expect_err("the page is ahead");
        assert!(refused.contains(LOST), "{refused}");
        assert_eq!(first_byte(&entries, 39), Ok(39));
        AnyDatabase::close(Box::new(entries.database), Hardware::core()).expect("it closes");
    }
    let examined = pages::examine::<Hardware>(Hardware::core(), &place.0).expect("it can be read");
    assert!(examined.wrong.iter().any(|wrong| wrong.contains(LOST)), "{:?}", examined.wrong);
}

#[test]
fn what_was_never_made_as_a_whole_is_made_anew() {
    for rows in [true, false] {
        let place = if rows { left_open("made", 100) } else { Place::new("unmade") };
        if !rows {
            opened(&place).expect("a new database");
        }
        std::fs::remove_file(place.path(CHECKPOINT)).expect("it is there");
        std::fs::write(place.path("pages.making"), []).expect("a note");
        let before = place.contents();
        let again = opened(&place);
        if rows {
            // The log has records, so it was made once, whatever the note says.
            assert!(again.is_err() && before == place.contents());
            continue;
        }
        assert_eq!(count(&again.expect("a new database"), 40), 0);
        assert!(!place.contents().contains_key("pages.making"));
    }
}

/// The mark that the log of format 1 took for the end of a group at this place in the first
/// generation of a database.
fn mark_of_format_1(place: u64) -> [u64; 2] {
    let (head, begins) = (2 << 8 | 13, place - 8);
    let sum = crc32c::crc32c(bytemuck::cast_slice(&[1, place, head]));
    let sum = crc32c::crc32c_append(sum, bytemuck::cast_slice(&[begins]));
    [head | u64::from(sum) << 32, begins]
}

#[test]
fn no_payload_is_taken_for_the_log() {
    const WORDS: u64 = 1_500;
    const MARKED: u64 = 0xa5a5_5a5a << 32;
    let run = |name: &str, payload: &[u64]| {
        let place = Place::new(name);
        let entries = opened(&place).expect("a new database");
        insert(&entries, 0, b"acknowledged");
        insert(&entries, 1, bytemuck::cast_slice(payload));
        place
    };
    let payload: Vec<u64> = (0..WORDS).map(|word| MARKED | word).collect();
    // Where each word of the payload lies, and what it can say of that place.
    let probe = run("probe", &payload);
    let segment = probe.segments().remove(0);
    let bytes = std::fs::read(probe.path(&segment)).expect("it is there");
    let words: Vec<u64> = bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
    let at = |word: u64| words.iter().position(|found| *found == payload[word as usize]);
    let mut marks = vec![0; WORDS as usize];
    for word in (0..WORDS - 1).step_by(2) {
        let place = at(word).expect("it was written") as u64 * 8;
        marks[word as usize..][..2].copy_from_slice(&mark_of_format_1(place));
    }
    let place = run("payload", &marks);
    // The last group was torn: its first block is lost, and the payload in others is there.
    let path = place.path(&segment);
    let mut bytes = std::fs::read(&path).expect("it is there");
    let group = at(0).expect("it was written") * 8 / 4096 * 4096;
    bytes[group..group + 4096].fill(0);
    let is_mark = |words: &[u8]| *words == *bytemuck::bytes_of(&marks[WORDS as usize - 2]);
    assert!(bytes.windows(8).any(is_mark), "the last of them lies behind");
    std::fs::write(&path, bytes).expect("it is torn");
    assert_eq!(count(&opened(&place).expect("as after a crash"), 2), 1);
}

/// Bytes of a file that are in use.
fn used(path: &Path) -> usize {
    let bytes = std::fs::read(path).expect("it is there");
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn a_segment_that_cannot_be_made_for_a_while_is_made_later() {
    let place = Place::new("refused");
    let entries = opened(&place).expect("a new database");
    let segment = |number: u64| place.path(&format!("wal-{:016x}.log", number * SEGMENT_BYTES));
    let mut ids = 0..;
    let mut insert_until = |number: u64, bytes: u64| {
        while used(&segment(number)) < bytes as usize {
            insert(&entries, ids.next().expect("they do not end"), &[1; 200]);
        }
    };
    // A directory in its place, while there is time.
    std::fs::create_dir(segment(1)).expect("a directory");
    insert_until(0, SEGMENT_BYTES * 13 / 16);
    std::fs::remove_dir(segment(1)).expect("it is there");
    insert_until(0, SEGMENT_BYTES * 15 / 16);
    assert!(segment(1).is_file());
    // And until nothing goes on without it.
    std::fs::create_dir(segment(2)).expect("a directory");
    let gone = std::thread::spawn({
        let path = segment(2);
        move || {
            std::thread::sleep(Duration::from_millis(300));
            std::fs::remove_dir(path).expect("it is there");
        }
    });
    insert_until(1, SEGMENT_BYTES * 13 / 16);
    while !segment(2).is_file() || used(&segment(2)) < 8_192 {
        insert(&entries, ids.next().expect("they do not end"), &[1; 200]);
    }
    gone.join().expect("it has ended");
    let rows = ids.start;
    assert_eq!(count(&entries, rows), rows);
    drop(entries);
    assert_eq!(count(&opened(&place).expect("it is whole"), rows), rows);
}

#[test]
fn what_lies_behind_a_group_in_its_segment_shows_that_it_was_durable() {
    let place = Place::new("crossing");
    let entries = opened(&place).expect("a new database");
    let first = place.path(&format!("wal-{:016x}.log", 0));
    let end = || used(&first).next_multiple_of(BLOCK);
    let (mut rows, mut begins) = (0, 0);
    while end() < SEGMENT_BYTES as usize / 2 {
        begins = end();
        insert(&entries, rows, &[1; 200]);
        rows += 1;
    }
    let ends = end();
    // A group that goes on in the next segment.
    {
        let mut session = session(&entries.database, Hardware::core());
        let insert_all = |t: &mut boundary::Transaction<'_>| {
            let mut rows = rows..rows + 60;
            rows.try_for_each(|id| t.insert(entries.table, &Entry { id, note: vec![2; 1_000] }))
        };
        let ended = session.transact(&Bounds::default(), |t| insert_all(t));
        let Ok(Ending::Committed((), commit)) = ended else { panic!("{ended:?}") };
        session.wait_durable(commit).expect("the disk is there");
    }
    drop(entries);
    assert_eq!(end(), SEGMENT_BYTES as usize);
    // The process was killed before it went on there.
    let second = format!("wal-{SEGMENT_BYTES:016x}.log");
    let mut bytes = std::fs::read(place.path(&second)).expect("it was begun");
    assert!(bytes[BLOCK..].iter().any(|byte| *byte != 0));
    bytes[BLOCK..].fill(0);
    std::fs::write(place.path(&second), bytes).expect("written");
    let bytes = std::fs::read(&first).expect("it is there");
    let found = bytes[begins..ends].chunks_exact(8).rposition(|word| *word == begins.to_le_bytes());
    let mark = begins + found.expect("where the group began") * 8 - 8;
    let copy = |name: &str, harm: &dyn Fn(&mut Vec<u8>)| {
        let (copy, mut bytes) = (place.copy_to(name), bytes.clone());
        harm(&mut bytes);
        std::fs::write(copy.path(&format!("wal-{:016x}.log", 0)), bytes).expect("written");
        copy
    };
    let whole = copy("crossing-whole", &|_| ());
    assert_eq!(count(&opened(&whole).expect("as after a kill"), rows + 60), rows);
    // A crash leaves the same.
    let torn = copy("crossing-torn", &|bytes| bytes[ends + 8] ^= 1);
    assert_eq!(count(&opened(&torn).expect("as after a crash"), rows + 60), rows);
    for at in [begins, begins + 9, mark - 1, mark, mark + 8] {
        copy("crossing-bit", &|bytes| bytes[at] ^= 4).is_refused("was on disk as a whole once");
    }
    // Even if little of the group behind has come to the disk.
    let little = |bytes: &mut Vec<u8>| {
        bytes[begins] ^= 4;
        bytes[ends + BLOCK..].fill(0);
    };
    copy("crossing-little", &little).is_refused("was on disk as a whole once");
}

#[test]
fn a_segment_that_was_made_ahead_when_a_life_ended_is_not_missed() {
    let place = Place::new("ended");
    let entries = opened(&place).expect("a new database");
    let mut rows = 0;
    while place.segments().len() < 2 {
        insert(&entries, rows, &[1; 200]);
        rows += 1;
    }
    drop(entries);
    // The next life begins; it ends before its first checkpoint, with the power, and so does the
    // head of what was made ahead.
    let later = place.copy_to("ended-later");
    drop(opened(&later).expect("it was killed"));
    let (ahead, next) = (place.segments().remove(1), later.segments().remove(0));
    std::fs::copy(later.path(&next), place.path(&next)).expect("a copy");
    std::fs::write(place.path(&ahead), vec![0; SEGMENT_BYTES as usize]).expect("written");
    assert_eq!(place.segments().len(), 3);
    assert_eq!(count(&opened(&place).expect("nothing is missing"), rows), rows);
}

#[test]
fn a_checkpoint_that_is_refused_for_a_while_is_made_later() {
    let place = Place::new("checkpoint");
    let entries = opened_with(&place, SEGMENT_BYTES).expect("a new database");
    let first = std::fs::read(place.path(CHECKPOINT)).expect("it is there");
    // A directory in its place.
    std::fs::create_dir(place.path("pages.checkpoint.new")).expect("a directory");
    (0..100).for_each(|id| insert(&entries, id, &[1; 4_000]));
    assert!(first == std::fs::read(place.path(CHECKPOINT)).expect("it is there"));
    std::fs::remove_dir(place.path("pages.checkpoint.new")).expect("it is there");
    (100..200).for_each(|id| insert(&entries, id, &[2; 4_000]));
    assert!(first != std::fs::read(place.path(CHECKPOINT)).expect("it is there"));
    assert!(!place.segments().contains(&format!("wal-{:016x}.log", 0)), "the log from before is gone");
    assert_eq!(count(&entries, 200), 200);
    drop(entries);
    assert_eq!(count(&opened(&place).expect("it is whole"), 200), 200);
}

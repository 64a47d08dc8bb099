//! Records are read as they were written, and nothing else is.

use super::*;

const KEY: [u64; 2] = [7, 8];

fn place(life: u64, lsn: u64) -> RecordPlace {
    RecordPlace { life, lsn: Lsn(lsn) }
}

fn changes() -> Vec<(Change<'static>, Takeback<'static>, usize)> {
    let parts = RecordParts { words: &[1, 2, 3], tail_bytes: 9 };
    let before = RecordParts { words: &[4, 5], tail_bytes: 0 };
    vec![
        (Change::Put { key: &KEY, parts, ghost: false }, Takeback::Mark { ghost: true }, 1),
        (Change::Put { key: &KEY, parts, ghost: true }, Takeback::Put { parts: before, ghost: false }, 1),
        (Change::Mark { key: &KEY, ghost: true }, Takeback::Mark { ghost: false }, 1),
        (Change::Write { key: &KEY, first: 3, words: &[9, 9] }, Takeback::Write { words: &[1, 2] }, 1),
        (Change::Remove { key: &KEY }, Takeback::None, 1),
        (Change::Split { separator: &KEY, stays: 4, right: &[1; 20] }, Takeback::None, 3),
        (Change::SplitRoot { separator: &KEY, left: &[1; 20], right: &[2; 9] }, Takeback::None, 3),
        (Change::Merge { entry: 3, right: &[3; 11] }, Takeback::None, 3),
        (Change::MergeRoot { child: &[3; 11] }, Takeback::None, 2),
    ]
}

#[test]
fn records_are_read_as_written() {
    for (change, takeback, count) in changes() {
        let numbers: Vec<u64> = (40..40 + count as u64).collect();
        let mut words = Vec::new();
        // Every second page has an image.
        let image = |page: usize, to: &mut Vec<u64>| to.extend(vec![page as u64 + 1; page % 2 * 5]);
        let encoder = Encoder::new(&mut words);
        let head =
            ChangeHead { transaction: 99, compensates: Some(Compensation::OfPart), tree: 12, width: 2 };
        encoder.change(head, &numbers, image, change, takeback);
        let here = place(3, 4096);
        seal(&mut words, here);
        words.push(1234);
        let found = find(&words, words.len(), here).expect("a record");
        assert_eq!(found.count + 1, words.len());
        let Some(Logged::Change(read)) = decode(found.words) else { panic!("{change:?}") };
        let images: Vec<usize> = read.pages.iter().map(|page| page.image.len()).collect();
        assert_eq!(images, (0..numbers.len()).map(|page| page % 2 * 5).collect::<Vec<_>>());
        assert_eq!((read.change, read.takeback), (change, takeback));
        assert_eq!(
            (read.transaction, read.compensates, read.tree, read.width),
            (99, Some(Compensation::OfPart), 12, 2)
        );
        assert_eq!(read.pages.iter().map(|page| page.number).collect::<Vec<_>>(), numbers);
    }
}

#[test]
fn nothing_else_is_taken_for_a_record() {
    let (change, takeback, _) = changes()[1];
    let mut words = Vec::new();
    let head = ChangeHead { transaction: 5, compensates: None, tree: 1, width: 2 };
    Encoder::new(&mut words).change(head, &[3], |_, _| (), change, takeback);
    let here = place(2, 800);
    seal(&mut words, here);
    assert!(find(&words, words.len(), here).is_some());
    assert!(find(&words, words.len(), place(3, 800)).is_none(), "of another generation");
    assert!(find(&words, words.len(), place(2, 808)).is_none(), "of another place");
    assert!(find(&words[..words.len() - 1], words.len() - 1, here).is_none(), "cut off");
    for bit in 0..words.len() * 64 {
        let mut flipped = words.clone();
        flipped[bit / 64] ^= 1 << (bit % 64);
        assert!(find(&flipped, flipped.len(), here).is_none(), "bit {bit}");
        // Nonsense with a right checksum does no harm.
        let _ = decode(&flipped);
    }
}

#[test]
fn notes_of_several_databases_are_read_as_written() {
    let global = GlobalId(0x0123_4567_89ab_cdef_0000_0000_ffff_fff1);
    let part = PartOf { global, coordinator: 700 };
    let decision = Decision { global, participants: vec![0, 3, u16::MAX] };
    let read = |encode: &dyn Fn(Encoder<'_>)| {
        let mut words = Vec::new();
        encode(Encoder::new(&mut words));
        seal(&mut words, place(1, 64));
        let found = find(&words, words.len(), place(1, 64)).expect("a record");
        let found = found.words;
        (2..found.len()).for_each(|count| assert_eq!(decode(&found[..count]), None, "{count}"));
        format!("{:?}", decode(found).expect("a record that is known"))
    };
    let printed = |logged: Logged<'_>| format!("{logged:?}");
    assert_eq!(read(&|to| to.note(9, ParticipantNote::Prepared(part))), printed(Logged::Prepared(9, part)));
    assert_eq!(
        read(&|to| to.note(9, ParticipantNote::Forgotten(global))),
        printed(Logged::Forgotten(global))
    );
    let decided = printed(Logged::Decided(9, decision.clone()));
    assert_eq!(read(&|to| to.ending(9, End::Decided(&decision))), decided);
}

#[test]
fn branches_that_commit_together_are_read_as_written() {
    let mut words = Vec::new();
    Encoder::new(&mut words).ending(9, End::CommittedWith(&[11, 4]));
    seal(&mut words, place(1, 64));
    let found = find(&words, words.len(), place(1, 64)).expect("a record");
    assert_eq!(decode(found.words), Some(Logged::CommittedTogether(vec![9, 11, 4])));
}

#[test]
fn padding_stands_for_words_that_are_not_there() {
    let mut words = vec![padding(3)];
    seal(&mut words, place(1, 8));
    words.extend([77, 78, 79]);
    let found = find(&words, words.len(), place(1, 8)).expect("padding");
    assert_eq!((decode(found.words), found.count), (Some(Logged::Padding), 3));
    let mut words = group(4, Lsn(4096)).to_vec();
    seal(&mut words, place(1, 8));
    words.extend([78, 79]);
    assert!(may_be_group(words[0]));
    let found = find(&words, words.len(), place(1, 8)).expect("the end of a group");
    assert_eq!((decode(found.words), found.count), (Some(Logged::Group(Lsn(4096))), 4));
}

//! Procedures that are too long or whose callbacks fail: only the procedure itself fails, and no
//! caller waits for ever.
// Callers are threads of the program.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use isles::{
    CancelToken, Deployment, Division, Error, Procedure, Result, Row, Table, Transaction, TransactionOptions,
};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const TWO: Division = Division { instances: 2, workers: 2, parts: 4 };
/// Longer than any test needs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest text of a row.
const LONGEST: usize = (1 << 20) - 64;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, id))]
struct Note {
    part: u16,
    id: u32,
    text: String,
}

/// Conversion of a value to bytes and back, and its failure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Conversion {
    #[default]
    Succeeds,
    WritingFails,
    WritingPanics,
    ReadingFails,
    ReadingPanics,
}

const CONVERSIONS: [Conversion; 5] = [
    Conversion::Succeeds,
    Conversion::WritingFails,
    Conversion::WritingPanics,
    Conversion::ReadingFails,
    Conversion::ReadingPanics,
];

impl Serialize for Conversion {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Conversion::WritingFails => Err(S::Error::custom("it cannot be written")),
            Conversion::WritingPanics => panic!("a value that panics as it is written"),
            conversion => to.serialize_u8(*conversion as u8),
        }
    }
}

impl<'de> Deserialize<'de> for Conversion {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match CONVERSIONS[usize::from(u8::deserialize(from)?)] {
            Conversion::ReadingFails => Err(D::Error::custom("it cannot be read")),
            Conversion::ReadingPanics => panic!("a value that panics as it is read"),
            conversion => Ok(conversion),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Fault {
    #[default]
    None,
    OnlyReads,
    Part,
    Run,
    /// Panics on the thread of a worker when the step is dropped.
    Drop,
}

impl Drop for Fault {
    fn drop(&mut self) {
        let is_worker = std::thread::current().name().is_some_and(|name| name.starts_with("isles-"));
        assert!(
            !(matches!(self, Fault::Drop) && is_worker && !std::thread::panicking()),
            "a drop that is not right"
        );
    }
}

/// Writes a text, and returns a text.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Step {
    part: u16,
    id: u32,
    text: String,
    /// Number of bytes to return; without bytes and text the step neither reads nor writes.
    gives: usize,
    conversion: Conversion,
    /// Index of the output in `outputs`.
    output: usize,
    fault: Fault,
    blocks: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct StepOutput {
    text: String,
    conversion: Conversion,
}

/// True while blocking steps block.
static BLOCKED: AtomicBool = AtomicBool::new(false);
/// Number of steps that are blocked.
static BLOCKED_STEPS: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, Default)]
struct Work {
    steps: Vec<Step>,
    /// Texts of the outputs.
    texts: Vec<String>,
    /// The call of `steps`, by number, that panics.
    panics_at: Option<u32>,
    /// The call of `steps`, by number, that returns other steps.
    strays_at: Option<u32>,
    calls: AtomicU32,
    concludes: bool,
}

impl Work {
    fn of(steps: &[Step]) -> Work {
        Work { steps: steps.to_vec(), concludes: true, ..Work::default() }
    }
}

impl Procedure for Work {
    type Tables = Table<Note>;
    type Step = Step;
    type Output = StepOutput;

    fn steps(&self, steps: &mut Vec<Step>) {
        let call = Some(self.calls.fetch_add(1, Ordering::SeqCst) + 1);
        assert!(self.panics_at != call, "`steps` that is not right");
        steps.extend(self.steps.iter().cloned());
        if self.strays_at.is_some() && self.strays_at <= call {
            steps.iter_mut().for_each(|step| step.part ^= 1);
        }
    }

    fn part(step: &Step) -> u16 {
        assert!(step.fault != Fault::Part, "`part` that is not right");
        step.part
    }

    fn only_reads(step: &Step) -> bool {
        assert!(step.fault != Fault::OnlyReads, "`only_reads` that is not right");
        false
    }

    fn run(notes: &Table<Note>, step: &Step, t: &mut Transaction<'_>) -> Result<StepOutput> {
        let Step { part, id, ref text, gives, output, .. } = *step;
        assert!(step.fault != Fault::Run, "a step that is not right");
        if step.blocks {
            BLOCKED_STEPS.fetch_add(1, Ordering::SeqCst);
        }
        while step.blocks && BLOCKED.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !text.is_empty() {
            t.upsert(*notes, &Note { part, id, text: text.clone() })?;
        }
        let text = match gives {
            0 => String::new(),
            1 => t.get(*notes, &(part, id))?.map_or(String::new(), |note| note.text),
            bytes => "y".repeat(bytes),
        };
        Ok(StepOutput { text, conversion: CONVERSIONS[output] })
    }

    fn conclude(&mut self, outputs: Vec<StepOutput>) -> Result<()> {
        assert!(self.concludes, "`conclude` that is not right");
        self.texts = outputs.into_iter().map(|output| output.text).collect();
        Ok(())
    }
}

fn open() -> (Deployment<Work>, Table<Note>) {
    let mut builder = Deployment::in_memory(TWO);
    let notes = builder.table::<Note>("notes");
    (builder.open(notes).unwrap(), notes)
}

/// Runs `what` and returns its result; fails the test if it does not end in time.
fn in_time<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (give, take) = mpsc::channel();
    std::thread::spawn(move || give.send(what()));
    take.recv_timeout(PATIENCE).expect("it ends in time")
}

fn run(bank: &Arc<Deployment<Work>>, work: Work) -> Result<Work> {
    let bank = Arc::clone(bank);
    in_time(move || bank.run(work))
}

/// Returns true if the deployment still works, in one instance and over both.
fn works(bank: &Arc<Deployment<Work>>) {
    for parts in [&[0_u16][..], &[1], &[0, 1], &[1, 0], &[2, 3]] {
        let steps: Vec<Step> = parts
            .iter()
            .map(|part| Step { part: *part, id: 9, text: "x".to_owned(), gives: 1, ..Step::default() })
            .collect();
        let texts = run(bank, Work::of(&steps)).expect("it works").texts;
        assert!(texts.len() == steps.len() && texts.iter().all(|text| text == "x"), "{texts:?}");
    }
}

fn close(bank: Arc<Deployment<Work>>) {
    in_time(move || Arc::into_inner(bank).expect("no other thread has it").close()).unwrap();
}

#[test]
fn rows_of_any_length_can_be_sent_in_steps() {
    let (bank, _) = open();
    let bank = Arc::new(bank);
    let text: String = (0..LONGEST).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
    for bytes in [300_000, LONGEST] {
        let put = |part| Step { part, id: 1, text: text[..bytes].to_owned(), ..Step::default() };
        run(&bank, Work::of(&[put(0), put(1)])).unwrap();
        let give = |part| Step { part, id: 1, gives: 1, ..Step::default() };
        let texts = run(&bank, Work::of(&[give(0), give(1)])).unwrap().texts;
        assert!(texts.iter().all(|read| *read == text[..bytes]), "{bytes}");
    }
    // Many threads at the same time.
    let threads: Vec<_> = (0..4_u32)
        .map(|thread| {
            let (bank, text) = (Arc::clone(&bank), text[..200_000].to_owned());
            std::thread::spawn(move || {
                for _ in 0..3 {
                    let put = |part| Step {
                        part,
                        id: 10 + thread,
                        text: text.clone(),
                        gives: 1,
                        ..Step::default()
                    };
                    let texts = bank.run(Work::of(&[put(0), put(1)])).unwrap().texts;
                    assert!(texts.iter().all(|read| *read == text));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    close(bank);
}

#[test]
fn a_message_that_is_too_long_fails_only_its_procedure() {
    let (bank, notes) = open();
    let bank = Arc::new(bank);
    let small = |part| Step { part, id: 7, text: "x".to_owned(), ..Step::default() };
    let long = Step { text: "x".repeat(17 << 20), ..small(1) };
    let refused = run(&bank, Work::of(&[small(0), long])).unwrap_err();
    assert!(matches!(refused, Error::MessageTooLong { bytes, limit } if bytes > limit), "{refused:?}");
    let words = refused.to_string();
    assert!(words.contains("16777216") && !words.contains('\n'), "{words}");
    // A step returns too many bytes, and its changes are undone.
    let output = Step { gives: 17 << 20, ..small(1) };
    let refused = run(&bank, Work::of(&[small(0), output])).unwrap_err();
    assert!(matches!(refused, Error::MessageTooLong { .. }), "{refused:?}");
    for part in [0, 1] {
        let mut session = bank.session(bank.instance_of(part)).unwrap();
        assert_eq!(session.transaction(|t| t.exists(notes, &(part, 7))), Ok(false));
    }
    works(&bank);
    close(bank);
}

#[test]
fn values_that_cannot_be_serialized_fail_only_their_procedure() {
    let (bank, notes) = open();
    let bank = Arc::new(bank);
    let small = |part| Step { part, id: 7, text: "x".to_owned(), ..Step::default() };
    for (output, conversion) in CONVERSIONS.iter().enumerate().skip(1) {
        let step = Step { conversion: *conversion, ..small(1) };
        let refused = run(&bank, Work::of(&[small(0), step])).unwrap_err().to_string();
        assert!(refused.contains("a step that cannot be"), "{conversion:?}: {refused}");
        let step = Step { output, ..small(1) };
        let refused = run(&bank, Work::of(&[small(0), step])).unwrap_err().to_string();
        assert!(refused.contains("an output that cannot be"), "{conversion:?}: {refused}");
        let mut session = bank.session(1).unwrap();
        assert_eq!(session.transaction(|t| t.exists(notes, &(1, 7))), Ok(false), "{conversion:?}");
        works(&bank);
    }
    close(bank);
}

#[test]
fn a_panicking_callback_fails_only_its_procedure() {
    let (bank, _) = open();
    let bank = Arc::new(bank);
    let small = |part| Step { part, ..Step::default() };
    for parts in [[0, 0], [0, 1], [1, 0]] {
        for fault in [Fault::OnlyReads, Fault::Part, Fault::Run] {
            let step = Step { fault, ..small(parts[1]) };
            let refused = run(&bank, Work::of(&[small(parts[0]), step])).unwrap_err();
            assert!(refused.to_string().contains("panicked"), "{refused}");
        }
        let steps: Vec<_> = parts.map(small).to_vec();
        // Called once in the thread of the caller, and again in the worker's for each attempt.
        for call in 1..=2 {
            let work = Work { panics_at: Some(call), ..Work::of(&steps) };
            let refused = run(&bank, work).unwrap_err();
            assert_eq!(refused.to_string(), "misuse: `steps` of a procedure panicked");
        }
        let refused = run(&bank, Work { strays_at: Some(2), ..Work::of(&steps) }).unwrap_err();
        assert!(refused.to_string().contains("other steps"), "{refused}");
        let refused = run(&bank, Work { concludes: false, ..Work::of(&steps) }).unwrap_err();
        assert_eq!(refused.to_string(), "misuse: `conclude` of a procedure panicked");
        works(&bank);
    }
    close(bank);
}

#[test]
fn an_uncaught_panic_of_a_worker_fails_all_callers() {
    for parts in [[0, 0], [0, 1]] {
        let (bank, _) = open();
        let bank = Arc::new(bank);
        let step = |part, fault| Step { part, fault, ..Step::default() };
        let bad = Work::of(&[step(parts[0], Fault::None), step(parts[1], Fault::Drop)]);
        let refused = run(&bank, bad).map(drop);
        assert!(matches!(refused, Err(Error::Deployment(_) | Error::DurabilityUnknown)), "{refused:?}");
        for part in [0, 1] {
            let refused = run(&bank, Work::of(&[step(part, Fault::None)])).map(drop);
            assert!(
                matches!(&refused, Err(Error::Deployment(why)) if why.contains("panicked")),
                "{refused:?}"
            );
        }
        close(bank);
    }
}

#[test]
fn no_caller_waits_beyond_its_deadline_for_a_step_that_does_not_end() {
    let (bank, _) = open();
    let bank = Arc::new(bank);
    BLOCKED.store(true, Ordering::SeqCst);
    let soon = TransactionOptions::new().deadline(Duration::from_millis(100));
    let with = |options: TransactionOptions, steps: &[Step]| {
        let (bank, work) = (Arc::clone(&bank), Work::of(steps));
        std::thread::spawn(move || bank.run_with(&options, work).map(drop))
    };
    let blocks = Step { part: 1, blocks: true, ..Step::default() };
    let here = with(soon.clone(), std::slice::from_ref(&blocks));
    while BLOCKED_STEPS.load(Ordering::SeqCst) == 0 && !here.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // A step of another instance, whose worker does not reply.
    let there = with(soon.clone(), &[Step::default(), blocks]);
    assert_eq!(here.join().unwrap(), Err(Error::OutcomeUnknown));
    assert_eq!(there.join().unwrap(), Err(Error::OutcomeUnknown));
    // A step that was not begun has no effect. A token cancels it even without a deadline.
    let behind = Step { part: 1, ..Step::default() };
    assert_eq!(with(soon, std::slice::from_ref(&behind)).join().unwrap(), Err(Error::Deadline));
    let token = CancelToken::new();
    let behind = with(TransactionOptions::new().without_deadline().cancel(&token), &[behind]);
    token.cancel();
    assert_eq!(behind.join().unwrap(), Err(Error::Cancelled));
    // Closing does not wait for ever either, and no other deployment is affected.
    BLOCKED.store(false, Ordering::SeqCst);
    works(&bank);
    close(bank);
}

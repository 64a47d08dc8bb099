//! Rows whose managers are asked by transactions of all ages.

use platform::Hardware;
use storage::{Epochs, Memory};
use terms::{Fault, Faults};

use super::*;
use crate::lock_word::{LockState, Tagging, Want};
use crate::meter::Meter;
use crate::options::InstanceOptions;
use crate::row_latch::new_node;

type P = Hardware;

/// Smaller tags are older. An older transaction waits for younger ones, and the youngest is served
/// first.
struct Older;

impl Tagging for Older {
    const WAITS: bool = true;
    fn join(_: LockState, granted: LockState, _: Want, _: u64) -> LockState {
        granted
    }
}

impl WaitPolicy for Older {
    const NAME: &'static str = "older";
    type SharedState<P: Platform> = ();
    type WorkerState<P: Platform> = ();
    fn shared<P: Platform>(_: P::Core, _: usize, _: &InstanceOptions) -> Result<(), OutOfMemory> {
        Ok(())
    }
    fn worker<P: Platform>(_: usize) {}
    fn begin<P: Platform>(_: P::Core, (): &(), (): &mut (), _: &mut Meter) -> u64 {
        0
    }
    fn ended<P: Platform>((): &mut (), _: bool) {}
    fn contend<P: Platform>(
        (): &(),
        (): &mut (),
        _: crate::locking::policy::Seeker<'_, P>,
        _: Faults,
    ) -> Result<(), crate::locking::policy::Refusal> {
        unreachable!("rows have managers")
    }
    fn may_wait(tag: u64, owner: u64) -> bool {
        tag <= owner
    }
    fn lets_pass(tag: u64, first: u64) -> bool {
        tag < first
    }
    fn goes_behind(tag: u64, other: u64) -> bool {
        tag < other
    }
}

/// A row and those who want it: transaction `n` has the identity and the age `n`.
struct Row<'m> {
    local: Local<P>,
    manager: &'m RowManager<P>,
    node: LatchNode,
}

impl<'m> Row<'m> {
    fn ask_as(&mut self, number: u64, kind: Kind, faults: Faults) -> Answer<'m, P> {
        let (c, asker) = (Hardware::core(), Asker { identity: number, tag: number, kind });
        // SAFETY: the node and the manager were made with this memory.
        let asked = unsafe {
            self.manager.with(c, self.node, |latched| latched.ask::<Older>(&mut self.local, asker, faults))
        };
        asked.expect("memory")
    }

    fn ask(&mut self, number: u64, kind: Kind) -> Answer<'m, P> {
        self.ask_as(number, kind, Faults::NONE)
    }

    fn waits(&mut self, number: u64, kind: Kind) -> &'m LockEntry<P> {
        match self.ask(number, kind) {
            Answer::Waits(entry) => entry,
            _ => panic!("transaction {number} does not wait"),
        }
    }

    fn inside<T>(&mut self, body: impl FnOnce(&mut Latched<'m, P>, &mut Local<P>) -> T) -> T {
        // SAFETY: as in `ask_as`.
        unsafe { self.manager.with(Hardware::core(), self.node, |latched| body(latched, &mut self.local)) }
    }

    fn release(&mut self, number: u64) {
        self.inside(|latched, local| latched.release(local, number));
    }
}

fn with_row(body: impl FnOnce(Row<'_>)) {
    let c = Hardware::core();
    let memory = Memory::<P>::new(c, 1 << 30).expect("memory");
    let epochs = Epochs::<P>::new(c, 1, 0).expect("memory");
    // SAFETY: memory and epochs are declared before, so dropped after.
    let mut local = unsafe { Local::new(&memory, &epochs, 0, None) };
    local.enter(c);
    let node = LatchNode::Queue(new_node(c, &mut local).expect("memory"));
    let address = RowManager::make(c, &mut local).expect("memory");
    // SAFETY: made above, and used while the memory is there.
    body(Row { local, manager: unsafe { RowManager::at(address) }, node });
}

fn answer(entry: &LockEntry<P>) -> u64 {
    Hardware::peek(&entry.answer)
}

#[test]
fn owners_share_or_exclude() {
    with_row(|mut row| {
        assert!(matches!(row.ask(5, Kind::Share), Answer::Granted));
        assert!(matches!(row.ask(6, Kind::Share), Answer::Granted));
        assert!(matches!(row.ask(7, Kind::Exclude), Answer::Refused), "the younger dies");
        assert!(matches!(row.ask(6, Kind::Upgrade), Answer::Refused), "an older one shares");
        row.release(6);
        assert!(matches!(row.ask(5, Kind::Upgrade), Answer::Granted), "the only one");
        assert!(matches!(row.ask(6, Kind::Share), Answer::Refused));
        row.release(5);
        assert!(matches!(row.ask(9, Kind::Exclude), Answer::Granted), "free again");
        let faults = Faults::of(&[Fault::SharedOwnership]);
        assert!(matches!(row.ask_as(10, Kind::Share, faults), Answer::Granted), "the mutant lets all in");
    });
}

#[test]
fn a_release_grants_to_those_who_wait_first() {
    with_row(|mut row| {
        assert!(matches!(row.ask(50, Kind::Exclude), Answer::Granted));
        let (first, second, third) =
            (row.waits(10, Kind::Share), row.waits(30, Kind::Share), row.waits(20, Kind::Exclude));
        let leaves = row.waits(25, Kind::Share);
        assert_eq!(row.inside(|latched, _| latched.leave(leaves)), 0, "it got no mark");
        row.release(50);
        assert_eq!([answer(second), answer(third), answer(first)], [GRANTED, 0, 0], "the youngest first");
        assert!(
            matches!(row.ask(40, Kind::Share), Answer::Granted),
            "the younger goes before those who wait"
        );
        let passed = row.waits(15, Kind::Share);
        let upgrade = row.waits(30, Kind::Upgrade);
        row.release(40);
        assert_eq!([answer(upgrade), answer(third)], [GRANTED, 0], "an upgrade is in front");
        row.release(30);
        assert_eq!([answer(third), answer(passed)], [GRANTED, 0]);
        row.release(20);
        assert_eq!([answer(passed), answer(first)], [GRANTED, GRANTED], "both share");
    });
}

#[test]
fn a_row_that_is_gone_refuses_and_sends_away() {
    with_row(|mut row| {
        assert!(matches!(row.ask(50, Kind::Exclude), Answer::Granted));
        let waiting = row.waits(10, Kind::Share);
        row.inside(|latched, local| {
            latched.mark_gone();
            latched.release(local, 50);
        });
        assert_eq!(answer(waiting), REFUSED);
        assert!(matches!(row.ask(1, Kind::Share), Answer::Refused));
        assert!(row.inside(|latched, _| latched.is_gone()));
    });
}

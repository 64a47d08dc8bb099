//! Memory protection of the pages of regions, so that each access traps.
//!
//! While a timed core runs, no page of the machine's memory may be accessed. An access raises
//! SIGSEGV: the handler compares the access with the core's declarations, opens the page and makes
//! the processor trap after one instruction; the handler of SIGTRAP closes the page again. So every
//! access is compared. Of an access that crosses lines the first byte is compared.
//!
//! The handlers run on the stack of the fiber that accessed memory. They may allocate and take a
//! backtrace: the interrupted instruction accesses a region, so it belongs neither to the host's
//! allocator nor to its standard library.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Once};

use crate::declared::{DeclaredLines, UndeclaredAccess};
use crate::line::LineNumber;
use crate::memory::{Memory, PAGE_BYTES};
use crate::{Config, SimError};

/// Stack frames that are reported of an instruction.
const CALLS_MAX: usize = 8;
/// Largest number of pages that one instruction accesses.
const OPEN_MAX: usize = 4;
/// The processor's flag for a trap after one instruction.
const TRAP_FLAG: i64 = 1 << 8;
/// Bit of the fault's error code that is set if the instruction writes.
const WRITES: i64 = 1 << 1;

thread_local! {
    /// The guard of the machine that this thread runs.
    static GUARD: Cell<*const Guard> = const { Cell::new(std::ptr::null()) };
}

/// Compares accesses to a machine's memory with declarations.
pub(crate) struct Guard {
    memory: Arc<Memory>,
    line_shift: u32,
    /// Names of regions and parts of names of functions that any core may access.
    unchecked: &'static [&'static str],
    /// All pages are closed but the open ones.
    is_closed: Cell<bool>,
    /// Addresses of the pages that the current instruction accesses; 0: none.
    open: Cell<[usize; OPEN_MAX]>,
    /// Declarations of the running core; null while no core runs.
    declared: Cell<*const RefCell<DeclaredLines>>,
    /// By the address of the instruction.
    undeclared: RefCell<BTreeMap<usize, UndeclaredAccess>>,
}

impl Guard {
    /// Guards the memory of the machine that this thread is about to run.
    pub(crate) fn new(config: &Config, memory: &Arc<Memory>) -> Result<Box<Guard>, SimError> {
        static HANDLERS: Once = Once::new();
        HANDLERS.call_once(|| {
            handle(libc::SIGSEGV, on_fault);
            handle(libc::SIGTRAP, on_trap);
        });
        let guard = Box::new(Guard {
            memory: Arc::clone(memory),
            line_shift: config.model.line_shift,
            unchecked: config.unchecked,
            is_closed: Cell::new(false),
            open: Cell::default(),
            declared: Cell::new(std::ptr::null()),
            undeclared: RefCell::default(),
        });
        let before = GUARD.replace(&raw const *guard);
        assert!(before.is_null(), "a thread checks the touches of one machine at a time");
        Ok(guard)
    }

    /// Compares accesses from now on with the declarations of the core that runs. `None`: the core
    /// or the machine itself may access all memory.
    pub(crate) fn compare(&self, declared: Option<&RefCell<DeclaredLines>>) {
        self.declared.set(declared.map_or(std::ptr::null(), std::ptr::from_ref));
        let is_closed = declared.is_some();
        if self.is_closed.replace(is_closed) != is_closed {
            protect(self.memory.base().addr(), self.memory.bytes(), is_closed);
        }
    }

    /// The accesses that no declaration covered.
    pub(crate) fn undeclared(&self) -> Vec<UndeclaredAccess> {
        let accesses = self.undeclared.borrow();
        let is_checked = |call: &String| !self.unchecked.iter().any(|name| call.contains(name));
        accesses.values().filter(|access| access.calls.iter().all(is_checked)).cloned().collect()
    }

    fn contains(&self, at: usize) -> bool {
        at.wrapping_sub(self.memory.base().addr()) < self.memory.bytes()
    }

    /// Handles an instruction's access to a closed page.
    fn accessed(&self, at: usize, writes: bool, instruction: usize) {
        let page = at & !(PAGE_BYTES - 1);
        let mut open = self.open.get();
        let Some(slot) = open.iter_mut().find(|slot| **slot == 0) else {
            unreachable!("an instruction accesses at most {OPEN_MAX} pages")
        };
        *slot = page;
        self.open.set(open);
        protect(page, PAGE_BYTES, false);
        // SAFETY: the declarations belong to the fiber that runs, which this call interrupts.
        let Some(declared) = (unsafe { self.declared.get().as_ref() }) else { return };
        let offset = at - self.memory.base().addr();
        // The machine itself has borrowed them exclusively while it declares lines, and accesses no
        // region then.
        if !declared.borrow().covers((offset >> self.line_shift) as LineNumber, writes) {
            self.report(offset, writes, instruction);
        }
    }

    #[cold]
    fn report(&self, offset: usize, writes: bool, instruction: usize) {
        let place = self.memory.locate(offset);
        let (region, offset) = (place.map(|(name, _)| name), place.map_or(0, |(_, offset)| offset));
        if region.is_some_and(|name| self.unchecked.contains(&name)) {
            return;
        }
        let access = || UndeclaredAccess { region, offset, writes, count: 0, calls: calls() };
        self.undeclared.borrow_mut().entry(instruction).or_insert_with(access).count += 1;
    }

    /// Closes the pages after the instruction.
    fn executed(&self) {
        for page in self.open.take().into_iter().filter(|page| *page != 0) {
            protect(page, PAGE_BYTES, self.is_closed.get());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.compare(None);
        GUARD.set(std::ptr::null());
    }
}

/// Allows or forbids access to pages.
fn protect(at: usize, bytes: usize, closed: bool) {
    let allowed = if closed { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
    // SAFETY: whole pages of the machine's memory, which the guard keeps mapped; contents stay.
    let failed = unsafe { libc::mprotect(std::ptr::without_provenance_mut(at), bytes, allowed) };
    assert_eq!(failed, 0, "the host does not protect pages: {}", std::io::Error::last_os_error());
}

/// The functions that led to an access, innermost first, without those of the guard.
fn calls() -> Vec<String> {
    let trace = Backtrace::force_capture().to_string();
    let names = trace.lines().filter_map(|line| Some(line.trim_start().split_once(": ")?.1.to_string()));
    let calls: Vec<String> = names.collect();
    let handler = calls.iter().rposition(|name| name.contains("guard::on_fault")).unwrap_or(0);
    // The frame below the handler is the kernel's.
    calls.into_iter().skip(handler + 2).take(CALLS_MAX).collect()
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs a handler for a signal.
fn handle(signal: c_int, handler: Handler) {
    // SAFETY: zero is an empty `sigaction`; the handler has the signature that SA_SIGINFO asks for
    // and lives as long as the program.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    assert_eq!(failed, 0, "the host takes no handler: {}", std::io::Error::last_os_error());
}

/// Ends the program as if there were no handler: the signal has another reason.
fn give_up(signal: c_int) {
    // SAFETY: restores the default action.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both for a handler with SA_SIGINFO; `context` belongs to the
    // handler alone until it returns.
    let (at, context) = unsafe { ((*info).si_addr().addr(), &mut *context.cast::<libc::ucontext_t>()) };
    // SAFETY: null, or the guard that lives on this thread.
    let guard = unsafe { GUARD.get().as_ref() }.filter(|guard| guard.contains(at));
    let Some(guard) = guard else { return give_up(signal) };
    let registers = &mut context.uc_mcontext.gregs;
    let writes = registers[libc::REG_ERR as usize] & WRITES != 0;
    guard.accessed(at, writes, registers[libc::REG_RIP as usize] as usize);
    registers[libc::REG_EFL as usize] |= TRAP_FLAG;
}

extern "C" fn on_trap(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: as in `on_fault`.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    // SAFETY: as in `on_fault`.
    let Some(guard) = (unsafe { GUARD.get().as_ref() }) else { return give_up(signal) };
    guard.executed();
    context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
}

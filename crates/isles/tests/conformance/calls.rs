//! Record of the library's functions that the suite has called on each engine. A call is written
//! with [`call!`] or [`call_function!`], which call the function and record its name, so that the
//! two cannot differ.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// By engine: functions, as `Owner::name`.
static CALLS: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The engine that the thread uses.
    static ENGINE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Sets the engine that the thread uses from now on.
pub fn enter(engine: &str) {
    ENGINE.with_borrow_mut(|name| engine.clone_into(name));
}

/// The engine that the thread uses.
pub fn engine() -> String {
    ENGINE.with_borrow(String::clone)
}

/// The functions that were called on an engine so far.
pub fn of(engine: &str) -> BTreeSet<String> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner).get(engine).cloned().unwrap_or_default()
}

/// Records a call of a method.
pub fn record<T: ?Sized>(_: &T, verb: &'static str) {
    record_function(owner(std::any::type_name::<T>()), verb);
}

/// Records a call of a function of this type, or of a free function.
pub fn record_function(owner: &str, verb: &'static str) {
    let name = if owner.is_empty() { verb.to_owned() } else { format!("{owner}::{verb}") };
    let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    ENGINE.with_borrow(|engine| match calls.get_mut(engine) {
        Some(names) => drop(names.insert(name)),
        None => drop(calls.insert(engine.clone(), BTreeSet::from([name]))),
    });
}

/// The name of a type without references, path and parameters.
fn owner(name: &str) -> &str {
    let name = name.trim_start_matches('&').trim_start_matches("mut ").trim_start_matches('&');
    let path = name.split('<').next().unwrap_or(name);
    path.rsplit("::").next().unwrap_or(path)
}

#[test]
fn owners_are_types_without_their_paths() {
    assert_eq!(owner("&mut isles::attempt::Transaction<'_>"), "Transaction");
    assert_eq!(owner("isles::scan::Scan<conformance::rows::Plain, (u16, i64)>"), "Scan");
    assert_eq!(owner(std::any::type_name::<&mut isles::Session>()), "Session");
}

/// Calls a method, and records the call.
macro_rules! call {
    ($on:ident.$verb:ident $(::<$parameter:ty>)? ($($argument:expr),* $(,)?)) => {{
        $crate::calls::record(&$on, stringify!($verb));
        $on.$verb$(::<$parameter>)?($($argument),*)
    }};
}

/// Calls a function of a type, or a free function of the library, and records the call.
macro_rules! call_function {
    ($owner:ident::$verb:ident($($argument:expr),* $(,)?)) => {{
        $crate::calls::record_function(stringify!($owner), stringify!($verb));
        $owner::$verb($($argument),*)
    }};
    ($verb:ident($($argument:expr),* $(,)?)) => {{
        $crate::calls::record_function("", stringify!($verb));
        isles::$verb($($argument),*)
    }};
}

pub(crate) use {call, call_function};

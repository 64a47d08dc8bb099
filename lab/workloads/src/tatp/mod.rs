//! TATP, the Telecom Application Transaction Processing benchmark: "Telecommunication Application
//! Transaction Processing (TATP) Benchmark Description", version 1.0 (IBM, 2009).
//!
//! The data are the register of a mobile telephone network: its subscribers, their locations, their
//! access to data, and the forwarding of their calls. There are seven transactions of one to three
//! statements. Most of them only read; the others change one or two rows.
//!
//! - [`rows`]: the four tables; [`population`]: the initial rows;
//! - [`procedure`]: the transactions, each of which consists of some [`action`]s;
//! - `check`: the checks.
//!
//! A transaction that does not find a row, or finds the row that it is to insert, fails: it rolls
//! back, as the description requires, and counts as a rollback and not as a commit. With the
//! description's population 0, 85.2, 37.5, 37.5, 0, 68.75 and 68.75 percent fail, in the order of
//! [`KINDS`]. (According to the description 23.9 percent of GetNewDestination succeed; this is near
//! the 23.7 percent of those that name an existing facility.)
//!
//! Deviations from the description:
//! - Subscribers are divided into ranges, one or several (`parts_each`) for each worker. A worker
//!   draws subscribers of its own ranges, by the description's distribution over them, except those
//!   that `multisite` and `hot` draw from all subscribers. With one worker the distribution is the
//!   description's.
//! - The part of the data follows from the subscriber's number, as the part of a network does, and
//!   is a column of all keys.
//! - The set of rows of a subscriber follows from its number and not from the seed; frequencies are
//!   those of the description.
//! - Integers have the smallest type that holds their values.

pub mod action;
mod check;
pub mod population;
pub mod procedure;
pub mod rows;
mod spec;

use schema::{Inspector, Loader, Schema};
use terms::Abort;

pub use check::CHECKS;
use population::{START_HOURS, STARTS, Shape, TYPES, byte, digits, location};
pub use procedure::{Answer, Request, Transaction};
use rows::Tables;
pub use spec::{DIGITS, Hot, KINDS, Mix, SubscriberKey, Tatp, number};

use crate::workload::{Check, LoadedWith, Workload};
use terms::random::Random;

const GET_SUBSCRIBER_DATA: usize = 0;
const GET_NEW_DESTINATION: usize = 1;
const GET_ACCESS_DATA: usize = 2;
const UPDATE_SUBSCRIBER_DATA: usize = 3;
const UPDATE_LOCATION: usize = 4;
const INSERT_CALL_FORWARDING: usize = 5;
const DELETE_CALL_FORWARDING: usize = 6;

/// Draws a type, 1 to 4.
#[inline]
fn any_type(random: &mut Random) -> u8 {
    random.between(1, u64::from(TYPES)) as u8
}

/// Draws a START_TIME: 0, 8 or 16.
#[inline]
fn any_start(random: &mut Random) -> u8 {
    START_HOURS * random.below(u64::from(STARTS)) as u8
}

/// Draws an END_TIME, 1 to 24.
#[inline]
fn any_end(random: &mut Random) -> u8 {
    random.between(1, 24) as u8
}

/// Draws the request of a transaction of this kind; returns the number of draws, too.
#[inline]
fn request(kind: usize, random: &mut Random) -> (Request, u8) {
    match kind {
        GET_NEW_DESTINATION => {
            let (sf_type, start_time, end_time) = (any_type(random), any_start(random), any_end(random));
            (Request::GetNewDestination { sf_type, start_time, end_time }, 3)
        }
        GET_ACCESS_DATA => (Request::GetAccessData { ai_type: any_type(random) }, 1),
        UPDATE_SUBSCRIBER_DATA => {
            let (bit_1, sf_type, data_a) = (random.below(2) as u8, any_type(random), byte(random));
            (Request::UpdateSubscriberData { bit_1, sf_type, data_a }, 3)
        }
        UPDATE_LOCATION => (Request::UpdateLocation { vlr_location: location(random) }, 1),
        INSERT_CALL_FORWARDING => {
            let (sf_type, start_time) = (any_type(random), any_start(random));
            let end_time = start_time + random.between(1, u64::from(START_HOURS)) as u8;
            let numberx = digits(random);
            (Request::InsertCallForwarding { sf_type, start_time, end_time, numberx }, 4)
        }
        DELETE_CALL_FORWARDING => {
            let (sf_type, start_time) = (any_type(random), any_start(random));
            (Request::DeleteCallForwarding { sf_type, start_time }, 2)
        }
        _ => (Request::GetSubscriberData, 0),
    }
}

impl Workload for Tatp {
    type Procedure = Transaction;

    fn create(&self, schema: &mut impl Schema) -> Tables {
        Tables::create(self, schema)
    }

    fn loaded_with(&self) -> LoadedWith {
        // Keys begin with the number of a range.
        let execution = if self.parts_each == 1 { "inline" } else { "plp, atrapos" };
        LoadedWith::new(
            "tatp",
            [
                ("--subscribers", self.subscribers.to_string()),
                ("--cores", (self.parts / self.parts_each).to_string()),
                ("--execution", execution.to_owned()),
            ],
        )
    }

    fn parts(&self) -> usize {
        usize::from(self.parts)
    }

    fn rows(&self, part: usize) -> u64 {
        self.subscribers_of(part as u16).map(|s_id| Shape::of(s_id).rows()).sum()
    }

    fn load(
        &self,
        tables: &Tables,
        part: usize,
        random: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        let part = part as u16;
        self.subscribers_of(part)
            .try_for_each(|s_id| population::load(tables, SubscriberKey { part, s_id }, random, loader))
    }

    #[inline]
    fn next(&self, worker: usize, random: &mut Random, _: u64) -> Transaction {
        let kind = self.mix.draw(random);
        let (place, for_place) = self.draw(worker, random);
        let (request, for_request) = request(kind, random);
        Transaction::new(place, request, self.divided, 1 + for_place + for_request)
    }

    fn homes(&self) -> usize {
        usize::from(self.parts / self.parts_each)
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    #[inline]
    fn kind(procedure: &Transaction) -> usize {
        match procedure.request {
            Request::GetSubscriberData => GET_SUBSCRIBER_DATA,
            Request::GetNewDestination { .. } => GET_NEW_DESTINATION,
            Request::GetAccessData { .. } => GET_ACCESS_DATA,
            Request::UpdateSubscriberData { .. } => UPDATE_SUBSCRIBER_DATA,
            Request::UpdateLocation { .. } => UPDATE_LOCATION,
            Request::InsertCallForwarding { .. } => INSERT_CALL_FORWARDING,
            Request::DeleteCallForwarding { .. } => DELETE_CALL_FORWARDING,
        }
    }

    fn code_lines(_: &Transaction) -> u16 {
        45
    }

    fn check(
        &self,
        tables: &Tables,
        inspector: &mut impl Inspector,
        committed: Option<&[u64]>,
    ) -> Vec<Check> {
        let changes = committed.map(|committed| {
            let of = |kind: usize| committed.get(kind).copied().unwrap_or(0);
            (of(INSERT_CALL_FORWARDING), of(DELETE_CALL_FORWARDING))
        });
        check::check(self, tables, inspector, changes)
    }
}

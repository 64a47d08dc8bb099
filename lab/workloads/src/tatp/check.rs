//! The checks after a run: each subscriber exists and is found by its number; it has the access
//! information and the special facilities with which it was loaded; each row of CALL_FORWARDING has
//! a special facility and valid hours; and the number of these rows is that of the loaded and
//! inserted ones less the deleted ones.

use schema::{Inspector, Text};

use super::population::{START_HOURS, STARTS, Shape, TYPES};
use super::rows::{AccessInfo, CallForwarding, SpecialFacility, Subscriber, Tables};
use super::spec::{DIGITS, Tatp, number};
use crate::findings;
use crate::workload::{Check, Outcome};

/// Names of the checks.
pub const CHECKS: [&str; 5] = [
    "tatp_subscribers",
    "tatp_access_info",
    "tatp_special_facilities",
    "tatp_call_forwarding",
    "tatp_changes",
];
const SUBSCRIBERS: usize = 0;
const ACCESS: usize = 1;
const FACILITIES: usize = 2;
const FORWARDING: usize = 3;
const CHANGES: usize = 4;

type Findings = findings::Findings<{ CHECKS.len() }>;

/// The rows of a subscriber that a check has read.
#[derive(Clone, Copy, Default)]
struct SubscriberRows {
    rows: u8,
    numbers: u8,
    access: u8,
    facilities: u8,
}

/// Runs all checks; `changes`: committed insertions and deletions of CALL_FORWARDING, if they are
/// known.
pub(super) fn check(
    tatp: &Tatp,
    tables: &Tables,
    inspector: &mut impl Inspector,
    changes: Option<(u64, u64)>,
) -> Vec<Check> {
    let mut findings = Findings::new();
    let (mut loaded, mut there) = (0, 0);
    for part in 0..tatp.parts {
        let (of_loading, found) = (PartCheck { tatp, tables, part }).check(inspector, &mut findings);
        loaded += of_loading;
        there += found;
    }
    if let Some((inserted, deleted)) = changes {
        findings.expect(CHANGES, there + deleted == loaded + inserted, || {
            format!(
                "{there} rows of CALL_FORWARDING where {loaded} were loaded, {inserted} inserted and {deleted} deleted"
            )
        });
    }
    let mut checks = findings.checks(CHECKS);
    let of_changes = &mut checks[CHANGES].result;
    if changes.is_none() && matches!(of_changes, Outcome::Ok) {
        *of_changes = Outcome::NotApplicable("what earlier runs have committed is not known".to_owned());
    }
    checks
}

/// The check of a part of the data.
#[derive(Clone, Copy)]
struct PartCheck<'a> {
    tatp: &'a Tatp,
    tables: &'a Tables,
    part: u16,
}

impl PartCheck<'_> {
    /// Checks the part; returns the number of rows of CALL_FORWARDING that were loaded, and of
    /// those that exist.
    fn check(self, inspector: &mut impl Inspector, findings: &mut Findings) -> (u64, u64) {
        let mut seen = vec![SubscriberRows::default(); self.tatp.subscribers_of(self.part).count()];
        self.subscribers(inspector, &mut seen, findings);
        self.access(inspector, &mut seen, findings);
        self.facilities(inspector, &mut seen, findings);
        let there = self.forwarding(inspector, &seen, findings);
        let mut loaded = 0;
        for (seen, s_id) in seen.iter().zip(self.tatp.subscribers_of(self.part)) {
            let shape = Shape::of(s_id);
            loaded += shape.forwarded();
            findings.expect(SUBSCRIBERS, seen.rows == 1 && seen.numbers == 1, || {
                let SubscriberRows { rows, numbers, .. } = seen;
                format!("subscriber {s_id} is there {rows} times, and {numbers} times by its number")
            });
            findings.expect(ACCESS, seen.access == shape.access, || {
                format!("subscriber {s_id} has access types {:04b}, not {:04b}", seen.access, shape.access)
            });
            findings.expect(FACILITIES, seen.facilities == shape.facilities, || {
                let (found, expected) = (seen.facilities, shape.facilities);
                format!("subscriber {s_id} has special facilities {found:04b}, not {expected:04b}")
            });
        }
        (loaded, there)
    }

    /// The position of a subscriber among those of the part.
    fn place(self, s_id: u32) -> Option<usize> {
        let range = self.tatp.subscribers_of(self.part);
        range.contains(&s_id).then(|| (s_id - range.start()) as usize)
    }

    fn subscribers(
        self,
        inspector: &mut impl Inspector,
        seen: &mut [SubscriberRows],
        findings: &mut Findings,
    ) {
        let mut visit = |row: &Subscriber, by_number: bool| {
            let Subscriber { s_id, bit_1, bits, hexes, vlr_location, msc_location, sub_nbr, .. } = row;
            let is_sound = bits.iter().chain([bit_1]).all(|bit| *bit < 2)
                && hexes.iter().all(|hex| *hex < 16)
                && *vlr_location > 0
                && *msc_location > 0
                && *sub_nbr == number(*s_id);
            findings.expect(SUBSCRIBERS, is_sound, || format!("subscriber {s_id} is {row:?}"));
            match self.place(*s_id) {
                Some(place) if by_number => seen[place].numbers = seen[place].numbers.saturating_add(1),
                Some(place) => seen[place].rows = seen[place].rows.saturating_add(1),
                None => findings.expect(SUBSCRIBERS, false, || {
                    format!("part {} has subscriber {s_id}, who does not belong there", self.part)
                }),
            }
        };
        let primary = self.tables.subscriber.primary();
        inspector.scan(primary, &(self.part, 0), &(self.part, u32::MAX), &mut |row| visit(row, false));
        let by_number = self.tables.subscriber.index(Subscriber::BY_NUMBER);
        let (low, high) = (Text::from_padded([0; 15]), Text::from_padded([0xff; 15]));
        inspector.scan(by_number, &(self.part, low), &(self.part, high), &mut |row| visit(row, true));
    }

    fn access(self, inspector: &mut impl Inspector, seen: &mut [SubscriberRows], findings: &mut Findings) {
        let (low, high) = ((self.part, 0, 0), (self.part, u32::MAX, u8::MAX));
        inspector.scan(self.tables.access_info.primary(), &low, &high, &mut |row: &AccessInfo| {
            let AccessInfo { s_id, ai_type, .. } = *row;
            match (self.place(s_id), ai_type) {
                (Some(place), 1..=TYPES) => seen[place].access |= 1 << (ai_type - 1),
                _ => findings.expect(ACCESS, false, || format!("type {ai_type} of subscriber {s_id}")),
            }
        });
    }

    fn facilities(
        self,
        inspector: &mut impl Inspector,
        seen: &mut [SubscriberRows],
        findings: &mut Findings,
    ) {
        let (low, high) = ((self.part, 0, 0), (self.part, u32::MAX, u8::MAX));
        let facilities = self.tables.special_facility.primary();
        inspector.scan(facilities, &low, &high, &mut |row: &SpecialFacility| {
            let SpecialFacility { s_id, sf_type, .. } = *row;
            match (self.place(s_id), sf_type) {
                (Some(place), 1..=TYPES) => seen[place].facilities |= 1 << (sf_type - 1),
                _ => findings.expect(FACILITIES, false, || format!("type {sf_type} of subscriber {s_id}")),
            }
        });
    }

    /// Checks the rows of CALL_FORWARDING, and returns their number.
    fn forwarding(
        self,
        inspector: &mut impl Inspector,
        seen: &[SubscriberRows],
        findings: &mut Findings,
    ) -> u64 {
        let (low, high) = ((self.part, 0, 0, 0), (self.part, u32::MAX, u8::MAX, u8::MAX));
        let mut there = 0;
        inspector.scan(self.tables.call_forwarding.primary(), &low, &high, &mut |row: &CallForwarding| {
            there += 1;
            let CallForwarding { s_id, sf_type, start_time, end_time, ref numberx, .. } = *row;
            let facilities = self.place(s_id).map_or(0, |place| seen[place].facilities);
            let has_facility = (1..=TYPES).contains(&sf_type) && facilities >> (sf_type - 1) & 1 == 1;
            let is_sound = start_time % START_HOURS == 0
                && start_time < STARTS * START_HOURS
                && end_time > start_time
                && end_time <= start_time + START_HOURS
                && numberx.as_bytes().len() == DIGITS
                && numberx.as_bytes().iter().all(u8::is_ascii_digit);
            findings.expect(FORWARDING, has_facility && is_sound, || {
                let what =
                    if has_facility { "is not of the kind that is inserted" } else { "has no facility" };
                format!("{row:?} {what}")
            });
        });
        there
    }
}

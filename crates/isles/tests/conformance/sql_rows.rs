//! A table with the types that SQL has: exact numbers, dates and times, UUIDs.
// Times are values of columns.
#![allow(clippy::disallowed_types)]

use std::time::{Duration, SystemTime};

use isles::{
    Char, Date, Datum, Interval, JsonText, Numeric, Row, Table, Time, Timestamp, TimestampTz, Uuid, VarChar,
};

use crate::calls::call;
use crate::rows::{Aspect, Atom, OnField, OnGroup, OnIndex, Probe, TestRow, signed, unsigned};

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Each type is in a key, and each in a column that belongs to none.
#[derive(Row, Clone, Debug)]
#[row(key(part, day, price, id), index(by_moment(part, moment, length)), index(by_time(part, time, local)))]
#[row(unique_index(by_uuid(part, uuid, total)), index(by_code(part, code)))]
pub struct Booking {
    part: u16,
    day: Date,
    price: Numeric<10, 2>,
    id: u32,
    moment: TimestampTz,
    length: Interval,
    time: Time,
    local: Timestamp,
    uuid: Uuid,
    total: Numeric<30, 5>,
    other_day: Date,
    other_price: Numeric<18, 18>,
    other_moment: TimestampTz,
    other_length: Interval,
    other_time: Time,
    other_local: Timestamp,
    other_uuid: Uuid,
    other_total: Numeric<38, 0>,
    system: SystemTime,
    duration: Duration,
    no_day: Option<Date>,
    no_price: Option<Numeric<5, 1>>,
    no_moment: Option<TimestampTz>,
    no_length: Option<Interval>,
    no_system: Option<SystemTime>,
    days: [Date; 2],
    code: Char<3>,
    other_code: Char<2>,
    title: VarChar<20>,
    no_title: Option<VarChar<5>>,
    json: JsonText,
    no_json: Option<JsonText>,
    numbers: Vec<i32>,
    names: Vec<String>,
    no_moments: Option<Vec<TimestampTz>>,
}

fn moment(salt: u32) -> TimestampTz {
    match salt % 8 {
        3 => TimestampTz::INFINITY,
        5 => TimestampTz::MIN,
        _ => TimestampTz::from_micros((i64::from(salt) - 1_000) * DAY / 3).expect("in range"),
    }
}

fn code(salt: u32) -> Char<3> {
    Char::try_from(["", "a", "a b", "é", "ab "][salt as usize % 5]).expect("three characters")
}

fn interval(salt: u32) -> Interval {
    Interval::new(salt as i32 % 5 - 2, salt as i32 % 40 - 20, i64::from(salt) * 1_000_003)
}

fn numeric<const P: u8, const S: u8>(digits: i128) -> Numeric<P, S> {
    Numeric::from_digits(digits).expect("in range")
}

impl TestRow for Booking {
    const TABLE: &'static str = "bookings";
    const HASHED: &'static [bool] = &[false; 5];
    const FRONTS: &'static [usize] = &[2, 3, 2, 1, 2];
    const GROUPS: usize = 2;

    fn make(Probe { part, id, salt }: Probe) -> Self {
        let sign = if salt.is_multiple_of(2) { 1 } else { -1 };
        let day = |days: u32| Date::from_days(days as i32 % 1_000 - 500).expect("in range");
        let time = |micros: i64| Time::from_micros(micros.rem_euclid(DAY + 1)).expect("in range");
        let uuid = |number: u32| Uuid::from_u128(u128::from(number).wrapping_mul(u128::MAX / 7));
        let after = Duration::from_micros(u64::from(salt) * 77_777_777);
        Booking {
            part,
            day: [Date::NEG_INFINITY, day(id), Date::INFINITY][id as usize % 3],
            price: numeric((i128::from(id) - 10) * 333),
            id,
            moment: moment(salt / 2),
            length: interval(salt % 50),
            time: time(i64::from(salt % 3) * DAY / 2),
            local: moment(salt % 4).utc(),
            uuid: uuid(salt % 64),
            total: numeric(sign * (i128::from(salt % 4) << 90)),
            other_day: day(salt),
            other_price: numeric(sign * i128::from(salt)),
            other_moment: moment(salt),
            other_length: interval(salt),
            other_time: time(i64::from(salt) * 987_654_321),
            other_local: moment(salt + 1).utc(),
            other_uuid: uuid(salt),
            other_total: numeric(sign * (10_i128.pow(38) - 1 - i128::from(salt))),
            system: SystemTime::UNIX_EPOCH + after,
            duration: after * 3,
            no_day: (salt % 2 == 1).then(|| day(salt / 2)),
            no_price: (salt % 3 == 1).then(|| numeric(i128::from(salt) % 9_999)),
            no_moment: (salt % 4 == 1).then(|| moment(salt / 3)),
            no_length: (salt % 5 == 1).then(|| interval(salt / 2)),
            no_system: salt.is_multiple_of(2).then(|| SystemTime::UNIX_EPOCH - after),
            days: [day(salt), Date::MAX],
            code: code(salt),
            other_code: Char::try_from("é ").expect("two characters"),
            title: VarChar::try_from("é".repeat(salt as usize % 21)).expect("short"),
            no_title: salt.is_multiple_of(2).then(|| VarChar::try_from("").expect("short")),
            json: JsonText::of(&(salt, "a\"b", [1.5; 2])).expect("JSON"),
            no_json: salt.is_multiple_of(3).then(JsonText::default),
            numbers: (0..if salt % 16 == 7 { 3_000 } else { salt as i32 % 5 })
                .map(|number| number - 9)
                .collect(),
            names: (0..salt % 5).map(|number| "n".repeat(number as usize)).collect(),
            no_moments: (salt % 2 == 1).then(|| (0..salt % 4).map(moment).collect()),
        }
    }

    fn take_over(&mut self, aspect: Aspect, other: &Self) {
        let from = other.clone();
        match aspect {
            Aspect::Values => {
                let Booking { part, day, price, id, moment, length, time, local, uuid, total, .. } = *self;
                let Booking { code, title, no_title, json, no_json, numbers, names, no_moments, .. } =
                    self.clone();
                let own =
                    Booking { code, title, no_title, json, no_json, numbers, names, no_moments, ..from };
                *self = Booking { part, day, price, id, moment, length, time, local, uuid, total, ..own };
            }
            Aspect::Tail => {
                (self.title, self.no_title) = (from.title, from.no_title);
                (self.json, self.no_json) = (from.json, from.no_json);
                (self.numbers, self.names, self.no_moments) = (from.numbers, from.names, from.no_moments);
            }
            Aspect::Indexed => {
                self.code = from.code;
                (self.moment, self.length, self.time) = (from.moment, from.length, from.time);
                (self.local, self.uuid, self.total) = (from.local, from.uuid, from.total);
            }
            Aspect::Key => {
                (self.part, self.day, self.price, self.id) = (from.part, from.day, from.price, from.id);
            }
        }
    }

    fn keys(&self) -> Vec<Vec<Atom>> {
        let part = || unsigned(self.part);
        let primary = [signed(self.day.days()), Atom::Signed(self.price.digits()), unsigned(self.id)];
        let with = |front: [Atom; 2]| {
            std::iter::once(part()).chain(front).chain(primary.iter().cloned()).collect::<Vec<_>>()
        };
        vec![
            std::iter::once(part()).chain(primary.iter().cloned()).collect(),
            with([signed(self.moment.micros()), Atom::Signed(self.length.span())]),
            with([signed(self.time.micros()), signed(self.local.micros())]),
            vec![part(), unsigned(self.uuid.as_u128()), Atom::Signed(self.total.digits())],
            [part(), Atom::Bytes(self.code.as_str().as_bytes().to_vec())]
                .into_iter()
                .chain(primary.clone())
                .collect(),
        ]
    }

    fn datums(&self) -> Vec<Datum> {
        let or_null = |value: Option<Datum>| value.unwrap_or(Datum::Null);
        vec![
            Datum::Unsigned(self.part.into()),
            Datum::Date(self.day),
            Datum::Numeric(self.price.into()),
            Datum::Unsigned(self.id.into()),
            Datum::TimestampTz(self.moment),
            Datum::Interval(self.length),
            Datum::Time(self.time),
            Datum::Timestamp(self.local),
            Datum::Uuid(self.uuid),
            Datum::Numeric(self.total.into()),
            Datum::Date(self.other_day),
            Datum::Numeric(self.other_price.into()),
            Datum::TimestampTz(self.other_moment),
            Datum::Interval(self.other_length),
            Datum::Time(self.other_time),
            Datum::Timestamp(self.other_local),
            Datum::Uuid(self.other_uuid),
            Datum::Numeric(self.other_total.into()),
            Datum::TimestampTz(self.system.into()),
            Datum::Interval(self.duration.into()),
            or_null(self.no_day.map(Datum::Date)),
            or_null(self.no_price.map(|price| Datum::Numeric(price.into()))),
            or_null(self.no_moment.map(Datum::TimestampTz)),
            or_null(self.no_length.map(Datum::Interval)),
            or_null(self.no_system.map(|system| Datum::TimestampTz(system.into()))),
            Datum::List(self.days.map(Datum::Date).to_vec()),
            Datum::Text(self.code.to_string()),
            Datum::Text(self.other_code.to_string()),
            Datum::Text(self.title.to_string()),
            or_null(self.no_title.as_ref().map(|title| Datum::Text(title.to_string()))),
            Datum::Text(self.json.to_string()),
            or_null(self.no_json.as_ref().map(|json| Datum::Text(json.to_string()))),
            Datum::List(self.numbers.iter().map(|number| Datum::Signed((*number).into())).collect()),
            Datum::List(self.names.iter().cloned().map(Datum::Text).collect()),
            or_null(
                self.no_moments
                    .as_ref()
                    .map(|moments| Datum::List(moments.iter().copied().map(Datum::TimestampTz).collect())),
            ),
        ]
    }

    fn on_index<V: OnIndex<Self>>(table: Table<Self>, index: usize, visitor: V) -> V::Output {
        match index {
            0 => visitor.visit(table, Row::key, |row| (row.part, row.day)),
            1 => visitor.visit(
                call!(table.by(Booking::BY_MOMENT)),
                |row| (row.part, row.moment, row.length, row.day, row.price, row.id),
                |row| (row.part, row.moment, row.length),
            ),
            2 => visitor.visit(
                call!(table.by(Booking::BY_TIME)),
                |row| (row.part, row.time, row.local, row.day, row.price, row.id),
                |row| (row.part, row.time),
            ),
            3 => visitor.visit(
                call!(table.by(Booking::BY_UUID)),
                |row| (row.part, row.uuid, row.total),
                |row| row.part,
            ),
            _ => visitor.visit(
                call!(table.by(Booking::BY_CODE)),
                |row| (row.part, row.code.clone(), row.day, row.price, row.id),
                |row| (row.part, row.code.clone()),
            ),
        }
    }

    fn on_field<V: OnField<Self>>(field: usize, visitor: V) -> V::Output {
        macro_rules! field {
            ($constant:ident $field:ident) => {
                visitor.visit(Booking::$constant, |row| row.$field.clone(), |row, value| row.$field = value)
            };
        }
        match field {
            0 => field!(OTHER_DAY other_day),
            1 => field!(OTHER_PRICE other_price),
            2 => field!(OTHER_MOMENT other_moment),
            3 => field!(OTHER_LENGTH other_length),
            4 => field!(OTHER_TIME other_time),
            5 => field!(OTHER_LOCAL other_local),
            6 => field!(OTHER_UUID other_uuid),
            7 => field!(OTHER_TOTAL other_total),
            8 => field!(SYSTEM system),
            9 => field!(DURATION duration),
            10 => field!(NO_DAY no_day),
            11 => field!(NO_PRICE no_price),
            12 => field!(NO_MOMENT no_moment),
            13 => field!(NO_LENGTH no_length),
            14 => field!(NO_SYSTEM no_system),
            15 => field!(DAYS days),
            _ => field!(OTHER_CODE other_code),
        }
    }

    fn on_group<V: OnGroup<Self>>(group: usize, visitor: V) -> V::Output {
        match group {
            0 => visitor.visit((Booking::MOMENT, Booking::NO_DAY), |row| (row.moment, row.no_day)),
            _ => visitor.visit((Booking::OTHER_TOTAL, Booking::UUID), |row| (row.other_total, row.uuid)),
        }
    }

    fn on_key_field<V: OnField<Self>>(visitor: V) -> V::Output {
        visitor.visit(Booking::DAY, |row| row.day, |row, value| row.day = value)
    }
}

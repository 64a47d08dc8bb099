//! A table with keys in every order: descending columns, nulls at either end, floating-point
//! numbers, truth values, unique indexes in which nulls are distinct and not, more than eight
//! indexes, and keys of up to 2 KiB.

use std::cmp::Reverse;

use isles::{Datum, DistinctNulls, NullsFirst, Row, Table, Text};

use crate::calls::call;
use crate::rows::{Aspect, Atom, OnField, OnGroup, OnIndex, Probe, TestRow, signed, unsigned};

#[derive(Row, Clone, Debug)]
#[row(
    key(part, desc(id)),
    index(by_score(part, desc(score), flag)),
    index(by_rank(part, rank, desc(ratio))),
    index(by_label(part, nulls_first(label))),
    index(by_low(part, desc(nulls_last(rank)), desc(flag))),
    unique_index(by_serial(part, serial, flag)),
    unique_index(by_only(part, desc(only)) nulls_not_distinct),
    index(by_amount(part, amount)),
    index(by_most(part, desc(amount))),
    index(by_flag(part, flag)),
    index(by_ratio(part, ratio)),
    index(by_text(part, text, desc(flag))),
    unique_index(by_name(part, desc(name), bytes))
)]
pub struct Sorted {
    part: u16,
    id: i32,
    score: f64,
    ratio: f32,
    flag: bool,
    rank: Option<i16>,
    label: Option<Text<6>>,
    serial: Option<u32>,
    only: Option<u16>,
    amount: i64,
    note: Option<u8>,
    text: String,
    name: Option<String>,
    bytes: Vec<u8>,
}

/// A nullable column: nulls are larger than values.
fn or_null(value: Option<Atom>) -> Atom {
    value.unwrap_or(Atom::Null)
}

fn descending(atom: Atom) -> Atom {
    Atom::Descending(Reverse(Box::new(atom)))
}

/// A floating-point number as one that sorts like it.
fn total(bits: i64) -> Atom {
    signed(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
}

impl Sorted {
    fn distinct(&self) -> DistinctNulls<(u16, Reverse<i32>)> {
        DistinctNulls(self.serial.is_none().then(|| self.key()))
    }

    fn score_atom(&self) -> Atom {
        total(self.score.to_bits().cast_signed())
    }

    fn ratio_atom(&self) -> Atom {
        // The widened number sorts like the number, but for the payload of NaN.
        total(f64::from(self.ratio).to_bits().cast_signed())
    }
}

impl TestRow for Sorted {
    const TABLE: &'static str = "sorted";
    const HASHED: &'static [bool] = &[false; 13];
    const FRONTS: &'static [usize] = &[1, 2, 2, 2, 3, 2, 1, 2, 2, 2, 2, 2, 2];
    const GROUPS: usize = 2;

    fn make(Probe { part, id, salt }: Probe) -> Self {
        let is = |modulus: u32| salt % modulus == 1;
        let number = id as i32 - 15;
        Sorted {
            part,
            id: number,
            score: [f64::from(salt) - 40.0, -0.0, 0.0, f64::NAN, -f64::INFINITY][salt as usize % 5],
            ratio: [1.5, -1.5, f32::INFINITY, -f32::NAN][salt as usize % 4],
            flag: is(2),
            rank: (!is(3)).then_some(salt as i16 % 4 - 2),
            label: (!is(4)).then(|| Text::truncated(&"ab".repeat(salt as usize % 4))),
            serial: (!is(3)).then_some(id * 2 + salt % 3),
            only: (!is(8)).then_some((id * 2 + salt % 3) as u16),
            amount: i64::from(salt % 7) - 3,
            note: is(2).then_some(salt as u8),
            // Long ones differ at their ends alone.
            text: "long ".repeat(60 * (salt as usize % 5 / 4))
                + &["", "t", "t\0", "t\u{1}", "to", "t\u{7f}é"][salt as usize % 6].repeat(salt as usize % 3),
            name: (!is(3)).then(|| "n".repeat((id * 2 + salt % 3) as usize % 20 * 100)),
            bytes: vec![salt as u8 % 3; salt as usize % 4],
        }
    }

    fn take_over(&mut self, aspect: Aspect, other: &Self) {
        let from = other.clone();
        match aspect {
            Aspect::Values => self.note = from.note,
            Aspect::Tail => (self.text, self.name, self.bytes) = (from.text, from.name, from.bytes),
            Aspect::Key => (self.part, self.id) = (from.part, from.id),
            Aspect::Indexed => {
                let Sorted { part, id, note, .. } = self.clone();
                *self = Sorted { part, id, note, ..from };
            }
        }
    }

    fn keys(&self) -> Vec<Vec<Atom>> {
        let (part, id) = (unsigned(self.part), descending(signed(self.id)));
        let flag = unsigned(u8::from(self.flag));
        let rank = or_null(self.rank.map(signed));
        let label = self.label.map(|label| Atom::Bytes(label.as_bytes().to_vec()));
        let serial = or_null(self.serial.map(unsigned));
        let own = self.serial.is_none().then(|| [part.clone(), id.clone()]);
        let name = or_null(self.name.clone().map(|name| Atom::Bytes(name.into_bytes())));
        let own_name = self.name.is_none().then(|| [part.clone(), id.clone()]);
        // A descending column is the reverse of one with the nulls at the other end.
        let low = descending(self.rank.map_or(Atom::First, signed));
        let only = descending(or_null(self.only.map(unsigned)));
        let keys = vec![
            vec![id.clone()],
            vec![descending(self.score_atom()), flag.clone(), id.clone()],
            vec![rank, descending(self.ratio_atom()), id.clone()],
            vec![label.unwrap_or(Atom::First), id.clone()],
            vec![low, descending(flag.clone()), id.clone()],
            [vec![serial, flag.clone()], own.into_iter().flatten().collect()].concat(),
            vec![only],
            vec![signed(self.amount), id.clone()],
            vec![descending(signed(self.amount)), id.clone()],
            vec![flag, id.clone()],
            vec![self.ratio_atom(), id.clone()],
            vec![Atom::Bytes(self.text.clone().into_bytes()), descending(unsigned(u8::from(self.flag))), id],
            [
                vec![descending(name), Atom::Bytes(self.bytes.clone())],
                own_name.into_iter().flatten().collect(),
            ]
            .concat(),
        ];
        keys.into_iter().map(|key| [vec![part.clone()], key].concat()).collect()
    }

    fn datums(&self) -> Vec<Datum> {
        let or_null = |value: Option<Datum>| value.unwrap_or(Datum::Null);
        vec![
            Datum::Unsigned(self.part.into()),
            Datum::Signed(self.id.into()),
            Datum::Float(self.score),
            Datum::Float(self.ratio.into()),
            Datum::Bool(self.flag),
            or_null(self.rank.map(|rank| Datum::Signed(rank.into()))),
            or_null(self.label.map(|label| Datum::Text(label.as_str().to_owned()))),
            or_null(self.serial.map(|serial| Datum::Unsigned(serial.into()))),
            or_null(self.only.map(|only| Datum::Unsigned(only.into()))),
            Datum::Signed(self.amount),
            or_null(self.note.map(|note| Datum::Unsigned(note.into()))),
            Datum::Text(self.text.clone()),
            or_null(self.name.clone().map(Datum::Text)),
            Datum::Bytes(self.bytes.clone()),
        ]
    }

    fn on_index<V: OnIndex<Self>>(table: Table<Self>, index: usize, visitor: V) -> V::Output {
        type S = Sorted;
        match index {
            0 => visitor.visit(table, |row| (row.part, Reverse(row.id)), |row| row.part),
            1 => visitor.visit(
                call!(table.by(S::BY_SCORE)),
                |row| (row.part, Reverse(row.score), row.flag, Reverse(row.id)),
                |row| (row.part, Reverse(row.score)),
            ),
            2 => visitor.visit(
                call!(table.by(S::BY_RANK)),
                |row| (row.part, row.rank, Reverse(row.ratio), Reverse(row.id)),
                |row| (row.part, row.rank),
            ),
            3 => visitor.visit(
                call!(table.by(S::BY_LABEL)),
                |row| (row.part, NullsFirst(row.label), Reverse(row.id)),
                |row| (row.part, NullsFirst(row.label)),
            ),
            4 => visitor.visit(
                call!(table.by(S::BY_LOW)),
                |row| (row.part, Reverse(NullsFirst(row.rank)), Reverse(row.flag), Reverse(row.id)),
                |row| (row.part, Reverse(NullsFirst(row.rank)), Reverse(row.flag)),
            ),
            5 => visitor.visit(
                call!(table.by(S::BY_SERIAL)),
                |row| (row.part, row.serial, row.flag, row.distinct()),
                |row| (row.part, row.serial),
            ),
            6 => visitor.visit(
                call!(table.by(S::BY_ONLY)),
                |row| (row.part, Reverse(row.only)),
                |row| row.part,
            ),
            7 => visitor.visit(
                call!(table.by(S::BY_AMOUNT)),
                |row| (row.part, row.amount, Reverse(row.id)),
                |row| (row.part, row.amount),
            ),
            8 => visitor.visit(
                call!(table.by(S::BY_MOST)),
                |row| (row.part, Reverse(row.amount), Reverse(row.id)),
                |row| (row.part, Reverse(row.amount)),
            ),
            9 => visitor.visit(
                call!(table.by(S::BY_FLAG)),
                |row| (row.part, row.flag, Reverse(row.id)),
                |row| (row.part, row.flag),
            ),
            10 => visitor.visit(
                call!(table.by(S::BY_RATIO)),
                |row| (row.part, row.ratio, Reverse(row.id)),
                |row| (row.part, row.ratio),
            ),
            11 => visitor.visit(
                call!(table.by(S::BY_TEXT)),
                |row| (row.part, row.text.clone(), Reverse(row.flag), Reverse(row.id)),
                |row| (row.part, row.text.clone()),
            ),
            _ => visitor.visit(
                call!(table.by(S::BY_NAME)),
                |row| {
                    let own = DistinctNulls(row.name.is_none().then(|| row.key()));
                    (row.part, Reverse(row.name.clone()), row.bytes.clone(), own)
                },
                |row| (row.part, Reverse(row.name.clone())),
            ),
        }
    }

    fn on_field<V: OnField<Self>>(_: usize, visitor: V) -> V::Output {
        // Its null bit shares a byte with those of columns of keys.
        visitor.visit(Sorted::NOTE, |row| row.note, |row, value| row.note = value)
    }

    fn on_group<V: OnGroup<Self>>(group: usize, visitor: V) -> V::Output {
        match group {
            0 => visitor.visit((Sorted::ID, Sorted::FLAG, Sorted::RANK), |row| (row.id, row.flag, row.rank)),
            _ => visitor.visit((Sorted::NOTE, Sorted::SERIAL), |row| (row.note, row.serial)),
        }
    }

    fn on_key_field<V: OnField<Self>>(visitor: V) -> V::Output {
        visitor.visit(Sorted::SERIAL, |row| row.serial, |row, value| row.serial = value)
    }
}

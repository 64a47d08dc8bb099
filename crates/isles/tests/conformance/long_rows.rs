//! Tables with the longest and the shortest keys, and with a tail that is one field.

use isles::{Datum, Row, Table, Value};

use crate::calls::call;
use crate::rows::{Aspect, Atom, OnField, OnGroup, OnIndex, Probe, TestRow, signed, unsigned};

#[derive(Value, Clone, Copy, Debug, PartialEq, PartialOrd)]
#[row(key)]
pub struct Wrapped(pub i64);

/// A primary key of several lengths, many of more than 64 bytes, of eight columns: each type of key
/// columns that no other table has.
#[derive(Row, Clone, Debug)]
#[row(key(part, name, code, tiny, small, middle, big, id), unique_index(by_wrapped(part, wrapped, eight)))]
pub struct Long {
    part: u16,
    name: String,
    code: [u8; 9],
    tiny: i8,
    small: i16,
    middle: i32,
    big: i128,
    id: u128,
    wrapped: Wrapped,
    eight: u64,
    four: [u8; 4],
    amount: i32,
}

impl TestRow for Long {
    const TABLE: &'static str = "long";
    const HASHED: &'static [bool] = &[false; 2];
    const FRONTS: &'static [usize] = &[3, 2];
    const GROUPS: usize = 2;

    fn make(Probe { part, id, salt }: Probe) -> Self {
        let number = id as i32 - 15;
        Long {
            part,
            name: "ab".repeat(id as usize % 3 * 30),
            code: [(id % 2 * 255) as u8; 9],
            tiny: (number % 3) as i8,
            small: (number % 5 * 1_000) as i16,
            middle: number * 100_000,
            big: i128::from(number) << 80,
            id: u128::from(id) << 70 | 1,
            wrapped: Wrapped(i64::from(number) * 3 + i64::from(salt % 4)),
            eight: u64::MAX - u64::from(salt % 2),
            four: salt.to_le_bytes(),
            amount: salt as i32,
        }
    }

    fn take_over(&mut self, aspect: Aspect, other: &Self) {
        match aspect {
            Aspect::Values | Aspect::Tail => (self.four, self.amount) = (other.four, other.amount),
            Aspect::Indexed => (self.wrapped, self.eight) = (other.wrapped, other.eight),
            Aspect::Key => {
                let Long { wrapped, eight, four, amount, .. } = *self;
                *self = Long { wrapped, eight, four, amount, ..other.clone() };
            }
        }
    }

    fn keys(&self) -> Vec<Vec<Atom>> {
        vec![
            vec![
                unsigned(self.part),
                Atom::Bytes(self.name.as_bytes().to_vec()),
                Atom::Bytes(self.code.to_vec()),
                signed(self.tiny),
                signed(self.small),
                signed(self.middle),
                Atom::Signed(self.big),
                Atom::Unsigned(self.id),
            ],
            vec![unsigned(self.part), signed(self.wrapped.0), unsigned(self.eight)],
        ]
    }

    fn datums(&self) -> Vec<Datum> {
        vec![
            Datum::Unsigned(self.part.into()),
            Datum::Text(self.name.clone()),
            Datum::Bytes(self.code.to_vec()),
            Datum::Signed(self.tiny.into()),
            Datum::Signed(self.small.into()),
            Datum::Signed(self.middle.into()),
            Datum::Signed128(self.big),
            Datum::Unsigned128(self.id),
            Datum::Signed(self.wrapped.0),
            Datum::Unsigned(self.eight),
            Datum::Bytes(self.four.to_vec()),
            Datum::Signed(self.amount.into()),
        ]
    }

    fn on_index<V: OnIndex<Self>>(table: Table<Self>, index: usize, visitor: V) -> V::Output {
        match index {
            0 => visitor.visit(table, Row::key, |row| (row.part, row.name.clone(), row.code)),
            _ => visitor.visit(
                call!(table.by(Long::BY_WRAPPED)),
                |row| (row.part, row.wrapped, row.eight),
                |row| (row.part, row.wrapped),
            ),
        }
    }

    fn on_field<V: OnField<Self>>(field: usize, visitor: V) -> V::Output {
        match field {
            0 => visitor.visit(Long::FOUR, |row| row.four, |row, value| row.four = value),
            _ => visitor.visit(Long::AMOUNT, |row| row.amount, |row, value| row.amount = value),
        }
    }

    fn on_group<V: OnGroup<Self>>(group: usize, visitor: V) -> V::Output {
        match group {
            0 => visitor.visit((Long::BIG, Long::ID, Long::AMOUNT), |row| (row.big, row.id, row.amount)),
            _ => visitor.visit(Long::WRAPPED, |row| row.wrapped),
        }
    }

    fn on_key_field<V: OnField<Self>>(visitor: V) -> V::Output {
        visitor.visit(Long::TINY, |row| row.tiny, |row, value| row.tiny = value)
    }
}

/// A key of 24 bits, and a tail without a directory.
#[derive(Row, Clone, Debug)]
#[row(key(part, id), index(by_length(part, length)))]
pub struct Tailed {
    part: u16,
    id: u8,
    length: u16,
    #[row(tail)]
    notes: Vec<u8>,
}

impl TestRow for Tailed {
    const TABLE: &'static str = "tailed";
    const HASHED: &'static [bool] = &[false; 2];
    const FRONTS: &'static [usize] = &[1, 2];
    const GROUPS: usize = 1;

    fn make(Probe { part, id, salt }: Probe) -> Self {
        let bytes = if salt % 16 == 7 { 9_000 } else { salt as usize % 50 };
        Tailed { part, id: id as u8, length: (salt % 4) as u16, notes: vec![salt as u8; bytes] }
    }

    fn take_over(&mut self, aspect: Aspect, other: &Self) {
        match aspect {
            Aspect::Values | Aspect::Tail => self.notes.clone_from(&other.notes),
            Aspect::Indexed => self.length = other.length,
            Aspect::Key => (self.part, self.id) = (other.part, other.id),
        }
    }

    fn keys(&self) -> Vec<Vec<Atom>> {
        let (part, id) = (unsigned(self.part), unsigned(self.id));
        vec![vec![part.clone(), id.clone()], vec![part, unsigned(self.length), id]]
    }

    fn datums(&self) -> Vec<Datum> {
        vec![
            Datum::Unsigned(self.part.into()),
            Datum::Unsigned(self.id.into()),
            Datum::Unsigned(self.length.into()),
            Datum::Bytes(self.notes.clone()),
        ]
    }

    fn on_index<V: OnIndex<Self>>(table: Table<Self>, index: usize, visitor: V) -> V::Output {
        match index {
            0 => visitor.visit(table, |row| (row.part, row.id), |row| row.part),
            _ => visitor.visit(
                call!(table.by(Tailed::BY_LENGTH)),
                |row| (row.part, row.length, row.id),
                |row| (row.part, row.length),
            ),
        }
    }

    fn on_field<V: OnField<Self>>(_: usize, _: V) -> V::Output {
        unreachable!("no field outside of keys has a fixed length")
    }

    fn on_group<V: OnGroup<Self>>(_: usize, visitor: V) -> V::Output {
        visitor.visit((Tailed::LENGTH, Tailed::ID), |row| (row.length, row.id))
    }

    fn on_key_field<V: OnField<Self>>(visitor: V) -> V::Output {
        visitor.visit(Tailed::LENGTH, |row| row.length, |row, value| row.length = value)
    }
}

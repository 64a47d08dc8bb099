//! The tables of the suite: among them every type of column, every type that a key can have, and
//! every kind of index.
//!
//! Every key begins with the part, so that the same tables fit a deployment. A row follows from a
//! [`Probe`].

use std::cmp::Reverse;
use std::fmt::Debug;

use isles::{Assign, Datum, Lookup, Prefix, Row, Select, Table, Text, Value};
use serde::{Deserialize, Serialize};

use crate::calls::call;

/// Name of a row: the part and the number determine its primary key, the salt all other columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    pub part: u16,
    pub id: u32,
    pub salt: u32,
}

/// A column of a key for comparisons in the model, which does not use the library's own form of
/// keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// A null that comes first.
    First,
    Unsigned(u128),
    Signed(i128),
    Bytes(Vec<u8>),
    Descending(Reverse<Box<Atom>>),
    /// A null that comes last.
    Null,
}

/// Columns of a row that change together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aspect {
    /// Columns of fixed length that belong to no key.
    Values,
    /// Columns of variable length.
    Tail,
    /// Columns of secondary indexes.
    Indexed,
    /// The primary key.
    Key,
}

/// A row type of the suite.
pub trait TestRow: Row + Clone + Debug + Send + 'static {
    /// The table's name.
    const TABLE: &'static str;
    /// By index: true if it is a hash index, on engines with hash indexes.
    const HASHED: &'static [bool];
    /// By index: number of columns in the front that [`OnIndex::visit`] gets.
    const FRONTS: &'static [usize];
    /// Number of groups of fields that can be read together.
    const GROUPS: usize;

    fn make(probe: Probe) -> Self;
    /// Copies an aspect of another row.
    fn take_over(&mut self, aspect: Aspect, other: &Self);
    /// Its keys, by index.
    fn keys(&self) -> Vec<Vec<Atom>>;
    /// The row as values.
    fn datums(&self) -> Vec<Datum>;
    fn on_index<V: OnIndex<Self>>(table: Table<Self>, index: usize, visitor: V) -> V::Output;
    fn on_field<V: OnField<Self>>(field: usize, visitor: V) -> V::Output;
    fn on_group<V: OnGroup<Self>>(group: usize, visitor: V) -> V::Output;
    /// Visits a column of the primary key, which must not be written as a field.
    fn on_key_field<V: OnField<Self>>(visitor: V) -> V::Output;
}

/// Code over one of the indexes of a table.
pub trait OnIndex<R: TestRow> {
    type Output;
    fn visit<L: Lookup<Row = R>, P: Prefix<L::Key>>(
        self,
        index: L,
        key: fn(&R) -> L::Key,
        front: fn(&R) -> P,
    ) -> Self::Output;
}

/// Code over one of the fields of a table.
pub trait OnField<R: TestRow> {
    type Output;
    fn visit<F: Assign<R, Value: Debug + Clone>>(
        self,
        field: F,
        get: fn(&R) -> F::Value,
        set: fn(&mut R, F::Value),
    ) -> Self::Output;
}

/// Code over fields that are read together.
pub trait OnGroup<R: TestRow> {
    type Output;
    fn visit<F: Select<R, Value: Debug>>(self, fields: F, get: fn(&R) -> F::Value) -> Self::Output;
}

/// Dispatches by number to a list of fields.
macro_rules! fields {
    ($row:ident, $visitor:ident, $number:ident: $($constant:ident $field:ident),+) => {{
        let mut _place = 0;
        $(
            if $number == _place {
                return $visitor.visit($row::$constant, |row| row.$field.clone(), |row, value| row.$field = value);
            }
            _place += 1;
        )+
        unreachable!("field {} of {}", $number, stringify!($row))
    }};
}

pub fn unsigned(value: impl Into<u128>) -> Atom {
    Atom::Unsigned(value.into())
}

pub fn signed(value: impl Into<i128>) -> Atom {
    Atom::Signed(value.into())
}

fn text<const N: usize>(text: String) -> Text<N> {
    text.try_into().expect("it fits")
}

#[derive(Value, Clone, Copy, Debug, PartialEq, Eq)]
#[row(key)]
#[repr(i16)]
pub enum Color {
    Red = -300,
    Green = 7,
    Blue,
}

impl Color {
    fn of(number: u32) -> Color {
        [Color::Red, Color::Green, Color::Blue][number as usize % 3]
    }
}

#[derive(Value, Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    pub left: u8,
    pub right: i32,
}

#[derive(Value, Clone, Copy, Debug, PartialEq)]
pub struct Money(pub i64);

/// Every type of column.
#[derive(Row, Clone, Debug)]
#[row(key(part, id), index(by_color(part, color)), unique_index(by_label(part, label)))]
pub struct Wide {
    name: String,
    part: u16,
    id: u32,
    color: Color,
    label: Text<12>,
    u1: u8,
    u2: u16,
    u4: u32,
    u8: u64,
    u16: u128,
    i1: i8,
    i2: i16,
    i4: i32,
    i8: i64,
    i16: i128,
    f4: f32,
    f8: f64,
    truth: bool,
    words: Text<20>,
    bytes: [u8; 5],
    list: [i16; 3],
    pair: Pair,
    money: Money,
    blob: Vec<u8>,
    no_byte: Option<u8>,
    no_long: Option<i64>,
    no_float: Option<f64>,
    no_truth: Option<bool>,
    no_words: Option<Text<8>>,
    no_list: Option<[u16; 2]>,
    no_pair: Option<Pair>,
    no_money: Option<Money>,
    no_color: Option<Color>,
    no_name: Option<String>,
    no_blob: Option<Vec<u8>>,
}

/// Length of a long value, sometimes more than a page.
fn many(salt: u32) -> usize {
    match salt % 16 {
        7 => 20_000,
        3 => 700,
        other => other as usize,
    }
}

impl TestRow for Wide {
    const TABLE: &'static str = "wide";
    const HASHED: &'static [bool] = &[false; 3];
    const FRONTS: &'static [usize] = &[1, 2, 1];
    const GROUPS: usize = 5;

    fn make(Probe { part, id, salt }: Probe) -> Self {
        let is = |modulus: u32| salt % modulus == 1;
        let (long, sign) = (u64::from(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15), if is(2) { -1 } else { 1 });
        Wide {
            name: format!("row {id} ").repeat(many(salt) / 8),
            part,
            id,
            color: Color::of(salt),
            label: text(format!("l{}", id * 2 + salt % 3)),
            u1: salt as u8,
            u2: long as u16,
            u4: long as u32,
            u8: long,
            u16: u128::from(long) << 64 | 5,
            i1: long as i8,
            i2: long as i16,
            i4: long as i32,
            i8: long as i64,
            i16: i128::from(long as i64) << 60,
            f4: salt as f32 / 3.0,
            f8: [f64::from(salt) / 7.0, f64::NAN, -0.0, f64::INFINITY][salt as usize % 4],
            truth: is(2),
            words: text("é".repeat(salt as usize % 11)),
            bytes: [salt as u8; 5],
            list: [i16::MIN, sign * salt as i16, i16::MAX],
            pair: Pair { left: salt as u8, right: i32::from(sign) * salt as i32 },
            money: Money(i64::from(sign) * i64::from(salt)),
            blob: vec![salt as u8; many(salt / 2)],
            no_byte: is(2).then_some(salt as u8),
            no_long: is(3).then_some(i64::from(sign)),
            no_float: is(4).then_some(0.25),
            no_truth: is(5).then_some(is(2)),
            no_words: is(2).then(|| text(format!("w{}", salt % 100))),
            no_list: is(3).then_some([salt as u16, 7]),
            no_pair: is(4).then_some(Pair { left: 1, right: -1 }),
            no_money: is(5).then_some(Money(5)),
            no_color: is(2).then_some(Color::of(salt + 1)),
            no_name: is(3).then(|| "n".repeat(many(salt))),
            no_blob: is(4).then(|| vec![1; many(salt)]),
        }
    }

    fn take_over(&mut self, aspect: Aspect, other: &Self) {
        let Wide { name, part, id, color, label, blob, no_name, no_blob, .. } = self.clone();
        let from = other.clone();
        match aspect {
            Aspect::Values => *self = Wide { name, part, id, color, label, blob, no_name, no_blob, ..from },
            Aspect::Tail => {
                (self.name, self.blob, self.no_name, self.no_blob) =
                    (from.name, from.blob, from.no_name, from.no_blob);
            }
            Aspect::Indexed => (self.color, self.label) = (from.color, from.label),
            Aspect::Key => (self.part, self.id) = (from.part, from.id),
        }
    }

    fn keys(&self) -> Vec<Vec<Atom>> {
        let part = unsigned(self.part);
        vec![
            vec![part.clone(), unsigned(self.id)],
            vec![part.clone(), signed(self.color as i16), unsigned(self.id)],
            vec![part, Atom::Bytes(self.label.as_bytes().to_vec())],
        ]
    }

    fn datums(&self) -> Vec<Datum> {
        let pair = |pair: &Pair| {
            Datum::List(vec![Datum::Unsigned(pair.left.into()), Datum::Signed(pair.right.into())])
        };
        let words = |words: &str| Datum::Text(words.to_owned());
        let or_null = |value: Option<Datum>| value.unwrap_or(Datum::Null);
        let color = |color: Color| Datum::Signed((color as i16).into());
        let list = self.list.iter().map(|number| Datum::Signed((*number).into())).collect();
        vec![
            words(&self.name),
            Datum::Unsigned(self.part.into()),
            Datum::Unsigned(self.id.into()),
            color(self.color),
            words(self.label.as_str()),
            Datum::Unsigned(self.u1.into()),
            Datum::Unsigned(self.u2.into()),
            Datum::Unsigned(self.u4.into()),
            Datum::Unsigned(self.u8),
            Datum::Unsigned128(self.u16),
            Datum::Signed(self.i1.into()),
            Datum::Signed(self.i2.into()),
            Datum::Signed(self.i4.into()),
            Datum::Signed(self.i8),
            Datum::Signed128(self.i16),
            Datum::Float(self.f4.into()),
            Datum::Float(self.f8),
            Datum::Bool(self.truth),
            words(self.words.as_str()),
            Datum::Bytes(self.bytes.to_vec()),
            Datum::List(list),
            pair(&self.pair),
            Datum::Signed(self.money.0),
            Datum::Bytes(self.blob.clone()),
            or_null(self.no_byte.map(|value| Datum::Unsigned(value.into()))),
            or_null(self.no_long.map(Datum::Signed)),
            or_null(self.no_float.map(Datum::Float)),
            or_null(self.no_truth.map(Datum::Bool)),
            or_null(self.no_words.map(|value| words(value.as_str()))),
            or_null(
                self.no_list
                    .map(|[a, b]| Datum::List(vec![Datum::Unsigned(a.into()), Datum::Unsigned(b.into())])),
            ),
            or_null(self.no_pair.as_ref().map(pair)),
            or_null(self.no_money.map(|value| Datum::Signed(value.0))),
            or_null(self.no_color.map(color)),
            or_null(self.no_name.clone().map(Datum::Text)),
            or_null(self.no_blob.clone().map(Datum::Bytes)),
        ]
    }

    fn on_index<V: OnIndex<Self>>(table: Table<Self>, index: usize, visitor: V) -> V::Output {
        match index {
            0 => visitor.visit(table, |row| (row.part, row.id), |row| row.part),
            1 => visitor.visit(
                call!(table.by(Wide::BY_COLOR)),
                |row| (row.part, row.color, row.id),
                |row| (row.part, row.color),
            ),
            _ => visitor.visit(call!(table.by(Wide::BY_LABEL)), |row| (row.part, row.label), |row| row.part),
        }
    }

    fn on_field<V: OnField<Self>>(field: usize, visitor: V) -> V::Output {
        fields!(Wide, visitor, field: U1 u1, U2 u2, U4 u4, U8 u8, U16 u16, I1 i1, I2 i2, I4 i4, I8 i8, I16 i16,
            F4 f4, F8 f8, TRUTH truth, WORDS words, BYTES bytes, LIST list, PAIR pair, MONEY money,
            NO_BYTE no_byte, NO_LONG no_long, NO_FLOAT no_float, NO_TRUTH no_truth, NO_WORDS no_words,
            NO_LIST no_list, NO_PAIR no_pair, NO_MONEY no_money)
    }

    fn on_group<V: OnGroup<Self>>(group: usize, visitor: V) -> V::Output {
        match group {
            0 => visitor.visit((Wide::U1, Wide::NO_COLOR), |row| (row.u1, row.no_color)),
            1 => visitor.visit((Wide::LABEL,), |row| (row.label,)),
            2 => visitor
                .visit((Wide::I16, Wide::F8, Wide::LIST, Wide::NO_PAIR, Wide::NO_LONG, Wide::COLOR), |row| {
                    (row.i16, row.f8, row.list, row.no_pair, row.no_long, row.color)
                }),
            3 => visitor.visit(Wide::PAIR.then(Pair::RIGHT), |row| row.pair.right),
            _ => visitor.visit((Wide::LIST.at(1), Wide::ID), |row| (row.list[1], row.id)),
        }
    }

    fn on_key_field<V: OnField<Self>>(visitor: V) -> V::Output {
        visitor.visit(Wide::LABEL, |row| row.label, |row, value| row.label = value)
    }
}

/// A row without columns of variable length: the library has separate code to read and insert such
/// rows.
#[derive(Row, Clone, Debug)]
#[row(key(part, id), index(by_group(part, group)), unique_index(by_code(part, code)))]
pub struct Plain {
    part: u16,
    id: i64,
    group: i16,
    code: u32,
    balance: i64,
    note: Text<10>,
    rating: Option<i8>,
}

impl TestRow for Plain {
    const TABLE: &'static str = "plain";
    const HASHED: &'static [bool] = &[false; 3];
    const FRONTS: &'static [usize] = &[1, 2, 1];
    const GROUPS: usize = 3;

    fn make(Probe { part, id, salt }: Probe) -> Self {
        Plain {
            part,
            id: i64::from(id) - 20,
            group: (salt % 4) as i16 - 2,
            code: id * 2 + salt % 3,
            balance: i64::from(salt) * 10 - 500,
            note: text(format!("n{salt}")),
            rating: (salt % 2 == 0).then_some(salt as i8),
        }
    }

    fn take_over(&mut self, aspect: Aspect, other: &Self) {
        let from = other.clone();
        match aspect {
            Aspect::Values | Aspect::Tail => {
                (self.balance, self.note, self.rating) = (from.balance, from.note, from.rating);
            }
            Aspect::Indexed => (self.group, self.code) = (from.group, from.code),
            Aspect::Key => (self.part, self.id) = (from.part, from.id),
        }
    }

    fn keys(&self) -> Vec<Vec<Atom>> {
        let (part, id) = (unsigned(self.part), signed(self.id));
        vec![
            vec![part.clone(), id.clone()],
            vec![part.clone(), signed(self.group), id],
            vec![part, unsigned(self.code)],
        ]
    }

    fn datums(&self) -> Vec<Datum> {
        vec![
            Datum::Unsigned(self.part.into()),
            Datum::Signed(self.id),
            Datum::Signed(self.group.into()),
            Datum::Unsigned(self.code.into()),
            Datum::Signed(self.balance),
            Datum::Text(self.note.as_str().to_owned()),
            self.rating.map_or(Datum::Null, |rating| Datum::Signed(rating.into())),
        ]
    }

    fn on_index<V: OnIndex<Self>>(table: Table<Self>, index: usize, visitor: V) -> V::Output {
        match index {
            0 => visitor.visit(table, |row| (row.part, row.id), |row| row.part),
            1 => visitor.visit(
                call!(table.by(Plain::BY_GROUP)),
                |row| (row.part, row.group, row.id),
                |row| (row.part, row.group),
            ),
            _ => visitor.visit(call!(table.by(Plain::BY_CODE)), |row| (row.part, row.code), |row| row.part),
        }
    }

    fn on_field<V: OnField<Self>>(field: usize, visitor: V) -> V::Output {
        fields!(Plain, visitor, field: BALANCE balance, NOTE note, RATING rating)
    }

    fn on_group<V: OnGroup<Self>>(group: usize, visitor: V) -> V::Output {
        match group {
            0 => visitor.visit(Plain::BALANCE, |row| row.balance),
            1 => visitor.visit((Plain::GROUP, Plain::RATING), |row| (row.group, row.rating)),
            _ => visitor.visit((Plain::PART, Plain::ID, Plain::CODE, Plain::NOTE), |row| {
                (row.part, row.id, row.code, row.note)
            }),
        }
    }

    fn on_key_field<V: OnField<Self>>(visitor: V) -> V::Output {
        visitor.visit(Plain::GROUP, |row| row.group, |row, value| row.group = value)
    }
}

/// Hash indexes: the primary key, a unique index, and one that is not unique; and an ordered index
/// beside them.
#[derive(Row, Clone, Debug)]
#[row(
    key(part, id),
    unique_index(by_token(part, token)),
    index(by_mark(part, mark)),
    index(by_kind(part, kind))
)]
pub struct Hashed {
    part: u16,
    id: u32,
    token: u32,
    mark: u8,
    kind: i8,
    pieces: u64,
    remark: Option<String>,
}

impl TestRow for Hashed {
    const TABLE: &'static str = "hashed";
    const HASHED: &'static [bool] = &[true, true, true, false];
    const FRONTS: &'static [usize] = &[1, 1, 2, 2];
    const GROUPS: usize = 2;

    fn make(Probe { part, id, salt }: Probe) -> Self {
        let remark = (salt % 3 == 0).then(|| "r".repeat(salt as usize % 9));
        let (token, mark, kind) = (id * 2 + salt % 3, (salt % 3) as u8, (salt % 5) as i8 - 2);
        Hashed { part, id, token, mark, kind, pieces: u64::from(salt), remark }
    }

    fn take_over(&mut self, aspect: Aspect, other: &Self) {
        let from = other.clone();
        match aspect {
            Aspect::Values => self.pieces = from.pieces,
            Aspect::Tail => self.remark = from.remark,
            Aspect::Indexed => (self.token, self.mark, self.kind) = (from.token, from.mark, from.kind),
            Aspect::Key => (self.part, self.id) = (from.part, from.id),
        }
    }

    fn keys(&self) -> Vec<Vec<Atom>> {
        let (part, id) = (unsigned(self.part), unsigned(self.id));
        vec![
            vec![part.clone(), id.clone()],
            vec![part.clone(), unsigned(self.token)],
            vec![part.clone(), unsigned(self.mark), id.clone()],
            vec![part, signed(self.kind), id],
        ]
    }

    fn datums(&self) -> Vec<Datum> {
        vec![
            Datum::Unsigned(self.part.into()),
            Datum::Unsigned(self.id.into()),
            Datum::Unsigned(self.token.into()),
            Datum::Unsigned(self.mark.into()),
            Datum::Signed(self.kind.into()),
            Datum::Unsigned(self.pieces),
            self.remark.clone().map_or(Datum::Null, Datum::Text),
        ]
    }

    fn on_index<V: OnIndex<Self>>(table: Table<Self>, index: usize, visitor: V) -> V::Output {
        match index {
            0 => visitor.visit(table, |row| (row.part, row.id), |row| row.part),
            1 => {
                visitor.visit(call!(table.by(Hashed::BY_TOKEN)), |row| (row.part, row.token), |row| row.part)
            }
            2 => visitor.visit(
                call!(table.by(Hashed::BY_MARK)),
                |row| (row.part, row.mark, row.id),
                |row| (row.part, row.mark),
            ),
            _ => visitor.visit(
                call!(table.by(Hashed::BY_KIND)),
                |row| (row.part, row.kind, row.id),
                |row| (row.part, row.kind),
            ),
        }
    }

    fn on_field<V: OnField<Self>>(field: usize, visitor: V) -> V::Output {
        fields!(Hashed, visitor, field: PIECES pieces)
    }

    fn on_group<V: OnGroup<Self>>(group: usize, visitor: V) -> V::Output {
        match group {
            0 => visitor.visit((Hashed::TOKEN, Hashed::KIND), |row| (row.token, row.kind)),
            _ => visitor.visit(Hashed::PIECES, |row| row.pieces),
        }
    }

    fn on_key_field<V: OnField<Self>>(visitor: V) -> V::Output {
        visitor.visit(Hashed::TOKEN, |row| row.token, |row, value| row.token = value)
    }
}

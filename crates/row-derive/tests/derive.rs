//! Tests of derived implementations: layout, round trips, keys, constants.
#![allow(missing_docs)]

use proptest::prelude::*;
use schema::row::align_up;
use schema::{Column, KeyBuffer, Row, Text, Value, ValueType};

#[derive(Value, Clone, Copy, Debug, PartialEq)]
pub struct OrderEntry {
    pub carrier: u8,
    pub entered: u64,
    pub lines: u16,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(w_id, d_id, o_id), index(by_customer(w_id, d_id, c_id)), unique_index(by_token(token)))]
pub struct Order {
    pub w_id: u16,
    pub d_id: u8,
    pub o_id: u32,
    pub c_id: u16,
    pub entry: OrderEntry,
    pub token: u64,
    #[row(tail)]
    pub note: Vec<u8>,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Plain {
    id: u32,
    r#type: bool,
    grades: [i16; 3],
    name: Text<5>,
    entries: [OrderEntry; 2],
}

/// A crate that re-exports the schema under another name.
mod facade {
    pub mod inner {
        pub use schema::*;
    }
    #[derive(schema::Value, Clone, Debug, PartialEq)]
    #[row(crate = crate::facade::inner)]
    pub struct Group {
        pub bytes: u8,
    }
    #[derive(schema::Row, Clone, Debug, PartialEq)]
    #[row(crate = crate::facade::inner, key(id))]
    pub struct Renamed {
        pub id: u8,
        pub bytes: Group,
    }
}

fn order() -> Order {
    let entry = OrderEntry { carrier: 3, entered: 0x0102_0304_0506_0708, lines: 11 };
    Order { w_id: 1, d_id: 2, o_id: 3, c_id: 4, entry, token: 99, note: b"fragile".to_vec() }
}

#[test]
fn fields_are_placed_in_order_at_their_alignment() {
    assert_eq!((OrderEntry::BYTES, OrderEntry::ALIGN), (24, 8));
    assert_eq!(Order::W_ID.offset(), 0);
    assert_eq!(Order::D_ID.offset(), 2);
    assert_eq!(Order::O_ID.offset(), 4);
    assert_eq!(Order::C_ID.offset(), 8);
    assert_eq!(Order::ENTRY.offset(), 16);
    assert_eq!(Order::ENTRY.then(OrderEntry::ENTERED).offset(), 24);
    assert_eq!(Order::TOKEN.offset(), 40);
    assert_eq!(<Order as Row>::BYTES, 48);
    let offsets: Vec<_> = <Plain as Row>::COLUMNS.iter().map(|column| column.offset).collect();
    assert_eq!(offsets, [0, 4, 6, 12, 24]);
    assert_eq!(<Plain as Row>::BYTES, 24 + 2 * 24);
    assert_eq!(Plain::ENTRIES.at(1).then(OrderEntry::LINES).offset(), 24 + 24 + 16);
    assert_eq!(align_up(17, 8), 24);
}

#[test]
fn columns_are_described() {
    let [id, kind, grades, name, _] = <Plain as Row>::COLUMNS else { panic!("five columns") };
    let Column { name: text, offset, bytes, kind: of_id, nullable } = *id;
    assert_eq!((text, offset, bytes, of_id(), nullable), ("id", 0, 4, ValueType::Unsigned(4), false));
    assert_eq!((kind.name, (kind.kind)()), ("type", ValueType::Bool));
    assert_eq!((grades.bytes, (grades.kind)().to_string()), (6, "[i16; 3]".to_owned()));
    assert_eq!((name.bytes, (name.kind)()), (5, ValueType::Text(5)));
    let ValueType::Group(inner) = OrderEntry::value_type() else { panic!("a group") };
    let names: Vec<_> = inner.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["carrier", "entered", "lines"]);
    assert_eq!(<Order as Row>::COLUMNS.len(), 6, "the tail is not a column of the fixed part");
    assert_eq!((<Order as Row>::NAME, <Order as Row>::HAS_TAIL), ("Order", true));
    assert_eq!((<Plain as Row>::NAME, <Plain as Row>::HAS_TAIL), ("Plain", false));
}

#[test]
fn indexes_are_completed_with_the_primary_key() {
    let [primary, by_customer, by_token] = <Order as Row>::INDEXES else { panic!("three indexes") };
    assert_eq!((primary.name, primary.unique, primary.key_bits), ("primary", true, 56));
    assert_eq!(primary.columns, ["w_id", "d_id", "o_id"]);
    assert_eq!((by_customer.name, by_customer.unique, by_customer.key_bits), ("by_customer", false, 72));
    assert_eq!(by_customer.columns, ["w_id", "d_id", "c_id", "o_id"]);
    assert_eq!((by_token.name, by_token.unique, by_token.key_bits), ("by_token", true, 64));
    assert_eq!(by_token.columns, ["token"]);
    assert_eq!((Order::KEY.number(), Order::BY_CUSTOMER.number(), Order::BY_TOKEN.number()), (0, 1, 2));
}

#[derive(Row)]
#[row(key(key))]
struct Setting {
    key: u32,
    value: u64,
}

#[test]
fn a_field_may_be_called_key() {
    let setting = Setting { key: 7, value: 8 };
    assert_eq!((Setting::KEY.offset(), Setting::VALUE.offset()), (0, 8));
    assert_eq!((Setting::PRIMARY_KEY.number(), setting.key(), setting.value), (0, 7, 8));
}

#[test]
fn a_row_has_one_key_for_each_index() {
    let order = order();
    assert_eq!(order.key(), (1u16, 2u8, 3u32));
    let key = |index| {
        let mut buffer = KeyBuffer::new();
        order.index_key(index, &mut buffer);
        buffer
    };
    assert_eq!(key(0), KeyBuffer::of(&(1u16, 2u8, 3u32)));
    assert_eq!(key(1), KeyBuffer::of(&(1u16, 2u8, 4u16, 3u32)));
    assert_eq!(key(2), KeyBuffer::of(&99u64));
}

#[test]
fn equal_rows_have_equal_bytes() {
    let order = order();
    let (mut clean, mut dirty) = ([0; 48], [0xff; 48]);
    order.store(&mut clean);
    order.store(&mut dirty);
    assert_eq!(clean, dirty);
    assert_eq!(clean[..12], [1, 0, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
}

#[test]
fn constants_do_not_hide_items_of_the_traits() {
    use facade::{Group, Renamed};
    assert_eq!((<Group as Value>::BYTES, Group::BYTES.offset()), (1, 0));
    assert_eq!((<Renamed as Row>::BYTES, Renamed::BYTES.offset()), (8, 1));
    let row = Renamed { id: 7, bytes: Group { bytes: 9 } };
    let mut bytes = [1; 8];
    row.store(&mut bytes);
    assert_eq!(bytes, [7, 9, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Renamed::fetch(&bytes, &[]), row);
}

proptest! {
    #[test]
    fn rows_round_trip(id: u32, kind: bool, grades: [i16; 3], name in "[a-z]{0,5}", carrier: u8, entered: u64) {
        let entry = OrderEntry { carrier, entered, lines: 1 };
        let row = Plain { id, r#type: kind, grades, name: Text::truncated(&name), entries: [entry, entry] };
        let mut bytes = [0xaa; <Plain as Row>::BYTES];
        row.store(&mut bytes);
        prop_assert_eq!(&Plain::fetch(&bytes, &row.tail()), &row);
        let place = Plain::ENTRIES.at(1).then(OrderEntry::ENTERED).offset();
        prop_assert_eq!(u64::fetch(&bytes[place..]), entered);
    }

    #[test]
    fn tails_round_trip(note: Vec<u8>) {
        let row = Order { note: note.clone(), ..order() };
        let mut bytes = [0; 48];
        row.store(&mut bytes);
        prop_assert_eq!(row.tail(), &note[..]);
        prop_assert_eq!(Order::fetch(&bytes, &row.tail()), row);
    }
}

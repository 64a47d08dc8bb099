//! An inventory: items are found by number, by a unique code, by shelf and by stock. An order takes
//! pieces of several items at once, and a report reads a range.
//!
//! Shows unique and secondary indexes, groups of columns, prefixes of keys, changes of keys, and
//! texts of fixed and of variable length.
//!
//! Run with `cargo run --release -p isles --example inventory`.

use std::ops::ControlFlow;

use isles::{Database, Error, Row, Session, Table, Text, Value, prefix, prefixes, text};

/// Size of an item: a group of columns.
#[derive(Value, Clone, Copy, Debug, PartialEq)]
pub struct Dimensions {
    /// Millimetres.
    pub width: u32,
    /// Millimetres.
    pub height: u32,
    /// Grams.
    pub weight: u32,
}

/// A kind of item.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_code(code)), index(by_shelf(hall, shelf), by_stock(stock)))]
pub struct Item {
    /// Number.
    pub id: u32,
    /// Code printed on the item.
    pub code: Text<12>,
    /// Hall in which the item lies.
    pub hall: u8,
    /// Shelf in the hall.
    pub shelf: u16,
    /// Pieces.
    pub stock: i32,
    /// Cents.
    pub price: u64,
    /// Size of one piece.
    pub dimensions: Dimensions,
    /// Text of any length.
    #[row(tail)]
    pub description: Vec<u8>,
}

/// Reasons for which an order failed.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum OrderError {
    /// No item has this code.
    #[error("no item has the code {0}")]
    Unknown(String),
    /// There are not enough pieces.
    #[error("only {stock} pieces of {code} are left")]
    SoldOut {
        /// The item.
        code: String,
        /// Stock of the item.
        stock: i32,
    },
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Opens an inventory of `count` items.
pub fn open(count: u32) -> isles::Result<(Database, Table<Item>)> {
    let mut builder = Database::in_memory().memory_limit(64 << 20);
    let items = builder.table("items");
    let database = builder.open()?;
    let mut session = database.session()?;
    for id in 0..count {
        let item = Item {
            id,
            code: format!("IS-{id:05}").try_into()?,
            hall: (id % 3) as u8,
            shelf: (id % 40) as u16,
            stock: (id * 7 % 50) as i32,
            price: 100 + u64::from(id),
            dimensions: Dimensions { width: 10 + id, height: 20, weight: 5 * id },
            description: format!("thing number {id}, {}", "useful ".repeat((id % 10) as usize)).into_bytes(),
        };
        session.transaction(|t| t.insert(items, &item))?;
    }
    drop(session);
    Ok((database, items))
}

/// Takes pieces of several items, all or none. Returns the total price.
pub fn order(session: &mut Session, items: Table<Item>, wanted: &[(&str, i32)]) -> Result<u64, OrderError> {
    session.try_transaction(|t| {
        let mut price = 0;
        for (code, pieces) in wanted {
            let unknown = || OrderError::Unknown((*code).to_string());
            let key = Text::try_from(*code).map_err(|_| unknown())?;
            // The stock is a column of an index: changing it moves the row there.
            let (stock, each) = t
                .update(items.by(Item::BY_CODE), &key, |item| {
                    item.stock -= pieces;
                    (item.stock, item.price)
                })?
                .ok_or_else(unknown)?;
            if stock < 0 {
                return Err(OrderError::SoldOut { code: (*code).to_string(), stock: stock + pieces });
            }
            price += each * u64::from(pieces.unsigned_abs());
        }
        Ok(price)
    })
}

/// Returns codes and stock of up to `rows` items that have at most `stock` pieces, lowest stock
/// first.
pub fn low_stock(
    session: &mut Session,
    items: Table<Item>,
    stock: i32,
    rows: u64,
) -> isles::Result<Vec<(String, i32)>> {
    session.transaction(|t| {
        let scan = t.scan(items.by(Item::BY_STOCK), prefixes(..=stock)).limit(rows);
        Ok(scan.collect()?.iter().map(|item| (item.code.to_string(), item.stock)).collect())
    })
}

/// Returns the weight on a shelf in grams. Stops at the weight at which the shelf would break.
pub fn load_of_shelf(
    session: &mut Session,
    items: Table<Item>,
    hall: u8,
    shelf: u16,
    most: u64,
) -> isles::Result<u64> {
    session.transaction(|t| {
        let mut grams = 0;
        t.scan(items.by(Item::BY_SHELF), prefix((hall, shelf))).for_each(|item| {
            grams += u64::from(item.dimensions.weight) * u64::from(item.stock.unsigned_abs());
            if grams > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(grams)
    })
}

/// Runs the example.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (database, items) = open(3_000)?;
    let mut session = database.session()?;

    let price = order(&mut session, items, &[("IS-00003", 2), ("IS-00014", 1)]);
    assert_eq!(price, Ok(2 * 103 + 114));
    println!("an order of three pieces costs {} cents", 2 * 103 + 114);
    // The first item exists and the second does not: nothing is taken.
    let refused = order(&mut session, items, &[("IS-00014", 1), ("IS-00003", 100)]);
    assert_eq!(refused, Err(OrderError::SoldOut { code: "IS-00003".into(), stock: 19 }));
    if let Err(error) = refused {
        println!("an order was refused: {error}");
    }

    let low = low_stock(&mut session, items, 1, 5)?;
    assert!(low.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    println!("running out: {low:?}");
    println!("load of hall 1, shelf 4: {} g", load_of_shelf(&mut session, items, 1, 4, u64::MAX)?);

    let weight = Item::DIMENSIONS.then(Dimensions::WEIGHT);
    session.transaction(|t| {
        // One column, without the rest of the row.
        t.set_field(items, &7, weight, &999)?;
        assert_eq!(t.get_field(items, &7, weight)?, Some(999));
        // A whole shelf moves to another hall, in its index too.
        let moved = t.scan(items.by(Item::BY_SHELF), prefix((0, 3))).update(|item| item.hall = 9)?;
        assert_eq!(t.scan(items.by(Item::BY_SHELF), prefix(9)).count()?, moved);
        println!("moved {moved} items to hall 9");
        Ok(())
    })?;

    let taken = text!("IS-00001");
    let twice = session.transaction(|t| t.update(items, &2, |item| item.code = taken));
    assert_eq!(
        twice,
        Err(Error::Duplicate {
            table: "items".into(),
            index: "by_code".into(),
            key: Some("\"IS-00001\"".into())
        })
    );
    println!("a second item with code {taken} was refused");
    Ok(())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}

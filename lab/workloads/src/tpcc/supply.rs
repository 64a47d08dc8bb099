//! What a supplying warehouse does for NewOrder (clause 2.4.2.2): looks items up, and takes their
//! quantities out of its stocks.

use arrayvec::ArrayVec;
use boundary::{Fields, Verbs};
use platform::{Intent, Work};
use schema::{Field, Handle, Routes, Row, Text, Value};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::rows::{Item, ItemBody, Stock, StockLevels, torn};
use super::spec::{DISTRICTS, LINES_MAX};
use super::tables::Tables;
use super::values::is_original;

/// One line for the supplying warehouse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SupplyLine {
    /// Item.
    pub i_id: u32,
    /// Number in the order, from 0.
    pub number: u8,
    /// Quantity.
    pub quantity: u8,
}

/// Lines that one warehouse supplies: all of them, ordered by item, or those that were drawn one
/// after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Supply {
    /// The supplying warehouse.
    pub w_id: u16,
    /// The ordering district: whose S_DIST_xx is read.
    pub d_id: u8,
    /// True if it is another warehouse than the customer's.
    pub remote: bool,
    /// True if I_DATA, S_DATA and S_DIST_xx are in use.
    pub long_attributes: bool,
    /// The lines.
    pub lines: ArrayVec<SupplyLine, LINES_MAX>,
}

/// What the supplying warehouse says of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuppliedLine {
    /// Number in the order, from 0.
    pub number: u8,
    /// Brand, not generic.
    pub brand: bool,
    /// I_PRICE in cents.
    pub price: i32,
    /// OL_AMOUNT in cents.
    pub amount: i32,
    /// S_QUANTITY after the order.
    pub stock: i32,
    /// I_NAME.
    pub name: Text<24>,
    /// S_DIST_xx.
    pub dist_info: Text<24>,
}

/// What [`Supply`] gives back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SupplyOutput {
    /// Number of the line whose item does not exist.
    pub unused: Option<u8>,
    /// The others. Outputs are moved often: they stay small.
    pub lines: Vec<SuppliedLine>,
}

impl Supply {
    pub(super) fn route(&self, tables: &Tables, route: &mut Routes) {
        // All stocks are in one partition, and so are all items.
        let count = if route.is_by_partition() { 1 } else { self.lines.len() };
        let lines = self.lines.get(..count).unwrap_or(&[]);
        for line in lines {
            route.write(tables.stock, &(self.w_id, line.i_id));
        }
        for line in lines {
            route.read(tables.item, &line.i_id);
        }
    }

    /// Looks all items and stocks up and prefetches them before it reads any: the misses overlap.
    pub(super) fn execute<T: Verbs>(
        &self,
        tables: &Tables,
        transaction: &mut T,
    ) -> Result<SupplyOutput, Abort> {
        let mut output = SupplyOutput { unused: None, lines: Vec::with_capacity(self.lines.len()) };
        let keys: ArrayVec<u32, LINES_MAX> = self.lines.iter().map(|line| line.i_id).collect();
        transaction.prefetch_keys(tables.stock.primary(), keys.iter().map(|i_id| (self.w_id, *i_id)));
        let mut items: ArrayVec<_, LINES_MAX> = ArrayVec::new();
        transaction.find_many(tables.item.primary(), &keys, Intent::Read, &mut items)?;
        let mut stock_keys: ArrayVec<(u16, u32), LINES_MAX> = ArrayVec::new();
        for (line, item) in self.lines.iter().zip(&items) {
            // An item that is ordered twice has one row. Lines are ordered by item, or the row may
            // be asked for again.
            if item.is_some() && stock_keys.last().is_none_or(|key| key.1 != line.i_id) {
                stock_keys.push((self.w_id, line.i_id));
            }
        }
        let mut stocks: ArrayVec<_, LINES_MAX> = ArrayVec::new();
        let (stock, ahead) = (tables.stock.primary(), self.long_attributes.then(|| self.dist()));
        transaction.find_prefetched(stock, &stock_keys, Intent::Write, ahead, &mut stocks)?;
        let mut position = 0;
        for (line, item) in self.lines.iter().zip(&items) {
            let Some(item) = *item else {
                output.unused = Some(line.number);
                continue;
            };
            while stock_keys.get(position).is_some_and(|key| key.1 != line.i_id) {
                position += 1;
            }
            let stock = stocks.get(position).copied().flatten().ok_or_else(torn)?;
            output.lines.push(self.supply(transaction, line, item, stock)?);
        }
        Ok(output)
    }

    /// S_DIST_xx of the ordering district.
    #[inline]
    fn dist(&self) -> Field<Stock, Text<24>> {
        Stock::DIST.at(usize::from(self.d_id.clamp(1, DISTRICTS)) - 1)
    }

    /// One line.
    fn supply<T: Verbs>(
        &self,
        transaction: &mut T,
        line: &SupplyLine,
        item: Handle<Item>,
        stock: Handle<Stock>,
    ) -> Result<SuppliedLine, Abort> {
        let (body, mut levels, brand, dist_info);
        if self.long_attributes {
            let (is_of_item, is_of_stock);
            (body, is_of_item) = transaction.get_together(item, PartAndBrand { looks: true })?;
            (levels, is_of_stock) = transaction.get_together(stock, PartAndBrand { looks: is_of_item })?;
            brand = is_of_item && is_of_stock;
            // Every eighth byte is compared; most items are none, so the stock's data are seldom
            // looked at.
            transaction.work(Work::Step, 2 * 50u32.div_ceil(8));
            dist_info = transaction.get(stock, self.dist())?;
        } else {
            (brand, dist_info) = (false, Text::default());
            body = transaction.get(item, Item::BODY)?;
            levels = transaction.get(stock, Stock::LEVELS)?;
        }
        self.take(line, &mut levels);
        transaction.put(stock, Stock::LEVELS, &levels)?;
        // The line's order among the others, and its arithmetic.
        transaction.work(Work::Step, 5 + 8);
        transaction.work(Work::CopyWord, (2 * size_of::<SuppliedLine>() / 8) as u32);
        Ok(SuppliedLine {
            number: line.number,
            brand,
            price: body.price,
            amount: i32::from(line.quantity) * body.price,
            stock: levels.quantity,
            name: body.name,
            dist_info,
        })
    }

    /// Takes a line's quantity out of the stock, which is refilled by 91 when it would fall
    /// below 10.
    fn take(&self, line: &SupplyLine, levels: &mut StockLevels) {
        let quantity = i32::from(line.quantity);
        levels.quantity -= quantity;
        if levels.quantity < 10 {
            levels.quantity += 91;
        }
        levels.ytd = levels.ytd.wrapping_add(u32::from(line.quantity));
        levels.order_count = levels.order_count.wrapping_add(1);
        levels.remote_count = levels.remote_count.wrapping_add(u32::from(self.remote));
    }
}

/// Rows whose data say whether they are originals (clause 2.4.2.2), and what else an order reads of
/// them.
trait Branded: Row {
    /// What an order reads besides.
    type Part: Value;
    const PART: Field<Self, Self::Part>;
    const DATA: Field<Self, Text<50>>;
}

impl Branded for Item {
    type Part = ItemBody;
    const PART: Field<Item, ItemBody> = Item::BODY;
    const DATA: Field<Item, Text<50>> = Item::DATA;
}

// S_DIST_xx, one of ten, is read by itself.
impl Branded for Stock {
    type Part = StockLevels;
    const PART: Field<Stock, StockLevels> = Stock::LEVELS;
    const DATA: Field<Stock, Text<50>> = Stock::DATA;
}

/// What an order reads of an item or a stock, and whether the row is an original, if the order
/// `looks`.
#[derive(Clone, Copy)]
struct PartAndBrand {
    looks: bool,
}

impl<R: Branded> Fields<R> for PartAndBrand {
    type Values = (R::Part, bool);

    #[inline(always)]
    fn extent(self) -> (usize, usize) {
        (R::PART, R::DATA).extent()
    }

    #[inline(always)]
    fn fetch(self, from: &[u8], start: usize) -> (R::Part, bool) {
        let data = &from[R::DATA.offset() - start..][..Text::<50>::BYTES];
        (R::Part::fetch(&from[R::PART.offset() - start..]), self.looks && is_original(data))
    }

    fn get_each<T: Verbs + ?Sized>(
        self,
        transaction: &mut T,
        row: Handle<R>,
    ) -> Result<(R::Part, bool), Abort> {
        let (part, data) = (R::PART, R::DATA).get_each(transaction, row)?;
        Ok((part, self.looks && is_original(&data.padded())))
    }
}

//! The action of NewOrder at a supplying warehouse (clause 2.4.2.2): it compares up the items, and
//! subtracts their quantities from the stocks.

use arrayvec::ArrayVec;
use boundary::{Fields, Verbs};
use platform::{Intent, Work};
use schema::{Field, Handle, Routes, Row, Text, Value};
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::rows::{Item, ItemBody, Stock, StockLevels};
use super::spec::{DISTRICTS, LINES_MAX};
use super::tables::Tables;
use super::values::is_original;
use crate::workload::row_missing;

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

/// Lines that one warehouse supplies: all of them, ordered by item, or consecutive ones in the
/// order in which they were drawn.
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

/// Result of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuppliedLine {
    /// Number in the order, from 0.
    pub number: u8,
    /// True for "brand", false for "generic".
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

/// Result of [`Supply`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SupplyOutput {
    /// Number of the line whose item does not exist.
    pub unused: Option<u8>,
    /// Results of the other lines, on the heap: outputs are moved often, so they are small.
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

    /// Looks up and prefetches all items and stocks before it reads any, so that the misses
    /// overlap.
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
            // An item that is ordered twice has one row. If lines are not ordered by item, the row
            // may be requested again.
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
            let stock = stocks.get(position).copied().flatten().ok_or_else(row_missing)?;
            output.lines.push(self.supply(transaction, line, item, stock)?);
        }
        Ok(output)
    }

    /// S_DIST_xx of the ordering district.
    #[inline]
    fn dist(&self) -> Field<Stock, Text<24>> {
        Stock::DIST.at(usize::from(self.d_id.clamp(1, DISTRICTS)) - 1)
    }

    /// Supplies one line.
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
            (body, is_of_item) = transaction.get_together(item, PartAndOriginality { compares: true })?;
            (levels, is_of_stock) =
                transaction.get_together(stock, PartAndOriginality { compares: is_of_item })?;
            brand = is_of_item && is_of_stock;
            // Every eighth byte is compared; most items are no originals, so the stock's data are
            // seldom compared.
            transaction.work(Work::Step, 2 * 50u32.div_ceil(8));
            dist_info = transaction.get(stock, self.dist())?;
        } else {
            (brand, dist_info) = (false, Text::default());
            body = transaction.get(item, Item::BODY)?;
            levels = transaction.get(stock, Stock::LEVELS)?;
        }
        self.take(line, &mut levels);
        transaction.put(stock, Stock::LEVELS, &levels)?;
        // The work of sorting the lines, and the arithmetic of the line.
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

    /// Subtracts a line's quantity from the stock, which is refilled by 91 when it would fall below
    /// 10.
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

/// Rows whose data may contain "ORIGINAL" (clause 2.4.2.2), and the other column that an order
/// reads of them.
trait Branded: Row {
    /// Type of the other column.
    type Part: Value;
    const PART: Field<Self, Self::Part>;
    const DATA: Field<Self, Text<50>>;
}

impl Branded for Item {
    type Part = ItemBody;
    const PART: Field<Item, ItemBody> = Item::BODY;
    const DATA: Field<Item, Text<50>> = Item::DATA;
}

// S_DIST_xx, one of ten columns, is read separately.
impl Branded for Stock {
    type Part = StockLevels;
    const PART: Field<Stock, StockLevels> = Stock::LEVELS;
    const DATA: Field<Stock, Text<50>> = Stock::DATA;
}

/// Reads the columns of an item or a stock for an order, and compares the data with "ORIGINAL" if
/// `compares`.
#[derive(Clone, Copy)]
struct PartAndOriginality {
    compares: bool,
}

impl<R: Branded> Fields<R> for PartAndOriginality {
    type Values = (R::Part, bool);

    #[inline(always)]
    fn extent(self) -> (usize, usize) {
        (R::PART, R::DATA).extent()
    }

    #[inline(always)]
    fn fetch(self, from: &[u8], start: usize) -> (R::Part, bool) {
        let data = &from[R::DATA.offset() - start..][..Text::<50>::BYTES];
        (R::Part::fetch(&from[R::PART.offset() - start..]), self.compares && is_original(data))
    }

    fn get_each<T: Verbs + ?Sized>(
        self,
        transaction: &mut T,
        row: Handle<R>,
    ) -> Result<(R::Part, bool), Abort> {
        let (part, data) = (R::PART, R::DATA).get_each(transaction, row)?;
        Ok((part, self.compares && is_original(&data.padded())))
    }
}

//! COPY: rows as text, as CSV or in binary form, from and to clients.

mod lines;
mod options;
mod tuples;

pub use options::plain_options;

use std::sync::Arc;

use isles::Datum;
use sqlparser::ast::{CopySource, CopyTarget, Ident, ObjectName, Query, Statement};

use crate::bind::{Binder, OutputColumn, name_of, span_of, table_of};
use crate::context::Context;
use crate::copy::lines::LineEnd;
use crate::copy::options::{Format, Options};
use crate::copy::tuples::Place;
use crate::error::{Result, SqlError, state};
use crate::exec::Row;
use crate::expr::Expr;
use crate::parse::Parsed;
use crate::schema::Table;
use crate::session::{Completion, Outcome, Portal, RowSink, Session};
use crate::text::{from_text, to_text};

/// Most bytes of a row.
const ROW_BYTES_MAX: usize = 1 << 26;
/// Rows that are made together for the client.
const ROWS_TOGETHER: usize = 256;

/// Data of a client that become rows.
pub struct CopyIn {
    table: Arc<Table>,
    columns: Vec<usize>,
    defaults: Vec<Expr>,
    options: Options,
    /// Columns whose values are never null.
    never_null: Vec<bool>,
    /// Columns that are null for the text of null in quotation marks.
    quoted_null: Vec<bool>,
    /// Bytes of a row whose end has not come.
    pending: Vec<u8>,
    line_end: LineEnd,
    place: Place,
    /// True while a line of names is awaited.
    skips_header: bool,
    /// True behind the line `\.`.
    ended: bool,
    rows: u64,
}

/// Rows that become data for a client.
pub struct CopyOut {
    portal: Portal,
    options: Options,
    quoted: Vec<bool>,
    rows: u64,
    begun: bool,
}

/// Receives rows and makes data of them.
struct DataOfRows<'c> {
    options: &'c Options,
    quoted: &'c [bool],
    data: &'c mut Vec<Vec<u8>>,
    before: usize,
}

impl RowSink for DataOfRows<'_> {
    fn row(&mut self, row: &[Datum], columns: &[OutputColumn], _: &Context) -> Result<()> {
        self.data.push(match self.options.format {
            Format::Binary => tuples::row_bytes(row, columns.iter().map(|column| &column.kind)),
            Format::Text | Format::Csv => {
                let texts = row.iter().zip(columns).map(|(value, column)| to_text(value, &column.kind));
                self.options.form.line(texts, self.quoted)
            }
        });
        Ok(())
    }

    fn restart(&mut self) -> bool {
        self.data.truncate(self.before);
        true
    }
}

impl Session {
    /// Runs COPY.
    pub(crate) fn copy(&mut self, statement: &Statement) -> Result<Outcome> {
        let Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
            return Err(SqlError::new(state::INTERNAL, "no COPY"));
        };
        if matches!(target, CopyTarget::File { .. } | CopyTarget::Program { .. }) {
            let message = "COPY to or from a file of the server is not supported";
            return Err(SqlError::new(state::PRIVILEGE, message)
                .hint("psql's \\copy reads and writes files of the client."));
        }
        let options = Options::read(options, legacy_options, !to)?;
        self.begin_engine()?;
        match (source, to) {
            (CopySource::Table { table_name, columns }, false) => self.copy_in(table_name, columns, options),
            (CopySource::Table { table_name, columns }, true) => {
                let names = match &columns[..] {
                    [] => self.copied_columns(table_name)?,
                    columns => columns.iter().map(Ident::to_string).collect::<Vec<_>>().join(", "),
                };
                let query = crate::parse::query(&format!("select {names} from {table_name}"))?;
                self.copy_out(query, options)
            }
            (CopySource::Query(query), true) => self.copy_out((**query).clone(), options),
            (CopySource::Query(_), false) => {
                Err(SqlError::new(state::SYNTAX, "COPY of a query has no input"))
            }
        }
    }

    /// Returns the names of the columns that COPY has without a list: all but generated ones.
    fn copied_columns(&self, name: &ObjectName) -> Result<String> {
        let own = table_of(name)?;
        let Some(table) = self.context.schema.tables.get(&own) else { return Ok("*".to_owned()) };
        let columns = table.columns.iter().filter(|column| column.generated.is_none());
        let names: Vec<_> = columns.map(|column| crate::parse::quoted(&column.name)).collect();
        Ok(names.join(", "))
    }

    fn copy_in(&mut self, name: &ObjectName, columns: &[Ident], options: Options) -> Result<Outcome> {
        if self.is_read_only() {
            return Err(SqlError::new(
                state::READ_ONLY,
                "cannot execute COPY FROM in a read-only transaction",
            ));
        }
        let own = table_of(name)?;
        if self.context.schema.views.contains_key(&own) {
            return Err(SqlError::new("42809", format!("cannot copy to view \"{own}\"")));
        }
        let table = self.context.schema.table(&own).map_err(|error| error.at(span_of(name)))?;
        let table = Arc::clone(table);
        self.check_privileges(&[(own, crate::roles::Privilege::Insert)])?;
        let mut places = Vec::with_capacity(columns.len());
        for column in columns {
            let place = table.column(&name_of(column)).map_err(|error| error.at(column.span))?;
            let column = &table.columns[place].name;
            if places.contains(&place) {
                let message = format!("column \"{column}\" specified more than once");
                return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
            }
            if table.columns[place].generated.is_some() {
                let message = format!("column \"{column}\" is a generated column");
                return Err(
                    SqlError::new("42P10", message).detail("Generated columns cannot be used in COPY.")
                );
            }
            places.push(place);
        }
        if columns.is_empty() {
            places =
                (0..table.columns.len()).filter(|place| table.columns[*place].generated.is_none()).collect();
        }
        let defaults = Binder::new(Arc::clone(&self.context.schema), Vec::new()).defaults(&table)?;
        let names: Vec<_> = places.iter().map(|place| table.columns[*place].name.as_str()).collect();
        let (never_null, quoted_null) =
            (options.force_not_null.flags(&names)?, options.force_null.flags(&names)?);
        let (count, is_binary) = (places.len(), options.format == Format::Binary);
        self.begin_copy(CopyIn {
            columns: places,
            defaults,
            never_null,
            quoted_null,
            pending: Vec::new(),
            line_end: LineEnd::default(),
            place: Place::Head,
            skips_header: options.form.has_header,
            ended: false,
            rows: 0,
            options,
            table,
        });
        Ok(Outcome::CopyIn(count, is_binary))
    }

    fn copy_out(&mut self, query: Query, options: Options) -> Result<Outcome> {
        let statement = Statement::Query(Box::new(query));
        let prepared = Arc::new(self.prepare(Some(Parsed::Statement(Box::new(statement))), &[])?);
        let portal = self.portal(&prepared, Vec::new())?;
        let names: Vec<_> = prepared.columns.iter().map(|column| column.name.as_str()).collect();
        let quoted = options.force_quote.flags(&names)?;
        let (count, is_binary) = (names.len(), options.format == Format::Binary);
        self.begin_copy_out(CopyOut { portal, options, quoted, rows: 0, begun: false });
        Ok(Outcome::CopyOut(count, is_binary))
    }

    /// Appends some data of a COPY to the client; returns its tag at the end.
    pub fn copy_out_data(&mut self, data: &mut Vec<Vec<u8>>) -> Result<Option<String>> {
        let Some(mut copy) = self.take_copy_out() else { return Ok(Some("COPY 0".to_owned())) };
        let is_binary = copy.options.format == Format::Binary;
        let mut header = Vec::new();
        if !std::mem::replace(&mut copy.begun, true) {
            if is_binary {
                header = tuples::data_head();
            } else if copy.options.form.has_header {
                let names = copy.portal.prepared.columns.iter().map(|column| Some(column.name.clone()));
                header = copy.options.form.line(names, &vec![false; copy.quoted.len()]);
            }
        }
        let before = data.len();
        let CopyOut { portal, options, quoted, .. } = &mut copy;
        let mut sink = DataOfRows { options, quoted, data, before };
        let done = self.run(portal, Some(ROWS_TOGETHER), &mut sink)?;
        copy.rows += (data.len() - before) as u64;
        let is_done = done != Completion::Suspended;
        if is_binary && is_done {
            data.push(tuples::data_end());
        }
        match data.get_mut(before) {
            // Clients expect the head of binary data in one message with what follows.
            Some(first) if is_binary => *first = [header, std::mem::take(first)].concat(),
            _ if header.is_empty() => {}
            _ => data.insert(before, header),
        }
        if !is_done {
            self.begin_copy_out(copy);
            return Ok(None);
        }
        Ok(Some(format!("COPY {}", copy.rows)))
    }

    /// Receives data.
    pub fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let Some(mut copy) = self.take_copy() else { return Ok(()) };
        if !copy.ended {
            copy.pending.extend(data);
        }
        self.copy_rows(&mut copy, false)?;
        if copy.pending.len() > ROW_BYTES_MAX {
            return Err(SqlError::new(state::LIMIT, "a row of COPY is too long"));
        }
        self.begin_copy(copy);
        Ok(())
    }

    /// Ends the data; returns the tag.
    pub fn copy_done(&mut self) -> Result<String> {
        let Some(mut copy) = self.take_copy() else { return Ok("COPY 0".to_owned()) };
        self.copy_rows(&mut copy, true)?;
        Ok(format!("COPY {}", copy.rows))
    }

    /// Inserts the rows that are complete.
    fn copy_rows(&mut self, copy: &mut CopyIn, is_last: bool) -> Result<()> {
        let rows = match copy.options.format {
            Format::Binary => copy.binary_rows(is_last)?,
            Format::Text | Format::Csv => copy.rows_of_lines(is_last)?,
        };
        let (table, defaults, columns) = (Arc::clone(&copy.table), &copy.defaults, &copy.columns);
        let first = copy.rows;
        copy.rows += rows.len() as u64;
        self.within(|x| {
            for (number, values) in rows.into_iter().enumerate() {
                x.check()?;
                let mut row = Vec::with_capacity(table.width());
                let mut values: Vec<Option<Datum>> = values.into_iter().map(Some).collect();
                for (place, default) in defaults.iter().enumerate() {
                    let given = columns.iter().position(|column| *column == place);
                    row.push(match given.and_then(|given| values[given].take()) {
                        Some(value) => value,
                        None => default.eval(&[], x)?,
                    });
                }
                crate::modify::insert_row(&table, row, x).map_err(|error| {
                    let line = first + number as u64 + 1;
                    let context = format!("COPY {}, line {line}", table.name);
                    if error.detail.is_none() { error.detail(context) } else { error }
                })?;
            }
            Ok(())
        })
    }
}

impl CopyIn {
    /// Takes the rows of the lines that have come.
    fn rows_of_lines(&mut self, is_last: bool) -> Result<Vec<Row>> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut rest = &pending[..];
        let mut rows = Vec::new();
        while !rest.is_empty() && !self.ended {
            let Some(end) = self.options.form.end_of_line(rest, is_last, &mut self.line_end) else { break };
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or(&[]);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if std::mem::take(&mut self.skips_header) {
                continue;
            }
            if line == b"\\." {
                self.ended = true;
                continue;
            }
            rows.push(self.row(line, rows.len())?);
        }
        if !self.ended {
            let taken = pending.len() - rest.len();
            pending.drain(..taken);
            self.pending = pending;
        }
        Ok(rows)
    }

    /// Takes the rows in binary form that have come.
    fn binary_rows(&mut self, is_last: bool) -> Result<Vec<Row>> {
        let mut pending = std::mem::take(&mut self.pending);
        let kind = |place: &usize| {
            let column = &self.table.columns[*place];
            (column.name.as_str(), column.kind.clone())
        };
        let kinds: Vec<_> = self.columns.iter().map(kind).collect();
        let mut rest = &pending[..];
        let mut rows = Vec::new();
        let at = |line: usize| format!("COPY {}, line {}", self.table.name, self.rows as usize + line + 1);
        loop {
            let row = tuples::next_row(&mut rest, &mut self.place, &kinds);
            let row = row.map_err(|error| error.detail(at(rows.len())))?;
            let Some(values) = row else { break };
            let fit = values.into_iter().zip(&kinds).map(|(value, (_, kind))| match value {
                Datum::Null => Ok(Datum::Null),
                value => crate::value::cast(value, &kind.plain(), kind, false),
            });
            rows.push(fit.collect::<Result<Row>>().map_err(|error| error.detail(at(rows.len())))?);
        }
        if is_last && (!rest.is_empty() || self.place == Place::Head) {
            let message = match self.place {
                Place::Head => "COPY file signature not recognized",
                _ => "unexpected EOF in COPY data",
            };
            return Err(SqlError::new(state::BAD_COPY, message));
        }
        let taken = pending.len() - rest.len();
        pending.drain(..taken);
        self.pending = pending;
        Ok(rows)
    }

    /// Returns the values of a line, which is the `number`th of those that came together.
    fn row(&self, line: &[u8], number: usize) -> Result<Row> {
        let place = || format!("COPY {}, line {}", self.table.name, self.rows as usize + number + 1);
        let line = std::str::from_utf8(line).map_err(|_| {
            SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\"").detail(place())
        })?;
        let form = &self.options.form;
        let fields = form.fields(line).map_err(|error| error.detail(place()))?;
        if fields.len() != self.columns.len() {
            let what = if fields.len() < self.columns.len() {
                let missing = &self.table.columns[self.columns[fields.len()]].name;
                format!("missing data for column \"{missing}\"")
            } else {
                "extra data after last expected column".to_owned()
            };
            return Err(SqlError::new(state::BAD_COPY, what).detail(place()));
        }
        let values = fields.into_iter().zip(&self.columns).enumerate().map(|(given, (field, column))| {
            let kind = &self.table.columns[*column].kind;
            let text = match field.text {
                None if self.never_null[given] => Some(form.null.clone()),
                Some(text) if self.quoted_null[given] && field.quoted && text == form.null => None,
                text => text,
            };
            let Some(text) = text else { return Ok(Datum::Null) };
            let value = from_text(&text, kind)
                .and_then(|value| crate::value::cast(value, &kind.plain(), kind, false));
            value.map_err(|error| error.detail(place()))
        });
        values.collect()
    }
}

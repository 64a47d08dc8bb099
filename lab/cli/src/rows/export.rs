//! `isles export`: all rows of a table.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use clap::Args;
use isles::{Datum, TableDescription};

use super::opening::{Format, open, table};
use super::{csv, json, values};
use crate::errors::Failure;
use crate::numbers::thousands;
use crate::readable::Readable;

const EXAMPLES: &str = "Examples:
  isles export data accounts --format csv > accounts.csv
  isles export data accounts --out accounts.jsonl     one JSON object a line

In CSV the first line has the names of columns; an empty field is no value, and an empty text is in quotation marks. Bytes are 0x and
digits, arrays are lists and groups objects of JSON. `isles import` reads back all that is written. If another process has the database open, a
copy of it is exported, which lies in the directory for temporary files (TMPDIR) meanwhile. Exit status: 0 done, 1 failed, 2 bad input.";

/// Rows that are read in one transaction: no other process has the database, or its copy, open.
const ROWS_AT_ONCE: usize = 10_000;

/// Flags of `isles export`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArguments {
    /// Directory of the database
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Name of the table
    #[arg(value_name = "TABLE")]
    pub table: String,
    /// csv or jsonl [default: as the name of the file ends]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// File to make, which must not be there [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub out: Option<String>,
}

/// Writes all rows of a table; what to say of it.
///
/// # Errors
/// The database cannot be opened, or has no such table; the file cannot be written.
pub fn export(arguments: &ExportArguments) -> Result<String, Failure> {
    let path = Path::new(&arguments.path);
    let format = Format::of(arguments.format.as_deref(), arguments.out.as_deref())?;
    let readable = Readable::of(path)?;
    let database = open(readable.path())?;
    let described = table(&database, path, &arguments.table)?;
    let mut session = database.session().map_err(Failure::of)?;
    let read = |after: Option<&[Datum]>| {
        let rows = session.transaction(|t| t.scan_dynamic_after(described.name(), after, ROWS_AT_ONCE));
        rows.map_err(|error| Failure::at(path, &error))
    };
    match &arguments.out {
        None => {
            let output = io::stdout().lock();
            write_all(output, &|error| Failure::Output(error), described, format, read)?;
            Ok(String::new())
        }
        Some(name) => {
            let file = Path::new(name);
            let failed = |error: io::Error| Failure::at(file, &error);
            let made = File::options().write(true).create_new(true).open(file).map_err(failed)?;
            let rows = write_all(&made, &failed, described, format, read)?;
            made.sync_all().map_err(failed)?;
            let exported = format!("{name}: {} rows of {}\n", thousands(rows), described.name());
            Ok(readable.note().to_owned() + &exported)
        }
    }
}

/// Writes what `read` gives, which is called with the primary key of the last row; how many rows
/// there were.
fn write_all(
    to: impl Write,
    failed: &dyn Fn(io::Error) -> Failure,
    table: &TableDescription,
    format: Format,
    mut read: impl FnMut(Option<&[Datum]>) -> Result<Vec<Vec<Datum>>, Failure>,
) -> Result<u64, Failure> {
    let mut to = BufWriter::new(to);
    let (mut count, mut text) = (0, String::new());
    if format == Format::Csv {
        let names = table.columns().iter().map(|column| Some(column.name.clone()));
        write_record(names, &mut text);
    }
    let mut last: Option<Vec<Datum>> = None;
    loop {
        let rows = read(last.as_deref())?;
        count += rows.len() as u64;
        for row in &rows {
            write_row(row, table, format, &mut text);
        }
        to.write_all(text.as_bytes()).map_err(failed)?;
        text.clear();
        match rows.last() {
            Some(row) if rows.len() == ROWS_AT_ONCE => {
                let key = &table.indexes()[0].columns;
                last = Some(key.iter().map(|column| row[*column].clone()).collect());
            }
            _ => break,
        }
    }
    to.flush().map_err(failed)?;
    Ok(count)
}

fn write_row(row: &[Datum], table: &TableDescription, format: Format, to: &mut String) {
    let columns = table.columns();
    match format {
        Format::Csv => {
            let fields = row.iter().zip(columns).map(|(value, column)| match value {
                Datum::Null => None,
                value => Some(values::to_text(value, &column.kind)),
            });
            write_record(fields, to);
        }
        Format::JsonLines => {
            for (number, (value, column)) in row.iter().zip(columns).enumerate() {
                to.push_str(if number > 0 { ", " } else { "{" });
                json::write_text(&column.name, to);
                to.push_str(": ");
                values::write_json(value, &column.kind, to);
            }
            to.push_str("}\n");
        }
    }
}

/// Appends a line of CSV; a field that is `None` is empty.
fn write_record(fields: impl Iterator<Item = Option<String>>, to: &mut String) {
    let from = to.len();
    for (number, field) in fields.enumerate() {
        to.push_str(if number > 0 { "," } else { "" });
        if let Some(text) = field {
            csv::write_field(&text, to);
        }
    }
    // A table of one column: an empty line would be no record.
    debug_assert!(to.len() > from, "a key has a value");
    to.push('\n');
}

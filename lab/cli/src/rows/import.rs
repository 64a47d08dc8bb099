//! `isles import`: rows of a file into a table that is there.
//!
//! The whole file is read and judged before the first row is inserted. All rows go in by one
//! transaction, or, if the user says so, by several, and then every message says which lines are
//! in.

use std::io::Read;
use std::path::Path;

use clap::Args;
use isles::{Datum, Error, Session, TableDescription, Transaction, TransactionOptions};
use schema::RowBytes;

use super::json::Json;
use super::opening::{Format, open, table};
use super::{csv, json, values};
use crate::bad_input::{BadInput, one_line};
use crate::errors::Failure;
use crate::numbers::thousands;

const EXAMPLES: &str = "Examples:
  isles import data accounts accounts.csv
  isles import data accounts rows.jsonl --batch 10000     more rows than a transaction has
  isles import data accounts - --format jsonl < rows      from standard input

The table is there already: a program has declared it. The file has the names of columns in its first line (CSV), or in each object (JSON
lines); columns that are missing are null, or have their default. All rows are read and judged first, and inserted in one
transaction: a fault names its line and column, and nothing was imported. With --batch N every N rows are a transaction, and a
message says which lines are in. The database must not be open. Exit status: 0 done, 1 failed, 2 bad input.";

/// Most rows of one transaction: below the engine's bound.
const ROWS_AT_ONCE: usize = 500_000;

/// Flags of `isles import`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArguments {
    /// Directory of the database
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Name of the table
    #[arg(value_name = "TABLE")]
    pub table: String,
    /// File with rows; - for standard input
    #[arg(value_name = "FILE")]
    pub file: String,
    /// csv or jsonl [default: as the name of the file ends]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Rows of a transaction [default: all, up to 500,000]
    #[arg(long, value_name = "ROWS")]
    pub batch: Option<String>,
    /// Leave out rows whose primary key is in the table already
    #[arg(long)]
    pub skip_existing: bool,
}

/// A row, and the line of the file that it begins in.
struct Line {
    number: usize,
    row: Vec<Datum>,
}

/// Inserts the rows of a file; what to say of it.
///
/// # Errors
/// The database cannot be opened, or has no such table; the file is not what the table has, and the
/// message says where; rows are there already.
pub fn import(arguments: &ImportArguments) -> Result<String, Failure> {
    let ImportArguments { path, table: name, file, .. } = arguments;
    let path = Path::new(path);
    let standard = file == "-";
    let format = Format::of(arguments.format.as_deref(), (!standard).then_some(file))?;
    let batch = batch(arguments.batch.as_deref())?;
    let database = open(path)?;
    let described = table(&database, path, name)?;
    let text = read(file, standard)?;
    let lines = match format {
        Format::Csv => lines_of_csv(&text, described),
        Format::JsonLines => lines_of_json(&text, described),
    };
    let nothing = |what: String| Failure::Failed(format!("{file}: {what}; nothing was imported"));
    let lines = lines.map_err(nothing)?;
    if batch.is_none() && lines.len() > ROWS_AT_ONCE {
        let rows = thousands(lines.len() as u64);
        return Err(nothing(format!("{rows} rows are more than one transaction has: say --batch 10000")));
    }
    let mut session = database.session().map_err(Failure::of)?;
    session.set_options(TransactionOptions::new().without_deadline());
    let mut imported = 0;
    let mut skipped = 0;
    for chunk in lines.chunks(batch.unwrap_or(ROWS_AT_ONCE)) {
        match insert(&mut session, described, chunk, arguments.skip_existing) {
            Ok(present) => {
                imported += chunk.len() - present;
                skipped += present;
            }
            Err(Stopped { what, unsure }) => {
                let so_far = so_far(&lines, imported, skipped, unsure.then_some(chunk));
                return Err(Failure::Failed(format!("{file}: {what}; {so_far}")));
            }
        }
    }
    drop(session);
    database.close().map_err(|error| Failure::at(path, &error))?;
    let left_out = match skipped {
        0 => String::new(),
        skipped => format!(", {} left out that are there already", thousands(skipped as u64)),
    };
    Ok(format!("{name}: {} rows imported{left_out}\n", thousands(imported as u64)))
}

fn batch(flag: Option<&str>) -> Result<Option<usize>, BadInput> {
    let Some(text) = flag else { return Ok(None) };
    match text.parse() {
        Ok(rows) if (1..=ROWS_AT_ONCE).contains(&rows) => Ok(Some(rows)),
        _ => Err(BadInput::value("--batch", text, "no number of rows", format!("1 to {ROWS_AT_ONCE}"))),
    }
}

fn read(name: &str, standard: bool) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::at(Path::new(name), &error);
    let mut bytes = Vec::new();
    match standard {
        true => std::io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?,
        false => {
            std::fs::File::open(name).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(failed)?
        }
    };
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        Failure::Failed(format!("{name}: line {}: no UTF-8; nothing was imported", line + 1))
    })
}

/// Which lines are in, when a transaction has failed. Of some it may not be known.
fn so_far(lines: &[Line], rows: usize, skipped: usize, unsure: Option<&[Line]>) -> String {
    let before = match rows + skipped {
        0 => "nothing was imported".to_owned(),
        done => {
            let (rows, line) = (thousands(rows as u64), lines[done].number);
            format!("imported are the {rows} rows before line {line}, and none of the others")
        }
    };
    match unsure {
        Some([first, .., last]) => {
            let (first, last) = (first.number, last.number);
            format!(
                "{before}, but perhaps those of lines {first} to {last}: look when the database is open again"
            )
        }
        Some([only]) => {
            let line = only.number;
            format!("{before}, but perhaps that of line {line}: look when the database is open again")
        }
        Some([]) | None => before,
    }
}

/// Why a transaction has failed, and whether it may be in all the same.
struct Stopped {
    what: String,
    unsure: bool,
}

/// Inserts rows in one transaction; how many were left out.
fn insert(
    session: &mut Session,
    table: &TableDescription,
    lines: &[Line],
    skips: bool,
) -> Result<usize, Stopped> {
    // `None`: the commit.
    let mut at = None;
    let inserted = session.transaction(|t: &mut Transaction<'_>| {
        let mut skipped = 0;
        for line in lines {
            at = Some(line.number);
            if skips {
                let key: Vec<Datum> =
                    table.indexes()[0].columns.iter().map(|column| line.row[*column].clone()).collect();
                if t.get_dynamic(table.name(), &key)?.is_some() {
                    skipped += 1;
                    continue;
                }
            }
            t.insert_dynamic(table.name(), &line.row)?;
        }
        at = None;
        Ok(skipped)
    });
    inserted.map_err(|error| {
        let unsure = matches!(error, Error::NotDurable(_) | Error::DurabilityUnknown);
        let what = match error {
            Error::Duplicate { index, .. } => {
                let of = table.indexes().iter().find(|own| own.name == index).unwrap_or(&table.indexes()[0]);
                let columns = table.names(&of.columns);
                format!(
                    "column {columns}: a row with this key is in the table, or in the file, already ({index})"
                )
            }
            error => error.to_string(),
        };
        let what = at.map_or(what.clone(), |number: usize| format!("line {number}: {what}"));
        Stopped { what, unsure }
    })
}

/// A row of a table from what a line gives: by column, `None` where it gives nothing.
fn complete(
    table: &TableDescription,
    line: usize,
    given: Vec<Option<Datum>>,
    scratch: &mut RowBytes,
) -> Result<Line, String> {
    let value = |(given, column): (Option<Datum>, &isles::ColumnDescription)| match given {
        Some(value) => Ok(value),
        None if column.is_optional() => Ok(column.absent_value().clone()),
        None => Err(format!("line {line}: column {}: no value, and it has no default", column.name)),
    };
    let row: Vec<Datum> = given.into_iter().zip(table.columns()).map(value).collect::<Result<_, _>>()?;
    // What the database would refuse is refused before the first row goes in.
    table.encode_row(&row, scratch).map_err(|error| format!("line {line}: {error}"))?;
    Ok(Line { number: line, row })
}

/// The number of a column that a file names.
fn column(table: &TableDescription, line: usize, name: &str) -> Result<usize, String> {
    table.column(name).ok_or_else(|| {
        let known: Vec<_> = table.columns().iter().map(|column| &*column.name).collect();
        let (name, known) = (one_line(name), known.join(", "));
        format!("line {line}: column {name}: table {} has none of this name: there are {known}", table.name())
    })
}

fn lines_of_csv(text: &str, table: &TableDescription) -> Result<Vec<Line>, String> {
    let mut records = csv::Reader::new(text)
        .map(|record| record.map_err(|fault| format!("line {}: {}", fault.line, fault.what)));
    let header = records.next().ok_or("line 1: the names of columns are missing")??;
    let mut columns: Vec<usize> = Vec::new();
    for field in &header.fields {
        let number = column(table, header.line, &field.text)?;
        if columns.contains(&number) {
            return Err(format!("line {}: column {} comes twice", header.line, field.text));
        }
        columns.push(number);
    }
    let mut scratch = RowBytes::default();
    let mut line_of = |record: csv::Record| {
        let csv::Record { line, fields } = record;
        if fields.len() != columns.len() {
            let (found, named) = (fields.len(), columns.len());
            return Err(format!("line {line}: {found} fields, and the first line names {named} columns"));
        }
        let mut given = vec![None; table.columns().len()];
        for (number, field) in columns.iter().zip(fields) {
            let described = &table.columns()[*number];
            given[*number] = if field.text.is_empty() && !field.quoted && described.nullable {
                Some(Datum::Null)
            } else {
                let value = values::of_text(&field.text, &described.kind);
                Some(value.map_err(|what| format!("line {line}: column {}: {what}", described.name))?)
            };
        }
        complete(table, line, given, &mut scratch)
    };
    records.map(|record| line_of(record?)).collect()
}

fn lines_of_json(text: &str, table: &TableDescription) -> Result<Vec<Line>, String> {
    let mut scratch = RowBytes::default();
    let mut line_of = |line: usize, text: &str| {
        let parsed = json::parse(text);
        let parsed =
            parsed.map_err(|fault| format!("line {line}: character {}: {}", fault.character, fault.what))?;
        let Json::Object(members) = parsed else { return Err(format!("line {line}: no object")) };
        let mut given = vec![None; table.columns().len()];
        for (name, value) in members {
            let number = column(table, line, &name)?;
            given[number] = Some(match value {
                Json::Null => Datum::Null,
                value => values::of_json(&value, &table.columns()[number].kind)
                    .map_err(|what| format!("line {line}: column {name}: {what}"))?,
            });
        }
        complete(table, line, given, &mut scratch)
    };
    // A mark that some programs write at the beginning of a file.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty());
    lines.map(|(line, text)| line_of(line, text)).collect()
}

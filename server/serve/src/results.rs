//! Rows and errors as messages.

use std::io::Write;

use isles::Datum;
use sql::bind::OutputColumn;
use sql::context::Context;
use sql::session::RowSink;
use sql::types::SqlType;
use sql::{Result, SqlError};
use wire::{ErrorFields, Field, Output};

use crate::stream::Stream;

/// Bytes that are kept before they are sent.
pub const BYTES_KEPT: usize = 1 << 16;

/// Receives rows and sends them as messages.
pub struct Rows<'c> {
    /// Messages that were not sent.
    pub output: &'c mut Output,
    /// The connection.
    pub stream: &'c mut Stream,
    /// True for each column in binary form; one for all, or none for text.
    pub formats: &'c [i16],
    /// The end of what was there before the statement; `None` when something was sent since.
    pub mark: Option<usize>,
}

/// Returns true if a column is in binary form.
pub fn is_binary(formats: &[i16], column: usize) -> bool {
    match formats {
        [] => false,
        [all] => *all == 1,
        each => each.get(column) == Some(&1),
    }
}

impl RowSink for Rows<'_> {
    fn row(&mut self, row: &[Datum], columns: &[OutputColumn], context: &Context) -> Result<()> {
        let formats = self.formats;
        self.output.row(columns.len(), |to| {
            for (place, (value, column)) in row.iter().zip(columns).enumerate() {
                if *value == Datum::Null {
                    to.extend((-1_i32).to_be_bytes());
                    continue;
                }
                let start = to.len();
                to.extend([0; 4]);
                if is_binary(formats, place) {
                    sql::binary::write_binary(value, &column.kind, to);
                } else {
                    write_text(value, &column.kind, context, to);
                }
                let bytes = (to.len() - start - 4) as i32;
                to[start..start + 4].copy_from_slice(&bytes.to_be_bytes());
            }
            Ok::<(), SqlError>(())
        })?;
        if self.output.bytes.len() >= BYTES_KEPT {
            self.mark = None;
            send(self.output, self.stream)?;
        }
        Ok(())
    }

    fn restart(&mut self) -> bool {
        if let Some(mark) = self.mark {
            self.output.bytes.truncate(mark);
        }
        self.mark.is_some()
    }
}

fn write_text(value: &Datum, kind: &SqlType, context: &Context, to: &mut Vec<u8>) {
    use std::fmt::Write as _;
    match (value, kind) {
        (Datum::Signed(number), SqlType::RegClass | SqlType::RegType | SqlType::RegProc) => {
            to.extend(sql::functions::catalog_name(*number, kind, context).as_bytes());
        }
        (Datum::Text(text), _) => to.extend(text.as_bytes()),
        (value, kind) => {
            let mut text = String::new();
            if let Datum::Signed(number) = value {
                // Writing to a text cannot fail.
                _ = write!(text, "{number}");
            } else {
                sql::text::write_text(value, kind, &mut text);
            }
            to.extend(text.as_bytes());
        }
    }
}

/// Sends all messages.
pub fn send(output: &mut Output, stream: &mut Stream) -> Result<()> {
    let sent = stream.write_all(&output.bytes);
    output.bytes.clear();
    if output.bytes.capacity() > 4 * BYTES_KEPT {
        output.bytes.shrink_to(BYTES_KEPT);
    }
    sent.map_err(|error| SqlError::new("08006", format!("could not send data to client: {error}")))
}

/// Appends a description of columns.
pub fn describe(output: &mut Output, columns: &[OutputColumn], formats: &[i16]) {
    output.columns(columns.len(), |to| {
        for (place, column) in columns.iter().enumerate() {
            let kind = &column.kind;
            let field = Field {
                name: &column.name,
                origin: column.origin.unwrap_or((0, 0)),
                kind: (kind.oid(), kind.bytes(), kind.modifier()),
                binary: is_binary(formats, place),
            };
            field.write(to);
        }
    });
}

/// Appends an error; `text` is the statement, for the place in it.
pub fn error(output: &mut Output, error: &SqlError, text: &str, severity: &str) {
    let fields = ErrorFields {
        severity,
        code: error.code,
        message: &error.message,
        detail: error.detail.as_deref(),
        hint: error.hint.as_deref(),
        position: error.position(text),
        table: error.table.as_deref(),
        constraint: error.constraint.as_deref(),
    };
    output.error(&fields, false);
}

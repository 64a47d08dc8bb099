//! Sessions without a connection: statements and their results as texts.

use std::path::Path;
use std::sync::Arc;

use isles::Datum;

use crate::bind::OutputColumn;
use crate::context::Context;
use crate::engine::{Engine, EngineOptions};
use crate::error::Result;
use crate::session::{Block, Completion, RowSink, Session};

mod queries;
mod tables;

/// Keeps rows as texts.
#[derive(Default)]
struct Texts(Vec<String>);

impl RowSink for Texts {
    fn row(&mut self, row: &[Datum], columns: &[OutputColumn], context: &Context) -> Result<()> {
        let text = |(value, column): (&Datum, &OutputColumn)| {
            _ = context;
            crate::text::to_text(value, &column.kind).unwrap_or_else(|| "null".to_owned())
        };
        self.0.push(row.iter().zip(columns).map(text).collect::<Vec<_>>().join("|"));
        Ok(())
    }

    fn restart(&mut self) -> bool {
        self.0.clear();
        true
    }
}

/// Opens an engine.
fn engine(path: Option<&Path>) -> Arc<Engine> {
    let options = EngineOptions { sessions: 20, memory_bytes: None, database_name: "isles".to_owned() };
    Engine::open(path, &options).expect("an engine")
}

/// A client.
struct Client(Session);

impl Client {
    fn new(engine: &Arc<Engine>) -> Client {
        Client(Session::new(engine, "ada", "isles", 7))
    }

    /// Runs the statements of a text as one batch: rows with `|` between their values, tags, and
    /// `! SQLSTATE` for an error.
    fn run(&mut self, text: &str) -> Vec<String> {
        let mut sink = Texts::default();
        let done = self.run_into(text, &mut sink).and_then(|()| self.0.end_batch(false));
        if let Err(error) = done {
            sink.0.push(format!("! {}", error.code));
            self.0.fail();
        }
        self.0.take_notices();
        sink.0
    }

    fn run_into(&mut self, text: &str, sink: &mut Texts) -> Result<()> {
        for statement in crate::parse::statements(text)? {
            let prepared = Arc::new(self.0.prepare(Some(statement), &[])?);
            let mut portal = self.0.portal(&prepared, Vec::new())?;
            let mut own = Texts::default();
            let done = self.0.run(&mut portal, None, &mut own)?;
            sink.0.append(&mut own.0);
            if let Completion::Complete(tag) = done {
                sink.0.push(tag);
            }
        }
        Ok(())
    }

    /// Runs statements that succeed.
    fn must(&mut self, text: &str) {
        let done = self.run(text);
        assert!(!done.iter().any(|line| line.starts_with('!')), "{text}: {done:?}");
    }

    /// Returns the rows of a query, without its tag.
    fn rows(&mut self, text: &str) -> Vec<String> {
        let mut done = self.run(text);
        done.pop();
        done
    }

    fn is_in_block(&self) -> bool {
        self.0.block != Block::None
    }
}

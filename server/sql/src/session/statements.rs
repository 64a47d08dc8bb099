//! Statements that are executed as they are written.

use isles::Datum;
use sqlparser::ast::{
    CloseCursor, Declare, DescribeAlias, FetchDirection, Ident, ObjectName, Statement, Value,
};

use crate::bind::{Binder, OutputColumn, name_of, table_of};
use crate::error::{Result, SqlError, state};
use crate::exec::Row;
use crate::parse::Parsed;
use crate::session::{Block, Portal, Progress, RowSink, Session, Work};
use crate::types::SqlType;

/// The end of a statement.
pub enum Outcome {
    /// Its tag.
    Tag(String),
    /// Rows, and its tag.
    Rows(Vec<Row>, String),
    /// Data are awaited for this number of columns; `true`: in binary form.
    CopyIn(usize, bool),
    /// Data follow for this number of columns; `true`: in binary form.
    CopyOut(usize, bool),
}

/// Keeps rows.
struct Kept(Vec<Row>);

impl RowSink for Kept {
    fn row(&mut self, row: &[Datum], _: &[OutputColumn], _: &crate::context::Context) -> Result<()> {
        self.0.push(row.to_vec());
        Ok(())
    }

    fn restart(&mut self) -> bool {
        self.0.clear();
        true
    }
}

fn text_column(name: &str) -> OutputColumn {
    OutputColumn { name: name.to_owned(), kind: SqlType::Text, origin: None }
}

impl Session {
    /// Returns the columns of a statement's result.
    pub(super) fn utility_columns(&mut self, statement: &Statement) -> Result<Vec<OutputColumn>> {
        Ok(match statement {
            Statement::ShowVariable { variable } => match &shown_name(variable)[..] {
                name if name.eq_ignore_ascii_case("all") => {
                    ["name", "setting", "description"].map(text_column).to_vec()
                }
                "transaction.isolation.level" => vec![text_column("transaction_isolation")],
                "time.zone" => vec![text_column("TimeZone")],
                name => vec![text_column(name)],
            },
            Statement::Explain { .. } => vec![text_column("QUERY PLAN")],
            Statement::Fetch { name, into: None, .. } => {
                self.cursor(&name_of(name))?.prepared.columns.clone()
            }
            Statement::Execute { name: Some(name), .. } => self.named(name)?.columns.clone(),
            _ => Vec::new(),
        })
    }

    fn named(&self, name: &ObjectName) -> Result<std::sync::Arc<super::Prepared>> {
        let name = crate::bind::object_of(name)?.1;
        let missing =
            || SqlError::new(state::NO_STATEMENT, format!("prepared statement \"{name}\" does not exist"));
        self.prepared.get(&name).cloned().ok_or_else(missing)
    }

    fn cursor(&self, name: &str) -> Result<&Portal> {
        let missing = || SqlError::new(state::NO_CURSOR, format!("cursor \"{name}\" does not exist"));
        self.cursors.get(name).ok_or_else(missing)
    }

    /// Runs a statement.
    pub(super) fn utility(&mut self, statement: &Statement, params: &[Datum]) -> Result<Outcome> {
        let tag = |tag: &str| Ok(Outcome::Tag(tag.to_owned()));
        match statement {
            Statement::StartTransaction { modes, begin, .. } => {
                let read_only = self.check_modes(modes)?;
                self.begin_block(read_only);
                tag(if *begin { "BEGIN" } else { "START TRANSACTION" })
            }
            Statement::Commit { chain, .. } => {
                let done = self.commit_block()?;
                if *chain {
                    self.begin_block(None);
                }
                tag(done)
            }
            Statement::Rollback { savepoint: Some(name), .. } => {
                self.roll_back_to(&name_of(name))?;
                tag("ROLLBACK")
            }
            Statement::Rollback { chain, .. } => {
                if self.block == Block::None {
                    self.context.notices.push(("WARNING", "there is no transaction in progress".to_owned()));
                }
                self.roll_back_block();
                if *chain {
                    self.begin_block(None);
                }
                tag("ROLLBACK")
            }
            Statement::Savepoint { name } => {
                self.set_savepoint(name_of(name))?;
                tag("SAVEPOINT")
            }
            Statement::ReleaseSavepoint { name } => {
                self.release_savepoint(&name_of(name))?;
                tag("RELEASE")
            }
            Statement::Set(set) => {
                self.set(set)?;
                tag("SET")
            }
            Statement::Reset(reset) => {
                self.reset(&reset.reset)?;
                tag("RESET")
            }
            Statement::ShowVariable { variable } => self.show(variable),
            Statement::CreateTable(create) if create.query.is_some() => self.create_table_as(create, params),
            statement if crate::ddl::is_change(statement) => Ok(Outcome::Tag(self.change_tables(statement)?)),
            Statement::Vacuum(_) => tag("VACUUM"),
            Statement::Analyze(_) => tag("ANALYZE"),
            Statement::LISTEN { .. } => Err(SqlError::unsupported("LISTEN")),
            Statement::UNLISTEN { .. } => tag("UNLISTEN"),
            Statement::LockTables { .. } | Statement::Lock(_) => tag("LOCK TABLE"),
            other => self.prepared_or_cursor(other, params),
        }
    }

    /// Runs statements about prepared statements, cursors, plans and copies.
    fn prepared_or_cursor(&mut self, statement: &Statement, params: &[Datum]) -> Result<Outcome> {
        let tag = |tag: &str| Ok(Outcome::Tag(tag.to_owned()));
        match statement {
            Statement::Discard { .. } => {
                self.prepared.clear();
                self.cursors.clear();
                tag("DISCARD ALL")
            }
            Statement::Prepare { name, data_types, statement } => {
                let name = name_of(name);
                if self.prepared.contains_key(&name) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(SqlError::new(state::DUPLICATE_STATEMENT, message));
                }
                let types = data_types.iter().map(SqlType::of_ast).collect::<Result<Vec<_>>>()?;
                let prepared = self.prepare(Some(Parsed::Statement(statement.clone())), &types)?;
                self.prepared.insert(name, prepared.into());
                tag("PREPARE")
            }
            Statement::Execute { name: Some(name), parameters, .. } => {
                let prepared = self.named(name)?;
                let mut values = Vec::new();
                for (ast, kind) in parameters.iter().zip(&prepared.params) {
                    let mut binder = Binder::new(std::sync::Arc::clone(&self.context.schema), Vec::new());
                    let value = binder.constant_of(ast, kind)?;
                    values.push(self.within(|x| value.eval(&[], x))?);
                }
                if values.len() != parameters.len() {
                    return Err(SqlError::new(
                        state::SYNTAX,
                        "wrong number of parameters for prepared statement",
                    ));
                }
                let mut portal = self.portal(&prepared, values)?;
                self.rows_of(&mut portal, None)
            }
            Statement::Deallocate { name, .. } => {
                let name = name_of(name);
                if name == "all" {
                    self.prepared.clear();
                } else if self.prepared.remove(&name).is_none() {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    return Err(SqlError::new(state::NO_STATEMENT, message));
                }
                tag("DEALLOCATE")
            }
            Statement::Declare { stmts, .. } => {
                for declare in stmts {
                    self.declare(declare, params)?;
                }
                tag("DECLARE CURSOR")
            }
            Statement::Fetch { name, direction, into, .. } => {
                let fetched = self.fetch(&name_of(name), direction)?;
                Ok(match fetched {
                    // MOVE.
                    Outcome::Rows(rows, _) if into.is_some() => Outcome::Tag(format!("MOVE {}", rows.len())),
                    other => other,
                })
            }
            Statement::Close { cursor } => {
                match cursor {
                    CloseCursor::All => self.cursors.clear(),
                    CloseCursor::Specific { name } => {
                        self.cursor(&name_of(name))?;
                        self.cursors.remove(&name_of(name));
                    }
                }
                tag("CLOSE CURSOR")
            }
            Statement::Explain { describe_alias: DescribeAlias::Explain, analyze, statement, .. } => {
                self.explain(statement, *analyze)
            }
            Statement::Copy { .. } => self.copy(statement),
            other => Err(SqlError::unsupported(format!("the statement {}", first_word(other)))),
        }
    }

    /// Runs a portal and keeps its rows.
    fn rows_of(&mut self, portal: &mut Portal, limit: Option<usize>) -> Result<Outcome> {
        let mut kept = Kept(Vec::new());
        let done = self.run(portal, limit, &mut kept)?;
        match done {
            super::Completion::Complete(tag) => Ok(Outcome::Rows(kept.0, tag)),
            super::Completion::Empty => Ok(Outcome::Tag(String::new())),
            super::Completion::Suspended => {
                let tag = format!("SELECT {}", kept.0.len());
                Ok(Outcome::Rows(kept.0, tag))
            }
            super::Completion::CopyIn(..) | super::Completion::CopyOut(..) => {
                Err(SqlError::unsupported("COPY as a prepared statement"))
            }
        }
    }

    fn declare(&mut self, declare: &Declare, params: &[Datum]) -> Result<()> {
        let ([name], Some(query)) = (&declare.names[..], declare.for_query.as_deref()) else {
            return Err(SqlError::unsupported("this DECLARE"));
        };
        let is_held = declare.hold == Some(true);
        if self.block == Block::None && !is_held {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(state::NO_TRANSACTION, message));
        }
        let name = name_of(name);
        if self.cursors.contains_key(&name) {
            return Err(SqlError::new(state::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        let statement = Statement::Query(Box::new(query.clone()));
        let prepared = self.prepare(Some(Parsed::Statement(Box::new(statement))), &[])?;
        let params = params[..prepared.params.len().min(params.len())].to_vec();
        let mut portal = self.portal(&prepared.into(), params)?;
        if is_held {
            // Its rows are read now, because it outlives the transaction.
            if let Outcome::Rows(rows, tag) = self.rows_of(&mut portal, None)? {
                portal.progress = Progress::Rows(rows.into_iter(), tag);
            }
            portal.is_held = true;
        }
        self.cursors.insert(name, portal);
        Ok(())
    }

    fn fetch(&mut self, name: &str, direction: &FetchDirection) -> Result<Outcome> {
        let count = |value: &Value| match value {
            Value::Number(digits, _) => digits.parse::<usize>().ok(),
            _ => None,
        };
        let limit = match direction {
            FetchDirection::Next | FetchDirection::Forward { limit: None } => Some(1),
            FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
                Some(count(&limit.value).unwrap_or(1))
            }
            FetchDirection::All | FetchDirection::ForwardAll => None,
            _ => return Err(SqlError::unsupported("FETCH in this direction")),
        };
        self.cursor(name)?;
        let Some(mut portal) = self.cursors.remove(name) else { return Ok(Outcome::Tag(String::new())) };
        let fetched = self.rows_of(&mut portal, limit);
        self.cursors.insert(name.to_owned(), portal);
        match fetched? {
            Outcome::Rows(rows, _) => {
                let tag = format!("FETCH {}", rows.len());
                Ok(Outcome::Rows(rows, tag))
            }
            other => Ok(other),
        }
    }

    fn explain(&mut self, statement: &Statement, analyze: bool) -> Result<Outcome> {
        let prepared = self.prepare(Some(Parsed::Statement(Box::new(statement.clone()))), &[])?;
        let mut lines = Vec::new();
        match &prepared.work {
            Work::Query(plan) => plan.describe(0, &mut lines),
            Work::Modify(plan) => {
                let (name, source) = match plan {
                    crate::bind::ModifyPlan::Insert(insert) => ("Insert", &insert.source),
                    crate::bind::ModifyPlan::Update(change, _) => ("Update", &change.source),
                    crate::bind::ModifyPlan::Delete(change) => ("Delete", &change.source),
                };
                lines.push(name.to_owned());
                source.describe(1, &mut lines);
            }
            _ => lines.push("Utility Statement".to_owned()),
        }
        if analyze {
            let began = std::time::Instant::now();
            let mut portal = self.portal(&prepared.into(), Vec::new())?;
            if let Outcome::Rows(rows, _) = self.rows_of(&mut portal, None)? {
                lines.push(format!("Rows: {}", rows.len()));
            }
            lines.push(format!("Execution Time: {:.3} ms", began.elapsed().as_secs_f64() * 1e3));
        }
        let rows = lines.into_iter().map(|line| vec![Datum::Text(line)]).collect();
        Ok(Outcome::Rows(rows, "EXPLAIN".to_owned()))
    }

    fn show(&mut self, variable: &[Ident]) -> Result<Outcome> {
        let name = shown_name(variable);
        if name.eq_ignore_ascii_case("all") {
            let text = |text: &str| Datum::Text(text.to_owned());
            let rows =
                self.context.settings.all().map(|(name, value)| vec![text(name), text(value), text("")]);
            return Ok(Outcome::Rows(rows.collect(), "SHOW".to_owned()));
        }
        Ok(Outcome::Rows(vec![vec![self.shown(&name)?]], "SHOW".to_owned()))
    }

    /// Makes a table of the rows of a query.
    fn create_table_as(&mut self, create: &sqlparser::ast::CreateTable, params: &[Datum]) -> Result<Outcome> {
        let Some(query) = &create.query else { return Ok(Outcome::Tag(String::new())) };
        let statement = Statement::Query(query.clone());
        let prepared = self.prepare(Some(Parsed::Statement(Box::new(statement))), &[])?;
        let mut plain = create.clone();
        plain.query = None;
        plain.columns = prepared
            .columns
            .iter()
            .map(|column| sqlparser::ast::ColumnDef {
                name: Ident::with_quote('"', column.name.as_str()),
                data_type: crate::parse::data_type(&column.kind.name()),
                options: Vec::new(),
            })
            .collect();
        let mut portal = self.portal(&prepared.into(), params.to_vec())?;
        let Outcome::Rows(rows, _) = self.rows_of(&mut portal, None)? else {
            return Ok(Outcome::Tag(String::new()));
        };
        self.change_tables(&Statement::CreateTable(plain))?;
        self.begin_engine()?;
        let table = std::sync::Arc::clone(self.context.schema.table(&table_of(&create.name)?)?);
        let count = rows.len();
        self.within(|x| {
            rows.into_iter().try_for_each(|row| crate::modify::insert_row(&table, row, x).map(drop))
        })?;
        Ok(Outcome::Tag(format!("SELECT {count}")))
    }

    /// Awaits data of a COPY.
    pub(crate) fn begin_copy(&mut self, copy: crate::copy::CopyIn) {
        self.copy = Some(copy);
    }

    /// Takes the COPY whose data come.
    pub(crate) fn take_copy(&mut self) -> Option<crate::copy::CopyIn> {
        self.copy.take()
    }

    /// Notes a COPY whose data go to the client.
    pub(crate) fn begin_copy_out(&mut self, copy: crate::copy::CopyOut) {
        self.copy_out = Some(copy);
    }

    /// Takes the COPY whose data go to the client.
    pub(crate) fn take_copy_out(&mut self) -> Option<crate::copy::CopyOut> {
        self.copy_out.take()
    }

    /// Returns true if the transaction only reads.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Ends an execution early.
    pub fn close(portal: &mut Portal) {
        portal.progress = Progress::Done;
    }
}

fn shown_name(variable: &[Ident]) -> String {
    variable.iter().map(|ident| ident.value.as_str()).collect::<Vec<_>>().join(".")
}

fn first_word(statement: &Statement) -> String {
    statement.to_string().split_whitespace().next().unwrap_or_default().to_owned()
}

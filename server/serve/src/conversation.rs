//! Messages of a client and their answers.

use std::collections::BTreeMap;
use std::io::{BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use isles::Datum;
use sql::context::{REPORTED, Settings};
use sql::session::{Block, Completion, Portal, Prepared};
use sql::types::SqlType;
use sql::{Result, Session, SqlError};
use wire::{ErrorFields, Frontend, MESSAGE_BYTES_MAX, Output, Status, Target};

use crate::limits::{self, Limits};
use crate::registry::{Entry, State};
use crate::results::{self, Rows, is_binary};
use crate::server::Shared;
use crate::stream::Stream;
use crate::timers::Bounded;

/// Most prepared statements and portals of a session.
const NAMED_MAX: usize = 10_000;

/// A portal, the formats of its columns, and the text of its statement.
struct OpenPortal {
    portal: Portal,
    formats: Vec<i16>,
    text: Arc<str>,
}

/// A client and its session.
pub struct Conversation {
    session: Session,
    input: BufReader<Stream>,
    stream: Stream,
    output: Output,
    statements: BTreeMap<String, (Arc<Prepared>, Arc<str>)>,
    portals: BTreeMap<String, OpenPortal>,
    /// True from an error of the extended protocol to the next Sync.
    skips: bool,
    /// True while data of a COPY are awaited, and whether the extended protocol began it.
    copies: Option<bool>,
    /// Settings that the client knows of.
    reported: Settings,
    shared: Arc<Shared>,
    entry: Arc<Entry>,
    limits: Limits,
    is_late: Arc<AtomicBool>,
}

/// An error of the extended protocol, and the text of its statement.
struct Failed {
    error: SqlError,
    text: String,
}

impl Failed {
    /// Returns an error with the text of its statement.
    fn new(error: SqlError, text: &str) -> Box<Failed> {
        Box::new(Failed { error, text: text.to_owned() })
    }
}

/// The end of a conversation, without or with a word.
enum End {
    Gone,
    Fatal(SqlError),
}

impl From<std::io::Error> for End {
    fn from(_: std::io::Error) -> Self {
        End::Gone
    }
}

impl Conversation {
    /// Begins a conversation; `output` has the first answers.
    pub fn new(
        session: Session,
        input: BufReader<Stream>,
        stream: Stream,
        mut output: Output,
        shared: Arc<Shared>,
        entry: Arc<Entry>,
    ) -> Self {
        let limits = Limits::of(&session.context.settings);
        output.ready(Status::Idle);
        let reported = session.context.settings.clone();
        let (statements, portals) = (BTreeMap::new(), BTreeMap::new());
        Conversation {
            session,
            input,
            stream,
            output,
            statements,
            portals,
            skips: false,
            copies: None,
            reported,
            shared,
            entry,
            limits,
            is_late: Arc::default(),
        }
    }

    /// Answers messages until the client or the connection ends.
    pub fn run(mut self) {
        loop {
            let step = self.read().and_then(|message| match message {
                Frontend::Terminate => Err(End::Gone),
                message => self.answer(message),
            });
            match step {
                Ok(()) => {}
                Err(End::Gone) if !self.shared.ends.load(Ordering::Acquire) => {
                    // Answers to what came before the end; the client may be gone.
                    _ = results::send(&mut self.output, &mut self.stream);
                    break;
                }
                Err(end) => {
                    let error = match end {
                        End::Fatal(error) => error,
                        End::Gone => limits::administrator(),
                    };
                    results::error(&mut self.output, &error, "", "FATAL");
                    // The client may be gone.
                    _ = results::send(&mut self.output, &mut self.stream);
                    break;
                }
            }
        }
        self.stream.close();
    }

    /// Says what the connection waits for, and bounds the wait.
    fn await_message(&mut self) -> Result<(), End> {
        let settings = &self.session.context.settings;
        if self.limits.version != settings.version() {
            self.limits = Limits { reads: self.limits.reads, ..Limits::of(settings) };
        }
        let (state, bound) = match self.session.block {
            _ if self.copies.is_some() => (State::Busy, None),
            Block::None if !self.session.has_transaction() => (State::Idle, self.limits.idle),
            _ => (State::InBlock, self.limits.idle_in_block),
        };
        self.entry.set_state(state);
        if bound != self.limits.reads {
            self.stream.set_read_timeout(bound)?;
            self.limits.reads = bound;
        }
        Ok(())
    }

    /// Reads the next message. Answers are sent before it would wait.
    fn read(&mut self) -> Result<Frontend, End> {
        if self.input.buffer().is_empty() && !self.output.bytes.is_empty() {
            results::send(&mut self.output, &mut self.stream).map_err(|_| End::Gone)?;
        }
        if self.input.buffer().is_empty() {
            self.await_message()?;
        }
        let mut head = [0; 5];
        let read = self.input.read_exact(&mut head);
        read.map_err(|error| self.end_of_wait(&error))?;
        self.entry.set_state(State::Busy);
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(End::Fatal(SqlError::new("08P01", format!("invalid message length {length}"))));
        }
        // Memory comes as data come: a length alone takes none.
        let mut body = Vec::with_capacity((length - 4).min(1 << 16));
        (&mut self.input).take(length as u64 - 4).read_to_end(&mut body)?;
        if body.len() < length - 4 {
            return Err(End::Gone);
        }
        Frontend::decode(head[0], &body)
            .map_err(|error| End::Fatal(SqlError::new("08P01", error.to_string())))
    }

    /// Returns why no message has come.
    fn end_of_wait(&self, error: &std::io::Error) -> End {
        let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        match self.limits.reads {
            Some(_) if is_late => {
                End::Fatal(limits::idle(self.session.has_transaction() || self.session.block != Block::None))
            }
            _ => End::Gone,
        }
    }

    fn answer(&mut self, message: Frontend) -> Result<(), End> {
        self.session.set_busy(true);
        let answered = self.answer_within(message);
        self.session.set_busy(false);
        answered
    }

    fn answer_within(&mut self, message: Frontend) -> Result<(), End> {
        if self.copies.is_some() {
            return self.copy_message(message);
        }
        match message {
            Frontend::Query(text) => {
                self.skips = false;
                self.simple(&text);
            }
            Frontend::Sync => {
                let ended = self.session.end_batch(self.skips);
                self.skips = false;
                if let Err(error) = ended {
                    self.failed(&error, "");
                }
                self.ready();
            }
            Frontend::Flush => results::send(&mut self.output, &mut self.stream).map_err(|_| End::Gone)?,
            // Data of a COPY that has failed.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => {}
            _ if self.skips => {}
            message => {
                if let Err(failed) = self.extended(message) {
                    self.failed(&failed.error, &failed.text);
                    self.skips = true;
                }
            }
        }
        Ok(())
    }

    fn failed(&mut self, error: &SqlError, text: &str) {
        self.entry.errors.fetch_add(1, Ordering::Relaxed);
        let late = limits::late();
        let is_late = error.code == late.code && self.is_late.swap(false, Ordering::Relaxed);
        let error = if is_late { &late } else { error };
        self.notices();
        results::error(&mut self.output, error, text, "ERROR");
        self.session.fail();
    }

    fn notices(&mut self) {
        for (severity, message) in self.session.take_notices() {
            let code = if severity == "WARNING" { "01000" } else { "00000" };
            let fields = ErrorFields { severity, code, message: &message, ..ErrorFields::default() };
            self.output.error(&fields, true);
        }
    }

    fn ready(&mut self) {
        self.notices();
        let settings = &self.session.context.settings;
        if settings.version() != self.reported.version() {
            for name in REPORTED {
                let now = settings.get(name).unwrap_or_default();
                if self.reported.get(name) != Some(now) {
                    self.output.parameter(name, now);
                }
            }
            self.reported.clone_from(settings);
        }
        // Portals end with their transaction.
        if self.session.block == Block::None {
            self.portals.clear();
        }
        let status = match self.session.block {
            Block::None => Status::Idle,
            Block::Open => Status::Block,
            Block::Failed => Status::Failed,
        };
        self.output.ready(status);
    }

    /// Runs a statement within the time that the session allows, and logs it if it took long.
    fn timed<T>(&mut self, text: &str, run: impl FnOnce(&mut Self) -> T) -> T {
        self.entry.statements.fetch_add(1, Ordering::Relaxed);
        self.is_late.store(false, Ordering::Relaxed);
        let Limits { statement, logged, .. } = self.limits;
        let began = logged.map(|_| Instant::now());
        let done = match statement {
            None => run(self),
            Some(time) => {
                let shared = Arc::clone(&self.shared);
                let (process, secret) = (self.session.context.process, self.session.secret);
                let session = Bounded { process, secret, is_late: Arc::clone(&self.is_late) };
                let _bound = shared.timers.bound(time, session);
                run(self)
            }
        };
        if let (Some(began), Some(least)) = (began, logged)
            && began.elapsed() >= least
        {
            let context = &self.session.context;
            let who = format!("[{}] {}@{}", context.process, context.user, context.database_name);
            limits::log_slow(began, &who, text);
        }
        done
    }

    /// Runs the statements of a text; they are one transaction if there is no block.
    fn simple(&mut self, text: &str) {
        self.portals.remove("");
        let done = self.timed(text, |own| own.simple_within(text));
        if let Ok(true) = done {
            // Data follow; the rest of the text is not executed.
            return;
        }
        let done = done.and_then(|_| self.session.end_batch(false));
        if let Err(error) = done {
            self.failed(&error, text);
        }
        self.ready();
    }

    /// Returns true if data of a COPY are awaited.
    fn simple_within(&mut self, text: &str) -> Result<bool> {
        if let Some(prepared) = self.known(text) {
            return self.simple_statement(prepared?);
        }
        let parsed = sql::parse::statements(text)?;
        if parsed.is_empty() {
            self.output.empty_query();
        }
        let count = parsed.len();
        for (number, statement) in parsed.into_iter().enumerate() {
            let prepared = Arc::new(self.session.prepare(Some(statement), &[])?);
            if self.simple_statement(prepared)? {
                if number + 1 < count {
                    return Err(SqlError::unsupported("COPY with statements behind it"));
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the plan of a text with one statement, which is kept by its text.
    fn known(&mut self, text: &str) -> Option<Result<Arc<Prepared>>> {
        // Texts with several statements have to be taken apart; errors come up there, too.
        if text.trim_end().trim_end_matches(';').contains(';') {
            return None;
        }
        Some(self.session.prepare_text(text, &[]))
    }

    fn simple_statement(&mut self, prepared: Arc<Prepared>) -> Result<bool> {
        let mut portal = self.session.portal(&prepared, Vec::new())?;
        if prepared.has_rows {
            results::describe(&mut self.output, &prepared.columns, &[]);
        }
        let mark = Some(self.output.bytes.len());
        let mut rows = Rows { output: &mut self.output, stream: &mut self.stream, formats: &[], mark };
        let done = self.session.run(&mut portal, None, &mut rows)?;
        self.notices();
        self.complete(done, false)
    }

    /// Answers the end of an execution. Returns true if data of a COPY are awaited.
    fn complete(&mut self, done: Completion, is_extended: bool) -> Result<bool> {
        match done {
            Completion::Complete(tag) => self.output.complete(&tag),
            Completion::Empty => self.output.empty_query(),
            Completion::Suspended => self.output.suspended(),
            Completion::CopyIn(columns, binary) => {
                self.output.copy(true, columns, binary);
                results::send(&mut self.output, &mut self.stream)?;
                self.copies = Some(is_extended);
                return Ok(true);
            }
            Completion::CopyOut(columns, binary) => {
                self.output.copy(false, columns, binary);
                let tag = self.copy_out()?;
                self.output.copy_done();
                self.output.complete(&tag);
            }
        }
        Ok(false)
    }

    /// Sends the data of a COPY; returns its tag.
    fn copy_out(&mut self) -> Result<String> {
        let mut data = Vec::new();
        loop {
            let done = self.session.copy_out_data(&mut data)?;
            for data in data.drain(..) {
                self.output.copy_data(&data);
            }
            if self.output.bytes.len() >= results::BYTES_KEPT {
                results::send(&mut self.output, &mut self.stream)?;
            }
            if let Some(tag) = done {
                return Ok(tag);
            }
        }
    }

    /// Answers a message of the extended protocol; an error comes with the text of its statement.
    fn extended(&mut self, message: Frontend) -> std::result::Result<(), Box<Failed>> {
        let plain = |error: SqlError| Failed::new(error, "");
        match message {
            Frontend::Parse { name, query, types } => {
                let prepared = self.parse(&types, &query).map_err(|error| Failed::new(error, &query))?;
                if !name.is_empty() && self.statements.contains_key(&name) {
                    let message = format!("prepared statement \"{name}\" already exists");
                    return Err(plain(SqlError::new("42P05", message)));
                }
                if self.statements.len() >= NAMED_MAX {
                    return Err(plain(SqlError::new("53400", "too many prepared statements")));
                }
                self.statements.insert(name, (prepared, query.into()));
                self.output.parse_complete();
            }
            Frontend::Bind { portal, statement, formats, parameters, results } => {
                let open = self.bind(&statement, &formats, parameters, results).map_err(plain)?;
                if !portal.is_empty() && self.portals.contains_key(&portal) {
                    return Err(plain(SqlError::new("42P03", format!("cursor \"{portal}\" already exists"))));
                }
                if self.portals.len() >= NAMED_MAX {
                    return Err(plain(SqlError::new("53400", "too many portals")));
                }
                self.portals.insert(portal, open);
                self.output.bind_complete();
            }
            Frontend::Describe(target) => self.describe(&target).map_err(plain)?,
            Frontend::Execute(portal, limit) => self.execute(&portal, limit)?,
            Frontend::Close(target) => {
                match target {
                    Target::Statement(name) => _ = self.statements.remove(&name),
                    Target::Portal(name) => _ = self.portals.remove(&name),
                }
                self.output.close_complete();
            }
            Frontend::Password(_) => {
                return Err(plain(SqlError::new("08P01", "unexpected password message")));
            }
            _ => return Err(plain(SqlError::new("08P01", "unexpected message"))),
        }
        Ok(())
    }

    fn parse(&mut self, types: &[u32], query: &str) -> Result<Arc<Prepared>> {
        let kind = |oid: &u32| {
            SqlType::of_oid(*oid).ok_or_else(|| SqlError::new("42704", format!("type {oid} does not exist")))
        };
        let types = types.iter().map(kind).collect::<Result<Vec<_>>>()?;
        let is_known = types.iter().any(|kind| *kind != SqlType::Unknown);
        self.session.prepare_text(query, if is_known { &types } else { &[] })
    }

    fn statement(&self, name: &str) -> Result<&(Arc<Prepared>, Arc<str>)> {
        let missing = || SqlError::new("26000", format!("prepared statement \"{name}\" does not exist"));
        self.statements.get(name).ok_or_else(missing)
    }

    fn bind(
        &mut self,
        statement: &str,
        formats: &[i16],
        parameters: Vec<Option<Vec<u8>>>,
        results: Vec<i16>,
    ) -> Result<OpenPortal> {
        let (prepared, text) = self.statement(statement)?.clone();
        let mut values = Vec::with_capacity(parameters.len());
        for (place, parameter) in parameters.into_iter().enumerate() {
            let kind = prepared.params.get(place).unwrap_or(&SqlType::Text);
            values.push(match parameter {
                None => Datum::Null,
                Some(bytes) if is_binary(formats, place) => sql::binary::from_binary(&bytes, kind)?,
                Some(bytes) => {
                    let text = std::str::from_utf8(&bytes);
                    let text = text
                        .map_err(|_| SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\""))?;
                    match kind {
                        SqlType::RegClass => sql::functions::regclass(text, &self.session.context)?,
                        kind => sql::text::from_text(text, kind)?,
                    }
                }
            });
        }
        let portal = self.session.portal(&prepared, values)?;
        Ok(OpenPortal { portal, formats: results, text })
    }

    fn describe(&mut self, target: &Target) -> Result<()> {
        match target {
            Target::Statement(name) => {
                let (prepared, _) = self.statement(name)?.clone();
                let types: Vec<_> = prepared.params.iter().map(SqlType::oid).collect();
                self.output.parameter_types(&types);
                if prepared.has_rows {
                    results::describe(&mut self.output, &prepared.columns, &[]);
                } else {
                    self.output.no_data();
                }
            }
            Target::Portal(name) => {
                let missing = || SqlError::new("34000", format!("portal \"{name}\" does not exist"));
                let formats;
                let prepared = match self.portals.get(name) {
                    Some(open) => {
                        formats = &open.formats[..];
                        &open.portal.prepared
                    }
                    None => {
                        formats = &[];
                        &self.session.cursor_portal(name).ok_or_else(missing)?.prepared
                    }
                };
                if prepared.has_rows {
                    results::describe(&mut self.output, &prepared.columns, formats);
                } else {
                    self.output.no_data();
                }
            }
        }
        Ok(())
    }

    fn execute(&mut self, name: &str, limit: u32) -> std::result::Result<(), Box<Failed>> {
        let Some(mut open) = self.portals.remove(name) else {
            let error = SqlError::new("34000", format!("portal \"{name}\" does not exist"));
            return Err(Failed::new(error, ""));
        };
        let limit = (limit > 0).then_some(limit as usize);
        let mark = Some(self.output.bytes.len());
        let formats = std::mem::take(&mut open.formats);
        let text = Arc::clone(&open.text);
        let done = self.timed(&text, |own| {
            let mut rows = Rows { output: &mut own.output, stream: &mut own.stream, formats: &formats, mark };
            own.session.run(&mut open.portal, limit, &mut rows)
        });
        open.formats = formats;
        self.portals.insert(name.to_owned(), open);
        let done = done.map_err(|error| Failed::new(error, &text))?;
        self.notices();
        self.complete(done, true).map_err(|error| Failed::new(error, ""))?;
        Ok(())
    }

    /// Answers a message while data of a COPY are awaited.
    fn copy_message(&mut self, message: Frontend) -> Result<(), End> {
        let is_extended = self.copies == Some(true);
        let done = match message {
            Frontend::CopyData(data) => self.session.copy_data(&data).map(|()| None),
            Frontend::CopyDone => self.session.copy_done().map(Some),
            Frontend::CopyFail(reason) => {
                Err(SqlError::new("57014", format!("COPY from stdin failed: {reason}")))
            }
            // Clients may send these at any time.
            Frontend::Flush | Frontend::Sync => Ok(None),
            _ => return Err(End::Fatal(SqlError::new("08P01", "unexpected message during COPY from stdin"))),
        };
        let done = match done {
            Ok(None) => return Ok(()),
            Ok(Some(tag)) => {
                self.output.complete(&tag);
                if is_extended { Ok(()) } else { self.session.end_batch(false) }
            }
            Err(error) => Err(error),
        };
        self.copies = None;
        if let Err(error) = done {
            self.failed(&error, "");
            self.skips = is_extended;
        }
        if !is_extended {
            self.ready();
        }
        Ok(())
    }
}

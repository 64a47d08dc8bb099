//! State of a session that expressions see: its settings, its time, its user.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use isles::{CancelToken, Database, Sequence, SequenceOptions, TimestampTz};

use crate::error::{Result, SqlError, state};
use crate::schema::Schema;
use crate::shared_schema::SharedSchema;

/// Settings and their values in a new session.
const SETTINGS: [(&str, &str); 40] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("check_function_bodies", "on"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("DateStyle", "ISO, MDY"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "serializable"),
    ("default_transaction_read_only", "off"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("IntervalStyle", "postgres"),
    ("is_superuser", "on"),
    ("jit", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lock_timeout", "0"),
    ("log_min_duration_statement", "-1"),
    ("max_identifier_length", "63"),
    ("row_security", "on"),
    ("quote_all_identifiers", "off"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "150008"),
    ("session_authorization", ""),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronize_seqscans", "on"),
    ("synchronous_commit", "on"),
    ("TimeZone", "UTC"),
    ("transaction_isolation", "serializable"),
    ("transaction_read_only", "off"),
    ("xmlbinary", "base64"),
    ("xmloption", "content"),
];
/// Version of PostgreSQL whose protocol and catalog clients find.
pub const SERVER_VERSION: &str = "15.8 (Isles 0.1.0)";
/// Settings that clients are told of when they change.
pub const REPORTED: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];
/// Most settings of a session, with those that clients make up.
const SETTINGS_MAX: usize = 256;

/// State of a session that expressions see.
pub struct Context {
    /// The database of the engine.
    pub database: Database,
    /// The tables, as the statement sees them.
    pub schema: Arc<Schema>,
    /// The tables that all sessions see.
    pub shared: Arc<SharedSchema>,
    /// The version of the shared schema when the statement began.
    pub seen: u64,
    /// The name of the user.
    pub user: String,
    /// The name of the database.
    pub database_name: String,
    /// The number of the session.
    pub process: i32,
    /// The time of the transaction.
    pub now: TimestampTz,
    /// The settings.
    pub settings: Settings,
    /// The last numbers of sequences that this session has got.
    pub last_numbers: BTreeMap<String, i64>,
    /// The sequence of the last number.
    pub last_sequence: Option<String>,
    /// Set by other sessions to cancel a statement.
    pub cancel: CancelToken,
    /// Open sequences.
    pub sequences: BTreeMap<String, Sequence>,
    /// The regular expression that was used last.
    pub pattern: Option<((String, bool), regex_automata::meta::Regex)>,
    /// State of random numbers.
    pub random_state: u64,
    /// Notices for the client: severity and message.
    pub notices: Vec<(&'static str, String)>,
}

/// Settings of a session, by their names in small letters.
#[derive(Clone, Debug)]
pub struct Settings {
    values: BTreeMap<String, (String, String)>,
    /// Values that the server gives to new sessions, beside those above.
    defaults: Arc<Vec<(String, String)>>,
    /// Differs from that of all settings with other values.
    version: u64,
}

/// Returns a number that no settings have had.
fn new_version() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Default for Settings {
    fn default() -> Self {
        let of =
            |(name, value): (&str, &str)| (name.to_ascii_lowercase(), (name.to_owned(), value.to_owned()));
        Settings { values: SETTINGS.map(of).into(), defaults: Arc::default(), version: new_version() }
    }
}

impl Settings {
    /// Returns the settings of a new session, with values of the server. Those that are no values
    /// of a setting are left out: `check` finds them before.
    pub fn with_defaults(defaults: &Arc<Vec<(String, String)>>) -> Settings {
        let mut settings = Settings { defaults: Arc::clone(defaults), ..Settings::default() };
        settings.reset_all();
        settings
    }

    /// Fails if a value is none of a setting.
    pub fn check(name: &str, value: &str) -> Result<()> {
        Settings::default().set(name, value)
    }

    /// Gives all settings the values of a new session.
    pub fn reset_all(&mut self) {
        let defaults = Arc::clone(&self.defaults);
        *self = Settings { defaults: Arc::clone(&defaults), ..Settings::default() };
        for (name, value) in defaults.iter() {
            _ = self.set(name, value);
        }
    }

    /// Returns a number that differs from that of all settings with other values.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns a time that a setting has; `None`: it has none, or no bound.
    pub fn time(&self, name: &str) -> Option<Duration> {
        let millis = milliseconds(self.get(name)?)?;
        u64::try_from(millis).ok().map(Duration::from_millis)
    }

    /// Returns the value of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(&name.to_ascii_lowercase()).map(|(_, value)| value.as_str())
    }

    /// Sets a setting. Names with a point may be made up.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let key = name.to_ascii_lowercase();
        let value = &normal(&key, name, value)?[..];
        self.version = new_version();
        if key == "client_encoding"
            && !matches!(value.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode" | "sql_ascii")
        {
            return Err(SqlError::unsupported(format!("client_encoding {value}")));
        }
        if key == "timezone"
            && !matches!(
                value.to_ascii_uppercase().as_str(),
                "UTC" | "ETC/UTC" | "GMT" | "DEFAULT" | "Z" | "UCT"
            )
        {
            return Err(
                SqlError::unsupported(format!("time zone {value}")).hint("All moments are shown in UTC.")
            );
        }
        if let Some((_, own)) = self.values.get_mut(&key) {
            value.clone_into(own);
            return Ok(());
        }
        if !key.contains('.') || self.values.len() >= SETTINGS_MAX {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(SqlError::new(state::NO_OBJECT, message));
        }
        self.values.insert(key, (name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Gives a setting the value of a new session.
    pub fn reset(&mut self, name: &str) -> Result<()> {
        let own = self.defaults.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).cloned();
        if let Some((name, value)) = own {
            return self.set(&name, &value);
        }
        self.version = new_version();
        let known = SETTINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((name, value)) = known else { return self.set(name, "") };
        self.values.insert(name.to_ascii_lowercase(), ((*name).to_owned(), (*value).to_owned()));
        Ok(())
    }

    /// Returns all settings: names and values.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.values().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Settings that are times, with milliseconds as their unit.
const TIMES: [&str; 5] = [
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "log_min_duration_statement",
    "statement_timeout",
];

/// Returns the milliseconds of a time: a number, which may have a unit.
fn milliseconds(text: &str) -> Option<i64> {
    let text = text.trim().trim_matches('\'').trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit).filter(|millis| (-1..=i32::MAX.into()).contains(millis))
}

/// Returns the form in which the value of a setting is shown.
fn normal(key: &str, name: &str, value: &str) -> Result<String> {
    if !TIMES.contains(&key) {
        return Ok(value.to_owned());
    }
    let least = if key == "log_min_duration_statement" { -1 } else { 0 };
    let invalid = || {
        let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
        SqlError::new(state::INVALID_PARAMETER, message)
    };
    let millis = milliseconds(value).filter(|millis| *millis >= least).ok_or_else(invalid)?;
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];
    let unit = units.iter().find(|(_, unit)| millis % unit == 0);
    Ok(match unit {
        Some((unit, factor)) if millis > 0 => format!("{}{unit}", millis / factor),
        _ => millis.to_string(),
    })
}

impl Context {
    /// Fails if the statement was cancelled.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(SqlError::new(state::CANCELLED, "canceling statement due to user request"));
        }
        Ok(())
    }

    /// Returns the next number of a sequence.
    pub fn next_number(&mut self, name: &str) -> Result<i64> {
        let number = self.sequence(name)?.next_value()?;
        self.last_numbers.insert(name.to_owned(), number);
        self.last_sequence = Some(name.to_owned());
        Ok(number)
    }

    /// Returns a sequence.
    pub fn sequence(&mut self, name: &str) -> Result<&Sequence> {
        let missing = || SqlError::new(state::NO_TABLE, format!("relation \"{name}\" does not exist"));
        let text = self.schema.sequence(name).ok_or_else(missing)?;
        let engine = text.engine_sequence();
        if !self.sequences.contains_key(engine) {
            if self.sequences.len() >= SEQUENCES_MAX {
                self.sequences.clear();
            }
            let sequence = self.database.sequence(engine, sequence_options(&text.body))?;
            self.sequences.insert(engine.to_owned(), sequence);
        }
        self.sequences.get(engine).ok_or_else(missing)
    }
}

/// Reads first number and increment of a sequence.
pub fn sequence_numbers(body: &str) -> (i64, i64) {
    let mut numbers = body.lines().next().unwrap_or_default().split(' ').map(str::parse::<i64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(increment))) => (first, increment),
        _ => (1, 1),
    }
}

fn sequence_options(body: &str) -> SequenceOptions {
    let (first, increment) = sequence_numbers(body);
    SequenceOptions::new().first(first).increment(increment)
}

/// Returns the current time.
pub fn moment() -> TimestampTz {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let since_2000 = now.as_micros() as i64 - 10_957 * 86_400_000_000;
    TimestampTz::from_micros(since_2000).unwrap_or(TimestampTz::MIN)
}

impl Context {
    /// Returns random bits, which are good enough to tell rows apart and for nothing else.
    pub fn bits(&mut self) -> u64 {
        // SplitMix64.
        self.random_state = self.random_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random_state ^ (self.random_state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number from 0 to 1.
    pub fn random(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Numbers of rows that are reserved together.
const ROWS_RESERVED: u32 = 1 << 16;
/// The first number of a row. Tables of earlier versions have smaller ones, from sequences of
/// their own.
const FIRST_ROW: i64 = 1 << 40;
/// The sequence in the engine that numbers the rows of all tables without a primary key.
const ROW_SEQUENCE: &str = "isles rows";
/// Most sequences that a session has open.
const SEQUENCES_MAX: usize = 1024;

impl Context {
    /// Returns the next number of a row of a table without a primary key.
    pub fn next_row(&mut self) -> Result<i64> {
        if let Some(sequence) = self.sequences.get(ROW_SEQUENCE) {
            return Ok(sequence.next_value()?);
        }
        let options = SequenceOptions::new().first(FIRST_ROW).block(ROWS_RESERVED);
        let sequence = self.database.sequence(ROW_SEQUENCE, options)?;
        let number = sequence.next_value()?;
        self.sequences.insert(ROW_SEQUENCE.to_owned(), sequence);
        Ok(number)
    }
}

//! The command line of `isles-serve`, and the file that may stand for it.

use std::ffi::OsString;
use std::io::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Parser;

/// SQL server for PostgreSQL clients.
///
/// Clients connect as to PostgreSQL 15: `psql -h 127.0.0.1 -p 5433 -U isles isles`. All
/// transactions are serializable. docs/server.md says how to run the server, docs/sql.md which
/// parts of SQL there are.
#[derive(Clone, Debug, Parser)]
#[command(name = "isles-serve", version)]
pub struct Arguments {
    /// Directory of the database; without it rows are in memory and lost at the end
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// Address for TCP connections; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5433")]
    pub listen: SocketAddr,
    /// Unix socket for connections, beside TCP
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    /// Accept connections from other machines without a password
    #[arg(long)]
    pub trust: bool,
    /// Ask connections from this machine for passwords, too
    #[arg(long)]
    pub require_password: bool,
    /// File whose first line is the password of the role `isles`
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Certificates for TLS, the server's own first (PEM)
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Refuse connections from other machines without TLS
    #[arg(long)]
    pub require_tls: bool,
    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub connections: usize,
    /// Most bytes of rows in memory, in MiB
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    /// Name of the database
    #[arg(long, value_name = "NAME", default_value = "isles")]
    pub database: String,
    /// Value of a setting in new sessions, such as statement_timeout=30s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Longest time that open transactions have at the end of the server, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub drain: u64,
    /// Address at which /metrics and /health are answered over HTTP
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,
    /// File with the flags above as lines, read again at SIGHUP
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl Arguments {
    /// Reads the command line, and the file that it names; the command line goes before.
    pub fn read(words: Vec<OsString>) -> Result<Arguments, Error> {
        let arguments = Arguments::parse_from(&words);
        let Some(path) = &arguments.config else { return Ok(arguments) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let all = with_file(words, &text, path)?;
        Arguments::try_parse_from(all)
            .map_err(|error| Error::other(format!("{}: {}", path.display(), first_line(&error.to_string()))))
    }

    /// Returns the settings of new sessions: names and values.
    pub fn settings(&self) -> Result<Vec<(String, String)>, Error> {
        let split = |text: &String| -> Result<(String, String), Error> {
            let (name, value) =
                text.split_once('=').ok_or_else(|| Error::other(format!("--set {text}: no NAME=VALUE")))?;
            let (name, value) = (name.trim(), value.trim());
            sql::context::Settings::check(name, value)
                .map_err(|error| Error::other(format!("--set {text}: {}", error.message)))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        self.settings.iter().map(split).collect()
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Puts the flags of a file among the words of the command line, except those that are there.
fn with_file(mut words: Vec<OsString>, text: &str, path: &Path) -> Result<Vec<OsString>, Error> {
    let given: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let has = |flag: &str| given.iter().any(|word| word == flag || word.starts_with(&format!("{flag}=")));
    let has_setting = |name: &str| {
        let own = format!("{name}=");
        given.iter().any(|word| word.strip_prefix("--set=").unwrap_or(word).starts_with(&own))
    };
    let mut in_settings = false;
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| Error::other(format!("{}, line {}: {what}", path.display(), number + 1));
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            in_settings = line == "[settings]";
            if !in_settings {
                return Err(wrong("the only section is [settings]"));
            }
            continue;
        }
        let (name, value) = line.split_once('=').ok_or_else(|| wrong("no name = value"))?;
        let name = name.trim();
        let value =
            value_of(value.trim()).ok_or_else(|| wrong("the value is no text, number, true or false"))?;
        if in_settings {
            if !has_setting(name) {
                words.extend(["--set".into(), format!("{name}={value}").into()]);
            }
            continue;
        }
        if matches!(name, "config" | "set") {
            return Err(wrong("this flag has no place in the file"));
        }
        let flag = format!("--{}", name.replace('_', "-"));
        match value.as_str() {
            _ if has(&flag) => {}
            "true" => words.push(flag.into()),
            "false" => {}
            value => words.extend([flag.into(), value.into()]),
        }
    }
    Ok(words)
}

/// Reads a value of the file, which may have a comment behind it.
fn value_of(text: &str) -> Option<String> {
    let Some(rest) = text.strip_prefix('"') else {
        let plain = text.split('#').next().unwrap_or_default().trim();
        let is_plain =
            !plain.is_empty() && plain.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        return is_plain.then(|| plain.to_owned());
    };
    let (value, behind) = rest.split_once('"')?;
    let is_end = behind.trim().is_empty() || behind.trim().starts_with('#');
    (is_end && !value.contains('\\')).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, words: &[&str]) -> Result<Arguments, Error> {
        let words = std::iter::once("isles-serve").chain(words.iter().copied()).map(OsString::from).collect();
        let all = with_file(words, file, Path::new("isles.toml"))?;
        Arguments::try_parse_from(all).map_err(|error| Error::other(error.to_string()))
    }

    #[test]
    fn the_command_line_goes_before_the_file() {
        let file = "# A server.\nlisten = \"127.0.0.1:7000\" # here\nconnections = 7\ntrust = true\nrequire_tls = false\n\
            [settings]\nstatement_timeout = \"5s\"\nlog_min_duration_statement = 100\n";
        let all = read(file, &[]).expect("it is read");
        assert_eq!((all.listen.port(), all.connections, all.trust, all.require_tls), (7000, 7, true, false));
        let settings = all.settings().expect("settings");
        assert_eq!(settings[0], ("statement_timeout".to_owned(), "5s".to_owned()));
        let all = read(file, &["--connections", "9", "--set", "statement_timeout=1s"]).expect("it is read");
        assert_eq!((all.connections, all.settings.len()), (9, 2));
        assert!(all.settings.contains(&"statement_timeout=1s".to_owned()));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for file in [
            "connections 7",
            "[other]",
            "nothing = 1",
            "connections = \"x",
            "connections = {}",
            "config = \"x\"",
        ] {
            assert!(read(file, &[]).is_err(), "{file}");
        }
        assert!(read("", &["--set", "statement_timeout=often"]).expect("read").settings().is_err());
        assert!(read("", &["--set", "nothing"]).expect("read").settings().is_err());
    }
}

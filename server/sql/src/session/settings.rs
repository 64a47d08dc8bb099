//! SET and SHOW.

use isles::Datum;
use sqlparser::ast::{Expr as Ast, ObjectName, Reset, Set, TransactionAccessMode, TransactionMode, Value};

use crate::error::{Result, SqlError, state};
use crate::session::{Block, Session};

impl Session {
    /// Runs SET.
    pub(super) fn set(&mut self, set: &Set) -> Result<()> {
        match set {
            Set::SingleAssignment { variable, values, .. } => {
                let name = name_of(variable);
                if let [Ast::Identifier(ident)] = &values[..]
                    && ident.value.eq_ignore_ascii_case("default")
                {
                    return self.context.settings.reset(&name);
                }
                let values: Vec<_> = values.iter().map(text_of).collect();
                self.set_checked(&name, &values.join(", "))
            }
            Set::SetTimeZone { value, .. } => self.set_checked("TimeZone", &text_of(value)),
            Set::SetNames { charset_name, .. } => self.set_checked("client_encoding", &charset_name.value),
            Set::SetNamesDefault {} => Ok(()),
            Set::SetTransaction { modes, session, .. } => {
                let read_only = self.check_modes(modes)?;
                if let Some(read_only) = read_only {
                    if *session {
                        let value = if read_only { "on" } else { "off" };
                        self.context.settings.set("default_transaction_read_only", value)?;
                    } else if self.block != Block::None {
                        self.read_only = read_only;
                    }
                }
                Ok(())
            }
            Set::SetRole { .. } | Set::SetSessionAuthorization(_) => Ok(()),
            other => Err(SqlError::unsupported(format!("{other}"))),
        }
    }

    /// Sets a setting, as a client wants it.
    pub fn set_checked(&mut self, name: &str, value: &str) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        // All transactions are serializable: weaker levels get more than they ask for.
        let value = match lower.as_str() {
            "transaction_isolation" | "default_transaction_isolation" => "serializable",
            _ => value,
        };
        if matches!(
            lower.as_str(),
            "server_version" | "server_version_num" | "server_encoding" | "is_superuser"
        ) {
            return Err(SqlError::new("55P02", format!("parameter \"{name}\" cannot be changed")));
        }
        let roles = &self.context.schema.roles;
        if lower == "log_min_duration_statement" && !roles.is_superuser(&self.context.user) {
            return Err(crate::roles::only_superusers(name));
        }
        self.context.settings.set(name, value)
    }

    /// Checks the modes of a transaction; returns whether it only reads, if that is said.
    pub(super) fn check_modes(&self, modes: &[TransactionMode]) -> Result<Option<bool>> {
        let mut read_only = None;
        for mode in modes {
            if let TransactionMode::AccessMode(access) = mode {
                read_only = Some(*access == TransactionAccessMode::ReadOnly);
            }
        }
        Ok(read_only)
    }

    /// Runs RESET.
    pub(super) fn reset(&mut self, what: &Reset) -> Result<()> {
        match what {
            Reset::ALL => {
                let user = self.context.user.clone();
                self.context.settings.reset_all();
                if !self.context.schema.roles.is_superuser(&user) {
                    self.context.settings.set("is_superuser", "off")?;
                }
                self.context.settings.set("session_authorization", &user)
            }
            Reset::ConfigurationParameter(name) => self.context.settings.reset(&name_of(name)),
            _ => Ok(()),
        }
    }

    /// Returns the value of a setting that SHOW names.
    pub(super) fn shown(&self, name: &str) -> Result<Datum> {
        let name = match name.to_ascii_lowercase().as_str() {
            "transaction.isolation.level" | "transaction isolation level" => {
                "transaction_isolation".to_owned()
            }
            "time.zone" | "time zone" | "timezone" => "TimeZone".to_owned(),
            "session.authorization" => "session_authorization".to_owned(),
            other => other.to_owned(),
        };
        let unknown =
            || SqlError::new(state::NO_OBJECT, format!("unrecognized configuration parameter \"{name}\""));
        self.context.settings.get(&name).map(|value| Datum::Text(value.to_owned())).ok_or_else(unknown)
    }
}

fn name_of(name: &ObjectName) -> String {
    name.to_string().replace('"', "")
}

fn text_of(ast: &Ast) -> String {
    match ast {
        Ast::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text.clone(),
            Value::Boolean(truth) => if *truth { "on" } else { "off" }.to_owned(),
            other => other.to_string(),
        },
        Ast::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    }
}

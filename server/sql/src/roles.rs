//! Roles, what they may do, and what is kept of their passwords.
//!
//! A role is a row of the table `isles_sql` (decision 0122), and so are the privileges that a role
//! has on a table. As long as no role was made or changed, the database is open: every user whom
//! the server lets in may do everything.

use std::collections::BTreeMap;

use sqlparser::ast::{ObjectType, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::{Result, SqlError, state};
use crate::parse::is_word;
use crate::schema::SideText;
use crate::session::Session;
use crate::verifier::Verifier;

/// The first role, which may do everything.
pub const FIRST_ROLE: &str = "isles";
/// The name that stands for all roles.
pub const PUBLIC: &str = "public";
/// Kind of the texts that are roles.
pub const ROLE: &str = "role";
/// Kind of the texts that are privileges.
pub const GRANT: &str = "grant";

/// A privilege on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// To read rows.
    Select,
    /// To insert rows.
    Insert,
    /// To change rows.
    Update,
    /// To delete rows.
    Delete,
    /// To delete all rows at once.
    Truncate,
    /// To refer to rows by foreign keys.
    References,
    /// To make triggers.
    Trigger,
}

/// All privileges on a table, with their letters and names in PostgreSQL.
pub const PRIVILEGES: [(Privilege, char, &str); 7] = [
    (Privilege::Insert, 'a', "INSERT"),
    (Privilege::Select, 'r', "SELECT"),
    (Privilege::Update, 'w', "UPDATE"),
    (Privilege::Delete, 'd', "DELETE"),
    (Privilege::Truncate, 'D', "TRUNCATE"),
    (Privilege::References, 'x', "REFERENCES"),
    (Privilege::Trigger, 't', "TRIGGER"),
];

impl Privilege {
    /// Returns the letter.
    pub fn letter(self) -> char {
        PRIVILEGES.iter().find(|(own, ..)| *own == self).map_or('?', |(_, letter, _)| *letter)
    }
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// May do everything.
    pub superuser: bool,
    /// May connect.
    pub login: bool,
    /// May make and change roles that are no superusers.
    pub create_role: bool,
    /// May make databases, of which there is one.
    pub create_db: bool,
    /// Most connections; below 0: any number.
    pub connections: i64,
    /// Moment from which its password is not accepted.
    pub valid_until: Option<String>,
    /// The part of its password that is kept.
    pub verifier: Option<Verifier>,
}

impl Role {
    /// Returns a role that may do nothing.
    pub fn new(name: &str) -> Role {
        Role {
            name: name.to_owned(),
            superuser: false,
            login: false,
            create_role: false,
            create_db: false,
            connections: -1,
            valid_until: None,
            verifier: None,
        }
    }

    /// Returns the first role.
    pub fn first() -> Role {
        Role { superuser: true, login: true, create_role: true, create_db: true, ..Role::new(FIRST_ROLE) }
    }

    /// Returns the number of the role in catalogs.
    pub fn oid(&self) -> u32 {
        if self.name == FIRST_ROLE { crate::catalog::OWNER } else { crate::schema::oid_of(ROLE, &self.name) }
    }

    /// Returns the text that is kept.
    pub fn text(&self) -> SideText {
        let truths = [
            ("superuser", self.superuser),
            ("login", self.login),
            ("createrole", self.create_role),
            ("createdb", self.create_db),
        ];
        let mut lines: Vec<_> =
            truths.iter().filter(|(_, is)| *is).map(|(name, _)| (*name).to_owned()).collect();
        lines.push(format!("connections {}", self.connections));
        lines.extend(self.valid_until.iter().map(|moment| format!("until {moment}")));
        lines.extend(self.verifier.iter().map(|verifier| format!("verifier {verifier}")));
        let (kind, body) = (ROLE.to_owned(), lines.join("\n"));
        // No object has an empty name, so no table that goes takes a role along.
        SideText { id: 0, kind, object: String::new(), part: self.name.clone(), body }
    }

    fn of_text(text: &SideText) -> Role {
        let mut role = Role::new(&text.part);
        for line in text.body.lines() {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("superuser", _) => role.superuser = true,
                ("login", _) => role.login = true,
                ("createrole", _) => role.create_role = true,
                ("createdb", _) => role.create_db = true,
                ("connections", count) => role.connections = count.parse().unwrap_or(0),
                ("until", moment) => role.valid_until = Some(moment.to_owned()),
                ("verifier", verifier) => role.verifier = Verifier::parse(verifier),
                _ => {}
            }
        }
        // The first role cannot lose what makes it the first.
        role.superuser |= role.name == FIRST_ROLE;
        role
    }
}

/// All roles, and what they may do with tables.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// The roles that were made or changed, by their names.
    changed: BTreeMap<String, Role>,
    /// Letters of privileges, by table and role.
    grants: BTreeMap<(String, String), String>,
}

impl Roles {
    /// Reads the roles among the texts of a database.
    pub fn read(texts: &[SideText]) -> Roles {
        let of_kind = |kind: &'static str| texts.iter().filter(move |text| text.kind == kind);
        Roles {
            changed: of_kind(ROLE).map(|text| (text.part.clone(), Role::of_text(text))).collect(),
            grants: of_kind(GRANT)
                .map(|text| ((text.object.clone(), text.part.clone()), text.body.clone()))
                .collect(),
        }
    }

    /// Returns true if every user may do everything.
    pub fn is_open(&self) -> bool {
        self.changed.is_empty()
    }

    /// Returns a role.
    pub fn get(&self, name: &str) -> Option<Role> {
        let first = || (name == FIRST_ROLE).then(Role::first);
        self.changed.get(name).cloned().or_else(first)
    }

    /// Returns all roles.
    pub fn all(&self) -> Vec<Role> {
        let first = (!self.changed.contains_key(FIRST_ROLE)).then(Role::first);
        first.into_iter().chain(self.changed.values().cloned()).collect()
    }

    /// Returns true if a role has a password.
    pub fn has_passwords(&self) -> bool {
        self.changed.values().any(|role| role.verifier.is_some())
    }

    /// Returns true if this user may do everything.
    pub fn is_superuser(&self, user: &str) -> bool {
        self.is_open() || user == FIRST_ROLE || self.changed.get(user).is_some_and(|role| role.superuser)
    }

    /// Returns the privileges on a table: role and letters.
    pub fn grants_on<'r>(&'r self, table: &'r str) -> impl Iterator<Item = (&'r str, &'r str)> {
        let of_table = self.grants.range((table.to_owned(), String::new())..);
        of_table
            .take_while(move |((other, _), _)| other == table)
            .map(|((_, role), letters)| (role.as_str(), letters.as_str()))
    }

    /// Returns the letters of what a role was granted on a table.
    pub fn granted(&self, table: &str, role: &str) -> &str {
        self.grants.get(&(table.to_owned(), role.to_owned())).map_or("", String::as_str)
    }

    /// Returns a table on which a role has privileges.
    pub fn table_of(&self, role: &str) -> Option<&str> {
        self.grants.keys().find(|(_, other)| other == role).map(|(table, _)| table.as_str())
    }

    /// Fails unless a user has a privilege on a table.
    pub fn check(&self, user: &str, table: &str, privilege: Privilege) -> Result<()> {
        if self.may(user, table, privilege) { Ok(()) } else { Err(denied(format!(" for table {table}"))) }
    }

    /// Returns true if a user has a privilege on a table.
    pub fn may(&self, user: &str, table: &str, privilege: Privilege) -> bool {
        let letter = privilege.letter();
        self.is_superuser(user)
            || self.granted(table, PUBLIC).contains(letter)
            || (self.changed.contains_key(user) && self.granted(table, user).contains(letter))
    }
}

fn denied(what: impl std::fmt::Display) -> SqlError {
    SqlError::new(state::PRIVILEGE, format!("permission denied{what}"))
}

impl Session {
    /// Fails unless the user has these privileges.
    pub(crate) fn check_privileges(&self, touched: &[(String, Privilege)]) -> Result<()> {
        let (schema, user) = (&self.context.schema, &self.context.user);
        if schema.roles.is_superuser(user) {
            return Ok(());
        }
        for (table, privilege) in touched {
            if !schema.roles.may(user, table, *privilege) {
                let kind = if schema.views.contains_key(table) { "view" } else { "table" };
                return Err(denied(format!(" for {kind} {table}")));
            }
        }
        Ok(())
    }

    /// Fails unless the user may change tables or roles by this statement.
    pub(crate) fn check_change(&self, statement: &Statement) -> Result<()> {
        let (schema, user) = (&self.context.schema, &self.context.user);
        if schema.roles.is_superuser(user) {
            return Ok(());
        }
        let own = schema.roles.get(user);
        match statement {
            // Everybody may give oneself another password, and nothing else.
            Statement::AlterRole { name, operation } => {
                let role = schema.roles.get(&crate::bind::name_of(name));
                let is_own = crate::bind::name_of(name) == *user && crate::ddl::is_password_alone(operation);
                let manages = own.is_some_and(|own| own.create_role)
                    && !role.is_some_and(|role| role.superuser)
                    && !crate::ddl::makes_superuser(statement);
                if is_own || manages { Ok(()) } else { Err(denied("")) }
            }
            Statement::CreateRole(_) => {
                if crate::ddl::makes_superuser(statement) {
                    return Err(SqlError::new(state::PRIVILEGE, "must be superuser to create superusers"));
                }
                if own.is_some_and(|own| own.create_role) {
                    return Ok(());
                }
                Err(denied(" to create role"))
            }
            Statement::Drop { object_type: ObjectType::Role | ObjectType::User, names, .. }
                if own.as_ref().is_some_and(|own| own.create_role) =>
            {
                for name in names {
                    if schema.roles.is_superuser(&crate::bind::object_of(name)?.1) {
                        return Err(SqlError::new(state::PRIVILEGE, "must be superuser to drop superusers"));
                    }
                }
                Ok(())
            }
            // The privilege is checked for each table, also for those that refer to others.
            Statement::Truncate(_) => Ok(()),
            Statement::CreateTable(_) | Statement::CreateView(_) | Statement::CreateSequence { .. } => {
                Err(denied(" for schema public").hint("Superusers make and change tables."))
            }
            _ => Err(SqlError::new(
                state::PRIVILEGE,
                format!("must be owner: only superusers change tables and roles, and {user} is none"),
            )),
        }
    }
}

/// Brings statements about users to the forms that the parser knows: a user is a role that may
/// connect.
pub fn plain_roles(mut tokens: Vec<TokenWithSpan>, words: &[&str]) -> Vec<TokenWithSpan> {
    let (first, second) = (words.first().copied(), words.get(1).copied());
    if !matches!(first, Some("CREATE" | "ALTER" | "DROP"))
        || !matches!(second, Some("ROLE" | "USER" | "GROUP"))
    {
        return tokens;
    }
    // Passwords are kept as verifiers always.
    tokens.retain(|token| !is_word(token, "encrypted"));
    let is_user = second == Some("USER");
    for name in ["user", "group"] {
        if let Some(token) = tokens.iter_mut().find(|token| is_word(token, name))
            && second.is_some_and(|second| second.eq_ignore_ascii_case(name))
        {
            token.token = Token::make_keyword("ROLE");
        }
    }
    let says = tokens.iter().any(|token| is_word(token, "login") || is_word(token, "nologin"));
    if is_user && first == Some("CREATE") && !says {
        let span = tokens.last().map(|token| token.span);
        let end = tokens.iter().rposition(|token| token.token != Token::EOF).map_or(0, |last| last + 1);
        if let Some(span) = span {
            let space = Token::Whitespace(sqlparser::tokenizer::Whitespace::Space);
            tokens.insert(end, TokenWithSpan::new(Token::make_keyword("LOGIN"), span));
            tokens.insert(end, TokenWithSpan::new(space, span));
        }
    }
    tokens
}

/// Returns the error of a statement whose user has not the right to change something.
pub fn only_superusers(what: &str) -> SqlError {
    SqlError::new(state::PRIVILEGE, format!("permission denied to set parameter \"{what}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_come_back() {
        let verifier = Verifier::of_password("x");
        let role = Role {
            login: true,
            connections: 5,
            verifier,
            valid_until: Some("2030-01-01 00:00:00+00".to_owned()),
            ..Role::new("a b")
        };
        for role in [role, Role::first(), Role::new("none")] {
            assert_eq!(Role::of_text(&role.text()), role);
        }
        let weak = Role { superuser: false, ..Role::first() };
        assert!(Role::of_text(&weak.text()).superuser);
    }

    #[test]
    fn an_open_database_is_closed_by_its_first_role() {
        let open = Roles::read(&[]);
        assert!(open.is_open() && open.is_superuser("anybody") && !open.has_passwords());
        assert!(open.may("anybody", "t", Privilege::Delete));
        let grant = |table: &str, role: &str, letters: &str| SideText {
            id: 0,
            kind: GRANT.to_owned(),
            object: table.to_owned(),
            part: role.to_owned(),
            body: letters.to_owned(),
        };
        let texts = [
            Role::new("ada").text(),
            grant("t", "ada", "r"),
            grant("t", "gone", "a"),
            grant("p", PUBLIC, "r"),
        ];
        let roles = Roles::read(&texts);
        assert!(!roles.is_open() && roles.is_superuser(FIRST_ROLE) && !roles.is_superuser("ada"));
        assert!(roles.may("ada", "t", Privilege::Select) && !roles.may("ada", "t", Privilege::Insert));
        assert!(roles.may("ada", "p", Privilege::Select) && !roles.may("ada", "u", Privilege::Select));
        assert!(!roles.may("gone", "t", Privilege::Insert), "a role that there is not");
        assert_eq!(roles.grants_on("t").collect::<Vec<_>>(), [("ada", "r"), ("gone", "a")]);
        assert_eq!((roles.all().len(), roles.table_of("ada")), (2, Some("t")));
    }
}

//! Roles that come, change and go, and their privileges on tables.

use sqlparser::ast::{
    Action, AlterRoleOperation, CreateRole, Expr as Ast, Grant, GrantObjects, Grantee, GranteeName,
    GranteesType, ObjectName, Password, Privileges, Revoke, RoleOption, Statement, Value,
};

use crate::bind::{name_of, object_of};
use crate::ddl::Change;
use crate::error::{Result, SqlError, state};
use crate::roles::{FIRST_ROLE, GRANT, PRIVILEGES, PUBLIC, ROLE, Role};
use crate::schema::SideText;
use crate::verifier::Verifier;

/// Returns true if nothing but a password changes.
pub fn is_password_alone(operation: &AlterRoleOperation) -> bool {
    matches!(operation, AlterRoleOperation::WithOptions { options }
        if options.iter().all(|option| matches!(option, RoleOption::Password(_))))
}

/// Returns true if a statement makes a role a superuser.
pub fn makes_superuser(statement: &Statement) -> bool {
    match statement {
        Statement::CreateRole(create) => create.superuser == Some(true),
        Statement::AlterRole { operation: AlterRoleOperation::WithOptions { options }, .. } => {
            options.iter().any(|option| matches!(option, RoleOption::SuperUser(_)))
        }
        _ => false,
    }
}

/// Returns the value of an option that is a number or a text.
fn constant(ast: &Ast) -> Result<String> {
    let negative = |text: String| format!("-{text}");
    match ast {
        Ast::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Ok(text.clone()),
            Value::Number(digits, _) => Ok(digits.clone()),
            _ => Err(SqlError::new(state::SYNTAX, "an option of a role needs a constant")),
        },
        Ast::UnaryOp { expr, .. } => constant(expr).map(negative),
        _ => Err(SqlError::new(state::SYNTAX, "an option of a role needs a constant")),
    }
}

fn keep_password(role: &mut Role, password: &Password) -> Result<()> {
    role.verifier = match password {
        Password::NullPassword => None,
        Password::Password(ast) => {
            let text = constant(ast)?;
            if text.is_empty() {
                // As PostgreSQL: a password that is empty is none.
                None
            } else {
                let made = Verifier::parse(&text).or_else(|| Verifier::of_password(&text));
                let none = || SqlError::new(state::INTERNAL, "the operating system has no random bits");
                Some(made.ok_or_else(none)?)
            }
        }
    };
    Ok(())
}

fn set_limit(role: &mut Role, ast: &Ast) -> Result<()> {
    let count = constant(ast)?.parse::<i64>().ok().filter(|count| *count >= -1);
    role.connections =
        count.ok_or_else(|| SqlError::new(state::INVALID_PARAMETER, "invalid connection limit"))?;
    Ok(())
}

fn set_until(role: &mut Role, ast: &Ast) -> Result<()> {
    let text = constant(ast)?;
    let moment = crate::text::from_text(&text, &crate::types::SqlType::TimestampTz)?;
    role.valid_until = crate::text::to_text(&moment, &crate::types::SqlType::TimestampTz);
    Ok(())
}

fn role_name(name: &ObjectName) -> Result<String> {
    match object_of(name)? {
        (None, name) => Ok(name),
        _ => Err(SqlError::new(state::SYNTAX, format!("\"{name}\" is no name of a role"))),
    }
}

impl Change<'_, '_, '_> {
    /// Keeps a role as it is now.
    fn keep_role(&mut self, role: &Role) -> Result<()> {
        self.change_texts(&|text| text.kind == ROLE && text.part == role.name, vec![role.text()])
    }

    /// Makes roles.
    pub fn create_role(&mut self, create: &CreateRole) -> Result<String> {
        for name in &create.names {
            let name = role_name(name)?;
            if self.schema.roles.get(&name).is_some() {
                let message = format!("role \"{name}\" already exists");
                if create.if_not_exists {
                    self.notice("NOTICE", format!("{message}, skipping"));
                    continue;
                }
                return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
            }
            if name == PUBLIC || name == "none" || name.starts_with("pg_") {
                return Err(SqlError::new("42939", format!("role name \"{name}\" is reserved")));
            }
            let is_member = [&create.in_role, &create.in_group, &create.role, &create.user, &create.admin];
            if is_member.iter().any(|roles| !roles.is_empty()) {
                return Err(SqlError::unsupported("a role in another role"));
            }
            let mut role = Role::new(&name);
            role.superuser = create.superuser.unwrap_or(false);
            role.login = create.login.unwrap_or(false);
            role.create_role = create.create_role.unwrap_or(false);
            role.create_db = create.create_db.unwrap_or(false);
            create.connection_limit.iter().try_for_each(|limit| set_limit(&mut role, limit))?;
            create.valid_until.iter().try_for_each(|moment| set_until(&mut role, moment))?;
            create.password.iter().try_for_each(|password| keep_password(&mut role, password))?;
            self.keep_role(&role)?;
        }
        Ok("CREATE ROLE".to_owned())
    }

    /// Changes a role.
    pub fn alter_role(&mut self, name: &str, operation: &AlterRoleOperation) -> Result<String> {
        let missing = || SqlError::new(state::NO_OBJECT, format!("role \"{name}\" does not exist"));
        let mut role = self.schema.roles.get(name).ok_or_else(missing)?;
        let AlterRoleOperation::WithOptions { options } = operation else {
            return Err(SqlError::unsupported("this form of ALTER ROLE"));
        };
        for option in options {
            match option {
                RoleOption::SuperUser(is) => role.superuser = *is,
                RoleOption::Login(is) => role.login = *is,
                RoleOption::CreateRole(is) => role.create_role = *is,
                RoleOption::CreateDB(is) => role.create_db = *is,
                RoleOption::Password(password) => keep_password(&mut role, password)?,
                RoleOption::ConnectionLimit(limit) => set_limit(&mut role, limit)?,
                RoleOption::ValidUntil(moment) => set_until(&mut role, moment)?,
                // There are no roles in roles, policies of rows or replicas.
                RoleOption::Inherit(_) | RoleOption::BypassRLS(_) | RoleOption::Replication(_) => {}
            }
        }
        if name == FIRST_ROLE && !(role.superuser && role.login) {
            let message =
                format!("role \"{FIRST_ROLE}\" is the first one: it stays a superuser that connects");
            return Err(SqlError::new(state::DEPENDENT, message));
        }
        self.keep_role(&role)?;
        Ok("ALTER ROLE".to_owned())
    }

    /// Drops roles.
    pub fn drop_roles(&mut self, names: &[ObjectName], if_exists: bool) -> Result<String> {
        for name in names {
            let name = role_name(name)?;
            if self.schema.roles.get(&name).is_none() {
                let message = format!("role \"{name}\" does not exist");
                if if_exists {
                    self.notice("NOTICE", format!("{message}, skipping"));
                    continue;
                }
                return Err(SqlError::new(state::NO_OBJECT, message));
            }
            let because = match self.schema.roles.table_of(&name) {
                _ if name == FIRST_ROLE => Some("It owns all tables.".to_owned()),
                Some(table) => Some(format!("privileges for table {table}")),
                None => None,
            };
            if let Some(because) = because {
                let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
                return Err(SqlError::new(state::DEPENDENT, message).detail(because));
            }
            self.change_texts(&|text| text.kind == ROLE && text.part == name, Vec::new())?;
        }
        Ok("DROP ROLE".to_owned())
    }

    /// Gives privileges.
    pub fn grant(&mut self, grant: &Grant) -> Result<String> {
        if grant.with_grant_option {
            return Err(SqlError::unsupported("WITH GRANT OPTION"));
        }
        if is_granted_to_all(grant.objects.as_ref(), &grant.privileges) {
            return Ok("GRANT".to_owned());
        }
        self.change_grants(grant.objects.as_ref(), &grant.privileges, &grant.grantees, true)?;
        Ok("GRANT".to_owned())
    }

    /// Takes privileges back.
    pub fn revoke(&mut self, revoke: &Revoke) -> Result<String> {
        self.change_grants(revoke.objects.as_ref(), &revoke.privileges, &revoke.grantees, false)?;
        Ok("REVOKE".to_owned())
    }

    fn change_grants(
        &mut self,
        objects: Option<&GrantObjects>,
        privileges: &Privileges,
        grantees: &[Grantee],
        gives: bool,
    ) -> Result<()> {
        let letters = letters(privileges)?;
        let tables = self.granted_tables(objects)?;
        for grantee in grantees {
            let role = self.grantee(grantee)?;
            for table in &tables {
                let before = self.schema.roles.granted(table, &role).to_owned();
                let has = |letter: &char| {
                    if gives {
                        before.contains(*letter) || letters.contains(*letter)
                    } else {
                        before.contains(*letter) && !letters.contains(*letter)
                    }
                };
                let after: String = PRIVILEGES.iter().map(|(_, letter, _)| *letter).filter(has).collect();
                let text = SideText {
                    id: 0,
                    kind: GRANT.to_owned(),
                    object: table.clone(),
                    part: role.clone(),
                    body: after.clone(),
                };
                let new = if after.is_empty() { Vec::new() } else { vec![text] };
                let is_old =
                    |text: &SideText| text.kind == GRANT && text.object == *table && text.part == role;
                if after != before {
                    self.change_texts(&is_old, new)?;
                }
            }
        }
        Ok(())
    }

    fn granted_tables(&self, objects: Option<&GrantObjects>) -> Result<Vec<String>> {
        match objects {
            Some(GrantObjects::Tables(names)) => {
                let table = |name: &ObjectName| -> Result<String> {
                    let table = crate::bind::table_of(name)?;
                    if !self.schema.views.contains_key(&table) {
                        self.schema.table(&table)?;
                    }
                    Ok(table)
                };
                names.iter().map(table).collect()
            }
            Some(GrantObjects::AllTablesInSchema { schemas }) => {
                if let Some(other) =
                    schemas.iter().find(|name| name.to_string().trim_matches('"') != "public")
                {
                    return Err(SqlError::new(
                        state::NO_SCHEMA,
                        format!("schema \"{other}\" does not exist"),
                    ));
                }
                Ok(self.schema.tables.keys().chain(self.schema.views.keys()).cloned().collect())
            }
            None => Err(SqlError::unsupported("a role in another role")),
            Some(_) => Err(SqlError::unsupported("privileges on anything but tables")),
        }
    }

    fn grantee(&self, grantee: &Grantee) -> Result<String> {
        if grantee.grantee_type == GranteesType::Public {
            return Ok(PUBLIC.to_owned());
        }
        let Some(GranteeName::ObjectName(name)) = &grantee.name else {
            return Err(SqlError::unsupported(format!("privileges of {grantee}")));
        };
        let name = role_name(name)?;
        if name != PUBLIC && self.schema.roles.get(&name).is_none() {
            return Err(SqlError::new(state::NO_OBJECT, format!("role \"{name}\" does not exist")));
        }
        Ok(name)
    }
}

/// Returns true if all roles have such privileges anyway: to connect, to use the schema `public`
/// and its sequences.
fn is_granted_to_all(objects: Option<&GrantObjects>, privileges: &Privileges) -> bool {
    let is_plain = |action: &Action| {
        matches!(action, Action::Usage | Action::Connect | Action::Select { columns: None })
    };
    let are_plain = match privileges {
        Privileges::All { .. } => false,
        Privileges::Actions(actions) => actions.iter().all(is_plain),
    };
    are_plain
        && matches!(
            objects,
            Some(
                GrantObjects::Databases(_)
                    | GrantObjects::Schemas(_)
                    | GrantObjects::Sequences(_)
                    | GrantObjects::AllSequencesInSchema { .. }
            )
        )
}

fn letters(privileges: &Privileges) -> Result<String> {
    let Privileges::Actions(actions) = privileges else {
        return Ok(PRIVILEGES.iter().map(|(_, letter, _)| *letter).collect());
    };
    let letter = |action: &Action| match action {
        Action::Insert { columns: None }
        | Action::Select { columns: None }
        | Action::Update { columns: None }
        | Action::References { columns: None }
        | Action::Delete
        | Action::Truncate
        | Action::Trigger => {
            let name = action.to_string();
            let found = PRIVILEGES.iter().find(|(_, _, own)| *own == name);
            found.map(|(_, letter, _)| *letter).ok_or_else(|| SqlError::unsupported(name))
        }
        other => Err(SqlError::unsupported(format!("the privilege {other} on a table"))),
    };
    actions.iter().map(letter).collect()
}

/// Runs a statement about roles; `None` if it is none.
pub fn run(change: &mut Change<'_, '_, '_>, statement: &Statement) -> Option<Result<String>> {
    match statement {
        Statement::CreateRole(create) => Some(change.create_role(create)),
        Statement::AlterRole { name, operation } => Some(change.alter_role(&name_of(name), operation)),
        Statement::Grant(grant) => Some(change.grant(grant)),
        Statement::Revoke(revoke) => Some(change.revoke(revoke)),
        _ => None,
    }
}

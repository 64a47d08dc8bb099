//! CREATE TABLE, and its parts.

use isles::{Datum, ForeignAction, ForeignKey};
use sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, DataType, DeferrableInitial, Expr as Ast, ForeignKeyConstraint,
    GeneratedAs, IndexColumn, NullsDistinctOption, ReferentialAction, SequenceOptions, TableConstraint,
};

use crate::bind::{Binder, name_of, table_of};
use crate::ddl::Change;
use crate::ddl::checks::expression_of;
use crate::ddl::draft::{Draft, DraftColumn, DraftIndex, DraftKey, with_engine_names};
use crate::error::{Result, SqlError, state};
use crate::expr::{Cast, Expr};
use crate::schema::{ColumnDefault, HIDDEN_KEY, SideText};
use crate::types::SqlType;

/// Longest name of a table or a column.
const NAME_BYTES_MAX: usize = 63;

/// A sequence that a column brings along: its name, its column, and its options.
pub struct OwnedSequence {
    name: String,
    column: String,
    options: String,
}

impl Change<'_, '_, '_> {
    /// Makes a table.
    pub fn create_table(&mut self, create: &CreateTable) -> Result<String> {
        let name = table_of(&create.name)?;
        check_name(&name)?;
        let is_taken = self.schema.tables.contains_key(&name)
            || self.schema.views.contains_key(&name)
            || self.schema.sequences.contains_key(&name);
        if is_taken {
            let message = format!("relation \"{name}\" already exists");
            if create.if_not_exists {
                self.notice("NOTICE", format!("{message}, skipping"));
                return Ok("CREATE TABLE".to_owned());
            }
            return Err(SqlError::new(state::DUPLICATE_TABLE, message));
        }
        if create.temporary {
            self.notice(
                "WARNING",
                format!("table \"{name}\" is not temporary: it stays until it is dropped"),
            );
        }
        if create.partition_by.is_some() || create.inherits.is_some() || create.partition_of.is_some() {
            return Err(SqlError::unsupported("partitions and inheritance"));
        }
        let mut draft = Draft::new(&name);
        let mut sequences = Vec::new();
        for column in &create.columns {
            self.add_column(&mut draft, column, &mut sequences)?;
        }
        for constraint in &create.constraints {
            self.add_constraint(&mut draft, constraint)?;
        }
        draft.index_foreign_keys();
        with_engine_names(&mut draft.foreign_keys, &self.schema, (&name, &name));
        let description = draft.describe(&name)?;
        let mut texts = draft.texts();
        texts.extend(sequences.into_iter().map(|sequence| sequence.text(&name)));
        self.x.transaction.create_described_table(description)?;
        // Texts of a table that an earlier version has left are of no use to this one.
        self.change_texts(&|text| text.object == name && text.kind != "sequence", texts)?;
        Ok("CREATE TABLE".to_owned())
    }

    /// Adds a column with its constraints to a table.
    pub fn add_column(
        &mut self,
        draft: &mut Draft,
        column: &ColumnDef,
        sequences: &mut Vec<OwnedSequence>,
    ) -> Result<()> {
        let name = name_of(&column.name);
        check_name(&name)?;
        if name == HIDDEN_KEY || draft.columns.iter().any(|other| other.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message).at(column.name.span));
        }
        let kind = SqlType::of_ast(&column.data_type).map_err(|error| error.at(column.name.span))?;
        draft.columns.push(column_of(&name, kind));
        if is_serial(&column.data_type) {
            let sequence = self.sequence_for(draft, &name, sequences, String::new());
            let added = draft.column(&name)?;
            added.not_null = true;
            added.default = ColumnDefault::Text(format!("nextval('{}'::regclass)", literal(&sequence)));
        }
        for option in &column.options {
            let given = option.name.as_ref().map(name_of);
            self.add_option(draft, &name, &option.option, given, sequences)?;
        }
        Ok(())
    }

    fn add_option(
        &mut self,
        draft: &mut Draft,
        name: &str,
        option: &ColumnOption,
        given: Option<String>,
        sequences: &mut Vec<OwnedSequence>,
    ) -> Result<()> {
        match option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => draft.column(name)?.not_null = true,
            ColumnOption::Default(ast) => {
                let kind = draft.column(name)?.kind.clone();
                draft.column(name)?.default = self.default_of(ast, &kind, name)?;
            }
            ColumnOption::PrimaryKey(_) => set_key(draft, given, vec![name.to_owned()])?,
            ColumnOption::Unique(unique) => {
                let columns = vec![DraftKey::ascending(name)];
                add_unique(draft, given, columns, unique.nulls_distinct == NullsDistinctOption::NotDistinct);
            }
            ColumnOption::Check(check) => {
                let given = given.or_else(|| check.name.as_ref().map(name_of));
                let wish = format!("{}_{name}_check", draft.name);
                add_check(draft, given, &wish, &check.expr)?;
            }
            ColumnOption::ForeignKey(key) => {
                self.add_foreign_key(draft, given, vec![name.to_owned()], key)?;
            }
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                let options = options_text(sequence_options.as_deref().unwrap_or(&[]))?;
                let sequence = self.sequence_for(draft, name, sequences, options);
                let column = draft.column(name)?;
                column.not_null = true;
                column.default = ColumnDefault::Sequence(sequence, *generated_as == GeneratedAs::Always);
            }
            ColumnOption::Generated { generation_expr: Some(ast), .. } => {
                let generated = expression_of(ast, draft)?;
                draft.column(name)?.generated = Some(generated);
            }
            // There is one collation, and comments of another dialect do not matter.
            ColumnOption::Collation(_) | ColumnOption::Comment(_) => {}
            other => return Err(SqlError::unsupported(format!("the column option {other}"))),
        }
        Ok(())
    }

    /// Names a sequence for a column.
    fn sequence_for(
        &mut self,
        draft: &Draft,
        column: &str,
        sequences: &mut Vec<OwnedSequence>,
        options: String,
    ) -> String {
        let wish = format!("{}_{column}_seq", draft.name);
        let is_taken =
            |name: &String| self.schema.sequences.contains_key(name) || self.schema.tables.contains_key(name);
        let numbered = (1..).map(|number| format!("{wish}{number}"));
        let name = std::iter::once(wish.clone())
            .chain(numbered)
            .find(|name| !is_taken(name))
            .unwrap_or(wish.clone());
        let options = format!("{options}\n{}", engine_sequence(&name, self.x.context.bits()));
        sequences.push(OwnedSequence { name: name.clone(), column: column.to_owned(), options });
        name
    }

    /// Returns a default: a constant if the expression is one, else its text.
    pub fn default_of(&self, ast: &Ast, kind: &SqlType, column: &str) -> Result<ColumnDefault> {
        let mut binder = Binder::new(std::sync::Arc::clone(&self.schema), Vec::new());
        let typed = binder.constant(ast)?;
        let assigned = match binder.assign(typed, kind, column)? {
            Expr::Cast(cast) => match *cast {
                Cast { of: Expr::Constant(value), from, to, explicit } => {
                    Expr::Constant(crate::value::cast(value, &from, &to, explicit)?)
                }
                cast => Expr::Cast(cast.into()),
            },
            other => other,
        };
        Ok(match assigned {
            Expr::Constant(Datum::Null) => ColumnDefault::None,
            Expr::Constant(value) if crate::ddl::checks::fits(&value, &kind.to_value()?) => {
                ColumnDefault::Value(value)
            }
            _ => ColumnDefault::Text(expression_text(ast)),
        })
    }

    /// Adds a constraint to a table.
    pub fn add_constraint(&mut self, draft: &mut Draft, constraint: &TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let columns = keys_of(&key.columns)?.into_iter().map(|key| key.name).collect();
                set_key(draft, key.name.as_ref().map(name_of), columns)
            }
            TableConstraint::Unique(unique) => {
                let columns = keys_of(&unique.columns)?;
                for key in &columns {
                    draft.column(&key.name)?;
                }
                let not_distinct = unique.nulls_distinct == NullsDistinctOption::NotDistinct;
                add_unique(draft, unique.name.as_ref().map(name_of), columns, not_distinct);
                Ok(())
            }
            TableConstraint::Check(check) => {
                let wish = format!("{}_check", draft.name);
                add_check(draft, check.name.as_ref().map(name_of), &wish, &check.expr)
            }
            TableConstraint::ForeignKey(key) => {
                let columns = key.columns.iter().map(name_of).collect();
                self.add_foreign_key(draft, key.name.as_ref().map(name_of), columns, key)
            }
            other => Err(SqlError::unsupported(format!("the constraint {other}"))),
        }
    }

    fn add_foreign_key(
        &mut self,
        draft: &mut Draft,
        given: Option<String>,
        columns: Vec<String>,
        key: &ForeignKeyConstraint,
    ) -> Result<()> {
        for column in &columns {
            draft.column(column)?;
        }
        let other = table_of(&key.foreign_table)?;
        let own_key = draft.key.as_ref().map(|(_, key)| key.clone());
        let other_key = if other == draft.name {
            own_key
        } else {
            let table = self.schema.table(&other)?;
            (!table.hidden_key).then(|| {
                table.indexes[0].columns.iter().map(|place| table.columns[*place].name.clone()).collect()
            })
        };
        let referred = if key.referred_columns.is_empty() {
            let missing = || {
                let message = format!("there is no primary key for referenced table \"{other}\"");
                SqlError::new(state::NO_OBJECT, message)
            };
            other_key.ok_or_else(missing)?
        } else {
            key.referred_columns.iter().map(name_of).collect()
        };
        let action = |action: &Option<ReferentialAction>| match action {
            None | Some(ReferentialAction::Restrict | ReferentialAction::NoAction) => {
                Ok(ForeignAction::Restrict)
            }
            Some(ReferentialAction::Cascade) => Ok(ForeignAction::Cascade),
            Some(ReferentialAction::SetNull) => Ok(ForeignAction::SetNull),
            Some(ReferentialAction::SetDefault) => Err(SqlError::unsupported("SET DEFAULT of a foreign key")),
        };
        let wish = format!("{}_{}_fkey", draft.name, columns.join("_"));
        let name = given.unwrap_or_else(|| draft.free_name(&wish));
        let mut made = ForeignKey::new(name, columns, other, referred)
            .on_delete(action(&key.on_delete)?)
            .on_update(action(&key.on_update)?);
        let characteristics = key.characteristics.as_ref();
        if characteristics.and_then(|all| all.initially.as_ref()) == Some(&DeferrableInitial::Deferred) {
            made = made.deferred();
        }
        draft.foreign_keys.push(made);
        Ok(())
    }
}

impl OwnedSequence {
    /// Returns the text by which the schema knows the sequence.
    pub fn text(self, table: &str) -> SideText {
        let part = format!("{table}.{}", self.column);
        SideText { id: 0, kind: "sequence".to_owned(), object: self.name, part, body: self.options }
    }
}

/// Returns a name for a sequence in the engine, which no other sequence has had.
pub fn engine_sequence(name: &str, random: u64) -> String {
    let most = (0..=24.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    format!("{} {random:016x}", &name[..most])
}

/// Returns a column without constraints.
pub fn column_of(name: &str, kind: SqlType) -> DraftColumn {
    let name = name.to_owned();
    DraftColumn {
        name,
        kind,
        not_null: false,
        had_nulls: false,
        default: ColumnDefault::None,
        generated: None,
        fill: None,
    }
}

/// Returns the text of an expression, as the catalog shows it.
pub fn expression_text(ast: &Ast) -> String {
    ast.to_string()
}

/// Checks a new name.
pub fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=NAME_BYTES_MAX if !name.contains('#') => Ok(()),
        1..=NAME_BYTES_MAX => Err(SqlError::unsupported("a name with the character #")),
        _ => {
            Err(SqlError::new("42622", format!("identifier \"{name}\" has not 1 to {NAME_BYTES_MAX} bytes")))
        }
    }
}

fn is_serial(kind: &DataType) -> bool {
    let DataType::Custom(name, _) = kind else { return false };
    let name = name.to_string().to_ascii_lowercase();
    matches!(name.as_str(), "serial" | "serial2" | "serial4" | "serial8" | "bigserial" | "smallserial")
}

fn literal(name: &str) -> String {
    crate::functions::quoted_name(name).replace('\'', "''")
}

/// Reads first number and increment of a sequence.
pub fn options_text(options: &[SequenceOptions]) -> Result<String> {
    let number = |ast: &Ast| {
        let number = ast.to_string().replace(' ', "").parse::<i64>();
        let wrong = || SqlError::new(state::INVALID_PARAMETER, "an option of a sequence is no number");
        number.map_err(|_| wrong())
    };
    let (mut first, mut increment) = (None, 1);
    for option in options {
        match option {
            SequenceOptions::StartWith(ast, _) => first = Some(number(ast)?),
            SequenceOptions::IncrementBy(ast, _) => increment = number(ast)?,
            SequenceOptions::Cycle(true) => {
                return Err(SqlError::unsupported("a sequence that begins again"));
            }
            _ => {}
        }
    }
    match (first, increment) {
        (None, 1) => Ok(String::new()),
        (first, increment) => {
            Ok(format!("{} {increment}", first.unwrap_or(if increment < 0 { -1 } else { 1 })))
        }
    }
}

/// Returns the columns of an index.
pub fn keys_of(columns: &[IndexColumn]) -> Result<Vec<DraftKey>> {
    let key = |column: &IndexColumn| {
        let Ast::Identifier(ident) = &column.column.expr else {
            return Err(SqlError::unsupported("an index over an expression"));
        };
        let key = crate::bind::sort_key(Expr::truth(true), &column.column);
        Ok(DraftKey { name: name_of(ident), descending: key.descending, nulls_first: key.nulls_first })
    };
    columns.iter().map(key).collect()
}

/// Gives a table its primary key.
pub fn set_key(draft: &mut Draft, given: Option<String>, columns: Vec<String>) -> Result<()> {
    if draft.key.is_some() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", draft.name);
        return Err(SqlError::new(state::INVALID_TABLE, message));
    }
    for column in &columns {
        draft.column(column)?.not_null = true;
    }
    let name = given.unwrap_or_else(|| format!("{}_pkey", draft.name));
    draft.key = Some((name, columns));
    Ok(())
}

/// Adds a unique constraint.
pub fn add_unique(
    draft: &mut Draft,
    given: Option<String>,
    columns: Vec<DraftKey>,
    nulls_not_distinct: bool,
) {
    let names: Vec<_> = columns.iter().map(|key| key.name.as_str()).collect();
    let wish = format!("{}_{}_key", draft.name, names.join("_"));
    let name = given.unwrap_or_else(|| draft.free_name(&wish));
    draft.indexes.push(DraftIndex { name, unique: true, nulls_not_distinct, columns, is_constraint: true });
}

fn add_check(draft: &mut Draft, given: Option<String>, wish: &str, ast: &Ast) -> Result<()> {
    let condition = expression_of(ast, draft)?;
    let name = given.unwrap_or_else(|| draft.free_name(wish));
    draft.checks.push((name, condition));
    Ok(())
}

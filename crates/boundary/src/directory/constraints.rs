//! Constraints of a table in the description that a directory keeps.
//!
//! ```text
//! constraints: number (not null), of each: text (name), text (column)
//!              number (checks), of each: text (name), expression
//!              number (foreign keys), of each: text (name), number (columns), texts, text (table), number (columns),
//!                  texts, number (on delete: 0 restrict, 1 cascade, 2 set null), number (on update), number (1 deferred)
//!              number (generated columns), of each: text (column), expression
//!              number (defaults), of each: text (column), constant
//!              number (identities), of each: text (column), text (sequence)
//! expression: number (its form), and its parts; a list of parts has its length before it
//! constant: text (type; empty for null), bytes of a value of that type
//! ```
//!
//! A column is named, not numbered. Numbers of forms are never given to another form.

use schema::{
    Arithmetic, Check, Comparison, Constraints, Datum, Decimal, Expression, ForeignAction, ForeignKey,
    ValueType,
};

use super::wire::{Bytes, read_bytes, read_list, read_number, read_text};

/// Most levels of an expression within an expression; a table has none with more.
const LEVELS_MAX: usize = 80;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];
const OPERATIONS: [Arithmetic; 5] =
    [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply, Arithmetic::Divide, Arithmetic::Remainder];
const ACTIONS: [ForeignAction; 3] = [ForeignAction::Restrict, ForeignAction::Cascade, ForeignAction::SetNull];

/// Forms of expressions.
const COLUMN: u64 = 1;
const CONSTANT: u64 = 2;
const COMPARE: u64 = 3;
const AND: u64 = 4;
const OR: u64 = 5;
const NOT: u64 = 6;
const IS_NULL: u64 = 7;
const CALCULATE: u64 = 8;
const LENGTH: u64 = 9;
const IN: u64 = 10;
const BETWEEN: u64 = 11;

fn put_list<T>(to: &mut Bytes, all: &[T], put: impl Fn(&mut Bytes, &T)) {
    to.append_number(all.len() as u64);
    all.iter().for_each(|one| put(to, one));
}

fn put_text(to: &mut Bytes, text: &str) {
    to.append_counted(text.as_bytes());
}

/// The number of one of these values.
fn put_one_of<T: PartialEq>(to: &mut Bytes, all: &[T], one: &T) {
    to.append_number(all.iter().position(|other| other == one).unwrap_or(0) as u64);
}

fn read_one_of<T: Copy>(rest: &mut &[u8], all: &[T]) -> Option<T> {
    all.get(usize::try_from(read_number(rest)?).ok()?).copied()
}

/// Appends constraints.
pub(super) fn put_constraints(to: &mut Bytes, constraints: &Constraints) {
    let Constraints { not_null, checks, foreign_keys, generated, defaults, identities, expires: _ } =
        constraints;
    let put_texts = |to: &mut Bytes, (name, column): &(String, String)| {
        put_text(to, name);
        put_text(to, column);
    };
    put_list(to, not_null, put_texts);
    put_list(to, checks, |to, check| {
        put_text(to, &check.name);
        put_expression(to, &check.condition);
    });
    put_list(to, foreign_keys, put_foreign_key);
    put_list(to, generated, |to, (column, value)| {
        put_text(to, column);
        put_expression(to, value);
    });
    put_list(to, defaults, |to, (column, value)| {
        put_text(to, column);
        put_constant(to, value);
    });
    put_list(to, identities, put_texts);
}

/// Reads what [`put_constraints`] wrote.
pub(super) fn read_constraints(rest: &mut &[u8]) -> Option<Constraints> {
    let texts = |rest: &mut &[u8]| Some((read_text(rest)?, read_text(rest)?));
    Some(Constraints {
        not_null: read_list(rest, texts)?,
        checks: read_list(rest, |rest| {
            Some(Check { name: read_text(rest)?, condition: read_expression(rest, 0)? })
        })?,
        foreign_keys: read_list(rest, read_foreign_key)?,
        generated: read_list(rest, |rest| Some((read_text(rest)?, read_expression(rest, 0)?)))?,
        defaults: read_list(rest, |rest| Some((read_text(rest)?, read_constant(rest)?)))?,
        identities: read_list(rest, texts)?,
        // Behind these, if the table's flags say so.
        expires: None,
    })
}

fn put_foreign_key(to: &mut Bytes, key: &ForeignKey) {
    put_text(to, &key.name);
    put_list(to, &key.columns, |to, column| put_text(to, column));
    put_text(to, &key.table);
    put_list(to, &key.references, |to, column| put_text(to, column));
    put_one_of(to, &ACTIONS, &key.on_delete);
    put_one_of(to, &ACTIONS, &key.on_update);
    to.append_number(u64::from(key.deferred));
}

fn read_foreign_key(rest: &mut &[u8]) -> Option<ForeignKey> {
    Some(ForeignKey {
        name: read_text(rest)?,
        columns: read_list(rest, read_text)?,
        table: read_text(rest)?,
        references: read_list(rest, read_text)?,
        on_delete: read_one_of(rest, &ACTIONS)?,
        on_update: read_one_of(rest, &ACTIONS)?,
        deferred: read_one_of(rest, &[false, true])?,
    })
}

/// The type by which a constant is written; `None` for null and for what is no constant.
fn type_of(value: &Datum) -> Option<ValueType> {
    Some(match value {
        Datum::Null | Datum::List(_) => return None,
        Datum::Unsigned(_) => ValueType::Unsigned(8),
        Datum::Signed(_) => ValueType::Signed(8),
        Datum::Unsigned128(_) => ValueType::Unsigned(16),
        Datum::Signed128(_) => ValueType::Signed(16),
        Datum::Float(_) => ValueType::Float(8),
        Datum::Bool(_) => ValueType::Bool,
        Datum::Text(_) => ValueType::String,
        Datum::Bytes(_) => ValueType::Bytes,
        Datum::Numeric(number) => ValueType::Numeric { precision: 38, scale: number.scale() },
        Datum::Date(_) => ValueType::Date,
        Datum::Time(_) => ValueType::Time,
        Datum::Timestamp(_) => ValueType::Timestamp,
        Datum::TimestampTz(_) => ValueType::TimestampTz,
        Datum::Interval(_) => ValueType::Interval,
        Datum::Uuid(_) => ValueType::Uuid,
    })
}

fn put_constant(to: &mut Bytes, value: &Datum) {
    let (kind, mut bytes) = (type_of(value), Vec::new());
    match kind {
        Some(kind) if value.append(&kind, &mut bytes).is_ok() => {
            put_text(to, &kind.to_string());
            to.append_counted(&bytes);
        }
        _ => {
            put_text(to, "");
            to.append_counted(&[]);
        }
    }
}

fn read_constant(rest: &mut &[u8]) -> Option<Datum> {
    let (kind, bytes) = (read_text(rest)?, read_bytes(rest)?);
    if kind.is_empty() {
        return bytes.is_empty().then_some(Datum::Null);
    }
    let kind: ValueType = kind.parse().ok()?;
    let (value, mut again) = (Datum::fetch(&kind, bytes)?, Vec::new());
    let value = match value {
        // A number with fewer digits is the same number.
        Datum::Numeric(number) => Datum::Numeric(Decimal::new(number.digits(), number.scale()).ok()?),
        value => value,
    };
    value.append(&kind, &mut again).ok()?;
    (type_of(&value) == Some(kind) && again == bytes).then_some(value)
}

fn put_expression(to: &mut Bytes, expression: &Expression) {
    let put_box = |to: &mut Bytes, part: &Expression| put_expression(to, part);
    match expression {
        Expression::Column(name) => {
            to.append_number(COLUMN);
            put_text(to, name);
        }
        Expression::Constant(value) => {
            to.append_number(CONSTANT);
            put_constant(to, value);
        }
        Expression::Compare(comparison, left, right) => {
            to.append_number(COMPARE);
            put_one_of(to, &COMPARISONS, comparison);
            put_box(to, left);
            put_box(to, right);
        }
        Expression::And(all) => {
            to.append_number(AND);
            put_list(to, all, put_box);
        }
        Expression::Or(all) => {
            to.append_number(OR);
            put_list(to, all, put_box);
        }
        Expression::Not(of) => {
            to.append_number(NOT);
            put_box(to, of);
        }
        Expression::IsNull(of) => {
            to.append_number(IS_NULL);
            put_box(to, of);
        }
        Expression::Calculate(operation, left, right) => {
            to.append_number(CALCULATE);
            put_one_of(to, &OPERATIONS, operation);
            put_box(to, left);
            put_box(to, right);
        }
        Expression::Length(of) => {
            to.append_number(LENGTH);
            put_box(to, of);
        }
        Expression::In(of, values) => {
            to.append_number(IN);
            put_box(to, of);
            put_list(to, values, put_box);
        }
        Expression::Between(of, low, high) => {
            to.append_number(BETWEEN);
            put_box(to, of);
            put_box(to, low);
            put_box(to, high);
        }
    }
}

fn read_expression(rest: &mut &[u8], level: usize) -> Option<Expression> {
    if level > LEVELS_MAX {
        return None;
    }
    let part = |rest: &mut &[u8]| read_expression(rest, level + 1);
    let boxed = |rest: &mut &[u8]| part(rest).map(Box::new);
    Some(match read_number(rest)? {
        COLUMN => Expression::Column(read_text(rest)?),
        CONSTANT => Expression::Constant(read_constant(rest)?),
        COMPARE => Expression::Compare(read_one_of(rest, &COMPARISONS)?, boxed(rest)?, boxed(rest)?),
        AND => Expression::And(read_list(rest, part)?),
        OR => Expression::Or(read_list(rest, part)?),
        NOT => Expression::Not(boxed(rest)?),
        IS_NULL => Expression::IsNull(boxed(rest)?),
        CALCULATE => Expression::Calculate(read_one_of(rest, &OPERATIONS)?, boxed(rest)?, boxed(rest)?),
        LENGTH => Expression::Length(boxed(rest)?),
        IN => Expression::In(boxed(rest)?, read_list(rest, part)?),
        BETWEEN => Expression::Between(boxed(rest)?, boxed(rest)?, boxed(rest)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Constraints with every form of expression and of constant.
    pub(crate) fn all_forms() -> Constraints {
        let column = Expression::column;
        let numeric = Datum::Numeric("1.50".parse().expect("a number"));
        let whole = column("a").more(0).and(column("a").is_in([1, 2]).or(!column("a").equals(-7)));
        let constants = [Datum::Null, Datum::Unsigned128(1 << 100), Datum::Signed128(-1), Datum::Float(0.5)]
            .into_iter()
            .chain([Datum::Bool(true), Datum::Uuid(schema::Uuid::from_u128(5)), numeric]);
        let all = constants.map(|value| Expression::constant(value).is_null().is_null());
        Constraints::new()
            .check("whole", whole)
            .check("constants", Expression::Or(all.collect()))
            .check("between", (column("a") * 2 - 1).between(column("b").length(), 9_000_000_000_u64))
            .not_null("b_there", "b")
            .foreign_key(
                ForeignKey::new("up", ["a"], "t", ["id"]).on_delete(ForeignAction::SetNull).deferred(),
            )
            .generated("c", column("a") % 7)
            .default_value("b", "none")
            .identity("a", "numbers")
    }

    #[test]
    fn constraints_are_read_as_they_were_written() {
        let constraints = all_forms();
        let mut bytes = Bytes::default();
        put_constraints(&mut bytes, &constraints);
        let bytes = bytes.into_vec();
        let mut rest = &bytes[..];
        assert_eq!(read_constraints(&mut rest), Some(constraints));
        assert!(rest.is_empty());
        for length in 0..bytes.len() {
            assert_eq!(read_constraints(&mut &bytes[..length]), None, "{length}");
        }
    }

    #[test]
    fn deep_expressions_are_refused() {
        let mut bytes = Bytes::default();
        (0..100_000).for_each(|_| bytes.append_number(NOT));
        assert_eq!(read_expression(&mut bytes.as_slice(), 0), None);
    }
}

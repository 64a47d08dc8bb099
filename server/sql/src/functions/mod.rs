//! Functions: their names, the types of their arguments, and what they compute.

mod numbers;
mod patterns;
mod sets;
mod system;
mod texts;
mod times;

use isles::Datum;

use crate::error::{Result, SqlError, state};
use crate::exec::Exec;
use crate::expr::{Cast, Expr, Typed};
use crate::types::SqlType;
use crate::value;

pub use patterns::like;
pub use sets::SetFunction;
pub use system::regclass;
pub use texts::quoted_name;
pub use times::extract;

/// Computes the value of a function.
pub type Run = fn(&[Datum], &mut Exec<'_, '_>) -> Result<Datum>;

/// Type of an argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum T {
    /// Any type.
    Any,
    /// As the first argument.
    First,
    /// An array of any type.
    Array,
    /// A member of the array that is the first argument.
    Member,
    /// An array of texts.
    Texts,
    /// An array of numbers of a catalog.
    Oids,
    /// The types of the same name.
    Bool,
    #[allow(missing_docs)]
    Int2,
    #[allow(missing_docs)]
    Int4,
    #[allow(missing_docs)]
    Int8,
    #[allow(missing_docs)]
    Float8,
    #[allow(missing_docs)]
    Numeric,
    #[allow(missing_docs)]
    Text,
    #[allow(missing_docs)]
    Name,
    #[allow(missing_docs)]
    Bytea,
    #[allow(missing_docs)]
    Date,
    #[allow(missing_docs)]
    Time,
    #[allow(missing_docs)]
    Timestamp,
    #[allow(missing_docs)]
    TimestampTz,
    #[allow(missing_docs)]
    Interval,
    #[allow(missing_docs)]
    Uuid,
    #[allow(missing_docs)]
    Json,
    #[allow(missing_docs)]
    Oid,
    #[allow(missing_docs)]
    RegClass,
    #[allow(missing_docs)]
    Void,
}

/// A function.
#[derive(Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// The types of its arguments; the last one of a variadic function may be repeated.
    pub arguments: &'static [T],
    /// True if the last argument may be repeated.
    pub variadic: bool,
    /// The type of its result.
    pub result: T,
    /// True if the result is null where an argument is.
    pub strict: bool,
    /// Computes its value.
    pub run: Run,
}

impl PartialEq for Builtin {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

const fn function(name: &'static str, arguments: &'static [T], result: T, run: Run) -> Builtin {
    Builtin { name, arguments, variadic: false, result, strict: true, run }
}

/// A function that sees nulls.
const fn of_nulls(name: &'static str, arguments: &'static [T], result: T, run: Run) -> Builtin {
    Builtin { name, arguments, variadic: false, result, strict: false, run }
}

/// A function whose last argument may be repeated, and that sees nulls.
const fn variadic(name: &'static str, arguments: &'static [T], result: T, run: Run) -> Builtin {
    Builtin { name, arguments, variadic: true, result, strict: false, run }
}

/// An aggregate.
#[derive(Clone, Debug, PartialEq)]
pub enum Aggregate {
    /// The number of rows, or of values.
    Count,
    /// The sum, which has this type.
    Sum(SqlType),
    /// The mean, which has this type.
    Average(SqlType),
    /// The least value.
    Least,
    /// The greatest value.
    Greatest,
    /// True if all are true.
    And,
    /// True if one is true.
    Or,
    /// All texts with a separator between them.
    Texts,
    /// All values.
    Array,
}

impl Aggregate {
    /// Returns true if nulls do not count.
    pub fn skips_null(&self) -> bool {
        *self != Aggregate::Array
    }

    /// Returns the aggregate of a name, the types that its arguments get, and the type of its
    /// result.
    pub fn resolve(name: &str, arguments: &[SqlType]) -> Option<Result<(Aggregate, Vec<SqlType>, SqlType)>> {
        let first = arguments.first().cloned().unwrap_or(SqlType::Unknown);
        let own = || match &first {
            SqlType::Unknown => SqlType::Text,
            kind => kind.clone(),
        };
        let wrong = || {
            let names: Vec<_> = arguments.iter().map(SqlType::name).collect();
            let message = format!("function {name}({}) does not exist", names.join(", "));
            Err(SqlError::new(state::NO_FUNCTION, message))
        };
        let one = |aggregate, argument: SqlType, result: SqlType| Ok((aggregate, vec![argument], result));
        let expected = match name {
            "count" => return Some(Ok((Aggregate::Count, arguments.to_vec(), SqlType::Int8))),
            "string_agg" => 2,
            "sum" | "avg" | "min" | "max" | "bool_and" | "every" | "bool_or" | "array_agg" => 1,
            _ => return None,
        };
        if arguments.len() != expected {
            return Some(wrong());
        }
        Some(match name {
            "string_agg" => Ok((Aggregate::Texts, vec![SqlType::Text, SqlType::Text], SqlType::Text)),
            "min" => one(Aggregate::Least, own(), own()),
            "max" => one(Aggregate::Greatest, own(), own()),
            "bool_and" | "every" => one(Aggregate::And, SqlType::Bool, SqlType::Bool),
            "bool_or" => one(Aggregate::Or, SqlType::Bool, SqlType::Bool),
            "array_agg" => one(Aggregate::Array, own(), own().array()),
            _ => {
                let result = match (name, &first) {
                    ("sum", SqlType::Int2 | SqlType::Int4) => SqlType::Int8,
                    ("sum", SqlType::Float4) => SqlType::Float4,
                    (_, SqlType::Float4 | SqlType::Float8) => SqlType::Float8,
                    (_, SqlType::Interval) => SqlType::Interval,
                    (_, kind) if kind.is_number() => SqlType::Numeric(None),
                    _ => return Some(wrong()),
                };
                let aggregate = if name == "sum" { Aggregate::Sum } else { Aggregate::Average };
                one(aggregate(result.clone()), first.clone(), result)
            }
        })
    }
}

fn all() -> impl Iterator<Item = &'static Builtin> {
    texts::FUNCTIONS
        .iter()
        .chain(patterns::FUNCTIONS)
        .chain(numbers::FUNCTIONS)
        .chain(times::FUNCTIONS)
        .chain(system::FUNCTIONS)
        .chain(sets::FUNCTIONS)
}

/// Returns the names of all functions.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = all().map(|function| function.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl T {
    /// Returns the type that an argument of this kind gets; `None` for any type.
    fn of_argument(self, first: &SqlType) -> Option<SqlType> {
        Some(match self {
            T::Any | T::Array => return None,
            T::First => first.clone(),
            T::Member => match first {
                SqlType::Array(of) => (**of).clone(),
                _ => SqlType::Unknown,
            },
            T::Texts => SqlType::Text.array(),
            T::Oids => SqlType::Oid.array(),
            T::Bool => SqlType::Bool,
            T::Int2 => SqlType::Int2,
            T::Int4 => SqlType::Int4,
            T::Int8 => SqlType::Int8,
            T::Float8 => SqlType::Float8,
            T::Numeric => SqlType::Numeric(None),
            T::Text => SqlType::Text,
            T::Name => SqlType::Name,
            T::Bytea => SqlType::Bytea,
            T::Date => SqlType::Date,
            T::Time => SqlType::Time,
            T::Timestamp => SqlType::Timestamp,
            T::TimestampTz => SqlType::TimestampTz,
            T::Interval => SqlType::Interval,
            T::Uuid => SqlType::Uuid,
            T::Json => SqlType::Json,
            T::Oid => SqlType::Oid,
            T::RegClass => SqlType::RegClass,
            T::Void => SqlType::Void,
        })
    }

    /// Returns how well an argument fits: 0 not at all.
    fn fit(self, kind: &SqlType) -> u32 {
        let Some(own) = self.of_argument(&SqlType::Unknown) else {
            let fits = self == T::Any || matches!(kind, SqlType::Array(_) | SqlType::Unknown);
            return u32::from(fits);
        };
        match (&own, kind) {
            (SqlType::Unknown, _) => 1,
            (own, kind) if own.plain() == kind.plain() => 8,
            (SqlType::Text, SqlType::Unknown) => 4,
            (_, SqlType::Unknown) => 3,
            (own, kind) if own.is_text() && kind.is_text() => 5,
            (own, kind) => converts(kind, own),
        }
    }
}

/// Returns how well values of a type become values of another one by themselves: 0 not at all.
pub fn converts(from: &SqlType, to: &SqlType) -> u32 {
    let rank = |kind: &SqlType| match kind {
        SqlType::Int2 => Some(1),
        SqlType::Int4 => Some(2),
        SqlType::Int8 => Some(3),
        SqlType::Numeric(_) => Some(4),
        SqlType::Float4 => Some(5),
        SqlType::Float8 => Some(6),
        _ => None,
    };
    match (from, to) {
        (from, to) if from.plain() == to.plain() => 8,
        (from, to) if from.is_text() && to.is_text() => 5,
        (SqlType::Date, SqlType::Timestamp | SqlType::TimestampTz) => 3,
        (SqlType::Timestamp, SqlType::TimestampTz) => 3,
        (SqlType::Array(from), SqlType::Array(to)) => converts(from, to).min(4),
        (from, to) => match (rank(from), rank(to)) {
            (Some(from), Some(to)) if from <= to => 6 - (to - from).min(4),
            _ if from.is_integer() && to.is_integer() && (rank(from).is_none() || rank(to).is_none()) => 2,
            _ => 0,
        },
    }
}

/// Returns a call of a function; the types of arguments are brought to those of the function.
pub fn resolve(
    name: &str,
    arguments: Vec<Typed>,
    coerce: &mut dyn FnMut(Typed, &SqlType) -> Result<Expr>,
) -> Result<Typed> {
    let kinds: Vec<_> = arguments.iter().map(|argument| argument.kind.clone()).collect();
    let fit = |function: &&Builtin| {
        let count = function.arguments.len();
        let fits = if function.variadic { kinds.len() + 1 >= count } else { kinds.len() == count };
        if !fits {
            return None;
        }
        let expected = |place: usize| function.arguments[place.min(count - 1)];
        let fits = kinds.iter().enumerate().map(|(place, kind)| expected(place).fit(kind));
        let fits: Vec<u32> = fits.collect();
        (!fits.contains(&0)).then(|| fits.iter().sum::<u32>())
    };
    let candidates = all().filter(|function| function.name == name);
    let mut best: Option<(u32, &'static Builtin)> = None;
    for function in candidates {
        if let Some(fit) = fit(&function)
            && best.is_none_or(|(other, _)| fit > other)
        {
            best = Some((fit, function));
        }
    }
    let Some((_, function)) = best else {
        let names: Vec<_> = kinds.iter().map(SqlType::name).collect();
        let message = format!("function {name}({}) does not exist", names.join(", "));
        return Err(SqlError::new(state::NO_FUNCTION, message).hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        ));
    };
    let first = match kinds.first() {
        None | Some(SqlType::Unknown) if function.arguments.first() == Some(&T::Any) => SqlType::Text,
        None => SqlType::Unknown,
        Some(kind) => kind.clone(),
    };
    let mut coerced = Vec::with_capacity(arguments.len());
    for (place, argument) in arguments.into_iter().enumerate() {
        let expected = function.arguments[place.min(function.arguments.len() - 1)];
        coerced.push(match expected.of_argument(&first) {
            Some(kind) if kind != SqlType::Unknown => coerce(argument, &kind)?,
            _ if argument.kind == SqlType::Unknown => coerce(argument, &SqlType::Text)?,
            _ => argument.expr,
        });
    }
    let result = match function.result {
        T::Any | T::Array => first,
        result => result.of_argument(&first).unwrap_or(SqlType::Text),
    };
    Ok(Typed::new(Expr::Call(function, coerced), result))
}

/// Converts a value; numbers of a catalog to names and back, too.
pub fn cast(value: Datum, cast: &Cast, x: &mut Exec<'_, '_>) -> Result<Datum> {
    let Cast { from, to, explicit, .. } = cast;
    match (&value, from, to) {
        (Datum::Text(name), _, SqlType::RegClass) => regclass(name, x.context),
        (Datum::Text(name), _, SqlType::RegType) if name.parse::<u32>().is_err() => {
            Ok(Datum::Signed(SqlType::of_name(name)?.oid().into()))
        }
        (Datum::Text(name), _, SqlType::RegProc) if name.parse::<u32>().is_err() => {
            Ok(Datum::Signed(crate::schema::oid_of("function", name).into()))
        }
        (Datum::Signed(number), SqlType::RegClass | SqlType::RegType | SqlType::RegProc, to)
            if to.is_text() =>
        {
            Ok(Datum::Text(system::name_of(*number, from, x.context)))
        }
        _ => value::cast(value, from, to, *explicit),
    }
}

/// Returns the text of a number of a catalog, as it is shown to clients.
pub fn catalog_name(number: i64, kind: &SqlType, context: &crate::context::Context) -> String {
    system::name_of(number, kind, context)
}

/// The texts, integers and other values of arguments, whose types were checked before.
fn text(value: &Datum) -> &str {
    if let Datum::Text(text) = value { text } else { "" }
}

fn integer(value: &Datum) -> i64 {
    if let Datum::Signed(number) = value { *number } else { 0 }
}

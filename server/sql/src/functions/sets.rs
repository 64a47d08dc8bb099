//! Functions that return several rows, and those of arrays.

use isles::Datum;

use super::{Builtin, T, function, integer, of_nulls, text};
use crate::error::{Result, SqlError, state};
use crate::exec::{Exec, Row};
use crate::expr::{Comparison, compared};
use crate::types::SqlType;
use crate::value::{Operation, calculate, compare};

pub static FUNCTIONS: &[Builtin] = &[
    function("array_length", &[T::Array, T::Int4], T::Int4, |a, _| length(&a[0], integer(&a[1]))),
    function("array_upper", &[T::Array, T::Int4], T::Int4, |a, _| length(&a[0], integer(&a[1]))),
    function("array_lower", &[T::Array, T::Int4], T::Int4, |a, _| {
        Ok(if length(&a[0], integer(&a[1]))? == Datum::Null { Datum::Null } else { Datum::Signed(1) })
    }),
    function("cardinality", &[T::Array], T::Int4, |a, _| Ok(Datum::Signed(members(&a[0]).len() as i64))),
    of_nulls("array_to_string", &[T::Array, T::Text], T::Text, |a, _| {
        if a.contains(&Datum::Null) {
            return Ok(Datum::Null);
        }
        let texts = members(&a[0]).iter().filter_map(|member| crate::text::to_text(member, &SqlType::Text));
        Ok(Datum::Text(texts.collect::<Vec<_>>().join(text(&a[1]))))
    }),
    of_nulls("array_position", &[T::Array, T::Member], T::Int4, |a, _| {
        let found = members(&a[0]).iter().position(|member| compare(member, &a[1]).is_eq());
        Ok(found.map_or(Datum::Null, |place| Datum::Signed(place as i64 + 1)))
    }),
    of_nulls("array_append", &[T::Array, T::Member], T::First, |a, _| {
        Ok(Datum::List([members(&a[0]), &a[1..]].concat()))
    }),
    function("subscript", &[T::Array, T::Int8], T::Member, |a, _| {
        let place = usize::try_from(integer(&a[1]) - 1).ok();
        Ok(place.and_then(|place| members(&a[0]).get(place)).cloned().unwrap_or(Datum::Null))
    }),
    function("@>", &[T::Array, T::First], T::Bool, |a, _| Ok(Datum::Bool(contains(&a[0], &a[1])))),
    function("<@", &[T::Array, T::First], T::Bool, |a, _| Ok(Datum::Bool(contains(&a[1], &a[0])))),
    function("&&", &[T::Array, T::First], T::Bool, |a, _| {
        let has = |member: &Datum| members(&a[1]).iter().any(|other| is_equal(member, other));
        Ok(Datum::Bool(members(&a[0]).iter().any(has)))
    }),
];

fn members(value: &Datum) -> &[Datum] {
    if let Datum::List(members) = value { members } else { &[] }
}

fn is_equal(left: &Datum, right: &Datum) -> bool {
    compared(Comparison::Equal, left, right) == Datum::Bool(true)
}

fn contains(whole: &Datum, part: &Datum) -> bool {
    let has = |member: &Datum| members(whole).iter().any(|other| is_equal(member, other));
    members(part).iter().all(has)
}

fn length(of: &Datum, dimension: i64) -> Result<Datum> {
    let count = members(of).len();
    Ok(if dimension == 1 && count > 0 { Datum::Signed(count as i64) } else { Datum::Null })
}

/// Types that arguments get, and names and types of columns.
type SetTypes = (Vec<SqlType>, Vec<(&'static str, SqlType)>);

/// A function that returns several rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetFunction {
    /// Numbers or times from the first to the second argument, in steps of the third one.
    Series,
    /// The members of arrays.
    Unnest,
    /// The places of the members of an array.
    Subscripts,
    /// Places and members of an array.
    Expand,
    /// Words of the language: none.
    Keywords,
}

impl SetFunction {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            SetFunction::Series => "generate_series",
            SetFunction::Unnest => "unnest",
            SetFunction::Subscripts => "generate_subscripts",
            SetFunction::Expand => "_pg_expandarray",
            SetFunction::Keywords => "pg_get_keywords",
        }
    }

    /// Returns the function of a name.
    pub fn of_name(name: &str) -> Option<SetFunction> {
        use SetFunction::{Expand, Keywords, Series, Subscripts, Unnest};
        [Series, Unnest, Subscripts, Expand, Keywords].into_iter().find(|function| function.name() == name)
    }

    /// Returns the types that arguments of these types get, and names and types of the columns.
    pub fn columns(self, kinds: &[SqlType]) -> Result<SetTypes> {
        let wrong = || {
            SqlError::new(
                state::NO_FUNCTION,
                format!("function {} does not exist with these arguments", self.name()),
            )
        };
        let of = |kind: &SqlType| match kind {
            SqlType::Array(of) => Ok((**of).clone()),
            _ => Err(wrong()),
        };
        Ok(match (self, kinds) {
            (SetFunction::Series, [first, _] | [first, _, _]) => {
                let is_time = kinds
                    .iter()
                    .any(|kind| matches!(kind, SqlType::Timestamp | SqlType::TimestampTz | SqlType::Date));
                let own = match first {
                    SqlType::Date => SqlType::TimestampTz,
                    _ if is_time => first.clone(),
                    _ if kinds.iter().any(|kind| matches!(kind, SqlType::Numeric(_))) => {
                        SqlType::Numeric(None)
                    }
                    _ if kinds.contains(&SqlType::Int8) => SqlType::Int8,
                    _ => SqlType::Int4,
                };
                let step = if is_time { SqlType::Interval } else { own.clone() };
                let arguments = [own.clone(), own.clone(), step];
                (arguments[..kinds.len()].to_vec(), vec![("generate_series", own)])
            }
            (SetFunction::Unnest, [_, ..]) => {
                let columns = kinds.iter().map(|kind| Ok(("unnest", of(kind)?)));
                (kinds.to_vec(), columns.collect::<Result<_>>()?)
            }
            (SetFunction::Subscripts, [array, _]) => {
                (vec![array.clone(), SqlType::Int4], vec![("generate_subscripts", SqlType::Int4)])
            }
            (SetFunction::Expand, [array]) => (kinds.to_vec(), vec![("x", of(array)?), ("n", SqlType::Int4)]),
            (SetFunction::Keywords, []) => (
                Vec::new(),
                vec![("word", SqlType::Text), ("catcode", SqlType::Letter), ("catdesc", SqlType::Text)],
            ),
            _ => return Err(wrong()),
        })
    }

    /// Returns the rows.
    pub fn rows(self, arguments: &[Datum], x: &mut Exec<'_, '_>) -> Result<Vec<Row>> {
        match self {
            SetFunction::Series => series(arguments, x),
            SetFunction::Unnest => {
                let longest = arguments.iter().map(|array| members(array).len()).max().unwrap_or(0);
                let row = |place: usize| {
                    arguments
                        .iter()
                        .map(|array| members(array).get(place).cloned().unwrap_or(Datum::Null))
                        .collect()
                };
                Ok((0..longest).map(row).collect())
            }
            SetFunction::Subscripts => Ok((1..=members(&arguments[0]).len() as i64)
                .map(|place| vec![Datum::Signed(place)])
                .collect()),
            SetFunction::Expand => {
                let numbered = members(&arguments[0]).iter().cloned().zip((1..).map(Datum::Signed));
                Ok(numbered.map(|(member, number)| vec![member, number]).collect())
            }
            SetFunction::Keywords => Ok(Vec::new()),
        }
    }
}

fn series(arguments: &[Datum], x: &mut Exec<'_, '_>) -> Result<Vec<Row>> {
    if arguments.contains(&Datum::Null) {
        return Ok(Vec::new());
    }
    let (first, last) = (&arguments[0], &arguments[1]);
    let step = arguments.get(2).cloned().unwrap_or(Datum::Signed(1));
    let (kind, zero) = match first {
        Datum::Signed(_) => (SqlType::Int8, Datum::Signed(0)),
        Datum::Numeric(_) => (SqlType::Numeric(None), Datum::Signed(0)),
        _ => (SqlType::Timestamp, Datum::Interval(isles::Interval::ZERO)),
    };
    let direction = compare(&step, &zero);
    if direction.is_eq() {
        return Err(SqlError::new(state::INVALID_PARAMETER, "step size cannot equal zero"));
    }
    let (mut rows, mut next) = (Vec::new(), first.clone());
    while compare(&next, last) != direction {
        let row = vec![next.clone()];
        x.hold(&row)?;
        rows.push(row);
        let Ok(following) = calculate(Operation::Add, &next, &step, &kind) else { break };
        next = following;
    }
    Ok(rows)
}

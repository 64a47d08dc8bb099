//! Functions of numbers.

use isles::{Datum, Decimal};

use super::{Builtin, T, function, integer, of_nulls, variadic};
use crate::error::{Result, SqlError, state};
use crate::value::{compare, decimal, float};

pub static FUNCTIONS: &[Builtin] = &[
    function("abs", &[T::Int4], T::Int4, absolute),
    function("abs", &[T::Int8], T::Int8, absolute),
    function("abs", &[T::Numeric], T::Numeric, absolute),
    function("abs", &[T::Float8], T::Float8, absolute),
    function("sign", &[T::Numeric], T::Numeric, |a, _| Ok(whole(exact(&a[0]).digits().signum()))),
    function("sign", &[T::Float8], T::Float8, |a, _| Ok(Datum::Float(number(&a[0]).signum()))),
    function("ceil", &[T::Numeric], T::Numeric, |a, _| Ok(whole(-floor_of(-exact(&a[0]).digits(), &a[0])))),
    function("ceiling", &[T::Numeric], T::Numeric, |a, _| {
        Ok(whole(-floor_of(-exact(&a[0]).digits(), &a[0])))
    }),
    function("floor", &[T::Numeric], T::Numeric, |a, _| Ok(whole(floor_of(exact(&a[0]).digits(), &a[0])))),
    function("ceil", &[T::Float8], T::Float8, |a, _| Ok(Datum::Float(number(&a[0]).ceil()))),
    function("ceiling", &[T::Float8], T::Float8, |a, _| Ok(Datum::Float(number(&a[0]).ceil()))),
    function("floor", &[T::Float8], T::Float8, |a, _| Ok(Datum::Float(number(&a[0]).floor()))),
    function("round", &[T::Numeric], T::Numeric, |a, _| Ok(Datum::Numeric(exact(&a[0]).rounded(0)))),
    function("round", &[T::Float8], T::Float8, |a, _| Ok(Datum::Float(number(&a[0]).round_ties_even()))),
    function("round", &[T::Numeric, T::Int4], T::Numeric, |a, _| round(exact(&a[0]), integer(&a[1]))),
    function("trunc", &[T::Numeric], T::Numeric, |a, _| {
        let of = exact(&a[0]);
        Ok(whole(of.digits() / 10_i128.pow(of.scale().into())))
    }),
    function("trunc", &[T::Float8], T::Float8, |a, _| Ok(Datum::Float(number(&a[0]).trunc()))),
    function("sqrt", &[T::Float8], T::Float8, |a, _| match number(&a[0]) {
        ..0.0 => Err(SqlError::new("2201F", "cannot take square root of a negative number")),
        of => Ok(Datum::Float(of.sqrt())),
    }),
    function("power", &[T::Float8, T::Float8], T::Float8, power),
    function("pow", &[T::Float8, T::Float8], T::Float8, power),
    function("exp", &[T::Float8], T::Float8, |a, _| Ok(Datum::Float(number(&a[0]).exp()))),
    function("ln", &[T::Float8], T::Float8, |a, _| logarithm(number(&a[0]).ln(), &a[0])),
    function("log", &[T::Float8], T::Float8, |a, _| logarithm(number(&a[0]).log10(), &a[0])),
    function("mod", &[T::Int4, T::Int4], T::Int4, modulo),
    function("mod", &[T::Int8, T::Int8], T::Int8, modulo),
    function("div", &[T::Numeric, T::Numeric], T::Numeric, |a, _| {
        let (left, right) = (exact(&a[0]), exact(&a[1]));
        let scale = left.scale().max(right.scale());
        let digits = |of: Decimal| of.with_scale(scale).map(Decimal::digits);
        match (digits(left), digits(right)) {
            (_, Some(0)) => Err(SqlError::new(state::DIVISION_BY_ZERO, "division by zero")),
            (Some(left), Some(right)) => Ok(whole(left / right)),
            _ => Err(crate::value::out_of_range(&crate::types::SqlType::Numeric(None))),
        }
    }),
    function("random", &[], T::Float8, |_, x| Ok(Datum::Float(x.context.random()))),
    variadic("greatest", &[T::Any, T::First], T::First, |a, _| Ok(best(a, true))),
    variadic("least", &[T::Any, T::First], T::First, |a, _| Ok(best(a, false))),
    of_nulls("nullif", &[T::Any, T::First], T::First, |a, _| {
        let is_same = a.iter().all(|value| *value != Datum::Null) && compare(&a[0], &a[1]).is_eq();
        Ok(if is_same { Datum::Null } else { a[0].clone() })
    }),
    function("&", &[T::Int8, T::Int8], T::Int8, |a, _| Ok(Datum::Signed(integer(&a[0]) & integer(&a[1])))),
    function("|", &[T::Int8, T::Int8], T::Int8, |a, _| Ok(Datum::Signed(integer(&a[0]) | integer(&a[1])))),
    function("#", &[T::Int8, T::Int8], T::Int8, |a, _| Ok(Datum::Signed(integer(&a[0]) ^ integer(&a[1])))),
    function("&", &[T::Int4, T::Int4], T::Int4, |a, _| Ok(Datum::Signed(integer(&a[0]) & integer(&a[1])))),
    function("|", &[T::Int4, T::Int4], T::Int4, |a, _| Ok(Datum::Signed(integer(&a[0]) | integer(&a[1])))),
    function("#", &[T::Int4, T::Int4], T::Int4, |a, _| Ok(Datum::Signed(integer(&a[0]) ^ integer(&a[1])))),
    function("<<", &[T::Int8, T::Int4], T::Int8, |a, _| {
        Ok(Datum::Signed(integer(&a[0]).wrapping_shl(integer(&a[1]) as u32)))
    }),
    function(">>", &[T::Int8, T::Int4], T::Int8, |a, _| {
        Ok(Datum::Signed(integer(&a[0]).wrapping_shr(integer(&a[1]) as u32)))
    }),
];

fn number(value: &Datum) -> f64 {
    float(value).unwrap_or(0.0)
}

fn exact(value: &Datum) -> Decimal {
    decimal(value).unwrap_or(Decimal::ZERO)
}

fn whole(digits: i128) -> Datum {
    Datum::Numeric(Decimal::new(digits, 0).unwrap_or(Decimal::ZERO))
}

/// Returns the largest integer that is not above a number with these digits and the scale of `of`.
fn floor_of(digits: i128, of: &Datum) -> i128 {
    digits.div_euclid(10_i128.pow(exact(of).scale().into()))
}

fn absolute(a: &[Datum], _: &mut crate::exec::Exec<'_, '_>) -> Result<Datum> {
    Ok(match &a[0] {
        Datum::Signed(number) => Datum::Signed(
            number.checked_abs().ok_or_else(|| crate::value::out_of_range(&crate::types::SqlType::Int8))?,
        ),
        Datum::Float(number) => Datum::Float(number.abs()),
        other => {
            let of = exact(other);
            Datum::Numeric(Decimal::new(of.digits().abs(), of.scale()).unwrap_or(of))
        }
    })
}

fn round(of: Decimal, places: i64) -> Result<Datum> {
    if let Ok(places) = u8::try_from(places) {
        let rounded = of.rounded(places.min(38));
        return Ok(Datum::Numeric(rounded.with_scale(places.min(38)).unwrap_or(rounded)));
    }
    let unit = 10_i128.checked_pow(places.unsigned_abs().min(39) as u32);
    let Some(unit) = unit else { return Ok(whole(0)) };
    let digits = of.rounded(0).digits();
    let (quotient, rest) = (digits / unit, digits % unit);
    let up = if 2 * rest.unsigned_abs() >= unit.unsigned_abs() { digits.signum() } else { 0 };
    Ok(whole((quotient + up) * unit))
}

fn power(a: &[Datum], _: &mut crate::exec::Exec<'_, '_>) -> Result<Datum> {
    let result = number(&a[0]).powf(number(&a[1]));
    match result.is_nan() {
        true => Err(SqlError::new(
            "2201F",
            "a negative number raised to a non-integer power yields a complex result",
        )),
        false => Ok(Datum::Float(result)),
    }
}

fn logarithm(result: f64, of: &Datum) -> Result<Datum> {
    match number(of) {
        ..=0.0 => Err(SqlError::new("2201E", "cannot take logarithm of a negative number or zero")),
        _ => Ok(Datum::Float(result)),
    }
}

fn modulo(a: &[Datum], _: &mut crate::exec::Exec<'_, '_>) -> Result<Datum> {
    match integer(&a[1]) {
        0 => Err(SqlError::new(state::DIVISION_BY_ZERO, "division by zero")),
        by => Ok(Datum::Signed(integer(&a[0]).checked_rem(by).unwrap_or(0))),
    }
}

fn best(values: &[Datum], greatest: bool) -> Datum {
    let values = values.iter().filter(|value| **value != Datum::Null);
    let best = if greatest {
        values.max_by(|left, right| compare(left, right))
    } else {
        values.min_by(|left, right| compare(left, right))
    };
    best.cloned().unwrap_or(Datum::Null)
}

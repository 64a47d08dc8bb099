//! Tests of expressions: truth tables, types, and a model of integers.

use proptest::prelude::*;

use super::*;

/// Evaluates an expression over columns `a` and `b` (integers), `t` (a text) and `c` (`char(4)`).
fn evaluate(expression: &Expression, [a, b]: [Datum; 2]) -> Result<Datum, String> {
    let kinds = [ValueType::Signed(8), ValueType::Signed(8), ValueType::String, ValueType::Char(4)];
    let columns = |name: &str| {
        let number = ["a", "b", "t", "c"].iter().position(|other| *other == name)?;
        Some((number, &kinds[number]))
    };
    let (bound, _) = bind(expression, &columns)?;
    let row = [a, b, Datum::from("héllo "), Datum::from("ab  ")];
    bound.evaluate(&|number| row.get(number).cloned()).map_err(|fault| fault.to_string())
}

fn of(expression: Expression) -> Result<Datum, String> {
    evaluate(&expression, [Datum::Signed(7), Datum::Null])
}

fn column(name: &str) -> Expression {
    Expression::column(name)
}

const TRUE: Datum = Datum::Bool(true);
const FALSE: Datum = Datum::Bool(false);

#[test]
fn truth_has_three_values() {
    let all = [TRUE, FALSE, Datum::Null];
    let and = [[TRUE, FALSE, Datum::Null], [FALSE, FALSE, FALSE], [Datum::Null, FALSE, Datum::Null]];
    let or = [[TRUE, TRUE, TRUE], [TRUE, FALSE, Datum::Null], [TRUE, Datum::Null, Datum::Null]];
    for (i, left) in all.iter().enumerate() {
        for (j, right) in all.iter().enumerate() {
            let [left, right] = [left, right].map(|value| Expression::constant(value.clone()));
            assert_eq!(of(left.clone().and(right.clone())), Ok(and[i][j].clone()), "{left} and {right}");
            assert_eq!(of(left.clone().or(right.clone())), Ok(or[i][j].clone()), "{left} or {right}");
        }
        let negated = [FALSE, TRUE, Datum::Null][i].clone();
        assert_eq!(of(!Expression::constant(left.clone())), Ok(negated));
    }
    assert_eq!(of(column("b").is_null()), Ok(TRUE));
    assert_eq!(of(column("a").equals(column("b"))), Ok(Datum::Null));
    assert_eq!(of(column("a").is_in([1, 7])), Ok(TRUE));
    assert_eq!(of(column("a").is_in([Expression::from(1), column("b")])), Ok(Datum::Null));
    assert_eq!(of(column("a").between(8, column("b"))), Ok(FALSE));
    assert_eq!(of(column("a").between(7, column("b"))), Ok(Datum::Null));
}

#[test]
fn values_of_one_class_compare_and_others_are_refused() {
    let decimal = |text: &str| Expression::constant(Datum::Numeric(text.parse().expect("a number")));
    assert_eq!(of(column("a").equals(decimal("7.00"))), Ok(TRUE));
    assert_eq!(of((column("a") + decimal("0.5")).equals(decimal("7.5"))), Ok(TRUE));
    assert_eq!(of((column("a") * 1.5).more(10)), Ok(TRUE));
    assert_eq!(of(column("a").less(Expression::constant(Datum::Unsigned128(u128::MAX)))), Ok(TRUE));
    assert_eq!(of(decimal("9").more(Expression::constant(Datum::Unsigned128(u128::MAX)))), Ok(FALSE));
    assert_eq!(of(column("c").equals("ab")), Ok(TRUE), "blanks do not count");
    assert_eq!(of(column("c").length()), Ok(Datum::Signed(2)));
    assert_eq!(of(column("t").length()), Ok(Datum::Signed(6)));
    for (wrong, reason) in [
        (column("a").equals("7"), "do not compare"),
        (column("x").is_null(), "no column"),
        (column("a").and(column("a").more(1)), "neither true nor false"),
        (column("a").length(), "have a length"),
        (column("t") + 1, "not there"),
        (decimal("1.5") / 2, "not there"),
        (Expression::constant(Datum::List(Vec::new())).is_null(), "a list"),
    ] {
        let refused = of(wrong.clone()).expect_err("it is wrong");
        assert!(refused.contains(reason), "{wrong}: {refused}");
    }
    let deep = (0..LEVELS_MAX + 1).fold(column("a").more(1), |inner, _| !inner);
    assert!(of(deep).expect_err("too deep").contains("levels"));
    let wide = Expression::In(Box::new(column("a")), vec![Expression::from(1); PARTS_MAX]);
    assert!(of(wide).expect_err("too wide").contains("parts"));
}

#[test]
fn numbers_without_a_place_are_errors() {
    assert_eq!(of(column("a") / 0), Err("it divides by zero".to_owned()));
    assert_eq!(of(column("a") / 0.0), Err("it divides by zero".to_owned()));
    let large = Expression::constant(Datum::Signed128(i128::MAX));
    assert_eq!(of(large.clone() + 1), Err("a number in it is too large".to_owned()));
    assert_eq!(of(column("b") / 0), Ok(Datum::Null));
    // `and` ends at the first false.
    assert_eq!(of(column("a").less(0).and((column("a") / 0).more(1))), Ok(FALSE));
}

proptest! {
    #[test]
    fn integers_calculate_like_those_of_rust(a in any::<i64>(), b in any::<i64>()) {
        let both = [Datum::Signed(a), Datum::Signed(b)];
        let value = |expression| evaluate(&expression, both.clone());
        let wide = |value: i128| Ok(of_integer(value));
        let (x, y) = (i128::from(a), i128::from(b));
        prop_assert_eq!(value(column("a") + column("b")), wide(x + y));
        prop_assert_eq!(value(column("a") - column("b")), wide(x - y));
        prop_assert_eq!(value(column("a") * column("b")), wide(x * y));
        if b != 0 {
            prop_assert_eq!(value(column("a") / column("b")), wide(x / y));
            prop_assert_eq!(value(column("a") % column("b")), wide(x % y));
        }
        prop_assert_eq!(value(column("a").less(column("b"))), Ok(Datum::Bool(a < b)));
        prop_assert_eq!(value(column("a").at_least(column("b"))), Ok(Datum::Bool(a >= b)));
    }
}

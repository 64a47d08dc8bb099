use proptest::prelude::*;
use serde_json::json;

use super::*;

fn results() -> Results {
    let a = json!({
        "throughput": 10.0, "commits": 5, "counters": {"llc_misses": null}, "interrupted": false,
        "checks": {"one": "ok", "two-words": "bad"}, "timeline": [{"throughput": 1.0}, {"throughput": 3.0}],
        "list": [1, 2, 3]
    });
    let b = json!({"throughput": 4.0});
    [("a".to_owned(), a), ("b".to_owned(), b)].into()
}

fn value(text: &str) -> Value {
    let expression = Expression::parse(text).unwrap_or_else(|error| panic!("{error}"));
    expression.evaluate(&results()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn number(text: &str) -> f64 {
    match value(text) {
        Value::Number(number) => number,
        other => panic!("{text}: {other}"),
    }
}

#[test]
fn arithmetic_has_its_precedence() {
    for (text, expected) in [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("10 - 2 - 3", 5.0),
        ("16 / 4 / 2", 2.0),
        ("-2 * 3 + 10", 4.0),
        ("2 - -3", 5.0),
        ("1.5e1 + .5e0 * 0", 15.0),
    ] {
        let text = text.replace(".5e0 * 0", "0.5e0 * 0");
        assert_eq!(number(&text), expected, "{text}");
    }
}

#[test]
fn paths_reach_into_results() {
    assert_eq!(number("a.throughput / b.throughput"), 2.5);
    assert_eq!(number("a.timeline[1].throughput"), 3.0);
    assert_eq!(value("a.checks.one == \"ok\" and a.checks[\"two-words\"] != \"ok\""), Value::Truth(true));
    assert_eq!(value("not a.interrupted"), Value::Truth(true));
    assert_eq!(number("sum(a.list)"), 6.0);
    let expression = Expression::parse("b.x / a.timeline[1].y + min(b.z, 1)").unwrap();
    let paths: Vec<String> = expression.paths().iter().map(|path| path.to_string()).collect();
    assert_eq!(paths, ["b.x", "a.timeline[1].y", "b.z"]);
}

#[test]
fn comparisons_chain() {
    for (text, expected) in [
        ("3 > 2 > 1", true),
        ("3 > 1 > 2", false),
        ("1 < 2 <= 2 == 2 >= 1 != 7", true),
        ("1 > 2 or 2 > 1", true),
        ("1 > 2 or 2 > 1 and 1 > 2", false),
        ("not 1 > 2 and 2 > 1", true),
        ("not (1 > 2 or 2 > 1)", false),
        ("true == (1 < 2)", true),
        ("a.throughput > max(b.throughput, 3) and b.throughput > 1", true),
    ] {
        assert_eq!(value(text), Value::Truth(expected), "{text}");
    }
}

#[test]
fn functions_take_numbers_and_lists() {
    for (text, expected) in [
        ("min(3, 1, 2)", 1.0),
        ("max([3, 1], 7)", 7.0),
        ("mean(1, 2, [6])", 3.0),
        ("abs(-2)", 2.0),
        ("log(exp(2))", 2.0),
        ("sum([1, 2] * [10, 100])", 210.0),
        ("sum([1, 2] / 2 + 1)", 3.5),
        ("sum(6 / [1, 2, 3])", 11.0),
        ("sum(abs(-[1, -2]))", 3.0),
        ("spearman([1, 2, 3], [10, 20, 30])", 1.0),
        ("spearman([1, 2, 3], [30, 20, 10])", -1.0),
        // By hand: ranks 1 2 3 4 5 against 1 3 2 5 4, d^2 = 0 1 1 1 1, 1 - 6 * 4 / (5 * 24).
        ("spearman([1, 2, 3, 4, 5], [1, 3, 2, 5, 4])", 0.8),
        // Ties: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
        ("spearman([1, 2, 2, 4], [1, 2, 3, 4])", 0.948_683_298_050_513_8),
        ("log_error([2, 8], [4, 4]) / log(2)", 1.0),
        ("within_two([2, 8, 9, 1, 0], [4, 4, 4, 4, 0])", 2.0),
    ] {
        assert!((number(text) - expected).abs() < 1e-12, "{text}: {}", number(text));
    }
}

/// Texts with syntax errors: the column of the error, and its description.
const SYNTAX: &[(&str, usize, &str)] = &[
    ("", 1, "unexpected the end"),
    ("1 +", 4, "unexpected the end"),
    ("1 2", 3, "unexpected 2"),
    ("(1", 3, "unexpected the end"),
    ("1)", 2, "unexpected )"),
    ("a.", 3, "unexpected the end"),
    ("a.1", 3, "unexpected 1"),
    ("a[1.5]", 3, "unexpected 1.5"),
    ("a[-1]", 3, "unexpected -"),
    ("min()", 1, "min of 0 arguments"),
    ("1 + abs(1, 2)", 5, "abs of 2 arguments"),
    ("spearman([1], [2]", 18, "unexpected the end"),
    ("frobnicate(1)", 1, "unknown function frobnicate"),
    ("a.x and or b.x", 9, "unexpected or"),
    ("\u{e9} + 1", 1, "unexpected \\u{e9}"),
    ("1 = 2", 3, "unexpected ="),
    ("a.x == \"b", 8, "text without its closing quote"),
    ("1e999", 1, "no number"),
    ("[1, 2", 6, "unexpected the end"),
];

#[test]
fn faults_have_a_place_and_say_what_is_accepted() {
    for (text, column, problem) in SYNTAX {
        let error = Expression::parse(text).expect_err(text);
        assert_eq!((error.column, error.problem.as_str()), (*column, *problem), "{text}");
        assert!(!error.accepted.is_empty(), "{text}");
    }
    for deep in ["(".repeat(100_000), "-".repeat(100_000), "not ".repeat(100_000), "1+".repeat(100_000)] {
        assert_eq!(Expression::parse(&deep).expect_err("too deep").problem, "nested too deeply");
    }
}

#[test]
fn nothing_is_guessed() {
    for (text, part, problem) in [
        ("1 + a.counters.llc_misses", "a.counters.llc_misses", "not known to this run (null in its result)"),
        ("a.nothing", "a.nothing", "the result has no nothing there (accepted: throughput, commits,"),
        ("a.counters", "a.counters", "an object, of which a value needs one member (accepted: llc_misses)"),
        ("a.throughput.more", "a.throughput.more", "the result has no more there"),
        ("a.list[3]", "a.list[3]", "the result has 3 elements there, none at 3"),
        ("1 < 2 or 3 / 0 > 1", "3 / 0", "division by zero"),
        ("1e300 * 1e300", "1e300 * 1e300", "no finite number"),
        ("log(0 - 1)", "log(0 - 1)", "logarithm of -1"),
        ("1 and true", "1", "a number where true or false is needed"),
        ("1 + true", "1 + true", "true or false where a number is needed"),
        ("\"x\" + 1", "\"x\" + 1", "text where a number is needed"),
        ("[1] < 2", "[1] < 2", "a list < a number"),
        ("\"a\" < \"b\"", "\"a\" < \"b\"", "text < text"),
        ("1 == \"1\"", "1 == \"1\"", "a number == text"),
        ("[1, 2] + [1]", "[1, 2] + [1]", "lists of 2 and 1 elements"),
        ("spearman([1, 2], [1])", "spearman([1, 2], [1])", "lists of 2 and 1 numbers"),
        ("spearman([1, 1], [1, 2])", "spearman([1, 1], [1, 2])", "a list without two different numbers"),
        ("max([])", "max([])", "no numbers"),
    ] {
        let error = Expression::parse(text).expect(text).evaluate(&results()).expect_err(text);
        assert_eq!(error.part, part, "{text}");
        assert!(error.problem.starts_with(problem), "{text}: {}", error.problem);
    }
}

#[test]
fn comparisons_are_explained_with_their_numbers() {
    let explain = |text: &str| Expression::parse(text).unwrap().explain(&results());
    assert_eq!(explain("a.throughput > b.throughput > 1 and (2 < 1 or true)"), "10 > 4 > 1; 2 < 1");
    assert_eq!(explain("a.throughput / 2"), "");
    assert_eq!(explain("a.nothing > 2"), "");
}

#[test]
fn pairs_of_lists_can_be_drawn() {
    let text = "log_error([a.throughput, b.throughput] / b.throughput, [2, 1]) < spearman([1, 2], [3, 4])";
    let pairings = Expression::parse(text).unwrap().pairings(&results());
    assert_eq!(pairings.len(), 2);
    assert_eq!((pairings[0].function, pairings[0].paths.len()), ("log_error", 2));
    assert_eq!((&pairings[0].first, &pairings[0].second), (&vec![2.5, 1.0], &vec![2.0, 1.0]));
    assert_eq!((pairings[1].paths.len(), pairings[1].value), (0, 1.0));
}

/// An expression without runs, as text and as the number that Rust computes for it.
fn computed() -> impl Strategy<Value = (String, f64)> {
    let leaf = (1u32..1000).prop_map(|number| (format!("{number}"), f64::from(number)));
    leaf.prop_recursive(5, 24, 2, |inner| {
        let operators = prop_oneof![Just('+'), Just('-'), Just('*'), Just('/')];
        prop_oneof![
            (inner.clone(), operators, inner.clone()).prop_map(|((left, x), operator, (right, y))| {
                let value = match operator {
                    '+' => x + y,
                    '-' => x - y,
                    '*' => x * y,
                    _ => x / y,
                };
                (format!("({left}){operator} ({right})"), value)
            }),
            (inner.clone(), inner.clone())
                .prop_map(|((left, x), (right, y))| (format!("min({left}, {right})"), x.min(y))),
            inner.prop_map(|(text, x)| (format!("-({text})"), -x)),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_parses_or_has_a_fault_inside(text in "\\PC{0,40}") {
        if let Err(error) = Expression::parse(&text) {
            prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1);
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn any_tokens_parse_or_fail_and_never_panic(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "1", "2.5", "a", "b", ".", "throughput", "list", "[", "]", "(", ")", ",", "+", "-", "*", "/", "<",
                ">=", "==", "and", "or", "not", "min", "spearman", "true", "\"ok\"",
            ]),
            0..24,
        )
    ) {
        let text = words.join(" ");
        if let Ok(expression) = Expression::parse(&text) {
            let value = expression.evaluate(&results());
            prop_assert_eq!(&value, &expression.evaluate(&results()));
            if let Err(error) = value {
                prop_assert!(text.contains(&error.part));
            }
        }
    }

    #[test]
    fn arithmetic_is_that_of_floating_point((text, expected) in computed()) {
        let value = Expression::parse(&text).unwrap().evaluate(&results());
        if expected.is_finite() {
            // A division by a difference that is zero has no value here.
            if let Ok(value) = value {
                prop_assert_eq!(value, Value::Number(expected));
            } else {
                prop_assert!(text.contains('/'));
            }
        } else {
            prop_assert!(value.is_err());
        }
    }

    #[test]
    fn spearman_depends_on_order_only(numbers in prop::collection::btree_set(1u32..10_000, 2..20)) {
        let list = |values: &mut dyn Iterator<Item = f64>| {
            values.map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
        };
        let numbers: Vec<f64> = numbers.into_iter().map(f64::from).collect();
        let first = list(&mut numbers.iter().copied());
        let monotone = list(&mut numbers.iter().map(|number| number * number + 3.0));
        let falling = list(&mut numbers.iter().map(|number| 1.0 / number));
        let rising = number(&format!("spearman([{first}], [{monotone}])"));
        let falling = number(&format!("spearman([{first}], [{falling}])"));
        prop_assert!((rising - 1.0).abs() < 1e-12 && (falling + 1.0).abs() < 1e-12);
    }
}

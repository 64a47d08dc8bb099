//! Functions of the language.

use super::value::Value;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Min,
    Max,
    Sum,
    Mean,
    Abs,
    Log,
    Exp,
    Spearman,
    LogError,
    WithinTwo,
}

const ALL: [(&str, Function, &str); 10] = [
    ("min", Function::Min, "min of numbers or lists"),
    ("max", Function::Max, "max of numbers or lists"),
    ("sum", Function::Sum, "sum of numbers or lists"),
    ("mean", Function::Mean, "mean of numbers or lists"),
    ("abs", Function::Abs, "abs(x)"),
    ("log", Function::Log, "log(x), the natural logarithm"),
    ("exp", Function::Exp, "exp(x)"),
    ("spearman", Function::Spearman, "spearman([..], [..])"),
    ("log_error", Function::LogError, "log_error([..], [..])"),
    ("within_two", Function::WithinTwo, "within_two([..], [..])"),
];

/// The names of all functions.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _, _)| *name).collect()
}

impl Function {
    pub fn named(name: &str) -> Option<Function> {
        ALL.iter().find(|(other, _, _)| *other == name).map(|(_, function, _)| *function)
    }

    fn entry(self) -> &'static (&'static str, Function, &'static str) {
        ALL.iter().find(|(_, other, _)| *other == self).expect("the table has every function")
    }

    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// Signature for messages.
    pub fn signature(self) -> &'static str {
        self.entry().2
    }

    /// True if it takes two lists of equal length.
    pub fn pairs(self) -> bool {
        matches!(self, Function::Spearman | Function::LogError | Function::WithinTwo)
    }

    /// True if it takes this many arguments.
    pub fn takes(self, count: usize) -> bool {
        match self {
            Function::Min | Function::Max | Function::Sum | Function::Mean => count >= 1,
            Function::Abs | Function::Log | Function::Exp => count == 1,
            Function::Spearman | Function::LogError | Function::WithinTwo => count == 2,
        }
    }

    /// The value for these arguments, or the reason for its absence.
    pub fn apply(self, arguments: &[Value]) -> Result<Value, String> {
        match self {
            Function::Min => fold(arguments, f64::min),
            Function::Max => fold(arguments, f64::max),
            Function::Sum => fold(arguments, |sum, number| sum + number),
            Function::Mean => {
                let numbers = flatten(arguments)?;
                Ok(Value::Number(numbers.iter().sum::<f64>() / numbers.len() as f64))
            }
            Function::Abs => each(&arguments[0], &|number| Ok(number.abs())),
            Function::Log => each(&arguments[0], &logarithm),
            Function::Exp => each(&arguments[0], &|number| Ok(number.exp())),
            Function::Spearman => {
                let (first, second) = pair(arguments)?;
                spearman(&first, &second).map(Value::Number)
            }
            Function::LogError => {
                let (first, second) = pair(arguments)?;
                log_error(&first, &second).map(Value::Number)
            }
            Function::WithinTwo => {
                let (first, second) = pair(arguments)?;
                Ok(Value::Number(within_two(&first, &second)))
            }
        }
    }
}

/// Applies `apply` to a number, or to each element of a list.
pub(super) fn each(value: &Value, apply: &dyn Fn(f64) -> Result<f64, String>) -> Result<Value, String> {
    match value {
        Value::Number(number) => apply(*number).map(Value::Number),
        Value::List(values) => {
            let results: Result<Vec<Value>, String> = values.iter().map(|value| each(value, apply)).collect();
            results.map(Value::List)
        }
        other => Err(format!("{} where a number is needed", other.kind())),
    }
}

/// Two lists of numbers of equal length.
pub(super) fn pair(arguments: &[Value]) -> Result<(Vec<f64>, Vec<f64>), String> {
    let list = |value: &Value| match value {
        Value::List(values) => flatten(values),
        other => Err(format!("{} where a list is needed", other.kind())),
    };
    let (first, second) = (list(&arguments[0])?, list(&arguments[1])?);
    if first.len() != second.len() {
        return Err(format!("lists of {} and {} numbers", first.len(), second.len()));
    }
    Ok((first, second))
}

/// All numbers of the arguments and of the lists among them; at least one.
fn flatten(arguments: &[Value]) -> Result<Vec<f64>, String> {
    let mut numbers = Vec::new();
    for argument in arguments {
        match argument {
            Value::Number(number) => numbers.push(*number),
            Value::List(values) if values.is_empty() => {}
            Value::List(values) => numbers.extend(flatten(values)?),
            other => return Err(format!("{} where a number is needed", other.kind())),
        }
    }
    if numbers.is_empty() { Err("no numbers".to_owned()) } else { Ok(numbers) }
}

fn fold(arguments: &[Value], combine: fn(f64, f64) -> f64) -> Result<Value, String> {
    let numbers = flatten(arguments)?;
    Ok(Value::Number(numbers[1..].iter().fold(numbers[0], |result, number| combine(result, *number))))
}

fn logarithm(number: f64) -> Result<f64, String> {
    if number > 0.0 { Ok(number.ln()) } else { Err(format!("logarithm of {number}")) }
}

/// Mean of the absolute logarithms of the ratios: 0.69 is a factor of two either way.
fn log_error(first: &[f64], second: &[f64]) -> Result<f64, String> {
    let mut sum = 0.0;
    for (one, other) in first.iter().zip(second) {
        sum += (logarithm(*one)? - logarithm(*other)?).abs();
    }
    Ok(sum / first.len() as f64)
}

/// Number of ratios within a factor of two either way.
fn within_two(first: &[f64], second: &[f64]) -> f64 {
    let ratios = first.iter().zip(second).map(|(one, other)| one / other);
    ratios.filter(|ratio| (0.5..=2.0).contains(ratio)).count() as f64
}

/// Spearman's rank correlation: Pearson's of the ranks, equal numbers sharing the mean of their
/// ranks.
fn spearman(first: &[f64], second: &[f64]) -> Result<f64, String> {
    let (first, second) = (ranks(first), ranks(second));
    let mean = (first.len() as f64 + 1.0) / 2.0;
    let product = |left: &[f64], right: &[f64]| {
        left.iter().zip(right).map(|(one, other)| (one - mean) * (other - mean)).sum::<f64>()
    };
    let spread = product(&first, &first) * product(&second, &second);
    if spread == 0.0 {
        return Err("a list without two different numbers".to_owned());
    }
    Ok((product(&first, &second) / spread.sqrt()).clamp(-1.0, 1.0))
}

/// The rank of each number, from 1; equal numbers share the mean of their ranks.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let rank = |number: &f64| {
        let below = numbers.iter().filter(|other| *other < number).count() as f64;
        let equal = numbers.iter().filter(|other| *other == number).count() as f64;
        below + (equal + 1.0) / 2.0
    };
    numbers.iter().map(rank).collect()
}

//! Figures: curves over an axis, run and drawn without a judgement.
//!
//! A figure is read into the runs of each of its points: arguments of the figure, of the series (or
//! of the baseline), of the size of the study, and of this size of the figure, in this order.

use std::collections::BTreeMap;

use toml::{Table, Value as Toml};

use super::error::StudyError;
use super::reader::{Entry, Like, Reader, number};
use super::run::{self, Run};
use super::size::Size;
use super::template::{Position, fill};
use crate::expression::Expression;

const KEYS: &str = "id, source, about, x, y, run, series, baseline, published, like, smoke, full";
const VALUES: &str = "ascending numbers such as [0, 50, 100], or different words";
const IN_BRACES: &str = "{x}, or an expression over x without spaces such as {x/100}";
/// Names of runs in the value of a point.
const RUN: &str = "run";
const BASELINE: &str = "baseline";
const PUBLISHED: &str = "published";

/// Curves of a publication.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name, unique in the file.
    pub id: String,
    /// Publication of the figure.
    pub source: String,
    /// The set-up in words.
    pub about: String,
    /// Name of the horizontal axis.
    pub x_label: String,
    /// Positions on the horizontal axis: ascending numbers, or words.
    pub x: Vec<Position>,
    /// Name of the vertical axis.
    pub y_label: String,
    /// True if each curve is drawn relative to its largest value.
    pub relative_to_peak: bool,
    /// The curves, in the order of the legend.
    pub series: Vec<FigureSeries>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureSeries {
    /// Its name in the legend.
    pub name: String,
    /// A point for each position on the horizontal axis.
    pub points: Vec<FigurePoint>,
    /// The published value at each position, in the unit of the vertical axis; `None` without any.
    pub published: Option<Vec<Option<f64>>>,
}

/// A point of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct FigurePoint {
    /// Expression over the results of the runs.
    pub value: Expression,
    /// The runs `run` and `baseline`, as far as the value uses them.
    pub runs: Vec<Run>,
}

impl Figure {
    /// True if the horizontal axis has categories.
    pub fn has_categories(&self) -> bool {
        self.x.iter().any(|x| matches!(x, Position::Word(_)))
    }
}

/// Reads one figure in a size, in one form or two. `number` is its place in the file;
/// `size_arguments` are those that the file gives all runs of the size.
pub(super) fn read(
    number: usize,
    table: &Table,
    size: Size,
    size_arguments: &[String],
) -> Result<Vec<Figure>, StudyError> {
    let read = |reader: Reader<'_>, size_arguments: &[String]| {
        FigureReader { reader, size, size_arguments }.figure()
    };
    let entry = Entry { table, kind: "figure", number };
    entry.forms(size_arguments, read, |figure| [&mut figure.id, &mut figure.about])
}

struct FigureReader<'a> {
    reader: Reader<'a>,
    size: Size,
    size_arguments: &'a [String],
}

/// The parts of the points of a curve, with braces.
struct Curve {
    value: String,
    /// The key of the value, for messages.
    value_key: String,
    run: Vec<String>,
    /// Arguments of the baseline, if there is one.
    baseline: Option<Vec<String>>,
    /// Key of the arguments of the series, for messages.
    key: String,
}

impl FigureReader<'_> {
    fn figure(mut self) -> Result<(Figure, Option<Like>), StudyError> {
        let id = self.reader.id(KEYS)?;
        let (source, about) = (self.reader.text("source")?, self.reader.text("about")?);
        let x = self.inner("x", "{ label = \"...\", values = [...] }", "label, values")?;
        let x_label = self.reader.text_in(x, "label", "x.label")?;
        let written = self.positions("x.values", x.get("values"))?;
        let accepted = "{ label = \"...\", value = \"run.throughput\" }";
        let y = self.inner("y", accepted, "label, value, relative_to_peak")?;
        let relative_to_peak = match y.get("relative_to_peak") {
            None => false,
            Some(Toml::Boolean(relative)) => *relative,
            Some(other) => {
                return Err(self.reader.fault("y.relative_to_peak", other.type_str(), "true or false"));
            }
        };
        let y_label = self.reader.text_in(y, "label", "y.label")?;
        let (other_positions, own_arguments) = self.of_size()?;
        let curves = self.curves(y, &own_arguments)?;
        let published = self.published(&written, &curves)?;
        let positions = other_positions.unwrap_or_else(|| written.clone());
        if self.reader.table.contains_key(BASELINE) && !curves.iter().any(|(_, curve)| curve.uses(BASELINE)) {
            return Err(self.reader.fault(BASELINE, "not used by any value", "a value with baseline"));
        }
        let series = |(name, curve): &(String, Curve)| {
            let points = positions.iter().map(|x| self.point(curve, x)).collect::<Result<_, _>>()?;
            let values = published.get(name.as_str());
            let published = values.map(|values| {
                let at = |x| written.iter().position(|other| other == x);
                positions.iter().map(|x| at(x).and_then(|at| values[at])).collect()
            });
            Ok(FigureSeries { name: name.clone(), points, published })
        };
        let series = curves.iter().map(series).collect::<Result<_, _>>()?;
        let figure = Figure { id, source, about, x_label, x: positions, y_label, relative_to_peak, series };
        Ok((figure, self.reader.like()?))
    }

    /// A table within the figure, which has no other keys than these.
    fn inner(&self, key: &str, accepted: &str, keys: &str) -> Result<&Table, StudyError> {
        match self.reader.get(key, accepted)? {
            Toml::Table(table) => self.reader.known(&format!("{key}."), table, keys).map(|()| table),
            other => Err(self.reader.fault(key, other.type_str(), accepted)),
        }
    }

    fn positions(&self, key: &str, values: Option<&Toml>) -> Result<Vec<Position>, StudyError> {
        let fault = |problem: &str| self.reader.fault(key, problem, VALUES);
        let values = values.ok_or_else(|| fault("missing"))?;
        let Toml::Array(values) = values else { return Err(fault(values.type_str())) };
        let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
        let words: Option<Vec<&str>> = values.iter().map(Toml::as_str).collect();
        match (numbers, words) {
            _ if values.is_empty() => Err(fault("empty")),
            (Some(numbers), _) if !numbers.windows(2).all(|pair| pair[0] < pair[1]) => {
                Err(fault("not ascending"))
            }
            (Some(numbers), _) => Ok(numbers.into_iter().map(Position::Number).collect()),
            (_, Some(words)) if words.iter().enumerate().any(|(at, word)| words[..at].contains(word)) => {
                Err(fault("a word twice"))
            }
            (_, Some(words)) => Ok(words.into_iter().map(|word| Position::Word(word.to_owned())).collect()),
            _ => Err(fault("neither numbers nor words")),
        }
    }

    /// Positions and arguments of the figure in this size.
    fn of_size(&self) -> Result<(Option<Vec<Position>>, Vec<String>), StudyError> {
        const ACCEPTED: &str = "{ values = [...], arguments = \"...\" }";
        let (table, arguments) = self.reader.of_size(self.size, ACCEPTED, "values, arguments")?;
        let key = format!("{}.values", self.size.name());
        let values = table.and_then(|table| table.get("values"));
        let positions = values.map(|values| self.positions(&key, Some(values))).transpose()?;
        Ok((positions, arguments))
    }

    /// Published values of series, at the positions as written; `nan` stands for a value that was
    /// not published.
    fn published(
        &self,
        positions: &[Position],
        curves: &[(String, Curve)],
    ) -> Result<BTreeMap<&str, Vec<Option<f64>>>, StudyError> {
        const ACCEPTED: &str = "a number for each of x.values, or nan";
        let Some(given) = self.reader.table.get(PUBLISHED) else { return Ok(BTreeMap::new()) };
        let Toml::Table(table) = given else {
            return Err(self.reader.fault(
                PUBLISHED,
                given.type_str(),
                "a table of names of series and lists",
            ));
        };
        let list = |(name, values): (&'_ String, &Toml)| {
            let key = format!("{PUBLISHED}.{name}");
            if !curves.iter().any(|(series, _)| series == name) {
                return Err(self.reader.fault(&key, "no such series", "names of series"));
            }
            let numbers = |values: &Vec<Toml>| -> Option<Vec<Option<f64>>> {
                let is_number = |value: &Toml| matches!(value, Toml::Integer(_) | Toml::Float(_));
                let is_whole = values.len() == positions.len() && values.iter().all(is_number);
                is_whole.then(|| values.iter().map(number).collect())
            };
            match values.as_array().and_then(numbers) {
                Some(numbers) => Ok(numbers),
                None => Err(self.reader.fault(&key, values, ACCEPTED)),
            }
        };
        table.iter().map(|entry| Ok((entry.0.as_str(), list(entry)?))).collect()
    }

    fn curves(&self, y: &Table, own_arguments: &[String]) -> Result<Vec<(String, Curve)>, StudyError> {
        const ACCEPTED: &str =
            "a table of names and arguments, such as { \"4 instances\" = \"--deploy 4isl\" }";
        let run = self.reader.get("run", "arguments of isles bench, such as \"tpcc --cores {x}\"")?;
        let run = self.reader.whole_arguments("run", run)?;
        let baseline = self.reader.table.get(BASELINE);
        let baseline = baseline.map(|value| self.reader.arguments(BASELINE, value)).transpose()?;
        let table = match self.reader.get("series", ACCEPTED)? {
            Toml::Table(table) if !table.is_empty() => table,
            _ => return Err(self.reader.fault("series", "not a table with names", ACCEPTED)),
        };
        let curve = |(name, given): (&String, &Toml)| {
            let name_key = format!("series.{name}");
            let inner = given.as_table();
            let (arguments, value, own_baseline) = match inner {
                Some(inner) => {
                    self.reader.known(&format!("{name_key}."), inner, "arguments, value, baseline")?;
                    (inner.get("arguments"), inner.get("value"), inner.get(BASELINE))
                }
                None => (Some(given), None, None),
            };
            let own_baseline = own_baseline
                .map(|value| self.reader.arguments(&format!("{name_key}.{BASELINE}"), value))
                .transpose()?;
            let baseline = own_baseline.as_ref().or(baseline.as_ref());
            let arguments = arguments.map(|given| self.reader.arguments(&name_key, given)).transpose()?;
            let (value, value_key) = match value {
                Some(Toml::String(value)) => (value.clone(), format!("{name_key}.value")),
                Some(_) => return Err(self.reader.fault(&name_key, "value is no text", "text in quotes")),
                None => (self.reader.text_in(y, "value", "y.value")?, "y.value".to_owned()),
            };
            let with = |more: &[&[String]]| {
                let mut arguments = run.clone();
                more.iter().for_each(|more| run::append(&mut arguments, more));
                arguments
            };
            let of_series = arguments.unwrap_or_default();
            let curve = Curve {
                value,
                value_key,
                run: with(&[&of_series, self.size_arguments, own_arguments]),
                baseline: baseline.map(|baseline| with(&[baseline, self.size_arguments, own_arguments])),
                key: name_key,
            };
            Ok((name.clone(), curve))
        };
        table.iter().map(curve).collect()
    }

    fn point(&self, curve: &Curve, x: &Position) -> Result<FigurePoint, StudyError> {
        let text = fill(&curve.value, x)
            .map_err(|problem| self.reader.fault(&curve.value_key, problem, IN_BRACES))?;
        let value =
            Expression::parse(&text).map_err(|error| self.reader.plain_fault(&curve.value_key, error))?;
        let paths = value.paths();
        let uses = |name: &str| paths.iter().any(|path| path.run == name);
        let known = if curve.baseline.is_some() { "run, baseline" } else { RUN };
        if let Some(path) = paths.iter().find(|path| !known.split(", ").any(|name| name == path.run)) {
            let problem = format!("{path}: no run {}", path.run);
            return Err(self.reader.fault(&curve.value_key, problem, known));
        }
        if !uses(RUN) {
            return Err(self.reader.fault(&curve.value_key, "uses no run", "a value such as run.throughput"));
        }
        let filled = |words: &[String]| {
            let words: Result<Vec<String>, String> = words.iter().map(|word| fill(word, x)).collect();
            words.map_err(|problem| self.reader.fault(&curve.key, problem, IN_BRACES))
        };
        let mut runs = vec![Run { name: RUN.to_owned(), arguments: filled(&curve.run)? }];
        if let Some(baseline) = curve.baseline.as_ref().filter(|_| uses(BASELINE)) {
            runs.push(Run { name: BASELINE.to_owned(), arguments: filled(baseline)? });
        }
        Ok(FigurePoint { value, runs })
    }
}

impl Curve {
    fn uses(&self, run: &str) -> bool {
        self.value.contains(&format!("{run}."))
    }
}

//! Figures on the page of a study: curves, or bars where the horizontal axis has categories, then
//! the values and the command of each run. Published values are dashed.

use super::chips::status_chip;
use super::command::command_line;
use crate::file::{FigureSeries, Position};
use crate::measured_figure::{FigureStatus, MeasuredFigure, ValueColumn, published_name};
use crate::numbers;
use crate::pages::html::{self, escape, push};
use crate::pages::plot::{Column, Lines, Series, columns, lines};

/// Height of a drawing.
const HEIGHT: f64 = 340.0;

/// The table of all figures of a study.
pub(super) fn summary(figures: &[MeasuredFigure<'_>]) -> String {
    let row = |measured: &MeasuredFigure<'_>| {
        let figure = measured.figure;
        vec![
            format!("<a href=\"#{0}\">{0}</a>", escape(&figure.id)),
            escape(&figure.source),
            status_chip(measured.status),
            escape(&figure.about),
        ]
    };
    let rows: Vec<Vec<String>> = figures.iter().map(row).collect();
    html::table(&["figure", "source", "status", "about"], &[], &rows)
}

/// The section of one figure, with `anchor` as the target of links.
pub(super) fn section(measured: &MeasuredFigure<'_>, anchor: &str) -> String {
    let figure = measured.figure;
    let mut body = format!(
        "<p>{} <span class=\"source\">— {}</span></p>\n",
        escape(&figure.about),
        escape(&figure.source)
    );
    if measured.status != FigureStatus::Done {
        let (chip, reason) = (status_chip(measured.status), escape(&measured.reason));
        push(&mut body, format_args!("<p>{chip} <span class=\"reason\">{reason}</span></p>\n"));
    }
    let drawing = if figure.has_categories() { bars(measured) } else { curves(measured) };
    let caption = format!("{} over {}.", figure.y_label, figure.x_label);
    body.push_str(&html::figure(&drawing, &caption));
    body.push_str(&values(measured));
    body.push_str(&runs(measured));
    html::section(anchor, &figure.id, &body)
}

fn label(measured: &MeasuredFigure<'_>) -> String {
    let figure = measured.figure;
    format!("{}: {} over {}", figure.id, figure.y_label, figure.x_label)
}

fn curves(measured: &MeasuredFigure<'_>) -> String {
    let figure = measured.figure;
    let number = |x: &Position| match x {
        Position::Number(number) => Some(*number),
        Position::Word(_) => None,
    };
    let mut series = Vec::new();
    for (at, (one, values)) in figure.series.iter().zip(&measured.series).enumerate() {
        let (name, values) = (one.name.clone(), drawn(values));
        series.push(Series { name, values, dashed: false, like: Some(at) });
        if let Some(published) = &one.published {
            let (name, values) = (published_name(&one.name), drawn(published));
            series.push(Series { name, values, dashed: true, like: Some(at) });
        }
    }
    lines(&Lines {
        label: label(measured),
        x_name: figure.x_label.clone(),
        y_name: figure.y_label.clone(),
        positions: figure.x.iter().filter_map(number).collect(),
        names: None,
        logarithmic: false,
        dots: true,
        height: HEIGHT,
        marks: Vec::new(),
        series,
    })
}

fn bars(measured: &MeasuredFigure<'_>) -> String {
    let figure = measured.figure;
    let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
    let column = |(at, x): (usize, &Position)| Column {
        group: x.to_string(),
        values: measured.series.iter().map(|values| values[at].unwrap_or(f64::NAN)).collect(),
        marks: figure.series.iter().map(|series| published_at(series, at)).collect(),
        hint: x.to_string(),
    };
    let groups: Vec<Column> = figure.x.iter().enumerate().map(column).collect();
    columns(&label(measured), &names, &groups, HEIGHT, None)
}

/// Values as a line has them.
fn drawn(values: &[Option<f64>]) -> Vec<f64> {
    values.iter().map(|value| value.unwrap_or(f64::NAN)).collect()
}

/// The published value of a series at a position; NaN without one.
fn published_at(series: &FigureSeries, at: usize) -> f64 {
    series.published.as_ref().and_then(|values| values[at]).unwrap_or(f64::NAN)
}

/// The values: a row for each position, a column for each series and for its published values.
fn values(measured: &MeasuredFigure<'_>) -> String {
    let figure = measured.figure;
    let columns = measured.columns();
    let mut headings = vec![figure.x_label.as_str()];
    headings.extend(columns.iter().map(|column| column.heading.as_str()));
    let row = |(at, x): (usize, &Position)| {
        let cell = |column: &ValueColumn<'_>| column.values[at].map_or("–".to_owned(), numbers::si);
        std::iter::once(escape(&x.to_string())).chain(columns.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = figure.x.iter().enumerate().map(row).collect();
    let numbers: Vec<usize> = (1..headings.len()).collect();
    html::table(&headings, &numbers, &rows)
}

/// The commands, which a click unfolds.
fn runs(measured: &MeasuredFigure<'_>) -> String {
    let mut rows = Vec::new();
    for series in &measured.figure.series {
        for (point, x) in series.points.iter().zip(&measured.figure.x) {
            rows.extend(point.runs.iter().map(|run| {
                vec![escape(&series.name), escape(&x.to_string()), html::command(&command_line(run))]
            }));
        }
    }
    let table = html::table(&["series", &measured.figure.x_label, "command"], &[], &rows);
    format!("<details><summary>{} runs</summary>\n{table}</details>\n", rows.len())
}

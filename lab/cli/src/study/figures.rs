//! Figures of a study on standard output.

use std::fmt::Write;

use ::experiments::measured_figure::ValueColumn;
use ::experiments::numbers::si;
use ::experiments::report::command_line;
use ::experiments::{FigureStatus, MeasuredFigure};
use serde_json::{Value as Json, json};

use crate::bad_input::one_line;
use crate::report::Style;

/// A figure with its axes and, for each series, a point for each position.
pub(super) fn json(measured: &MeasuredFigure<'_>) -> Json {
    let figure = measured.figure;
    let series = figure.series.iter().zip(&measured.series).map(|(series, values)| {
        let points = series.points.iter().zip(values).zip(&figure.x).map(|((point, y), x)| {
            let commands: Vec<String> = point.runs.iter().map(command_line).collect();
            json!({"x": x, "y": y, "value": point.value.text(), "commands": commands})
        });
        let mut object = json!({"name": series.name, "points": points.collect::<Vec<Json>>()});
        if let Some(published) = &series.published {
            object["published"] = json!(published);
        }
        object
    });
    json!({
        "id": figure.id,
        "source": figure.source,
        "about": figure.about,
        "x": {"label": figure.x_label, "values": figure.x},
        "y": {"label": figure.y_label},
        "series": series.collect::<Vec<Json>>(),
        "status": measured.status,
        "reason": if measured.reason.is_empty() { Json::Null } else { json!(measured.reason) },
    })
}

/// A table for each figure, then the figures that failed or miss values, with the reasons.
pub(super) fn text(figures: &[MeasuredFigure<'_>], style: Style) -> String {
    let mut text = String::new();
    figures.iter().for_each(|figure| text.push_str(&table(figure, style)));
    let count = |status| figures.iter().filter(|figure| figure.status == status).count();
    let counts: Vec<String> = FigureStatus::ALL
        .into_iter()
        .filter(|status| count(*status) > 0)
        .map(|status| format!("{} {}", count(status), status.name()))
        .collect();
    let name = if figures.len() == 1 { "figure" } else { "figures" };
    push(&mut text, format_args!("{} {name}: {}\n", figures.len(), counts.join(", ")));
    for figure in figures.iter().filter(|figure| figure.status != FigureStatus::Done) {
        let reason = one_line(&figure.reason);
        push(&mut text, format_args!("{} {}: {reason}\n", figure.status.name(), figure.figure.id));
    }
    text
}

/// The values of a figure: a row for each position, a column for each series and for its published
/// values.
fn table(measured: &MeasuredFigure<'_>, style: Style) -> String {
    let figure = measured.figure;
    let title = one_line(&format!("{}  {}", figure.id, figure.source));
    let axes = one_line(&format!("{} over {}", figure.y_label, figure.x_label));
    let mut rows = vec![vec!["x".to_owned()]];
    let columns = measured.columns();
    rows[0].extend(columns.iter().map(|column| one_line(&column.heading)));
    for (at, x) in figure.x.iter().enumerate() {
        let value = |column: &ValueColumn<'_>| column.values[at].map_or("-".to_owned(), si);
        rows.push(std::iter::once(one_line(&x.to_string())).chain(columns.iter().map(value)).collect());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = format!("{}{axes}\n", style.heading(&format!("{title}\n")));
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        push(&mut text, format_args!("  {}\n", cells.collect::<Vec<String>>().join("  ")));
    }
    text + "\n"
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string cannot fail");
}

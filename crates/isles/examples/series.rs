//! A time series: sensors report values, a query computes means over a period, and old values are
//! aggregated into hours and deleted.
//!
//! Shows a key of sensor and time, rows that are inserted together, and iterators over one field of
//! a range. One transaction aggregates and deletes values, so that no query counts a value twice or
//! misses it. The database is durable.
//!
//! Run with `cargo run --release -p isles --example series`.
// A user's program creates directories.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use isles::{Database, Row, Session, Table};

/// Seconds of an hour.
const HOUR: u64 = 3_600;

/// A value reported by a sensor.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(sensor, at))]
pub struct Point {
    /// The sensor.
    pub sensor: u32,
    /// Time in seconds.
    pub at: u64,
    /// The value.
    pub value: f64,
}

/// The aggregated values of a sensor in an hour.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(sensor, hour))]
pub struct Hour {
    /// The sensor.
    pub sensor: u32,
    /// The hour.
    pub hour: u64,
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

/// The tables.
#[derive(Clone, Copy)]
pub struct Series {
    points: Table<Point>,
    hours: Table<Hour>,
}

impl Series {
    /// Opens the series of a directory.
    pub fn open(path: &Path) -> isles::Result<(Database, Series)> {
        let mut builder = Database::at(path);
        let series = Series { points: builder.table("points"), hours: builder.table("hours") };
        Ok((builder.open()?, series))
    }

    /// Inserts the values that a sensor has reported, all or none.
    pub fn report(self, session: &mut Session, sensor: u32, values: &[(u64, f64)]) -> isles::Result<()> {
        let points = values.iter().map(|(at, value)| Point { sensor, at: *at, value: *value });
        session.transaction(|t| t.insert_all(self.points, points.clone()))
    }

    /// Returns the mean of a sensor's values between two whole hours, aggregated or not.
    pub fn mean(self, session: &mut Session, sensor: u32, from: u64, to: u64) -> isles::Result<Option<f64>> {
        let (count, sum) = session.transaction(|t| {
            let (mut count, mut sum) = (0, 0.0);
            let hours = (sensor, from / HOUR)..(sensor, to / HOUR);
            for hour in t.scan(self.hours, hours).fields((Hour::COUNT, Hour::SUM)) {
                let (of_hour, its) = hour?;
                count += of_hour;
                sum += its;
            }
            for value in t.scan(self.points, (sensor, from)..(sensor, to)).fields(Point::VALUE) {
                count += 1;
                sum += value?;
            }
            Ok((count, sum))
        })?;
        Ok((count > 0).then(|| sum / count as f64))
    }

    /// Aggregates a sensor's values of an hour into one row. Returns their number.
    pub fn fold(self, session: &mut Session, sensor: u32, hour: u64) -> isles::Result<u64> {
        let range = (sensor, hour * HOUR)..(sensor, (hour + 1) * HOUR);
        session.transaction(|t| {
            let values = t.scan(self.points, range.clone()).fields(Point::VALUE);
            let values = values.collect::<isles::Result<Vec<f64>>>()?;
            if values.is_empty() {
                return Ok(0);
            }
            let (count, sum) = (values.len() as u64, values.iter().sum::<f64>());
            // Values may have arrived after the hour was aggregated.
            let added = t.update(self.hours, &(sensor, hour), |there| {
                there.count += count;
                there.sum += sum;
            })?;
            if added.is_none() {
                t.insert(self.hours, &Hour { sensor, hour, count, sum })?;
            }
            t.scan(self.points, range.clone()).delete()
        })
    }
}

/// Runs the example.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("isles-series-{}", std::process::id()));
    let (database, series) = Series::open(&path)?;
    let mut session = database.session()?;
    for sensor in 0..3 {
        // A value a minute, for four hours.
        let values: Vec<(u64, f64)> =
            (0..240).map(|minute| (minute * 60, f64::from(sensor) + minute as f64)).collect();
        series.report(&mut session, sensor, &values)?;
    }
    let before = series.mean(&mut session, 1, 0, 4 * HOUR)?;
    assert_eq!(before, Some(1.0 + 119.5));
    for hour in 0..2 {
        assert_eq!(series.fold(&mut session, 1, hour)?, 60);
    }
    assert_eq!(series.fold(&mut session, 1, 0)?, 0, "there is nothing left of it");
    assert_eq!(series.mean(&mut session, 1, 0, 4 * HOUR)?, before, "folding changes no mean");
    assert_eq!(series.mean(&mut session, 9, 0, 4 * HOUR)?, None);
    drop(session);
    database.close()?;

    let (database, series) = Series::open(&path)?;
    let mut session = database.session()?;
    assert_eq!(series.mean(&mut session, 1, 0, 4 * HOUR)?, before, "it is all there again");
    let rows = session
        .transaction(|t| Ok((t.scan(series.points, ..).count()?, t.scan(series.hours, ..).count()?)))?;
    assert_eq!(rows, (3 * 240 - 120, 2));
    println!("mean {before:?}; rows by minute and by hour: {rows:?}");
    drop(session);
    database.close()?;
    std::fs::remove_dir_all(&path)?;
    Ok(())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}

//! Derives what a unit of each kind of computation costs, from primitives that run on this machine
//! and in the virtual machine that describes it. `docs/calibration.md` has the method.
//!
//! ```text
//! isles probe --out m.toml
//! cargo run --release -p isles-workloads --example calibrate -- m.toml
//! ```
//!
//! The machine should be idle, and the description fresh.

// A tool at the edge: it reads its argument.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod primitives;
mod solve;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Mutex;

use machine::Description;
use platform::{Hardware, Place, Platform, Work};
use sim::{Config, Costs, SimError, VirtualMachine};
use workloads::measure::median;

use solve::{Fit, Primitive, solve};

/// Repetitions of a primitive on hardware, of which the median counts.
const REPETITIONS: usize = 301;
/// Runs of a primitive in one repetition: short, so that most repetitions see no interrupt.
const RUNS: u32 = 2_000;
/// Runs of a primitive in the virtual machine, after as many that warm its caches.
const RUNS_VIRTUAL: u32 = 100_000;

/// Nanoseconds of one run of each primitive.
type Times = BTreeMap<&'static str, f64>;
/// Picoseconds of one unit of each kind, in the order of [`Work::ALL`].
type Table = [u64; Work::ALL.len()];

fn on_hardware(place: Place) -> Times {
    let times = Mutex::new(Times::new());
    primitives::run::<Hardware>(Hardware::core(), place, &|c, name, run| {
        run(RUNS_VIRTUAL);
        let repetition = |_| {
            let start = Hardware::now(c);
            run(RUNS);
            Hardware::now(c).since(start) as f64 / f64::from(RUNS)
        };
        let nanos = median((0..REPETITIONS).map(repetition).collect()).unwrap_or(f64::NAN);
        if let Ok(mut times) = times.lock() {
            times.insert(name, nanos);
        }
    });
    times.into_inner().unwrap_or_default()
}

fn in_virtual_machine(config: &Config, place: Place) -> Result<Times, Box<dyn Error>> {
    let times = Mutex::new(Times::new());
    VirtualMachine::run(config, |c| {
        primitives::run::<VirtualMachine>(c, place, &|c, name, run| {
            run(RUNS_VIRTUAL);
            let start = VirtualMachine::timestamp(c);
            run(RUNS_VIRTUAL);
            let picos = VirtualMachine::timestamp(c) - start;
            if let Ok(mut times) = times.lock() {
                times.insert(name, picos as f64 / 1000.0 / f64::from(RUNS_VIRTUAL));
            }
        });
    })?;
    Ok(times.into_inner().unwrap_or_default())
}

/// The described machine, with the costs of computation in `table` or else those of the
/// description.
fn described(description: &Description, table: Option<Table>) -> Result<Config, SimError> {
    let config = Config { memory_bytes: 4 << 30, ..Config::of(description)? };
    let costs = config.model.costs().clone();
    Ok(match table {
        Some(work_ps) => config.with_costs(Costs { work_ps, ..costs }),
        None => config,
    })
}

/// Times and units of work of every primitive.
fn primitives(description: &Description) -> Result<Vec<Primitive>, Box<dyn Error>> {
    let first = description.topology.hardware_threads().first().copied();
    let hardware = on_hardware(Place { thread: first });
    let place = Place { thread: first };
    let bare = in_virtual_machine(&described(description, Some([0; Work::ALL.len()]))?, place)?;
    let mut units = Vec::new();
    for kind in 0..Work::ALL.len() {
        let mut table = [0; Work::ALL.len()];
        table[kind] = 1_000;
        // Each unit costs one nanosecond more, so the difference is the number of units.
        units.push(in_virtual_machine(&described(description, Some(table))?, place)?);
    }
    let names = hardware.keys().copied();
    Ok(names
        .map(|name| Primitive {
            name,
            hardware_nanos: hardware[name],
            bare_nanos: bare[name],
            units: std::array::from_fn(|kind| ((units[kind][name] - bare[name]) * 1e3).round() / 1e3),
        })
        .collect())
}

fn print_table(fit: &Fit, current: &Table, clock_ghz: f64) {
    println!("\n{:<14}{:<34}{:>10}{:>10}{:>14}", "work", "from", "ns", "cycles", "now cycles");
    for (kind, work) in Work::ALL.into_iter().enumerate() {
        let nanos = fit.nanos[kind];
        println!(
            "{:<14}{:<34}{nanos:>10.3}{:>10.2}{:>14.2}",
            format!("{work:?}"),
            solve::source(work),
            nanos * clock_ghz,
            current[kind] as f64 / 1e3 * clock_ghz
        );
    }
}

fn print_residuals(primitives: &[Primitive], fit: &Fit, current: &Times, solved: &Times) {
    println!(
        "\n{:<34}{:>10}{:>10}{:>10}{:>10}{:>9}  units",
        "primitive", "hardware", "bare", "now", "fitted", "off"
    );
    for primitive in primitives {
        let name = primitive.name;
        let off = (solved[name] / primitive.hardware_nanos - 1.0) * 100.0;
        let units = Work::ALL.iter().zip(primitive.units).filter(|(_, units)| *units != 0.0);
        let units: Vec<String> = units.map(|(work, units)| format!("{work:?} {units}")).collect();
        println!(
            "{name:<34}{:>10.2}{:>10.2}{:>10.2}{:>10.2}{off:>8.0}%  {}",
            primitive.hardware_nanos,
            primitive.bare_nanos,
            current[name],
            solved[name],
            units.join(", ")
        );
    }
    for kind in &fit.clamped {
        println!("{kind:?}: the accesses alone cost more than the hardware takes; its work is free");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path =
        std::env::args().nth(1).ok_or("usage: calibrate DESCRIPTION (isles probe --out DESCRIPTION)")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let description = Description::from_toml(&text).map_err(|error| format!("{path}: {error}"))?;
    let clock_ghz = description.clock_ghz.value;
    println!("{}: {clock_ghz:.2} GHz; nanoseconds, on one core", description.name);
    let primitives = primitives(&description)?;
    let fit = solve(&primitives)?;
    let place = Place { thread: description.topology.hardware_threads().first().copied() };
    let current_config = described(&description, None)?;
    let current = in_virtual_machine(&current_config, place)?;
    let table = fit.nanos.map(|nanos| (nanos * 1e3).round() as u64);
    let solved = in_virtual_machine(&described(&description, Some(table))?, place)?;
    print_table(&fit, &current_config.model.costs().work_ps, clock_ghz);
    print_residuals(&primitives, &fit, &current, &solved);
    Ok(())
}

//! Derives what a unit of each kind of computation costs, from primitives that run on this machine
//! and in the virtual machine that describes it. `docs/calibration.md` has the method.
//!
//! ```text
//! isles probe --out m.toml
//! cargo run --release -p isles-workloads --example calibrate -- m.toml
//! cargo run --release -p isles-workloads --example calibrate -- instructions
//! ```
//!
//! The machine should be idle, and the description fresh. The second form counts instructions,
//! needs `valgrind`, and is right on a busy machine too.

// A tool at the edge: it reads its argument.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod instructions;
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

/// One run of a primitive in the virtual machine.
struct Simulated {
    nanos: f64,
    events: f64,
    clock_reads: f64,
    /// Units of each kind of work, in the order of [`Work::ALL`].
    units: [f64; Work::ALL.len()],
}
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

fn in_virtual_machine(
    config: &Config,
    place: Place,
) -> Result<BTreeMap<&'static str, Simulated>, Box<dyn Error>> {
    let simulated = Mutex::new(BTreeMap::new());
    VirtualMachine::run(config, |c| {
        primitives::run::<VirtualMachine>(c, place, &|c, name, run| {
            run(RUNS_VIRTUAL);
            let before = VirtualMachine::statistics(c).counts;
            let start = VirtualMachine::timestamp(c);
            run(RUNS_VIRTUAL);
            let picos = VirtualMachine::timestamp(c) - start;
            let after = VirtualMachine::statistics(c).counts;
            let each = |after: u64, before: u64| (after - before) as f64 / f64::from(RUNS_VIRTUAL);
            if let Ok(mut simulated) = simulated.lock() {
                let run = Simulated {
                    nanos: picos as f64 / 1000.0 / f64::from(RUNS_VIRTUAL),
                    events: each(after.events, before.events),
                    clock_reads: each(after.clock_reads, before.clock_reads + 2),
                    units: std::array::from_fn(|kind| each(after.work[kind], before.work[kind])),
                };
                simulated.insert(name, run);
            }
        });
    })?;
    Ok(simulated.into_inner().unwrap_or_default())
}

fn times_in_virtual_machine(config: &Config, place: Place) -> Result<Times, Box<dyn Error>> {
    let simulated = in_virtual_machine(config, place)?;
    Ok(simulated.into_iter().map(|(name, run)| (name, run.nanos)).collect())
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
    let primitive = |(name, hardware): (&'static str, f64)| Primitive {
        name,
        hardware,
        bare: bare[name].nanos,
        units: bare[name].units.map(|units| (units * 1e3).round() / 1e3),
    };
    Ok(hardware.into_iter().map(primitive).collect())
}

fn print_table(fit: &Fit, current: &Table, clock_ghz: f64) {
    println!("\n{:<14}{:<34}{:>10}{:>10}{:>14}", "work", "from", "ns", "cycles", "now cycles");
    for (kind, work) in Work::ALL.into_iter().enumerate() {
        let nanos = fit.costs[kind];
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
        let off = (solved[name] / primitive.hardware - 1.0) * 100.0;
        let units = Work::ALL.iter().zip(primitive.units).filter(|(_, units)| *units != 0.0);
        let units: Vec<String> = units.map(|(work, units)| format!("{work:?} {units}")).collect();
        println!(
            "{name:<34}{:>10.2}{:>10.2}{:>10.2}{:>10.2}{off:>8.0}%  {}",
            primitive.hardware,
            primitive.bare,
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["instructions"] => return instructions::print(),
        ["run", name, runs] => {
            instructions::run_one(name, runs.parse()?);
            return Ok(());
        }
        [path] => path,
        _ => {
            return Err(
                "usage: calibrate DESCRIPTION (isles probe --out DESCRIPTION), or calibrate instructions"
                    .into(),
            );
        }
    };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let description = Description::from_toml(&text).map_err(|error| format!("{path}: {error}"))?;
    let clock_ghz = description.clock_ghz.value;
    println!("{}: {clock_ghz:.2} GHz; nanoseconds, on one core", description.name);
    let primitives = primitives(&description)?;
    let fit = solve(&primitives)?;
    let place = Place { thread: description.topology.hardware_threads().first().copied() };
    let current_config = described(&description, None)?;
    let current = times_in_virtual_machine(&current_config, place)?;
    let table = fit.costs.map(|nanos| (nanos * 1e3).round() as u64);
    let solved = times_in_virtual_machine(&described(&description, Some(table))?, place)?;
    print_table(&fit, &current_config.model.costs().work_ps, clock_ghz);
    print_residuals(&primitives, &fit, &current, &solved);
    Ok(())
}

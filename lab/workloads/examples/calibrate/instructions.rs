//! Instructions of a unit of each kind of computation, by `valgrind --tool=callgrind`.
//!
//! Each primitive runs natively under callgrind, which counts inside [`measured`] only. The
//! accesses that the primitive declares in the virtual machine are one instruction each; the kinds
//! of computation are solved for as their costs are.

use std::error::Error;
use std::process::Command;

use platform::{Hardware, Place, Work};
use sim::{Config, Shape};

use crate::in_virtual_machine;
use crate::primitives;
use crate::solve::{Primitive, solve, source};

/// Runs of a primitive under callgrind.
const RUNS: u32 = 20_000;

/// Runs one primitive this many times on hardware.
pub fn run_one(name: &str, runs: u32) {
    let measure = |_, primitive: &str, run: &mut dyn FnMut(u32)| {
        if primitive == name {
            measured(runs, run);
        }
    };
    primitives::run::<Hardware>(Hardware::core(), Place { thread: None }, &measure);
}

/// The part of the program whose instructions count; callgrind finds it by its name.
#[inline(never)]
fn measured(runs: u32, run: &mut dyn FnMut(u32)) {
    run(runs);
}

/// Instructions of one run of a primitive.
fn counted(name: &str) -> Result<f64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=*instructions::measured*")
        .arg(std::env::current_exe()?)
        .args(["run", name, &RUNS.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.split("Collected : ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let count: f64 = count.ok_or_else(|| format!("{name}: callgrind counts nothing: {text}"))?.parse()?;
    Ok(count / f64::from(RUNS))
}

/// Prints the instructions of each primitive, and of a unit of each kind.
pub fn print() -> Result<(), Box<dyn Error>> {
    let config = Config { memory_bytes: 4 << 30, ..Config::new(Shape::new(1, 1, 1)) };
    let simulated = in_virtual_machine(&config, Place { thread: None })?;
    let mut found = Vec::new();
    println!("{:<34}{:>14}{:>10}{:>10}", "primitive", "instructions", "accesses", "clocks");
    for (name, run) in simulated {
        let instructions = counted(name)?;
        println!("{name:<34}{instructions:>14.2}{:>10.2}{:>10.2}", run.events, run.clock_reads);
        let units = run.units;
        found.push(Primitive { name, hardware: instructions, bare: run.events, units });
    }
    let fit = solve(&found)?;
    println!("\n{:<14}{:<34}{:>14}", "work", "from", "instructions");
    for (work, instructions) in Work::ALL.into_iter().zip(fit.costs) {
        println!("{:<14}{:<34}{instructions:>14.2}", format!("{work:?}"), source(work));
    }
    for kind in &fit.clamped {
        println!("{kind:?}: its primitive has fewer instructions than accesses; its work has none");
    }
    Ok(())
}

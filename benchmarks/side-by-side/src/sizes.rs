//! The memory and disk space of engines for their rows, and the time to open after a crash.
//!
//! An engine's turn is two processes, one after the other. The first loads the rows, reports its
//! sizes, has its clients update rows for some time or for a number of updates, and kills itself.
//! The second opens the database, reads rows, and reports the time for that and its memory; it ends
//! with a count of all rows, which must contain every acknowledged update. So the memory is that of
//! a process that does nothing else, and no engine is closed properly.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::engine::{Failure, Operation, PAYLOAD_BYTES, ROWS_PER_TRANSACTION};
use crate::engines::{Kind, Setup, open};
use crate::random::Random;
use crate::run::{Plan, run};

/// Bytes of a row: key, counter, payload.
pub const ROW_BYTES: u64 = 16 + PAYLOAD_BYTES as u64;

/// Parameters of the measurement of each engine.
#[derive(Clone, Copy, Debug)]
pub struct SizePlan {
    /// Rows of the table.
    pub rows: u64,
    /// Clients that update rows before the crash.
    pub clients: usize,
    /// Time of the updates.
    pub time: Duration,
    /// Number of updates of all clients together, instead of a time.
    pub updates: Option<u64>,
}

/// Longest time for a number of updates.
const UPDATES_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Sizes of an engine: a line of JSON.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Size {
    /// The engine.
    pub engine: Kind,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of a row, without anything around it.
    pub row_bytes: u64,
    /// Anonymous memory of the process (`RssAnon`) after loading, less that before it opened the
    /// engine. It does not include pages of mapped files: engines that keep their rows there use
    /// the operating system's memory instead.
    pub own_bytes: u64,
    /// As `own_bytes`, with pages of mapped files (`VmRSS`).
    pub resident_bytes: u64,
    /// Bytes of the blocks of its files after loading.
    pub disk_bytes: u64,
    /// Bytes of the blocks of its files after the crash.
    pub crashed_disk_bytes: u64,
    /// Updates that were acknowledged before the crash.
    pub updates: u64,
    /// Time from the call to open until ten rows were read.
    pub open_ms: f64,
    /// As `resident_bytes`, after these reads.
    pub opened_resident_bytes: u64,
}

/// A figure of this process in bytes, from `/proc/self/status`.
fn memory_figure(figure: &str) -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
    let kib: u64 = line.ok_or("the kernel does not tell")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Bytes of the blocks of all files below a directory.
fn disk_bytes(path: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => disk_bytes(&entry.path())?,
            false => std::os::unix::fs::MetadataExt::blocks(&metadata) * 512,
        };
    }
    Ok(bytes)
}

fn setup(plan: &SizePlan) -> Setup {
    Setup { clients_max: plan.clients, rows: plan.rows, memory: None, postgres: None }
}

/// Runs the first process, which returns only if it fails.
///
/// # Errors
/// The engine's.
pub fn load_and_crash(kind: Kind, path: &Path, plan: &SizePlan) -> Result<(), Failure> {
    let (own_before, resident_before) = (memory_figure("RssAnon")?, memory_figure("VmRSS")?);
    let engine = open(kind, path, &setup(plan))?;
    engine.load(plan.rows)?;
    // Time for the engine's work in the background after loading.
    std::thread::sleep(plan.time.min(Duration::from_secs(2)));
    println!(
        "{} {}",
        memory_figure("RssAnon")?.saturating_sub(own_before),
        memory_figure("VmRSS")?.saturating_sub(resident_before)
    );
    println!("{}", disk_bytes(path)?);
    let updates = Plan {
        operation: Operation::Update,
        clients: plan.clients,
        warm_up: Duration::ZERO,
        time: plan.updates.map_or(plan.time, |_| UPDATES_TIME_MAX),
        most: plan.updates,
        rows: plan.rows,
        seed: 1,
        number: 1,
    };
    println!("{}", run(&*engine, &updates)?.acknowledged);
    std::io::stdout().flush()?;
    // Neither destructors nor threads of the engine run after this.
    std::process::abort()
}

/// Runs the second process.
///
/// # Errors
/// An error of the engine, or another number of updates than `updates`.
pub fn open_again(kind: Kind, path: &Path, plan: &SizePlan, updates: u64) -> Result<(), Failure> {
    let resident_before = memory_figure("VmRSS")?;
    let begin = Instant::now();
    let engine = open(kind, path, &setup(plan))?;
    engine.client(Operation::Read)?.read(&Random::new(2, 0).keys(plan.rows))?;
    let open_ms = begin.elapsed().as_secs_f64() * 1_000.0;
    println!("{open_ms} {}", memory_figure("VmRSS")?.saturating_sub(resident_before));
    let found = engine.total()?;
    if found.rows != plan.rows || found.counters < updates * ROWS_PER_TRANSACTION as u64 {
        let counters = updates * ROWS_PER_TRANSACTION as u64;
        return Err(
            format!("after the crash: {found:?}, where {counters} increments were acknowledged").into()
        );
    }
    Ok(())
}

/// Runs this program again as one of the processes, and returns the numbers that it prints.
fn child(
    part: &str,
    kind: Kind,
    path: &Path,
    plan: &SizePlan,
    updates: Option<u64>,
) -> Result<Vec<f64>, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--sizes-part", part, "--engines", &kind.to_string()]).arg("--path").arg(path);
    command.args(["--rows", &plan.rows.to_string(), "--clients", &plan.clients.to_string()]);
    command.args(["--seconds", &plan.time.as_secs_f64().to_string()]);
    if let Some(updates) = updates {
        command.args(["--updates", &updates.to_string()]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("no output of a child")?;
    let mut numbers = Vec::new();
    for line in BufReader::new(output).lines() {
        for number in line?.split_whitespace() {
            numbers.push(number.parse()?);
        }
    }
    let status = child.wait()?;
    let crashes = part == "load";
    if status.success() == crashes || numbers.len() != if crashes { 4 } else { 2 } {
        return Err(format!("{kind} failed ({part}): {status}; its files are in {}", path.display()).into());
    }
    Ok(numbers)
}

/// Measures one engine; creates and removes its directory.
///
/// # Errors
/// The first failure; the files are kept then.
pub fn measure(kind: Kind, parent: &Path, plan: &SizePlan) -> Result<Size, Failure> {
    let path = parent.join(format!("side-by-side-size-{}-{kind}", std::process::id()));
    std::fs::create_dir(&path)?;
    let loaded = child("load", kind, &path, plan, plan.updates)?;
    let updates = loaded[3] as u64;
    let crashed_disk_bytes = disk_bytes(&path)?;
    let opened = child("open", kind, &path, plan, Some(updates))?;
    std::fs::remove_dir_all(&path)?;
    Ok(Size {
        engine: kind,
        rows: plan.rows,
        row_bytes: ROW_BYTES,
        own_bytes: loaded[0] as u64,
        resident_bytes: loaded[1] as u64,
        disk_bytes: loaded[2] as u64,
        crashed_disk_bytes,
        updates,
        open_ms: opened[0],
        opened_resident_bytes: opened[1] as u64,
    })
}

/// The table, in Markdown: bytes by row.
pub fn table(sizes: &[Size]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let Some(first) = sizes.first() else { return text };
    let _ = writeln!(text, "\n**{} rows of {} bytes**\n", first.rows, first.row_bytes);
    text.push_str("| engine | memory a row | with mapped files | disk a row | updates before the crash | disk then, MB | open after it, ms |\n");
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for size in sizes {
        let by_row = |bytes: u64| bytes as f64 / size.rows as f64;
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.0} | {} | {:.0} | {:.0} |",
            size.engine,
            by_row(size.own_bytes),
            by_row(size.resident_bytes),
            by_row(size.disk_bytes),
            size.updates,
            size.crashed_disk_bytes as f64 / 1e6,
            size.open_ms,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_rows() {
        let size = Size {
            engine: Kind::Redb,
            rows: 10,
            row_bytes: ROW_BYTES,
            own_bytes: 2_000,
            resident_bytes: 3_000,
            disk_bytes: 4_000,
            crashed_disk_bytes: 5_000_000,
            updates: 7,
            open_ms: 8.2,
            opened_resident_bytes: 9,
        };
        assert!(table(&[size]).contains("| redb | 200 | 300 | 400 | 7 | 5 | 8 |"));
        assert!(memory_figure("VmRSS").unwrap() > 0);
    }
}

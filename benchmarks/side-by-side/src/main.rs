//! The command line of the benchmark.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use side_by_side::engine::{Failure, Operation, ROWS_PER_SCAN};
use side_by_side::engines::{Binaries, Kind, Setup};
use side_by_side::report::{Run, table};
use side_by_side::rounds::Job;
use side_by_side::sizes::{SizePlan, load_and_crash, measure, open_again};

const CLIENTS_MAX: u64 = 1_000;
const ROWS_MAX: u64 = 1 << 32;
const SECONDS_MAX: f64 = 3_600.0;
const UPDATES_MAX: u64 = 1 << 40;
/// Smallest memory.
const MEMORY_MIN: u64 = 1 << 20;
/// Rounds of runs that are long enough for results.
const ROUNDS: u64 = 3;
/// Shorter runs only show that everything works.
const SHORT: Duration = Duration::from_millis(500);

/// Isles beside other engines: durable, serializable transactions over rows of 248 bytes.
///
/// Each client waits until its transaction is durable before it begins the next. After each run all
/// rows are counted, and once more after the database was closed and opened again: every update
/// that was acknowledged has to be there.
#[derive(Parser, Debug)]
#[command(version)]
struct Arguments {
    /// Clients at a time, one or more numbers
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_parser = clap::value_parser!(u64).range(1..=CLIENTS_MAX))]
    clients: Vec<u64>,
    /// Time of each run, after a quarter of it that does not count
    #[arg(long, default_value = "2", value_parser = seconds)]
    seconds: Duration,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(ROWS_PER_SCAN as u64..=ROWS_MAX))]
    rows: u64,
    /// Bytes that an engine may take in all, such as 335544320, for more rows than they hold; Isles
    /// then has its rows in pages. Caches and buffers are made small enough; the rest is the
    /// operating system's cache of files: bound that too, as larger.sh does [default: room for all
    /// rows]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(MEMORY_MIN..))]
    memory: Option<u64>,
    /// Where the databases are made, and removed again: all on one file system, which should be
    /// that of a disk
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// Engines, in the order of the first round; each round begins with the next one
    #[arg(long, value_delimiter = ',', default_values_t = Kind::ALL.iter().copied())]
    engines: Vec<Kind>,
    /// What transactions do with their rows
    #[arg(long, value_delimiter = ',', default_values_t = Operation::ALL)]
    operations: Vec<Operation>,
    /// How often each engine has its turn [default: 3, or 1 if runs are shorter than half a second]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    rounds: Option<u64>,
    /// Number of the first round, for results that are to be put together with --table
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    first_round: u64,
    /// Decides which rows are chosen
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where `postgres` and `initdb` are, if not in PATH or /usr/lib/postgresql
    #[arg(long, value_name = "DIR")]
    postgres_programs: Option<PathBuf>,
    /// Prints each result as a line of JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Measures nothing: prints the table of the results in these files, as --json printed them
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "json")]
    table: Vec<PathBuf>,
    /// Measures what engines take instead: memory and disk for the rows, and the time to open after
    /// a crash that comes after `--seconds` of updates by the first number of `--clients`. Without
    /// PostgreSQL, whose server is another program
    #[arg(long)]
    sizes: bool,
    /// With --sizes: how many updates the clients make before the crash, all together, in place of
    /// `--seconds` of them, so that every engine has as many to repeat
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=UPDATES_MAX))]
    updates: Option<u64>,
    /// One of the processes of --sizes
    #[arg(long, hide = true)]
    sizes_part: Option<String>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.01..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("a run takes from 0.01 to {SECONDS_MAX} seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn main() -> ExitCode {
    match act(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn act(arguments: Arguments) -> Result<(), Failure> {
    if !arguments.table.is_empty() {
        print!("{}", table(&results(&arguments.table)?));
        return Ok(());
    }
    if arguments.sizes || arguments.sizes_part.is_some() {
        return sizes(&arguments);
    }
    let json = arguments.json;
    let job = job(arguments);
    if job.runs() == 0 {
        return Err("there is no engine to measure".into());
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs {elapsed} {msg}")?;
    let bar = ProgressBar::new(job.runs()).with_style(style);
    let mut runs = Vec::new();
    job.measure(&mut |run| {
        bar.suspend(|| show(&run, json));
        bar.inc(1);
        runs.push(run);
    })?;
    bar.finish_and_clear();
    if !json {
        print!("{}", table(&runs));
    }
    Ok(())
}

/// Measures memory, disk space and the time to open.
fn sizes(arguments: &Arguments) -> Result<(), Failure> {
    let clients = arguments.clients.first().map_or(1, |clients| *clients as usize);
    let plan =
        SizePlan { rows: arguments.rows, clients, time: arguments.seconds, updates: arguments.updates };
    let mut engines = arguments.engines.iter().copied().filter(|engine| *engine != Kind::Postgres);
    if let Some(part) = &arguments.sizes_part {
        let engine = engines.next_back().ok_or("no engine is named")?;
        return match part.as_str() {
            "load" => load_and_crash(engine, &arguments.path, &plan),
            _ => open_again(engine, &arguments.path, &plan, arguments.updates.unwrap_or_default()),
        };
    }
    let mut sizes = Vec::new();
    for engine in engines {
        let size = measure(engine, &arguments.path, &plan)?;
        match arguments.json {
            true => println!("{}", serde_json::to_string(&size)?),
            false => eprintln!(
                "{engine}: {} bytes a row, open after {:.0} ms",
                size.own_bytes / size.rows,
                size.open_ms
            ),
        }
        sizes.push(size);
    }
    if !arguments.json {
        print!("{}", side_by_side::sizes::table(&sizes));
    }
    Ok(())
}

/// Prints one result.
fn show(run: &Run, json: bool) {
    eprintln!(
        "round {}  {:<11}  {:>2} clients  {:<6}  {:>8.0} commits/s",
        run.round,
        run.engine,
        run.clients,
        run.operation.to_string(),
        run.commits_per_second
    );
    if json {
        println!("{}", serde_json::to_string(run).unwrap_or_default());
    }
}

fn results(files: &[PathBuf]) -> Result<Vec<Run>, Failure> {
    let mut runs = Vec::new();
    for path in files {
        let name = path.display();
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        for (number, line) in text.lines().enumerate() {
            let wrong =
                |error| format!("{name}, line {}: {error}: --table takes what --json prints", number + 1);
            runs.push(serde_json::from_str(line).map_err(wrong)?);
        }
    }
    Ok(runs)
}

fn job(arguments: Arguments) -> Job {
    let mut engines = arguments.engines;
    if arguments.memory.is_some() {
        // Isles keeps all rows in memory, and the memory of PostgreSQL is that of its server.
        engines.retain(|engine| !matches!(engine, Kind::Isles | Kind::Postgres));
    }
    let postgres = match &arguments.postgres_programs {
        Some(directory) => Binaries::in_directory(directory),
        None => Binaries::find(),
    };
    let postgres = match postgres {
        Ok(binaries) => {
            if engines.contains(&Kind::Postgres) {
                eprintln!("with {}", binaries.version().unwrap_or_else(|failure| failure.to_string()));
            }
            Some(binaries)
        }
        Err(missing) => {
            if engines.contains(&Kind::Postgres) {
                eprintln!("{missing}; going on without it");
            }
            engines.retain(|engine| *engine != Kind::Postgres);
            None
        }
    };
    let clients: Vec<_> = arguments.clients.iter().map(|clients| *clients as usize).collect();
    let clients_max = clients.iter().copied().max().unwrap_or(1);
    Job {
        engines,
        operations: arguments.operations,
        clients,
        first_round: arguments.first_round,
        rounds: arguments.rounds.unwrap_or(if arguments.seconds < SHORT { 1 } else { ROUNDS }),
        time: arguments.seconds,
        seed: arguments.seed,
        path: arguments.path,
        setup: Setup { clients_max, rows: arguments.rows, memory: arguments.memory, postgres },
    }
}

//! A PostgreSQL server for one benchmark: it is created in an empty directory, started there, and
//! stopped when it is dropped.
//!
//! It stops as if it had crashed (`pg_ctl stop -m immediate`), so that the next start recovers from
//! its log, and counts only durable rows.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres::{Config, NoTls};

use super::super::binaries::Binaries;
use crate::engine::Failure;

/// The user that runs the server if root runs the benchmark, because PostgreSQL refuses to run as
/// root: the first of these users that exists.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// Time to start, with recovery.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const START_PAUSE: Duration = Duration::from_millis(10);

/// Settings that must have PostgreSQL 15's defaults, followed by settings that differ from them.
const SETTINGS: [&str; 20] = [
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "wal_sync_method=fdatasync",
    "default_transaction_isolation=serializable",
    "listen_addresses=",
    // The buffers hold everything.
    "shared_buffers=1GB",
    // No checkpoint during the measurement, and preallocated log files.
    "max_wal_size=8GB",
    "min_wal_size=1GB",
    "checkpoint_timeout=1h",
    "wal_buffers=64MB",
    // No replicas: less log.
    "wal_level=minimal",
    "max_wal_senders=0",
    // Predicate locks of many transactions are not promoted from rows to pages.
    "max_pred_locks_per_transaction=1024",
    // Ten rows by their keys: never a scan, which would lock the table.
    "enable_seqscan=off",
    "enable_bitmapscan=off",
    "jit=off",
    "autovacuum_naptime=10s",
    "logging_collector=off",
    "log_min_messages=fatal",
];

/// A running server.
pub(super) struct Server {
    binaries: Binaries,
    user: Option<(u32, u32)>,
    data: PathBuf,
    /// The directory of its socket, whose path has to be short.
    socket: PathBuf,
    process: Child,
}

/// User and group of the server, if they differ from those of this process.
fn unprivileged() -> Result<Option<(u32, u32)>, Failure> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name: &&str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found = USERS.iter().find_map(find);
    found
        .map(Some)
        .ok_or_else(|| format!("root cannot run PostgreSQL, and no user is called {USERS:?}").into())
}

fn make_directory(path: &Path, user: Option<(u32, u32)>) -> Result<(), Failure> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    if let Some((user, group)) = user {
        chown(path, Some(user), Some(group))?;
    }
    Ok(())
}

impl Server {
    pub(super) fn start(binaries: &Binaries, directory: &Path, clients_max: usize) -> Result<Self, Failure> {
        let user = unprivileged()?;
        let data = directory.canonicalize()?.join("postgres");
        let socket = std::env::temp_dir().join(format!("side-by-side-{}", std::process::id()));
        make_directory(&socket, user)?;
        if !data.exists() {
            make_directory(&data, user)?;
            let mut initdb = binaries.command("initdb", user);
            initdb
                .current_dir(&socket)
                .args(["-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"])
                .arg(&data);
            let output = initdb.output()?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("initdb failed in {}: {}", data.display(), said.trim()).into());
            }
            // Flushes all files at once, because many small files take long one after the other.
            Command::new("sync").arg("-f").arg(&data).status()?;
        }
        let log = fs::File::create(directory.join("postgres.log"))?;
        let mut postgres = binaries.command("postgres", user);
        postgres.current_dir(&socket).arg("-D").arg(&data).stdin(Stdio::null());
        postgres.stdout(log.try_clone()?).stderr(log);
        for setting in SETTINGS {
            postgres.args(["-c", setting]);
        }
        postgres.args(["-c", &format!("unix_socket_directories={}", socket.display())]);
        postgres.args(["-c", &format!("max_connections={}", clients_max + 10)]);
        let process = postgres.spawn()?;
        let mut server = Server { binaries: binaries.clone(), user, data, socket, process };
        server.await_start(directory)?;
        Ok(server)
    }

    fn await_start(&mut self, directory: &Path) -> Result<(), Failure> {
        let started = Instant::now();
        loop {
            match self.configuration().connect(NoTls) {
                Ok(_) => return Ok(()),
                Err(error) if started.elapsed() > START_TIMEOUT => return Err(error.into()),
                Err(_) => {}
            }
            if let Some(status) = self.process.try_wait()? {
                let said = fs::read_to_string(directory.join("postgres.log")).unwrap_or_default();
                return Err(format!("the server ended ({status}): {}", said.trim()).into());
            }
            std::thread::sleep(START_PAUSE);
        }
    }

    pub(super) fn configuration(&self) -> Config {
        let mut configuration = Config::new();
        configuration.host_path(&self.socket).user("bench").dbname("postgres");
        configuration
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = self.binaries.command("pg_ctl", self.user);
        stop.current_dir(&self.socket).args(["stop", "-m", "immediate", "-s", "-D"]).arg(&self.data);
        let stopped = stop.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !stopped.is_ok_and(|status| status.success()) {
            // Its child processes detect its end.
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.socket);
    }
}

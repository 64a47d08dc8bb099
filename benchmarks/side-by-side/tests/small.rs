//! Every available engine in a small run: it contains all acknowledged changes, also after it was
//! closed and opened again.

use std::path::PathBuf;
use std::time::Duration;

use side_by_side::engine::Operation;
use side_by_side::engines::{Binaries, Kind, Setup, open};
use side_by_side::report::Run;
use side_by_side::rounds::Job;

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("side-by-side-test-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn measure(engine: Kind, postgres: Option<Binaries>) {
    let directory = Directory::new(&engine.to_string());
    let job = Job {
        engines: vec![engine],
        operations: Operation::ALL.to_vec(),
        clients: vec![1, 4],
        first_round: 1,
        rounds: 2,
        time: Duration::from_millis(50),
        seed: 1,
        path: directory.0.clone(),
        setup: Setup { clients_max: 4, rows: 120, memory: None, postgres },
    };
    let mut runs: Vec<Run> = Vec::new();
    job.measure(&mut |run| runs.push(run)).unwrap();
    assert_eq!(runs.len() as u64, job.runs());
    assert!(runs.iter().all(|run| run.engine == engine && run.transactions > 0));
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 0, "directories are removed");
}

/// A missing row is reported as an error.
fn miss(engine: Kind, postgres: Option<Binaries>) {
    let directory = Directory::new(&format!("{engine}-missing"));
    let setup = Setup { clients_max: 2, rows: 40, memory: None, postgres };
    let engine = open(engine, &directory.0, &setup).unwrap();
    engine.load(40).unwrap();
    let keys = [1, 2, 3, 4, 5, 6, 7, 8, 9, 40];
    for operation in Operation::ALL {
        let mut client = engine.client(operation).unwrap();
        let failed = match operation {
            Operation::Update | Operation::Contend => client.update(&keys).is_err(),
            Operation::Read => client.read(&keys).is_err(),
            // Only some key-value stores detect that a key exists.
            Operation::Insert => continue,
            Operation::Scan => client.scan(1).is_err(),
        };
        assert!(failed);
    }
}

macro_rules! engines {
    ($($name:ident: $kind:ident,)*) => {
        $(#[test]
        fn $name() {
            measure(Kind::$kind, None);
            miss(Kind::$kind, None);
        })*
    };
}

engines! {
    isles: Isles,
    isles_pages: IslesPages,
    fjall: Fjall,
    fjall_group: FjallGroup,
    redb: Redb,
    redb_group: RedbGroup,
    heed: Heed,
    rusqlite: Rusqlite,
}

#[cfg(feature = "rocksdb")]
engines! {
    rocksdb: Rocksdb,
}

#[test]
fn postgres() {
    let Ok(binaries) = Binaries::find() else {
        let directory = Directory::new("no-postgres");
        let setup = Setup { clients_max: 2, rows: 40, memory: None, postgres: None };
        assert!(open(Kind::Postgres, &directory.0, &setup).is_err());
        return;
    };
    measure(Kind::Postgres, Some(binaries.clone()));
    miss(Kind::Postgres, Some(binaries));
}

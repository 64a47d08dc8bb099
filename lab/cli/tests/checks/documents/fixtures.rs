//! The files of the directories in which commands run.

use std::path::{Path, PathBuf};

use isles::{Database, Row};

use super::shorten::shorten;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Account {
    id: u64,
    balance: i64,
}

/// Accounts of the database.
const ACCOUNTS: u64 = 20;
/// Bytes of the pool, where rows lie in pages.
const POOL_BYTES: u64 = 16 << 20;

const TWO: &str = "run = \"micro --op update --rows-per-site 500 --seconds 0.05 --warmup 0\"\n[[instances]]\n[[instances]]\n";

/// A directory, which is gone afterwards.
pub struct Scratch(PathBuf);

impl Scratch {
    /// That of a text.
    pub fn for_text(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("isles-documents-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("backups")).expect("a scratch directory");
        let scratch = Scratch(path);
        scratch.machines();
        scratch.studies();
        scratch.write("two.toml", TWO);
        scratch.databases(name);
        scratch
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("written");
    }

    /// Machines as others describe them, and this one as if it were a copy.
    fn machines(&self) {
        let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/machine/tests");
        let copy = |from: &str, to: &str| std::fs::copy(machine.join(from), self.0.join(to)).expect("copied");
        copy("xml/16amd64-8n2c.xml", "server.xml");
        copy("matrices/dual-intel-xeon-gold-6242-2.8ghz.csv", "matrix.csv");
        std::os::unix::fs::symlink("/", self.0.join("snapshot")).expect("a link");
    }

    /// The studies of the repository, with short runs.
    fn studies(&self) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
        std::fs::create_dir_all(self.0.join("studies")).expect("a directory");
        for name in ["findings", "locks", "thousand-cores"] {
            let text = std::fs::read_to_string(from.join(format!("{name}.toml"))).expect("a study");
            let lines: Vec<String> = text.lines().map(shorten_run).collect();
            self.write(&format!("studies/{name}.toml"), &lines.join("\n"));
        }
    }

    /// Databases, for the commands that take them.
    fn databases(&self, command: &str) {
        let rows = ACCOUNTS..2 * ACCOUNTS;
        let json = |ids: std::ops::Range<u64>| -> String {
            ids.map(|id| format!("{{\"id\":{id},\"balance\":0}}\n")).collect()
        };
        let csv: String = rows.clone().map(|id| format!("{id},0\n")).collect();
        self.write("accounts.csv", &format!("id,balance\n{csv}"));
        self.write("rows.jsonl", &json(rows.end..rows.end + ACCOUNTS));
        self.write("rows", &json(rows.end + ACCOUNTS..rows.end + 2 * ACCOUNTS));
        let data = self.0.join("data");
        match command {
            "inspect" | "backup" | "import" | "export" | "convert" | "upgrade" => make(Database::at(&data)),
            "check" | "restore" => {
                make(Database::at(&data).pages(POOL_BYTES));
                let from = data.display().to_string();
                let to = self.0.join("backups/data-1").display().to_string();
                let copied = crate::support::isles(&["backup", &from, &to]);
                assert_eq!(copied.status, 0, "{}", copied.error);
                if command == "restore" {
                    std::fs::remove_dir_all(&data).expect("it is there");
                }
            }
            _ => {}
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A line of a study, whose run is short if it has one.
fn shorten_run(line: &str) -> String {
    let run = line
        .split_once(" = \"")
        .filter(|(name, _)| !name.starts_with(char::is_alphabetic) || !is_field(name));
    match run.and_then(|(name, rest)| Some((name, rest.strip_suffix('"')?))) {
        Some((name, run)) => {
            let short = shorten(&format!("isles bench {run}"));
            format!("{name} = \"{}\"", short.trim_start_matches("isles bench "))
        }
        None => line.to_owned(),
    }
}

/// True if a key is one of a finding or of the study, not a run's.
fn is_field(key: &str) -> bool {
    ["id", "title", "about", "source", "claim", "published", "accept", "value", "arguments", "needs", "note"]
        .contains(&key.trim())
}

fn make(mut builder: isles::Builder) {
    let accounts = builder.table::<Account>("accounts");
    let database = builder.open().expect("a database");
    let rows = (0..ACCOUNTS).map(|id| Account { id, balance: 0 });
    database.transaction(|t| t.insert_all(accounts, rows.clone())).expect("inserted");
    database.close().expect("closed");
}

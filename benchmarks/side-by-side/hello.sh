#!/bin/sh
# What a program takes that does next to nothing with an engine: the time to build it from nothing with two jobs, and its bytes.
#
#   ./hello.sh DIRECTORY [engine ...]
#
# Sources of the engines are fetched first, so that only compiling is measured. Prints a line a program.
set -eu
directory=${1:?the directory for programs and what is built}
shift
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- isles redb fjall heed rusqlite

program() {
    name=$1 dependency=$2
    mkdir -p "$directory/$name/src"
    cat >"$directory/$name/Cargo.toml" <<TOML
[package]
name = "hello-$name"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
$dependency

[profile.release]
strip = true
TOML
    cat >"$directory/$name/src/main.rs"
}

for engine in "$@"; do
    case $engine in
    isles) program isles "isles = { path = \"$here/../../crates/isles\" }" <<'RUST'
use isles::{Database, Row};

#[derive(Row, Debug)]
#[row(key(id))]
struct Greeting { id: u64, text: String }

fn main() -> isles::Result<()> {
    let mut builder = Database::at("hello.data");
    let greetings = builder.table::<Greeting>("greetings");
    let database = builder.open()?;
    database.transaction(|t| t.upsert(greetings, &Greeting { id: 1, text: "hello".into() }).map(drop))?;
    println!("{:?}", database.transaction(|t| t.get(greetings, &1))?);
    Ok(())
}
RUST
        ;;
    redb) program redb 'redb = "4.4"' <<'RUST'
use redb::{Database, ReadableDatabase, TableDefinition};

const GREETINGS: TableDefinition<u64, &str> = TableDefinition::new("greetings");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::create("hello.data")?;
    let transaction = database.begin_write()?;
    transaction.open_table(GREETINGS)?.insert(1, "hello")?;
    transaction.commit()?;
    let table = database.begin_read()?.open_table(GREETINGS)?;
    println!("{:?}", table.get(1)?.map(|text| text.value().to_owned()));
    Ok(())
}
RUST
        ;;
    fjall) program fjall 'fjall = "3.1"' <<'RUST'
use fjall::{KeyspaceCreateOptions, OptimisticTxDatabase, PersistMode, Readable};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = OptimisticTxDatabase::builder("hello.data").open()?;
    let greetings = database.keyspace("greetings", KeyspaceCreateOptions::default)?;
    let mut transaction = database.write_tx()?.durability(Some(PersistMode::SyncData));
    transaction.insert(&greetings, 1_u64.to_be_bytes(), "hello");
    transaction.commit()??;
    println!("{:?}", database.read_tx().get(&greetings, 1_u64.to_be_bytes())?);
    Ok(())
}
RUST
        ;;
    heed) program heed 'heed = { version = "0.23", default-features = false }' <<'RUST'
use heed::types::{Bytes, Str};
use heed::{CommitOrAbort, Database, EnvOpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all("hello.data")?;
    // SAFETY: nothing else maps or changes the files.
    let environment = unsafe { EnvOpenOptions::new().open("hello.data")? };
    let transaction = environment.write_txn()?;
    let made = environment.create_databases_and_commit(transaction, |opener, transaction| {
        opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    let greetings: Database<Bytes, Str> = made.commit().ok_or("no table")?;
    let mut transaction = environment.write_txn()?;
    greetings.put(&mut transaction, &1_u64.to_be_bytes(), "hello")?;
    transaction.commit()?;
    let transaction = environment.read_txn()?;
    println!("{:?}", greetings.get(&transaction, &1_u64.to_be_bytes())?);
    Ok(())
}
RUST
        ;;
    rusqlite) program rusqlite 'rusqlite = { version = "0.41", features = ["bundled"] }' <<'RUST'
use rusqlite::Connection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let connection = Connection::open("hello.data")?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS greetings (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
    )?;
    connection.execute("INSERT OR REPLACE INTO greetings VALUES (1, 'hello')", [])?;
    let text: String = connection.query_row("SELECT text FROM greetings WHERE id = 1", [], |row| row.get(0))?;
    println!("{text}");
    Ok(())
}
RUST
        ;;
    *) echo "no engine $engine: isles, redb, fjall, heed and rusqlite are known" >&2; exit 2 ;;
    esac
    cd "$directory/$engine"
    rm -rf target hello.data
    cargo fetch --quiet
    begin=$(date +%s.%N)
    cargo build --release --jobs 2 --quiet
    end=$(date +%s.%N)
    crates=$(cargo tree --edges normal,build --prefix none --format '{p}' | sort -u | wc -l)
    (cd target && ./release/hello-"$engine" >/dev/null)
    echo "$engine seconds $(echo "$end - $begin" | bc) bytes $(stat -c %s "target/release/hello-$engine") crates $crates"
done

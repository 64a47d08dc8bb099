//! The command line of `isles-serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

/// SQL server for PostgreSQL clients.
///
/// Clients connect as to PostgreSQL 15: `psql -h 127.0.0.1 -p 5433 -U isles isles`. All
/// transactions are serializable. docs/server.md says how to run the server, docs/sql.md which
/// parts of SQL there are.
#[derive(Clone, Debug, Parser)]
#[command(name = "isles-serve", version)]
pub struct Arguments {
    /// Directory of the database; without it rows are in memory and lost at the end
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// Address for TCP connections; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5433")]
    pub listen: SocketAddr,
    /// Unix socket for connections, beside TCP
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    /// Accept connections from other machines without a password
    #[arg(long)]
    pub trust: bool,
    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub connections: usize,
    /// Most bytes of rows in memory, in MiB
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    /// Name of the database
    #[arg(long, value_name = "NAME", default_value = "isles")]
    pub database: String,
}

//! The descriptions that ship with Isles: `machines.toml` with its prose made numbers by `structure.toml`.

use toml::Table;

/// Names of the shipped machines.
pub(super) const NAMES: [&str; 8] = [
    "dual-socket",
    "quad-socket",
    "octo-socket",
    "superdome-flex",
    "power8",
    "power9",
    "cluster",
    "rack-2026",
];

const MACHINES: &str = include_str!("../../data/machines.toml");
const STRUCTURE: &str = include_str!("../../data/structure.toml");

/// All keys of a shipped machine; `None` if there is no machine of that name.
pub(super) fn table(name: &str) -> Option<Table> {
    let read = |text: &str| -> Option<Table> {
        let all: Table = text.parse().expect("the shipped files are TOML, as tests prove");
        Some(all.get(name)?.as_table()?.clone())
    };
    let mut machine = read(MACHINES)?;
    machine.extend(read(STRUCTURE)?);
    Some(machine)
}

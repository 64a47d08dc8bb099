//! The descriptions that ship with Isles: `machines.toml`, whose prose `structure.toml` turns into
//! numbers, and cores by family in `cores.toml`.

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
const CORES: &str = include_str!("../../data/cores.toml");
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

fn cores() -> Table {
    CORES.parse().expect("the shipped files are TOML, as tests prove")
}

/// Costs of the cores of a family; `None` without a family of that name.
pub(super) fn family(name: &str) -> Option<Table> {
    Some(cores().get(name)?.as_table()?.clone())
}

/// Names of the families.
pub(super) fn families() -> Vec<String> {
    cores().keys().cloned().collect()
}

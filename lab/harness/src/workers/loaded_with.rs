//! The parameters with which a durable database was loaded, as recorded in it: a run with other
//! parameters is refused before it begins.
//!
//! They are in the row that marks the end of loading: the name of the workload, then a line for
//! each flag that determines the loaded rows, with its value.

use std::path::Path;

use boundary::SchemaError;
use distributed::DataOwners;
use distributed::directory::DirectoryError;
use workloads::LoadedWith;

use crate::error::{OtherData, RunError};

/// The text that is stored in the database.
pub(crate) fn text(with: &LoadedWith) -> String {
    let flags = with.flags.iter().map(|(flag, value)| format!("\n{flag} {value}"));
    std::iter::once(with.workload.to_owned()).chain(flags).collect()
}

/// Compares the text of the database at `path` with the requested parameters.
///
/// # Errors
/// [`RunError::OtherData`] with the first flag that has another value.
pub(crate) fn check(path: &Path, found: &str, asked: &LoadedWith) -> Result<(), RunError> {
    let path = path.display();
    let refused = |asked: &str, found: &str| {
        Err(RunError::OtherData(OtherData {
            asked: asked.to_owned(),
            problem: format!("{path} was loaded with {found}"),
            accepted: format!("{found}, or another --path"),
        }))
    };
    let mut lines = found.lines();
    match lines.next().unwrap_or_default() {
        found if found == asked.workload => {}
        found => return refused(asked.workload, found),
    }
    for (flag, value) in &asked.flags {
        let found = lines.clone().find_map(|line| line.strip_prefix(flag)?.strip_prefix(' '));
        if let Some(found) = found.filter(|found| found != value) {
            return refused(&format!("{flag} {value}"), &format!("{flag} {found}"));
        }
    }
    Ok(())
}

/// The error of a directory whose tables are not those of the requested workload.
pub(crate) fn other_tables(path: &Path, error: &SchemaError, asked: &LoadedWith) -> RunError {
    let path = path.display();
    let problem = match error {
        SchemaError::Undeclared { table } => format!("{path} holds table {table:?} of another workload"),
        SchemaError::Rows { table, .. } => format!("{path} holds other rows in table {table:?}"),
        other => return RunError::of(format!("{path}: {other}")),
    };
    let accepted = "what the directory was loaded with, or another --path".to_owned();
    RunError::OtherData(OtherData { asked: asked.workload.to_owned(), problem, accepted })
}

/// The error of a directory with rows of the other engine.
pub(crate) fn other_engine(path: &Path, [asked, found]: [&str; 2]) -> RunError {
    RunError::OtherData(OtherData {
        asked: format!("--engine {asked}"),
        problem: format!("{} was loaded with --engine {found}", path.display()),
        accepted: format!("--engine {found}, or another --path"),
    })
}

/// The error of a directory that is not that of the requested deployment.
pub(crate) fn other_deployment(path: &Path, error: DirectoryError) -> RunError {
    let (problem, accepted) = match &error {
        DirectoryError::Other { found, .. } => {
            let (instances, parts) = (found.instances, found.parts.len());
            let problem = format!(
                "holds a deployment of {instances} instances that divides {parts} parts of data otherwise"
            );
            (problem, "the deployment that it holds, or another directory")
        }
        DirectoryError::NotADeployment(_) => {
            ("holds no deployment of several instances".to_owned(), "an empty or a new directory")
        }
        _ => return RunError::at(path, &error),
    };
    let asked = format!("--path {}", path.display());
    RunError::OtherData(OtherData { asked, problem, accepted: accepted.to_owned() })
}

/// The error of the directory of several instances, if a single instance is requested.
pub(crate) fn is_divided(path: &Path, found: &DataOwners) -> RunError {
    let asked = format!("--path {}", path.display());
    let problem = format!("holds a deployment of {} instances", found.instances);
    let accepted = format!("with --deploy {}isl, or another directory", found.instances);
    RunError::OtherData(OtherData { asked, problem, accepted })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bank(branches: u16) -> LoadedWith {
        LoadedWith::new("tpcb", [("--branches", branches.to_string()), ("--scale", "0.5".to_owned())])
    }

    #[test]
    fn a_database_fits_what_it_was_loaded_with() {
        let (path, text) = (Path::new("somewhere"), text(&bank(3)));
        assert_eq!(text, "tpcb\n--branches 3\n--scale 0.5");
        check(path, &text, &bank(3)).expect("the same");
        let refused = |asked| check(path, &text, &asked).expect_err("another").to_string();
        assert_eq!(
            refused(bank(4)),
            "--branches 4: somewhere was loaded with --branches 3 (accepted: --branches 3, or another --path)"
        );
        assert_eq!(
            refused(LoadedWith::new("tatp", [])),
            "tatp: somewhere was loaded with tpcb (accepted: tpcb, or another --path)"
        );
    }
}

//! The study files of a command line: files, and folders for the study files in them.

use std::path::{Path, PathBuf};

use ::experiments::{Size, Study};

use super::progress;
use crate::bad_input::BadInput;

/// A study and the path of its file.
pub(super) struct StudyFile {
    pub name: String,
    pub study: Study,
}

/// Reads the files that the user named, and those of folders.
///
/// # Errors
/// A file or folder cannot be read, a file is no study, or a folder has none.
pub(super) fn read(paths: &[String], size: Size) -> Result<Vec<StudyFile>, BadInput> {
    let mut files = Vec::new();
    for path in paths {
        if Path::new(path).is_dir() {
            files.extend(of_folder(path, size)?);
        } else {
            files.push(of_file(path, size)?);
        }
    }
    Ok(files)
}

/// The studies of a folder, by the names of their files; those that are left out are named on
/// standard error.
fn of_folder(folder: &str, size: Size) -> Result<Vec<StudyFile>, BadInput> {
    let entries: Result<Vec<PathBuf>, std::io::Error> =
        std::fs::read_dir(folder).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths = entries.map_err(|error| unreadable(folder, &error))?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let file = of_file(&path.display().to_string(), size)?;
        if file.study.in_folder {
            files.push(file);
        } else {
            progress::note(&format!("left out: {} (in_folder = false)", file.name));
        }
    }
    if files.is_empty() {
        return Err(BadInput::new(format!("FILE {folder}"), "no study files", "a folder with study files"));
    }
    Ok(files)
}

fn of_file(name: &str, size: Size) -> Result<StudyFile, BadInput> {
    let text = std::fs::read_to_string(name).map_err(|error| unreadable(name, &error))?;
    let study = Study::parse(&text, size).map_err(|error| BadInput::new(name, error.to_string(), ""))?;
    Ok(StudyFile { name: name.to_owned(), study })
}

fn unreadable(name: &str, error: &std::io::Error) -> BadInput {
    BadInput::new(format!("FILE {name}"), error.to_string(), "a study file, see docs/studies.md")
}

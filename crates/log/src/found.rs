//! Which files of a directory are the database's own, and which of those it needs no more.
//!
//! An opening removes what is proved to be the database's and superseded: by the file's own header,
//! which has the identity of the database, and by the manifest, which does not need a file
//! with that header. A file that holds nothing (no more than zeros, where a header was being
//! written) may go too. What is of another database is refused. What cannot be read is left alone,
//! unless something needs it: then it is damaged.

use platform::files::{Entry, Files};

use crate::error::LogError;
use crate::format::SegmentHeader;
use crate::image::{SegmentImage, is_blank, read_file};
use crate::manifest::{Generation, Manifest};
use crate::names::{parse_checkpoint_file_name, parse_segment_name, segment_name};

/// The sequence in the header of a checkpoint file, which has none.
pub(crate) const CHECKPOINT_SEQUENCE: u64 = u64::MAX;

/// The origin of a file, by its first block.
enum FileOrigin {
    /// A file of this database.
    Own(SegmentHeader),
    /// Nothing.
    Blank,
    Unknown,
}

fn origin(
    manifest: &Manifest,
    name: &str,
    found: Option<SegmentHeader>,
    is_blank: bool,
) -> Result<FileOrigin, LogError> {
    match found {
        Some(header) if header.database != manifest.identity => Err(LogError::Foreign(name.to_owned())),
        Some(header) => Ok(FileOrigin::Own(header)),
        None if is_blank => Ok(FileOrigin::Blank),
        None => Ok(FileOrigin::Unknown),
    }
}

/// Names of files that may go, among those of a directory of which everything that is needed was
/// found.
///
/// # Errors
/// A file is of another database, or of an opening that the manifest should know.
pub(crate) fn superseded<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    manifest: &Manifest,
    images: &[SegmentImage<P>],
    entries: &[Entry],
) -> Result<Vec<String>, LogError> {
    let mut names = Vec::new();
    for image in images {
        if is_superseded(manifest, image)? {
            names.push(image.name());
        }
    }
    for entry in entries.iter().filter(|entry| is_named_like_own(&entry.name)) {
        let is_read = parse_segment_name(&entry.name)
            .is_some_and(|place| images.iter().any(|image| (image.stream, image.sequence) == place));
        if is_read || manifest.needs(&entry.name) {
            continue;
        }
        let first = read_file::<P>(c, queue, &entry.name, entry.bytes.min(crate::format::ALIGNMENT as u64))?;
        let found = SegmentHeader::fetch(first.bytes())?;
        if let Some(place) = parse_segment_name(&entry.name).filter(|_| is_later(manifest, found)) {
            // The first opening of all, or of a stream, may have ended before its manifest was
            // durable.
            let image = SegmentImage::<P>::read(c, queue, entry, place.0, place.1, entry.bytes)?;
            names.extend(is_superseded(manifest, &image)?.then(|| image.name()));
            continue;
        }
        let origin = origin(manifest, &entry.name, found, is_blank(first.bytes(), entry.bytes))?;
        if may_remove(manifest, &entry.name, origin)? {
            names.push(entry.name.clone());
        }
    }
    Ok(names)
}

/// Returns true if an opening that the manifest does not know has written the file.
fn is_later(manifest: &Manifest, header: Option<SegmentHeader>) -> bool {
    let newest = manifest.generations.iter().map(|generation| generation.number).max().unwrap_or(0);
    header.is_some_and(|header| header.sequence != CHECKPOINT_SEQUENCE && header.generation > newest)
}

/// Returns true if a file has a name that segments and checkpoint files have.
pub(crate) fn is_named_like_own(name: &str) -> bool {
    parse_segment_name(name).is_some() || parse_checkpoint_file_name(name).is_some()
}

/// Returns true if a file whose name the manifest does not need may be removed.
fn may_remove(manifest: &Manifest, name: &str, origin: FileOrigin) -> Result<bool, LogError> {
    let header = match origin {
        FileOrigin::Blank => return Ok(true),
        FileOrigin::Unknown => return Ok(false),
        FileOrigin::Own(header) => header,
    };
    if header.sequence == CHECKPOINT_SEQUENCE {
        // One that was never ended, or that another has taken the place of.
        let is_current = manifest.checkpoint.is_some_and(|checkpoint| checkpoint.number == header.generation);
        return Ok(!is_current && parse_checkpoint_file_name(name).is_some());
    }
    if manifest.needs(&segment_name(header.stream, header.sequence)) {
        // A copy of one that is needed, under another name.
        return Ok(false);
    }
    if is_later(manifest, Some(header)) { Err(LogError::OlderManifest(name.to_owned())) } else { Ok(true) }
}

/// Returns true if a segment may be removed although its name is one that the manifest needs.
fn is_superseded<P: Files>(manifest: &Manifest, image: &SegmentImage<P>) -> Result<bool, LogError> {
    let name = image.name();
    let origin = origin(manifest, &name, image.found, image.is_blank)?;
    let (FileOrigin::Own(_), Some(header)) = (&origin, image.header) else {
        // One that was being made when the power was lost.
        return may_remove(manifest, &name, origin);
    };
    let known = |generation: &&Generation| generation.number == header.generation;
    if let Some(generation) = manifest.generations.iter().find(known) {
        let is_its = generation.identity == header.identity;
        return if is_its { Ok(false) } else { Err(LogError::Foreign(name)) };
    }
    // An opening that the manifest never knew has left copies of records only, all of them complete
    // with its first epoch.
    match image.claims.complete <= header.first_epoch {
        true => Ok(true),
        false => Err(LogError::OlderManifest(name)),
    }
}

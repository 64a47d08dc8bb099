//! What a directory holds, for tools: everything is read and every checksum verified, and nothing is changed. What the
//! records say is for others to judge, who [examine](Examiner) them.

use std::path::Path;

use platform::files::Files;

use super::checkpoint::part_name;
use super::error::LogError;
use super::format::{BLOCK_HEADER_BYTES, Record, Records};
use super::manifest::{Checkpoint, Generation};
use super::recovery::{Image, Opened, find};
use super::stream::segment_name;

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSurvey {
    /// Its name.
    pub name: String,
    /// Which opening wrote it; `None` if it was never begun.
    pub generation: Option<u64>,
    /// Bytes of the file, and those of blocks.
    pub bytes: u64,
    /// Bytes of its blocks.
    pub used_bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Records that count, and those that were never complete.
    pub records: u64,
    /// Records of epochs that were never complete.
    pub dead_records: u64,
    /// First and last epoch of its records.
    pub epochs: Option<(u64, u64)>,
}

/// What a directory holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// All openings that left something in the log.
    pub generations: Vec<Generation>,
    /// The checkpoint, and its rows.
    pub checkpoint: Option<(Checkpoint, u64)>,
    /// The segments, by stream and sequence.
    pub segments: Vec<SegmentSurvey>,
    /// The last epoch that counts.
    pub last_epoch: u64,
    /// Whether the database was closed: then nothing is missing at the end either. Otherwise the last thing written may be
    /// torn, and damage there looks the same.
    pub closed: bool,
    /// What the log's owner keeps in the manifest.
    pub extra: Vec<u8>,
}

/// Reads the database in a directory, which is locked meanwhile.
///
/// # Errors
/// There is no database, or it is in use, or damaged.
pub fn survey<P: Files>(c: P::Core, path: &Path) -> Result<Survey, LogError> {
    read::<P>(c, path).map(|(survey, _)| survey)
}

/// Who looks at all that counts in a directory.
pub trait Examiner {
    /// Why it ends before everything is looked at.
    type Error: From<LogError>;
    /// The files are whole, and this is what they are.
    fn begin(&mut self, survey: &Survey) -> Result<(), Self::Error>;
    /// A row of the checkpoint; all of them come before the records.
    fn row(&mut self, body: &[u8]) -> Result<(), Self::Error>;
    /// A record that counts: those of one transaction in their order, others in any.
    fn record(&mut self, record: &Record<'_>) -> Result<(), Self::Error>;
}

/// Reads the database in a directory, which is locked meanwhile, and shows the examiner what it says.
///
/// # Errors
/// As [`survey`], and those of the examiner.
pub fn examine<P: Files, E: Examiner>(c: P::Core, path: &Path, examiner: &mut E) -> Result<Survey, E::Error> {
    let (survey, opened) = read::<P>(c, path)?;
    examiner.begin(&survey)?;
    let rows = opened.contents.checkpoint_blocks();
    rows.into_iter().flatten().try_for_each(|row| examiner.row(row.body))?;
    opened.contents.records().try_for_each(|record| examiner.record(&record))?;
    Ok(survey)
}

fn read<P: Files>(c: P::Core, path: &Path) -> Result<(Survey, Opened<P>), LogError> {
    let opened = find::<P>(c, P::open_directory(c, path, false)?, path)?;
    if !opened.existed {
        return Err(LogError::NotADatabase(path.to_path_buf()));
    }
    let rows = opened.contents.checkpoint_rows();
    let survey = Survey {
        closed: opened.manifest.generations.iter().all(|generation| generation.last_epoch.is_some()),
        checkpoint: opened.manifest.checkpoint.map(|checkpoint| (checkpoint, rows)),
        segments: opened.contents.images.iter().map(segment).collect(),
        last_epoch: opened.contents.last_epoch,
        generations: opened.manifest.generations.clone(),
        extra: opened.manifest.extra.clone(),
    };
    Ok((survey, opened))
}

fn segment<P: Files>(image: &Image<P>) -> SegmentSurvey {
    let mut survey = SegmentSurvey {
        name: segment_name(image.stream, image.sequence),
        generation: image.header.map(|header| header.generation),
        bytes: image.bytes.len() as u64,
        used_bytes: 0,
        blocks: image.payloads.len() as u64,
        records: 0,
        dead_records: 0,
        epochs: None,
    };
    for (from, to, last) in &image.payloads {
        survey.used_bytes += (BLOCK_HEADER_BYTES + to - from) as u64;
        for record in Records::new(&image.bytes.bytes()[*from..*to]) {
            let counts = record.epoch <= *last;
            survey.records += u64::from(counts);
            survey.dead_records += u64::from(!counts);
            let (first, latest) = survey.epochs.unwrap_or((record.epoch, record.epoch));
            survey.epochs = Some((first.min(record.epoch), latest.max(record.epoch)));
        }
    }
    survey
}

impl Survey {
    /// Rows of the checkpoint.
    pub fn rows(&self) -> u64 {
        self.checkpoint.map_or(0, |(_, rows)| rows)
    }

    /// Records of the log that count.
    pub fn records(&self) -> u64 {
        self.segments.iter().map(|segment| segment.records).sum()
    }

    /// Names of the files that the database consists of.
    pub fn files(&self) -> Vec<String> {
        let parts = self
            .checkpoint
            .iter()
            .flat_map(|(checkpoint, _)| (0..checkpoint.parts).map(|part| part_name(checkpoint.number, part)));
        let segments = self.segments.iter().map(|segment| segment.name.clone());
        std::iter::once(super::MANIFEST.to_owned()).chain(parts).chain(segments).collect()
    }
}

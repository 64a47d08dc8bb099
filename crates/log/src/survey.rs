//! Surveys of directories, for tools: a survey reads everything, verifies every checksum and
//! changes nothing. An [examiner](Examiner) judges the content of records.

use std::path::Path;

use platform::Place;
use platform::files::Files;

use crate::error::LogError;
use crate::format::{BLOCK_HEADER_BYTES, Record};
use crate::image::{BlockSummary, SegmentImage, read_file};
use crate::manifest::{Checkpoint, Generation};
use crate::names::{MANIFEST, segment_name};
use crate::recovery::{OpenedDirectory, find};

/// Findings about a segment.
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
    /// The needed bytes of the file: up to the end of its last block, or the length that this block
    /// names. 0 if the segment was never begun.
    pub end: u64,
    /// Blocks.
    pub blocks: u64,
    /// Records that count, and those that were never complete.
    pub records: u64,
    /// Records of epochs that were never complete.
    pub dead_records: u64,
    /// First and last epoch of its records.
    pub epochs: Option<(u64, u64)>,
}

/// Findings about a directory.
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
    /// True if the database was closed: then nothing is missing at the end either. Otherwise the
    /// last write may be torn, and damage there looks the same.
    pub closed: bool,
    /// The bytes that the log's owner keeps in the manifest.
    pub extra: Vec<u8>,
}

/// Reads the database in a directory, which is locked meanwhile.
///
/// # Errors
/// There is no database, or it is in use, or damaged.
pub fn survey<P: Files>(c: P::Core, path: &Path) -> Result<Survey, LogError> {
    read::<P>(c, path).map(|(survey, _)| survey)
}

/// Receives all records of a directory that count.
pub trait Examiner {
    /// The error that ends the examination early.
    type Error: From<LogError>;
    /// The files are whole, and this is what they are.
    fn begin(&mut self, survey: &Survey) -> Result<(), Self::Error>;
    /// A row of the checkpoint; all of them come before the records.
    fn row(&mut self, body: &[u8]) -> Result<(), Self::Error>;
    /// Receives a record that counts: those of one transaction in their order, different
    /// transactions in any.
    fn record(&mut self, record: &Record<'_>) -> Result<(), Self::Error>;
}

/// Reads the database in a directory, which is locked meanwhile, and shows the examiner its
/// content.
///
/// # Errors
/// As [`survey`], and those of the examiner.
pub fn examine<P: Files, E: Examiner>(c: P::Core, path: &Path, examiner: &mut E) -> Result<Survey, E::Error> {
    let (survey, opened) = read::<P>(c, path)?;
    examiner.begin(&survey)?;
    if let Some(reader) = opened.checkpoint(c)? {
        let mut blocks = reader.worker(c)?;
        while let Some((mut rows, _)) = blocks.next(c)? {
            rows.try_for_each(|row| examiner.row(row.body))?;
        }
    }
    let queue = &mut P::queue(c, opened.directory()).map_err(LogError::from)?;
    for (image, its) in opened.log.images.iter().zip(&survey.segments) {
        if image.blocks.is_empty() {
            continue;
        }
        let bytes = read_file::<P>(c, queue, &its.name, image.end() as u64)?;
        for (number, seen) in image.blocks.iter().enumerate() {
            let counting = opened.log.counting(image, number);
            let records = seen.again(&its.name, bytes.bytes())?;
            records.filter(|record| counting.has(record)).try_for_each(|record| examiner.record(&record))?;
        }
    }
    Ok(survey)
}

/// Verifies all files. What is in memory at a time is one segment, or one block of the checkpoint.
fn read<P: Files>(c: P::Core, path: &Path) -> Result<(Survey, OpenedDirectory<P>), LogError> {
    let places = [Place { thread: None }];
    let opened = find::<P>(c, P::open_directory(c, path, false)?, path, &places, false, None)?;
    if !opened.existed {
        return Err(LogError::NotADatabase(path.to_path_buf()));
    }
    let rows = match opened.checkpoint(c)? {
        None => 0,
        Some(reader) => {
            let mut blocks = reader.worker(c)?;
            while blocks.next(c)?.is_some() {}
            reader.finish(c)?
        }
    };
    let images = &opened.log.images;
    let mut segments = images.iter().map(segment::<P>).collect::<Vec<_>>();
    let queue = &mut P::queue(c, opened.directory())?;
    for (image, survey) in images.iter().zip(&mut segments) {
        count_dead(c, queue, image, survey)?;
    }
    let survey = Survey {
        closed: opened.manifest.generations.iter().all(|generation| generation.last_epoch.is_some()),
        checkpoint: opened.manifest.checkpoint.map(|checkpoint| (checkpoint, rows)),
        segments,
        last_epoch: opened.log.last_epoch,
        generations: opened.manifest.generations.clone(),
        extra: opened.manifest.extra.clone(),
    };
    Ok((survey, opened))
}

fn segment<P: Files>(image: &SegmentImage<P>) -> SegmentSurvey {
    let epochs = image.blocks.iter().filter(|seen| seen.records > 0).map(|seen| seen.epochs);
    SegmentSurvey {
        name: segment_name(image.stream, image.sequence),
        generation: image.header.map(|header| header.generation),
        bytes: image.file_bytes,
        used_bytes: image.blocks.iter().map(|seen| (BLOCK_HEADER_BYTES + seen.to - seen.from) as u64).sum(),
        end: image.header.map_or(0, |_| (image.end() as u64).max(image.claims.file_bytes)),
        blocks: image.blocks.len() as u64,
        records: image.blocks.iter().map(|seen| seen.records).sum(),
        dead_records: 0,
        epochs: epochs.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))),
    }
}

/// Reads a segment again that has records which do not count: what is in memory at a time is one
/// segment.
fn count_dead<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    image: &SegmentImage<P>,
    survey: &mut SegmentSurvey,
) -> Result<(), LogError> {
    let has_dead = |seen: &&BlockSummary| seen.epochs.1 > image.last;
    let by_epoch = || image.blocks[image.whole_blocks..].iter().filter(has_dead);
    if by_epoch().next().is_none() {
        return Ok(());
    }
    let bytes = read_file::<P>(c, queue, &survey.name, image.end() as u64)?;
    for seen in by_epoch() {
        let records = seen.again(&survey.name, bytes.bytes())?;
        let dead = records.filter(|record| record.epoch > image.last).count() as u64;
        survey.records -= dead;
        survey.dead_records += dead;
    }
    Ok(())
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
        let copies = self.checkpoint.iter().flat_map(|(checkpoint, _)| checkpoint.names());
        let segments = self.segments.iter().map(|segment| segment.name.clone());
        std::iter::once(MANIFEST.to_owned()).chain(copies).chain(segments).collect()
    }
}

//! Names of the files in a database's directory.

/// The name of the manifest.
pub const MANIFEST: &str = "isles.manifest";
/// The name of what a directory with rows in pages has in its place.
pub const PAGES_CHECKPOINT: &str = "pages.checkpoint";
/// The name of a manifest that is being written.
pub(crate) const NEW_MANIFEST: &str = "isles.manifest.new";

/// The name of the list of readers of changes, and of one that is being written.
pub(crate) const RETENTION: &str = "isles.changes";
pub(crate) const NEW_RETENTION: &str = "isles.changes.new";

/// The beginning of names of segments.
const SEGMENT: &str = "log-";

/// The name of a segment.
pub fn segment_name(stream: u32, sequence: u64) -> String {
    format!("{SEGMENT}{stream:03}-{sequence:010}")
}

/// Stream and sequence of a segment's name.
pub fn parse_segment_name(name: &str) -> Option<(u32, u64)> {
    let (stream, sequence) = name.strip_prefix(SEGMENT)?.split_once('-')?;
    let parsed = (stream.parse().ok()?, sequence.parse().ok()?);
    (segment_name(parsed.0, parsed.1) == name).then_some(parsed)
}

/// The name of a file of a checkpoint.
pub fn checkpoint_file_name(checkpoint: u64, number: u32) -> String {
    format!("checkpoint-{checkpoint:010}-{number:03}")
}

/// Numbers of the checkpoint and of the file, from the file's name.
pub fn parse_checkpoint_file_name(name: &str) -> Option<(u64, u32)> {
    let (checkpoint, number) = name.strip_prefix("checkpoint-")?.split_once('-')?;
    let parsed = (checkpoint.parse().ok()?, number.parse().ok()?);
    (checkpoint_file_name(parsed.0, parsed.1) == name).then_some(parsed)
}

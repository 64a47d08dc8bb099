//! The command line of `isles study`, as typed.

use clap::Args;
use harness::Choice;

use super::given::{Given, named, whole};

/// Most runs at the same time.
const JOBS_MAX: u64 = 4_096;

const EXAMPLES: &str = "Examples:
  isles study studies/findings.toml                       every finding, and findings.html beside the file
  isles study studies/findings.toml --only 'islands-*'    those whose id fits
  isles study studies/findings.toml --json > result.json
  isles study studies/findings.toml --size smoke          short runs, where the file has them
  isles study studies/ --size smoke                       all files of a folder, and one page: index.html
  isles study studies/thousand-cores.toml --jobs 1 --report thousand.html

Runs of simulated machines go side by side in processes of their own and are kept: a second study takes
what has not changed from there. Runs of this machine (native) go alone and are made anew.
Ctrl-C stops all runs and reports what is done.
Exit status: 0 no finding or figure failed (those of later versions may be missing), 1 some did,
2 bad input.";

/// Size of a study, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudySize {
    /// Seconds.
    Smoke,
    /// The runs as the file has them.
    Normal,
    /// Hours.
    Full,
}

impl Choice for StudySize {
    const ALL: &'static [(&'static str, Self)] =
        &[("smoke", Self::Smoke), ("normal", Self::Normal), ("full", Self::Full)];
}

/// Flags of `isles study`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct StudyArguments {
    /// Study files (TOML; their format is described in docs/studies.md); a folder stands for those
    /// in it
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,
    /// Findings and figures: ids between commas, * and ? fit anything [default: all]
    #[arg(long, value_name = "IDS")]
    pub only: Option<String>,
    /// Length of the runs, as the file says: smoke (seconds), normal or full (hours) [default:
    /// normal]
    #[arg(long, value_name = "SIZE", value_parser = named::<StudySize>())]
    pub size: Option<Given<StudySize>>,
    /// Runs at the same time [default: one per hardware thread of this machine]
    #[arg(long, value_name = "N", value_parser = whole(1..=JOBS_MAX))]
    pub jobs: Option<Given<u64>>,
    /// Where results of runs are kept [default: isles/runs in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<String>,
    /// Make every run anew, and keep none
    #[arg(long)]
    pub no_cache: bool,
    /// Page with plots [default: beside the study file, with the ending .html; of several files
    /// index.html]
    #[arg(long, value_name = "FILE")]
    pub report: Option<String>,
    /// Also write the table of all verdicts as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

//! Progress of a benchmark that loads, runs and checks, or of a database that is read, on standard
//! error. If standard error is no terminal, each stage prints one short line.

use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, Write};
use std::path::Path;

use boundary::Stage;
use harness::Sample;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::numbers;

/// Most redraws a second.
const REDRAWS_HZ: u8 = 10;
/// The bar of a run counts in thousandths of a second.
const TICKS_PER_SECOND: f64 = 1_000.0;

/// Bytes of files from which on reading them may take more than a second, so that progress is
/// shown.
const BYTES_OF_A_SECOND: u64 = 64 << 20;

enum Output {
    Hidden,
    Lines,
    Bars,
}

/// The bar of the stage that runs.
struct StageBar {
    bar: ProgressBar,
    seconds: f64,
}

/// Progress of one benchmark. Methods are called from one thread, in the order of the stages.
pub struct Progress {
    output: Output,
    stage: RefCell<Option<StageBar>>,
    /// The stage of the opening of a database.
    recovering: Cell<Option<&'static str>>,
}

impl Progress {
    /// Bars on a terminal, otherwise lines.
    pub fn on_standard_error() -> Self {
        let output = if std::io::stderr().is_terminal() { Output::Bars } else { Output::Lines };
        Progress { output, stage: RefCell::new(None), recovering: Cell::new(None) }
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Progress { output: Output::Hidden, stage: RefCell::new(None), recovering: Cell::new(None) }
    }

    /// Progress of reading a directory; none is shown for small directories.
    pub fn of_directory(path: &Path) -> Self {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let bytes: u64 = entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum();
        if bytes < BYTES_OF_A_SECOND { Progress::hidden() } else { Progress::on_standard_error() }
    }

    /// The files of a database are read.
    pub fn reading(&self) {
        self.begin("reading", "reading   {spinner} {elapsed}", 0, 0.0);
        if let Some(stage) = &*self.stage.borrow() {
            stage.bar.enable_steady_tick(std::time::Duration::from_millis(100));
        }
    }

    /// The rows of a database are copied.
    pub fn copying(&self) {
        self.begin("copying", "copying   {spinner} {elapsed}", 0, 0.0);
        if let Some(stage) = &*self.stage.borrow() {
            stage.bar.enable_steady_tick(std::time::Duration::from_millis(100));
        }
    }

    /// The check of a database has begun: `total` rows and changes.
    pub fn judging(&self, total: u64) {
        let style = "checking  {bar:30} {human_pos}/{human_len} rows and changes  {eta} left";
        let line = format!("checking {} rows and changes", numbers::thousands(total));
        self.begin(&line, style, total, 0.0);
    }

    /// This many of them are judged so far.
    pub fn judged(&self, done: u64) {
        if let Some(stage) = &*self.stage.borrow() {
            stage.bar.set_position(done);
        }
    }

    /// Nothing more to show: the terminal belongs to the report.
    pub fn done(&self) {
        if let Some(stage) = self.stage.borrow_mut().take() {
            stage.bar.finish_and_clear();
        }
    }

    fn begin(&self, line: &str, style: &str, length: u64, seconds: f64) {
        self.done();
        match self.output {
            Output::Hidden => {}
            // A closed standard error must not end a benchmark.
            Output::Lines => drop(writeln!(std::io::stderr(), "isles: {line}")),
            Output::Bars => {
                let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ);
                let bar = ProgressBar::with_draw_target(Some(length), target);
                let style = ProgressStyle::with_template(style).expect("templates of this module are valid");
                bar.set_style(style.with_key("rate", write_rate).progress_chars("=> "));
                *self.stage.borrow_mut() = Some(StageBar { bar, seconds });
            }
        }
    }
}

impl harness::Progress for Progress {
    fn loading(&self, total: u64) {
        let style = "loading   {bar:30} {human_pos}/{human_len} rows  {rate}  {eta} left";
        self.begin(&format!("loading {} rows", numbers::thousands(total)), style, total, 0.0);
    }

    fn loaded(&self, rows: u64) {
        if let Some(stage) = &*self.stage.borrow() {
            stage.bar.set_position(rows);
        }
    }

    fn recovering(&self, stage: Stage, done: u64, total: u64) {
        let what = name_of(stage);
        if self.recovering.replace(Some(what)) != Some(what) {
            let style = "{msg}   {bar:30} {percent} %  {eta} left";
            self.begin(what, style, total, 0.0);
        }
        if let Some(stage) = &*self.stage.borrow() {
            stage.bar.set_message(what);
            stage.bar.set_position(done);
        }
    }

    fn running(&self, seconds: f64) {
        let known = seconds > 0.0;
        let style = if known { "running   {bar:30} {msg}" } else { "running   {spinner} {msg}" };
        let line = if known { format!("running for {seconds} s") } else { "running".to_owned() };
        self.begin(&line, style, (seconds * TICKS_PER_SECOND) as u64, seconds);
    }

    fn tick(&self, sample: Sample) {
        let Some(stage) = &*self.stage.borrow() else { return };
        let elapsed = (stage.seconds - sample.seconds_left).max(0.0);
        stage.bar.set_position((elapsed * TICKS_PER_SECOND) as u64);
        stage.bar.set_message(describe(&sample, stage.seconds));
        stage.bar.tick();
    }

    fn decided(&self, words: &str) {
        match &*self.stage.borrow() {
            Some(stage) => stage.bar.println(words),
            None if matches!(self.output, Output::Lines) => {
                drop(writeln!(std::io::stderr(), "isles: {words}"))
            }
            None => {}
        }
    }

    fn checking(&self) {
        self.begin("checking consistency", "checking  {spinner} {elapsed}", 0, 0.0);
        if let Some(stage) = &*self.stage.borrow() {
            stage.bar.enable_steady_tick(std::time::Duration::from_millis(100));
        }
    }
}

fn name_of(stage: Stage) -> &'static str {
    match stage {
        Stage::Reading => "reading the log",
        Stage::Dividing => "dividing the log",
        Stage::Repeating => "repeating the log",
        Stage::Loading => "loading the checkpoint",
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done();
    }
}

/// Rows per second in words.
fn write_rate(state: &ProgressState, text: &mut dyn std::fmt::Write) {
    // A progress bar has no caller that could hear of an error.
    let _ = write!(text, "{}/s", numbers::si(state.per_sec()));
}

/// One sample in words, of a run of this many seconds; 0 if they are not known.
fn describe(sample: &Sample, seconds: f64) -> String {
    let mut text =
        format!("{} commits/s  aborts {:.1} %", numbers::si(sample.throughput), sample.abort_ratio * 100.0);
    // More is left than the measured time: it has not begun.
    if seconds > 0.0 && sample.seconds_left > seconds {
        text.push_str("  warming up");
    } else if seconds > 0.0 {
        text.push_str(&format!("  {:.0} s left", sample.seconds_left.max(0.0).ceil()));
    }
    text
}

#[cfg(test)]
mod tests {
    use harness::Progress as _;

    use super::*;

    #[test]
    fn describes_a_sample() {
        let sample = Sample { seconds_left: 3.2, throughput: 612_345.0, abort_ratio: 0.0123 };
        assert_eq!(describe(&sample, 10.0), "612.3 k commits/s  aborts 1.2 %  4 s left");
        assert_eq!(describe(&sample, 3.0), "612.3 k commits/s  aborts 1.2 %  warming up");
        assert_eq!(describe(&sample, 0.0), "612.3 k commits/s  aborts 1.2 %");
    }

    #[test]
    fn every_order_of_calls_is_safe_when_hidden() {
        let progress = Progress::hidden();
        progress.loaded(3);
        progress.tick(Sample { seconds_left: 0.0, throughput: 0.0, abort_ratio: 0.0 });
        progress.loading(10);
        progress.recovering(Stage::Reading, 3, 10);
        progress.running(1.0);
        progress.checking();
        progress.reading();
        progress.judged(1);
        progress.judging(2);
        progress.done();
        progress.done();
    }
}

//! How a campaign goes, on standard error: seeds, rate, seconds left, failures, and runs that do
//! not end.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use ::verify::Progress;

use crate::numbers;

/// Most redraws a second.
const REDRAWS_HZ: u8 = 10;
/// Time between two lines where standard error is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
/// A run that takes longer is named, once.
const LONG_RUN: Duration = Duration::from_secs(120);

/// Watches one campaign.
pub(super) struct Watch<'a> {
    title: String,
    total: u64,
    started: Instant,
    bar: Option<ProgressBar>,
    line_at: Instant,
    /// The first seed that has not ended, and since when.
    oldest: (u64, Instant),
    /// The last seed that was said to take long.
    named: Option<u64>,
    command: &'a dyn Fn(u64) -> String,
}

impl<'a> Watch<'a> {
    /// A bar on a terminal, otherwise lines. `command` is what repeats a seed.
    pub(super) fn new(title: String, total: u64, terminal: bool, command: &'a dyn Fn(u64) -> String) -> Self {
        let now = Instant::now();
        let bar = terminal.then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ);
            let style =
                ProgressStyle::with_template("{prefix:20} {bar:30} {human_pos}/{human_len} seeds  {msg}");
            let style = style.expect("the template is valid").progress_chars("=> ");
            let bar = ProgressBar::with_draw_target(Some(total), target).with_prefix(title.clone());
            bar.set_style(style);
            bar
        });
        Watch {
            title,
            total,
            started: now,
            bar,
            line_at: now + BETWEEN_LINES,
            oldest: (u64::MAX, now),
            named: None,
            command,
        }
    }

    /// The campaign goes on.
    pub(super) fn see(&mut self, progress: Progress) {
        let now = Instant::now();
        let text = describe(progress, self.total, now.duration_since(self.started).as_secs_f64());
        match &self.bar {
            Some(bar) => {
                bar.set_position(progress.seeds);
                bar.set_message(text);
            }
            None if now >= self.line_at => {
                self.line_at = now + BETWEEN_LINES;
                self.say(&format!("{}: {} of {} seeds  {text}", self.title, progress.seeds, self.total));
            }
            None => {}
        }
        self.name_long_run(progress.oldest, now);
    }

    fn name_long_run(&mut self, oldest: u64, now: Instant) {
        if oldest != self.oldest.0 {
            self.oldest = (oldest, now);
        }
        let long = now.duration_since(self.oldest.1) > LONG_RUN;
        if oldest != u64::MAX && long && self.named != Some(oldest) {
            self.named = Some(oldest);
            let seconds = LONG_RUN.as_secs();
            self.say(&format!("running for more than {seconds} s: {}", (self.command)(oldest)));
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("isles: {line}")),
            // A closed standard error must not end a campaign.
            None => drop(writeln!(std::io::stderr(), "isles: {line}")),
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Rate, time left and failures in words.
fn describe(progress: Progress, total: u64, seconds: f64) -> String {
    let rate = progress.seeds as f64 / seconds.max(1e-9);
    let left = (total - progress.seeds.min(total)) as f64 / rate.max(1e-9);
    let left = if progress.seeds == 0 { "?".to_owned() } else { format!("{:.0}", left.ceil()) };
    format!("{} seeds/s  {left} s left  {} failures", numbers::si(rate), progress.failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_progress() {
        let progress = Progress { seeds: 500, failures: 1, oldest: 501 };
        assert_eq!(describe(progress, 1_000, 2.0), "250.0 seeds/s  2 s left  1 failures");
        assert_eq!(describe(Progress::default(), 1_000, 0.0), "0.0 seeds/s  ? s left  0 failures");
    }
}

//! Progress of a study on standard error: finished runs and seconds. If standard error is no
//! terminal, each run prints one line.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ::experiments::Plan;
use ::experiments::execute::{Outcome, Watcher};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::bad_input::one_line;
use crate::interrupt::Interrupt;

/// Most redraws a second.
const REDRAWS_HZ: u8 = 10;
const STYLE: &str = "runs {bar:30} {pos}/{len}  {elapsed}  {msg}";

/// How many runs there were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Runs that the study needed.
    pub all: usize,
    /// Those that ended well.
    pub done: usize,
    /// Those of them that were made before.
    pub cached: usize,
    /// Time that all took together.
    pub host_seconds: f64,
}

/// Follows the runs of a plan.
pub(super) struct Follower<'a> {
    plan: &'a Plan,
    interrupt: &'a Interrupt,
    started: Instant,
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
    counts: Mutex<Counts>,
}

impl<'a> Follower<'a> {
    pub fn new(plan: &'a Plan, interrupt: &'a Interrupt) -> Self {
        let all = plan.needed();
        let bar = (std::io::stderr().is_terminal() && all > 0).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ);
            let bar = ProgressBar::with_draw_target(Some(all as u64), target);
            let style = ProgressStyle::with_template(STYLE).expect("the template of this module is valid");
            bar.set_style(style.progress_chars("=> "));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let counts = Mutex::new(Counts { all, ..Counts::default() });
        Follower { plan, interrupt, started: Instant::now(), bar, counts }
    }

    /// All runs have ended: the terminal belongs to the result.
    pub fn done(&self) -> Counts {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let counts = *self.counts.lock().expect("no thread panics with it");
        Counts { host_seconds: self.started.elapsed().as_secs_f64(), ..counts }
    }
}

impl Watcher for Follower<'_> {
    fn ended(&self, run: usize, outcome: &Outcome) {
        let how = match outcome {
            Outcome::Done { cached: false, .. } => "done",
            Outcome::Done { cached: true, .. } => "done before",
            Outcome::NotYet(_) => "not yet",
            Outcome::Failed(_) => "failed",
            Outcome::NotMade => return,
        };
        let mut counts = self.counts.lock().expect("no thread panics with it");
        counts.done += usize::from(matches!(outcome, Outcome::Done { .. }));
        counts.cached += usize::from(matches!(outcome, Outcome::Done { cached: true, .. }));
        let line = one_line(&self.plan.runs[run].arguments.join(" "));
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                bar.set_message(format!("{how}: {line}"));
            }
            None => {
                let (done, all) = (counts.done, counts.all);
                let seconds = self.started.elapsed().as_secs_f64();
                note(&format!("{done} of {all} runs, {seconds:.0} s, {how}: {line}"));
            }
        }
    }

    fn stopped(&self) -> bool {
        self.interrupt.requested()
    }

    fn warn(&self, warning: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("isles: {warning}")),
            None => note(warning),
        }
    }
}

/// A line on standard error.
pub(super) fn note(text: &str) {
    // A closed standard error must not end a study.
    let _ = writeln!(std::io::stderr(), "isles: {}", one_line(text));
}

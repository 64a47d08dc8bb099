//! The rule that makes a command short: flags of length and size get small values, and are added
//! where they are missing. Nothing else is changed, so that each flag which a line shows is
//! understood, or refused, as it stands.

/// Workers of a simulated machine, most.
const CORES_MAX: u64 = 8;

/// A command as words, what it redirects behind.
struct Line {
    words: Vec<String>,
    redirects: Vec<String>,
}

impl Line {
    fn of(line: &str) -> Self {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let is_redirect = |word: &String| word.starts_with('>') || word.starts_with('<');
        let end = words.iter().position(is_redirect).unwrap_or(words.len());
        Line { redirects: words[end..].to_vec(), words: words[..end].to_vec() }
    }

    fn text(self) -> String {
        [self.words, self.redirects].concat().join(" ")
    }

    fn value(&mut self, flag: &str) -> Option<&mut String> {
        let place = self.words.iter().position(|word| word == flag)?;
        self.words.get_mut(place + 1)
    }

    fn has(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word == flag)
    }

    fn number(&mut self, flag: &str) -> Option<f64> {
        self.value(flag)?.parse().ok()
    }

    /// Gives a flag this value.
    fn set(&mut self, flag: &str, value: &str) {
        match self.value(flag) {
            Some(given) => *given = value.to_owned(),
            None => self.words.extend([flag.to_owned(), value.to_owned()]),
        }
    }

    /// Lowers the value of a flag that is there.
    fn lower(&mut self, flag: &str, most: u64) {
        if let Some(value) = self.value(flag)
            && value.parse().is_ok_and(|number: u64| number > most)
        {
            *value = most.to_string();
        }
    }
}

/// The same command, shortened.
pub fn shorten(line: &str) -> String {
    let mut line = Line::of(line);
    match line.words.get(1).map(String::as_str) {
        Some("bench") => bench(&mut line),
        Some("verify") => {
            line.set("--seeds", "1");
            line.lower("--cores", CORES_MAX);
        }
        Some("probe") if !line.has("--quick") => line.words.push("--quick".to_owned()),
        // One finding of each file.
        Some("study") => line.set("--only", first_finding(&line.words)),
        _ => {}
    }
    line.text().replace("/backups/", "backups/")
}

/// The finding of a study that is tested: the first one that a line would test.
fn first_finding(words: &[String]) -> &'static str {
    let line = words.join(" ");
    match &*line {
        _ if line.contains("atrapos-") => "atrapos-2-shared",
        _ if line.contains("thousand-cores") => "cause-no-wait-latch",
        _ if line.contains("locks.toml") => "atomic-faa-10",
        _ => "islands-counter-socket",
    }
}

fn bench(line: &mut Line) {
    let workload = line.words.get(2).cloned().unwrap_or_default();
    // A machine of a file has as many cores as it has.
    let is_known = line.value("--machine").is_some_and(|machine| !machine.contains('.'));
    let is_simulated = line.value("--machine").is_some_and(|machine| machine != "native");
    let (usual, seconds, warmup) = if is_simulated { (0.02, 0.0002, "0") } else { (10.0, 0.05, "0.01") };
    let before = line.number("--seconds").unwrap_or(usual);
    // Moments stay where they are in the run.
    for place in 1..line.words.len() {
        let Some((moment, change)) =
            line.words[place].split_once('=').filter(|_| line.words[place - 1] == "--at")
        else {
            continue;
        };
        let moment: f64 = moment.parse().expect("a moment");
        line.words[place] = format!("{}={change}", moment * seconds / before);
    }
    match line.has("--transactions") {
        true => line.set("--transactions", "20"),
        false => line.set("--seconds", &seconds.to_string()),
    }
    if workload != "counter" {
        line.set("--warmup", warmup);
    }
    if is_simulated && is_known && workload != "ipc" && !line.has("--threads") && !line.has("--cores") {
        line.set("--cores", &CORES_MAX.to_string());
    }
    for flag in ["--cores", "--threads", "--warehouses", "--branches"] {
        line.lower(flag, CORES_MAX);
    }
    for (flag, value) in sizes(&workload) {
        line.set(flag, value);
    }
}

/// The flags of a workload's size.
fn sizes(workload: &str) -> &'static [(&'static str, &'static str)] {
    match workload {
        "tpcc" | "tpcb" => &[("--scale", "0.01")],
        "tatp" => &[("--subscribers", "2000")],
        "ycsb" => &[("--records", "2000")],
        "micro" | "dependent" => &[("--rows-per-site", "500")],
        "memory" => &[("--rows", "1000")],
        _ => &[],
    }
}

#[test]
fn only_lengths_and_sizes_change() {
    assert_eq!(
        shorten(
            "isles bench tatp --subscribers 800000 --seconds 4 --at 1=hot=0.5:0.2 --at 2=mix=UpdateLocation > x"
        ),
        "isles bench tatp --subscribers 2000 --seconds 0.05 --at 0.0125=hot=0.5:0.2 --at 0.025=mix=UpdateLocation \
         --warmup 0.01 > x"
    );
    assert_eq!(
        shorten("isles bench tpcc --machine octo-socket --cores 80 --cc silo"),
        "isles bench tpcc --machine octo-socket --cores 8 --cc silo --seconds 0.0002 --warmup 0 --scale 0.01"
    );
    assert_eq!(shorten("isles bench counter --threads 2"), "isles bench counter --threads 2 --seconds 0.05");
    assert_eq!(
        shorten("isles check data --repair-from /backups/data-1"),
        "isles check data --repair-from backups/data-1"
    );
    assert_eq!(shorten("isles verify --seed 3"), "isles verify --seed 3 --seeds 1");
}

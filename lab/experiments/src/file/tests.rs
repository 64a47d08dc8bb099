use super::*;

const GOOD: &str = r#"
    [[finding]]
    id = "one"
    source = "[S] Fig. 1"
    claim = "b over a"
    published = 2
    accept = [1, 4.5]
    value = "b.throughput / a.throughput"
    [finding.runs]
    a = "bench counter --machine 'my machine.toml'"
    b = "counter --threads 2"
"#;

#[test]
fn reads_a_finding() {
    let study = Study::parse(GOOD, Size::Normal).unwrap();
    let finding = &study.findings[0];
    assert_eq!((finding.id.as_str(), finding.source.as_str()), ("one", "[S] Fig. 1"));
    assert_eq!((finding.published, finding.accept), (Published::Number(2.0), Accept::Interval(1.0, 4.5)));
    // In the order of the value.
    assert_eq!(finding.runs[0].arguments, ["counter", "--threads", "2"]);
    assert_eq!(finding.runs[1].arguments, ["counter", "--machine", "my machine.toml"]);
}

#[test]
fn runs_of_a_finding_have_common_arguments() {
    let text = GOOD
        .replace("published = 2", "published = 2\n run = \"counter --threads 8\"")
        .replace("bench counter --machine 'my machine.toml'", "")
        .replace("counter --threads 2", "--threads 2 --seed 3");
    let study = Study::parse(&text, Size::Normal).unwrap();
    let lines: Vec<String> = study.findings[0].runs.iter().map(|run| run.arguments.join(" ")).collect();
    assert_eq!(lines, ["counter --threads 2 --seed 3", "counter --threads 8"]);
}

#[test]
fn an_entry_with_like_has_two_forms() {
    let text = GOOD.replace("published = 2", "published = 2\n like = \"--threads 4 --like shore-mt\"");
    let sized = format!("[sizes.smoke]\narguments = \"--threads 8\"\n{text}");
    for (text, size, threads) in [(&text, Size::Normal, "4"), (&sized, Size::Smoke, "8")] {
        let study = Study::parse(text, size).unwrap();
        let [plain, like] = &study.findings[..] else { panic!("{:?}", study.findings) };
        assert_eq!((plain.id.as_str(), like.id.as_str()), ("one", "one-like"));
        assert_eq!(like.claim, "b over a; with --threads 4 --like shore-mt");
        let arguments = like.runs[0].arguments.join(" ");
        assert!(arguments.contains("--like shore-mt"), "{arguments}");
        assert!(arguments.contains(&format!("--threads {threads}")), "{arguments}");
        assert!(!plain.runs[0].arguments.contains(&"--like".to_owned()));
    }
}

/// A replacement in the good file, and the expected message.
const FAULTS: &[(&str, &str, &str)] = &[
    ("[[finding]]", "[finding", "line 2: "),
    (
        "[[finding]]",
        "titles = 3\n[[finding]]",
        "titles: unknown key (accepted: title, about, in_folder, sizes, finding, figure)",
    ),
    ("[[finding]]", "title = 3\n[[finding]]", "title: not text (accepted: text in quotes)"),
    ("id = \"one\"", "", "finding number 1: id: missing (accepted: text in quotes)"),
    ("id = \"one\"", "id = 'a b'", "finding number 1: id: \"a b\" (accepted: letters, digits, - _ .)"),
    ("claim =", "claims =", "finding one: claims: unknown key (accepted: id, source, claim,"),
    ("published = 2", "published = 2\n like = 1", "finding one: like: integer (accepted: arguments of isles"),
    ("published = 2", "published = 2\n like = ''", "finding one: like: empty (accepted: arguments such as"),
    ("source = \"[S] Fig. 1\"", "source = 1", "finding one: source: integer (accepted: text in quotes)"),
    ("published = 2", "published = nan", "finding one: published: nan (accepted: a number, true or"),
    ("[1, 4.5]", "[4.5, 1]", "finding one: accept: [4.5, 1] is empty (accepted: an interval such as"),
    ("[1, 4.5]", "false", "finding one: accept: false (accepted: an interval such as [2.25, 9.0], or true"),
    ("[1, 4.5]", "[1, 2, 3]", "finding one: accept: [1, 2, 3] (accepted: an interval such as"),
    ("b.throughput /", "b.throughput //", "finding one: value: unexpected / at column 15 of `b.throughput"),
    ("/ a.throughput", "", "finding one: runs.a: not used by value (accepted: a value with a, or no run a)"),
    ("/ a.through", "/ c.through", "finding one: value: c.throughput: no run c (accepted: a, b)"),
    ("b = \"counter", "or = \"counter", "finding one: runs.or: a name that no expression can use"),
    ("\"counter --threads 2\"", "\"\"", "finding one: runs.b: empty (accepted: arguments of isles bench"),
    ("\"counter --threads 2\"", "2", "finding one: runs.b: integer (accepted: arguments of isles bench"),
    ("--threads 2", "'", "finding one: runs.b: a quote that does not close"),
    ("--threads 2", "--json", "finding one: runs.b: --json is given by the study (accepted: other flags)"),
    ("--threads 2", "--report=x", "finding one: runs.b: --report is given by the study"),
];

#[test]
fn faults_name_finding_key_and_what_is_accepted() {
    for (good, bad, expected) in FAULTS {
        assert!(GOOD.contains(good), "{good}");
        let error = Study::parse(&GOOD.replacen(good, bad, 1), Size::Normal).expect_err(bad).to_string();
        assert!(error.starts_with(expected), "{bad}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let twice = Study::parse(&format!("{GOOD}{GOOD}"), Size::Normal).unwrap_err().to_string();
    assert_eq!(twice, "finding one: id: another finding has it (accepted: an id of its own)");
    let nothing = Study::parse("title = 'x'", Size::Normal).unwrap_err().to_string();
    assert_eq!(nothing, "finding: missing (accepted: at least one [[finding]] or [[figure]])");
}

const CURVES: &str = r#"
    [sizes.smoke]
    arguments = "--seconds 0.001"

    [[figure]]
    id = "curves"
    source = "[S] Fig. 2"
    about = "two curves"
    x = { label = "percent", values = [0, 20, 100] }
    y = { label = "ratio", value = "run.throughput / baseline.throughput" }
    run = "micro --multisite {x/100} --seconds 0.02"
    baseline = "--deploy 1isl"
    smoke = { values = [0, 100], arguments = "--warmup 0" }
    full = { values = [0, 10, 100] }
    [figure.series]
    "24 instances" = "--deploy 24isl"
    "4 instances" = { arguments = "--deploy 4isl --seconds 1", value = "run.timeline[{x}].throughput" }
"#;

fn lines(study: &Study, series: usize, point: usize) -> Vec<String> {
    let point = &study.figures[0].series[series].points[point];
    point.runs.iter().map(|run| format!("{}: {}", run.name, run.arguments.join(" "))).collect()
}

#[test]
fn a_figure_has_a_run_for_each_point() {
    let study = Study::parse(CURVES, Size::Normal).unwrap();
    let figure = &study.figures[0];
    assert_eq!(
        (figure.id.as_str(), figure.x_label.as_str(), figure.y_label.as_str()),
        ("curves", "percent", "ratio")
    );
    assert_eq!(figure.x, [0.0, 20.0, 100.0].map(Position::Number));
    // In the order of the file.
    let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["24 instances", "4 instances"]);
    assert_eq!(
        lines(&study, 0, 1),
        [
            "run: micro --multisite 0.2 --seconds 0.02 --deploy 24isl",
            "baseline: micro --multisite 0.2 --seconds 0.02 --deploy 1isl",
        ]
    );
    let own = CURVES.replace("\"--deploy 24isl\"", "{ arguments = '--deploy 24isl', baseline = '--seed 2' }");
    let own = Study::parse(&own, Size::Normal).unwrap();
    assert_eq!(lines(&own, 0, 1)[1], "baseline: micro --multisite 0.2 --seconds 0.02 --seed 2");
    // A value of its own that needs no baseline.
    assert_eq!(lines(&study, 1, 2), ["run: micro --multisite 1 --deploy 4isl --seconds 1"]);
    assert_eq!(figure.series[1].points[2].value.text(), "run.timeline[100].throughput");
    assert!(!figure.has_categories());
}

#[test]
fn sizes_replace_positions_and_append_arguments() {
    let smoke = Study::parse(CURVES, Size::Smoke).unwrap();
    assert_eq!(smoke.figures[0].x, [0.0, 100.0].map(Position::Number));
    assert_eq!(lines(&smoke, 0, 1)[0], "run: micro --multisite 1 --deploy 24isl --seconds 0.001 --warmup 0");
    let full = Study::parse(CURVES, Size::Full).unwrap();
    assert_eq!(full.figures[0].x.len(), 3);
    assert_eq!(lines(&full, 0, 1)[0], "run: micro --multisite 0.1 --seconds 0.02 --deploy 24isl");
    let both = format!("{CURVES}{GOOD}");
    let finding = |text: &str| Study::parse(text, Size::Smoke).unwrap().findings[0].clone();
    assert_eq!(finding(&both).runs[0].arguments, ["counter", "--threads", "2", "--seconds", "0.001"]);
    let own = both.replace("accept =", "smoke = { arguments = '--seconds 3' }\n    accept =");
    assert_eq!(finding(&own).runs[0].arguments, ["counter", "--threads", "2", "--seconds", "3"]);
}

#[test]
fn published_values_are_at_their_positions() {
    let published = "published = { \"4 instances\" = [1, nan, 0.5] }\n    smoke =";
    let curves = CURVES.replace("smoke =", published);
    let values = |size| {
        let series = &Study::parse(&curves, size).unwrap().figures[0].series;
        assert_eq!(series[0].published, None);
        series[1].published.clone()
    };
    assert_eq!(values(Size::Normal), Some(vec![Some(1.0), None, Some(0.5)]));
    assert_eq!(values(Size::Smoke), Some(vec![Some(1.0), Some(0.5)]));
    // 10 is no position of the file as it is written.
    assert_eq!(values(Size::Full), Some(vec![Some(1.0), None, Some(0.5)]));
}

#[test]
fn words_are_categories() {
    let words = CURVES.replace("[0, 20, 100]", "['full', 'none']").replace("{x/100}", "{x}");
    let words =
        words.replace("[{x}]", "").replace("[0, 100]", "['full']").replace("[0, 10, 100]", "['full']");
    let study = Study::parse(&words, Size::Normal).unwrap();
    assert!(study.figures[0].has_categories());
    assert!(lines(&study, 0, 1)[0].starts_with("run: micro --multisite none "));
}

/// Replacements in [`CURVES`], and the message of each.
const FAULTS_OF_FIGURES: &[(&str, &str, &str)] = &[
    ("sizes.smoke", "sizes.small", "sizes.small: unknown key (accepted: smoke, normal, full)"),
    ("\"--seconds 0.001\"", "3", "sizes.smoke: no arguments (accepted: a table with arguments"),
    ("about =", "claim =", "figure curves: claim: unknown key (accepted: id, source, about, x, y, run,"),
    (
        "{x/100}",
        "{x/0}",
        "figure curves: series.24 instances: {x/0}: (0)/0: division by zero (accepted: {x}, or",
    ),
    (
        "{x/100}",
        "{x",
        "figure curves: series.24 instances: {x: a brace that does not close (accepted: {x}, or",
    ),
    (
        "[0, 20, 100]",
        "[0, 20, 20]",
        "figure curves: x.values: not ascending (accepted: ascending numbers such",
    ),
    ("[0, 20, 100]", "[]", "figure curves: x.values: empty (accepted: ascending numbers such as"),
    ("[0, 20, 100]", "[0, 'a']", "figure curves: x.values: neither numbers nor words (accepted:"),
    ("[0, 20, 100]", "['a', 'a']", "figure curves: x.values: a word twice (accepted:"),
    (
        "[0, 20, 100]",
        "['a']",
        "figure curves: series.24 instances: {x/100}: x is a word, not a number (accepted:",
    ),
    ("label = \"percent\", ", "", "figure curves: x.label: missing (accepted: text in quotes)"),
    (
        "label = \"ratio\"",
        "name = \"ratio\"",
        "figure curves: y.name: unknown key (accepted: label, value, relative_to_peak)",
    ),
    (
        "baseline.through",
        "other.through",
        "figure curves: baseline: not used by any value (accepted: a value",
    ),
    (
        "\"run.throughput /",
        "\"a.throughput /",
        "figure curves: y.value: a.throughput: no run a (accepted: run, baseline)",
    ),
    ("\"run.throughput /", "\"1 /", "figure curves: y.value: uses no run (accepted: a value such as"),
    ("\"run.throughput /", "\"run.throughput //", "figure curves: y.value: unexpected / at column 17"),
    ("\"--deploy 24isl\"", "24", "figure curves: series.24 instances: integer (accepted: arguments of"),
    ("\"--deploy 24isl\"", "'--json'", "figure curves: series.24 instances: --json is given by the study"),
    (
        "arguments = \"--deploy 4isl",
        "flags = \"--deploy 4isl",
        "figure curves: series.4 instances.flags: unknown key",
    ),
    ("[0, 10, 100]", "[1, 0]", "figure curves: full.values: not ascending (accepted:"),
    ("smoke =", "published = 3\nsmoke =", "figure curves: published: integer (accepted: a table of names"),
    (
        "smoke =",
        "published = { a = [1, 2, 3] }\nsmoke =",
        "figure curves: published.a: no such series (accepted: names of series)",
    ),
    (
        "smoke =",
        "published = { '4 instances' = [1, 2] }\nsmoke =",
        "figure curves: published.4 instances: [1, 2] (accepted: a number for each of x.values, or nan)",
    ),
    ("\"--warmup 0\"", "0", "figure curves: smoke.arguments: integer (accepted: arguments of"),
    (
        "run = \"micro --multisite {x/100} --seconds 0.02\"",
        "run = ''",
        "figure curves: run: empty (accepted:",
    ),
];

#[test]
fn faults_of_figures_name_figure_key_and_what_is_accepted() {
    for (good, bad, expected) in FAULTS_OF_FIGURES {
        assert!(CURVES.contains(good), "{good}");
        let error = Study::parse(&CURVES.replacen(good, bad, 1), Size::Normal).expect_err(bad).to_string();
        assert!(error.starts_with(expected), "{bad}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let both = format!("{CURVES}{}", GOOD.replace("\"one\"", "\"curves\""));
    let twice = Study::parse(&both, Size::Normal).unwrap_err().to_string();
    assert_eq!(twice, "figure curves: id: another finding or figure has it (accepted: an id of its own)");
}

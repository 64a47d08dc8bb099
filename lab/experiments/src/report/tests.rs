use serde_json::json;

use super::drawings::differing_flag;
use super::*;
use crate::execute::Outcome;
use crate::expression::Path;
use crate::measured_figure::measure;
use crate::plan::select;
use crate::testing;
use crate::verdict::judge;
use crate::{Plan, Size, Study};

fn origin() -> Origin {
    Origin { version: "1.2.3".to_owned(), host: "this & that".to_owned() }
}

/// The page of a study whose runs have these throughputs, in the order of the value; a run without
/// one has no result.
fn page_of(study: &Study, throughputs: &[Option<f64>]) -> String {
    page(&origin(), &[results_of(study, "a<b>.toml", throughputs)])
}

fn results_of<'a>(study: &'a Study, file: &str, throughputs: &[Option<f64>]) -> StudyResults<'a> {
    let plan = Plan::new(&select(std::slice::from_ref(study), &[]).unwrap(), &testing::ready);
    let outcome = |throughput: &Option<f64>| match throughput {
        Some(number) => Outcome::Done {
            result: json!({"throughput": number, "machine": "octo<socket>", "seed": 7, "version": "1.2.3"}),
            cached: false,
        },
        None => Outcome::NotYet("--engine paged: not available in this version".to_owned()),
    };
    let outcomes: Vec<Outcome> = throughputs.iter().map(outcome).collect();
    let planned = &plan.studies[0];
    StudyResults {
        study,
        file: file.to_owned(),
        judgements: judge(study, planned, &outcomes),
        figures: measure(study, planned, &outcomes),
    }
}

#[test]
fn a_page_says_everything_about_a_finding() {
    let study = testing::study("b.throughput / a.throughput", "[2, 4]");
    let page = page_of(&study, &[Some(3000.0), Some(1000.0)]);
    for part in [
        "a &lt; b &amp; c",
        "[S] Fig. 1",
        "<span class=\"chip good\">pass</span>",
        "measured 3; published 3, accepted 2 to 4",
        "isles bench counter --cores 1</code>",
        "octo&lt;socket&gt;",
        "throughput of each run",
        "a&lt;b&gt;.toml · isles 1.2.3 · made on this &amp; that",
        "<td class=\"number\">7</td>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert_eq!(page.matches("<svg ").count(), 2);
    assert_eq!(page, page_of(&study, &[Some(3000.0), Some(1000.0)]));
}

#[test]
fn a_finding_without_a_value_says_why() {
    let study = testing::study("b.throughput / a.throughput", "[2, 4]");
    let page = page_of(&study, &[Some(1000.0), None]);
    assert!(page.contains("--engine paged: not available in this version"), "{page}");
    assert!(page.contains("chip plain\">not yet") && page.contains("published 3"));
    // The gauge, and the bar of the run that succeeded.
    assert_eq!(page.matches("<svg ").count(), 2);
}

#[test]
fn lists_become_lines_over_the_flag_that_differs() {
    let value = "log_error([a.throughput, b.throughput] / a.throughput, [1, 2]) < log_error([1, 3], [1, 2])";
    let page = page_of(&testing::study(value, "true"), &[Some(10.0), Some(15.0)]);
    for part in [">measured<", ">published<", ">null model<", ">--cores<", ">1<", ">2<"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert_eq!(page.matches("<polyline").count(), 6);
    assert!(page.contains("measured true (0.1438 &lt; 0.2027)"), "{page}");
    assert!(!page.contains("throughput of each run"));
}

#[test]
fn the_differing_flag_is_one_with_ascending_numbers() {
    let text = |b: &str| {
        format!(
            "[[finding]]\nid='x'\nsource=''\nclaim=''\npublished=1\naccept=true\nvalue='a.t < b.t'\n\
             [finding.runs]\na='tpcc --cores 4 --cc silo'\nb='{b}'"
        )
    };
    let flag = |b: &str| {
        let study = Study::parse(&text(b), Size::Normal).unwrap();
        let paths: Vec<Path> = study.findings[0].value.paths().into_iter().cloned().collect();
        differing_flag(&study.findings[0], &paths)
    };
    assert_eq!(flag("tpcc --cores 8 --cc silo"), Some(("--cores".to_owned(), vec![4.0, 8.0])));
    for other in
        ["tpcc --cores 2 --cc silo", "tpcc --cores 8 --cc x", "tpcc --cores 4 --cc x", "tpcc --cores 8"]
    {
        assert_eq!(flag(other), None, "{other}");
    }
}

#[test]
fn command_lines_can_be_pasted() {
    let run = Run {
        name: "a".to_owned(),
        arguments: ["tpcc", "--machine", "my machine.toml"].map(str::to_owned).into(),
    };
    assert_eq!(command_line(&run), "isles bench tpcc --machine 'my machine.toml'");
}

#[test]
fn a_figure_is_drawn_with_its_values_and_runs() {
    let study = testing::figure("[1, 2]", "value = 'run.throughput / 1000'");
    let page = page_of(&study, &[Some(1000.0), Some(2000.0), Some(1.5e6), None]);
    for part in [
        "<a href=\"#curves\">curves</a>",
        "a &lt; b",
        "chip plain\">not yet",
        "b at 2: --engine paged: not available in this version",
        ">x &amp; y</text>",
        ">thousand a second</text>",
        "<td>2</td><td class=\"number\">2</td><td class=\"number\">–</td>",
        "isles bench counter --cores 2 --seed 2</code>",
        "<summary>4 runs</summary>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    // Without findings there is no table of verdicts.
    assert!(!page.contains("published") && !page.contains("NaN"), "{page}");
    // Two series: a line of each in the legend, and a line and markers of each.
    assert_eq!((page.matches("<polyline").count(), page.matches("<circle").count()), (4, 3));
}

#[test]
fn categories_are_bars() {
    let study = testing::figure("['near', 'far']", "value = 'run.throughput'");
    let page = page_of(&study, &[Some(1.0), Some(2.0), None, Some(4.0)]);
    for part in [">near</text>", ">far</text>", "far: b 4", "chip plain\">not yet"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    // Two for the legend, and one for each value.
    assert_eq!(page.matches("<rect ").count(), 5);
}

#[test]
fn several_studies_have_one_table_of_verdicts() {
    let finding = testing::study("b.throughput / a.throughput", "[2, 4]");
    let mut figure = testing::figure("[1, 2]", "value = 'run.throughput'");
    figure.figures[0].series[0].published = Some(vec![Some(2.0), None]);
    let results = [
        results_of(&finding, "x/one.toml", &[Some(3000.0), Some(1000.0)]),
        results_of(&figure, "x/two.toml", &[Some(1.0), Some(2.0), Some(3.0), None]),
    ];
    let page = page(&origin(), &results);
    for part in [
        "2 studies · isles 1.2.3",
        "<a href=\"#one:one\">one</a>",
        "<a href=\"#two:curves\">curves</a>",
        "<section id=\"one:one\">",
        "<section id=\"two:curves\">",
        "<td class=\"number\">2 to 4</td><td class=\"number\">3</td><td><span class=\"chip good\">pass",
        "<td class=\"number\">1 point</td>",
        "<td class=\"number\">0.5 times</td><td><span class=\"chip plain\">not yet",
        ">a, published</text>",
        "stroke-dasharray",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let text = markdown::tables(&results);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "## Study x/one.toml");
    assert_eq!(lines[4], "| `one` | \\[S\\] Fig. 1 | a \\< b & c | 3 | 2 to 4 | 3 | pass |");
    assert!(lines[10].starts_with("| `curves` |"), "{text}");
    assert!(
        lines[10].ends_with("| not yet: b at 2: --engine paged: not available in this version |"),
        "{text}"
    );
}

use harness::{Deployed, HotLine, Instance, MachineUse, Measurement, PortKind, PortUse, WorkerPlace};

use super::super::result::Report;
use super::super::tests::measurement;
use super::*;
use crate::config::tests::resolved;

/// Invented counters of a machine of `nodes` nodes, each less busy than the one before.
fn made_up(nodes: usize) -> MachineUse {
    let mut ports = Vec::new();
    for node in 0..nodes {
        let busy_share = 0.97 / (1.0 + node as f64 * 0.35);
        let bytes = (busy_share * 4e8) as u64;
        let name = format!("memory of node {node}");
        ports.push(PortUse { name, node, kind: PortKind::Memory, bytes, busy_share: busy_share * 0.6 });
        let name = format!("link 0 of node {node}");
        ports.push(PortUse { name, node, kind: PortKind::Link, bytes: bytes / 2, busy_share });
    }
    let hot_line = |(number, structure): (usize, &str)| HotLine {
        structure: structure.to_owned(),
        offset: number as u64 * 0x1c0,
        misses: 91_000 / (number as u64 + 1),
        share: 0.3 / (number as f64 + 1.0),
    };
    let structures =
        ["warehouse rows", "district rows", "<latch> of a root", "warehouse rows", "history arena"];
    MachineUse { ports, hot_lines: structures.into_iter().enumerate().map(hot_line).collect() }
}

fn page_on(machine: &str, machine_use: Option<MachineUse>) -> String {
    let report = Report {
        machine: machine.to_owned(),
        ..Report::new(&resolved("tpcc --cores 2"), Measurement { machine_use, ..measurement() })
    };
    let description = Description::shipped(machine).expect("a shipped machine");
    page(&report, &description, "isles bench tpcc --report 'a <b>.html'")
}

#[test]
fn a_page_has_everything_of_a_report() {
    let page = page_on("octo-socket", Some(made_up(8)));
    for part in [
        "isles bench tpcc on octo-socket",
        "isles bench tpcc --report &#39;a &lt;b&gt;.html&#39;",
        "92.0 k/s",
        ">18.0 us<",
        "useful 50.0 %",
        "n/a</span></td><td>no inserts</td>",
        "not known on this platform",
        "<td>remote_payment</td><td>15.0</td>",
        "&lt;latch&gt; of a root +0x380",
        "memory of node 0",
        "node 7",
        "10 cores",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    // Timeline, breakdown, machine, hot lines.
    assert_eq!(page.matches("<svg ").count(), 4);
    assert_eq!(page, page_on("octo-socket", Some(made_up(8))));
    for outside in ["http:", "https:", "src=", "url(", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_picture_has_every_node_and_half_a_line_for_each_end_of_a_link() {
    for (machine, nodes) in [("dual-socket", 2), ("octo-socket", 8), ("power9", 16), ("superdome-flex", 28)] {
        let description = Description::shipped(machine).expect("a shipped machine");
        let links = description.neighbours().len();
        let text = machine::section(&report_with(Some(made_up(nodes))), &description);
        let picture = text.split("</svg>").next().expect("a picture");
        assert_eq!(picture.matches("<line ").count(), 2 * links, "{machine}");
        assert_eq!(picture.matches("stroke=\"var(--muted)\"").count(), nodes, "{machine}");
        assert_eq!(picture.matches(", memory: ").count(), nodes, "{machine}");
    }
}

fn report_with(machine_use: Option<MachineUse>) -> Report {
    Report::new(&resolved("tpcc --cores 2"), Measurement { machine_use, ..measurement() })
}

/// Four instances on two sockets, of which the first talks most.
fn four_instances() -> Deployed {
    let worker = |number: u32| WorkerPlace {
        thread: Some(::machine::HardwareThread(number)),
        node: Some(::machine::Node(number / 4)),
        socket: number / 4,
    };
    let instance = |first: u32| Instance { machine: 0, workers: vec![worker(first), worker(first + 1)] };
    let messages = |from: u64| (0..4).map(|to| if to == from { 0 } else { 4_000 / (from + 1) }).collect();
    Deployed {
        instances: (0..4).map(|number| instance(2 * number)).collect(),
        messages: (0..4).map(messages).collect(),
    }
}

#[test]
fn instances_are_drawn_where_they_ran_and_with_what_they_said() {
    let deployment = Some(four_instances());
    let report = Report::new(
        &resolved("tpcc --cores 8 --warehouses 8 --deploy 4isl --machine quad-socket"),
        Measurement { deployment, ..measurement() },
    );
    let description = Description::shipped("quad-socket").expect("a shipped machine");
    let page = page(&report, &description, "isles");
    for part in [
        ">socket 0<",
        ">socket 1<",
        "worker 5 of instance 2: hardware thread 5 of core 5, rows on node 1",
        "from instance 1 to instance 3: 2,000 messages",
        "24,999 in all",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    // One field for each ordered pair.
    assert_eq!(page.matches(" messages</title>").count(), 12);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["deployment"]["messages"][3], serde_json::json!([1000, 1000, 1000, 0]));
    assert_eq!(json["deployment"]["instances"][1]["workers"][0]["thread"], 2);
    assert!(serde_json::to_value(report_with(None)).unwrap().get("deployment").is_none());
}

#[test]
fn a_machine_that_counts_nothing_has_a_picture_without_loads() {
    let description = Description::shipped("quad-socket").expect("a shipped machine");
    let text = machine::section(&report_with(None), &description);
    assert!(text.contains("not known on this platform") && !text.contains(" %"), "{text}");
    assert_eq!(text.matches("<svg ").count(), 1);
    let json = serde_json::to_value(report_with(None)).unwrap();
    assert!(json.get("machine_use").is_none());
    let json = serde_json::to_value(report_with(Some(made_up(1)))).unwrap();
    assert_eq!(json["machine_use"]["ports"][1]["kind"], "link");
    assert_eq!(json["machine_use"]["hot_lines"][0]["structure"], "warehouse rows");
}

#[test]
fn changes_stand_in_the_timeline() {
    let report = Report::new(&resolved("tatp --seconds 9 --at 2=hot=0.5:0.2"), measurement());
    let description = Description::shipped("quad-socket").expect("a shipped machine");
    let page = page(&report, &description, "isles");
    assert!(page.contains(">hot=0.5:0.2</text>"), "{page}");
}

#[test]
fn a_violated_check_cannot_be_missed() {
    let mut report = report_with(None);
    report.checks.push(("tpcc_3_3_2_3".to_owned(), Check::Violated("sum 3 < 4".to_owned())));
    let description = Description::shipped("quad-socket").expect("a shipped machine");
    let page = page(&report, &description, "isles");
    assert!(page.contains("chip bad\">violated</span> a consistency check does not hold"), "{page}");
    assert!(page.contains("sum 3 &lt; 4"));
}

#[test]
fn an_empty_run_has_a_page_too() {
    let report = Report::new(&resolved("counter"), Measurement::default());
    let description = Description::shipped("power8").expect("a shipped machine");
    let page = page(&report, &description, "isles");
    assert!(!page.contains("NaN") && !page.contains("inf "), "{page}");
}

/// Two sockets of two cores, of which one is hot, and then one has failed.
fn adapted() -> repartitioning::Story {
    use repartitioning::{
        Action, Controller, Cores, Event, Grid, Load, PartitionMap, Range, Settings, SynchronizationPoint,
    };
    let cores = Cores::new(vec![0, 0, 1, 1], vec![vec![0.0, 2.0], vec![2.0, 0.0]]).expect("a machine");
    let owners: Vec<repartitioning::Core> = cores.present().collect();
    let tables = ["subscriber", "<special>"]
        .into_iter()
        .enumerate()
        .map(|(number, name)| (repartitioning::Table(number as u16), name, Range { low: 0, end: 400 }));
    let map = PartitionMap::even(&tables.collect::<Vec<_>>(), &owners).expect("a map");
    let mut act = Vec::new();
    let mut controller = Controller::new(Settings::new(0.01), cores.clone(), map, 0.0, &mut act);
    let (mut now, mut has_failed) = (0.01, false);
    for round in 0..12 {
        let change = act.drain(..).any(|action| matches!(action, Action::Repartition { .. }));
        let grid = Grid::of(controller.map());
        let (half, last) = (grid.count() / 2, grid.count() as u32 - 1);
        let meeting = |sub: u32| SynchronizationPoint {
            members: [sub, last - sub].map(repartitioning::SubPartition).to_vec(),
            count: 1.0,
            bytes: 2e4,
        };
        let costs = (0..grid.count()).map(|sub| if sub % half < 8 { 9e5 } else { 1e5 }).collect();
        let load = Load::new(grid.version(), costs, (0..8).map(meeting).collect());
        let event = match (change, round) {
            (true, _) => Event::Changed { seconds: 0.002 },
            (_, 4..) if !has_failed => {
                has_failed = true;
                Event::Cores(cores.with(|core| core != repartitioning::Core(3)))
            }
            _ => Event::Measured { throughput: 1e5, load, spent: repartitioning::Spent::default() },
        };
        controller.step(now, event, &mut act).expect("a legal event");
        now += 0.01;
    }
    controller.story().clone()
}

#[test]
fn a_page_tells_what_adaptation_did_and_why() {
    let story = adapted();
    assert!(story.count() >= 2, "{}", story.text());
    let measured = Measurement { adaptation: Some(story), ..measurement() };
    let report = Report::new(&resolved("tpcc --cores 2"), measured);
    let description = Description::shipped("octo-socket").expect("a shipped machine");
    let page = page(&report, &description, "isles bench");
    for part in [
        "<h2>Adaptation</h2>",
        "times the mean load",
        "core 3 is gone and owned",
        "subscriber before",
        "&lt;special&gt; after",
        "subscriber 0 to ",
        "core 3, gone",
        "before, socket 0 and socket 1",
        "measured afterwards",
        ">repartitioning</text>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("NaN") && !page.contains("<special>"));
    let text = super::super::text::render(&report, super::super::text::Style::plain());
    assert!(text.contains("adaptation") && text.contains("core 3 is gone and owned"), "{text}");
    // Without adaptation the page has no section on it.
    let silent = Report::new(&resolved("tpcc --cores 2"), measurement());
    let silent = super::page(&silent, &description, "isles bench");
    assert!(!silent.contains("Adaptation"), "{silent}");
}

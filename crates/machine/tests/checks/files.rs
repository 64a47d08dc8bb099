//! Machines from files: hwloc's XML, core-to-core matrices, complete descriptions. All of them are
//! written and read back.

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use machine::{
    Access, Confidence, Description, LineState, Measurements, Topology, render_cores_svg, render_costs,
    render_description_json, render_memory_svg, render_svg,
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn files(name: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder(name))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending != "md"));
    files.sort();
    files
}

fn read(folder_name: &str, file: &str) -> Description {
    let path = folder(folder_name).join(file);
    Description::read(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// [packages, nodes, L3 domains, cores, hardware threads]
fn counts(topology: &Topology) -> [usize; 5] {
    let counts = topology.counts();
    [counts.packages, counts.numa_nodes, counts.l3_domains, counts.cores, counts.hardware_threads]
}

fn all() -> Vec<Description> {
    let shipped = Description::names().iter().map(|name| Description::shipped(name).expect("it ships"));
    let files = [files("xml"), files("matrices")].into_iter().flatten();
    shipped.chain(files.map(|file| Description::read(&file).expect("a machine"))).collect()
}

#[test]
fn xml_gives_structure_and_distances() {
    let cases = [
        ("16amd64-8n2c.xml", [8, 8, 0, 16, 16], true),
        ("16amd64-8n2c-cpusets.v1.xml", [6, 3, 0, 10, 10], true),
        ("16em64t-4s2c2t-offlines.xml", [4, 1, 4, 7, 12], false),
        ("20em64t-hybrid-1p6c2t+2ca4co1t.xml", [1, 1, 1, 14, 20], false),
        ("32amd64-4s2n4c-cgroup2.v1.xml", [1, 2, 2, 6, 6], true),
        ("32amd64-4s2n4c-cgroup2.xml", [1, 2, 2, 6, 6], true),
        ("memory-tiers.xml", [1, 3, 1, 6, 6], true),
        ("nocore.xml", [0, 2, 0, 0, 4], false),
    ];
    assert_eq!(files("xml").len(), cases.len());
    for (file, expected, distances) in cases {
        let description = read("xml", file);
        assert_eq!(counts(&description.topology), expected, "{file}");
        assert_eq!(description.topology.distances().is_some(), distances, "{file}");
        assert_eq!(description.memory_ns.confidence[0][0], Confidence::Estimate);
    }
}

#[test]
fn both_versions_of_xml_are_the_same_machine() {
    let [first, second] = ["32amd64-4s2n4c-cgroup2.v1.xml", "32amd64-4s2n4c-cgroup2.xml"]
        .map(|file| read("xml", file).topology);
    assert_eq!(first, second);
    // The system's distances are 10 and 16: remote memory is 1.6 times as far.
    let memory = read("xml", "32amd64-4s2n4c-cgroup2.xml").memory_ns;
    assert_eq!(memory.values, [[100.0, 160.0], [160.0, 100.0]]);
    assert!(memory.source.contains("firmware's distances"), "{}", memory.source);
}

#[test]
fn xml_distinguishes_cores_of_different_kinds() {
    let topology = read("xml", "20em64t-hybrid-1p6c2t+2ca4co1t.xml").topology;
    let fast = topology.threads().iter().filter(|info| info.efficiency == 1).count();
    assert_eq!((fast, topology.threads().len()), (12, 20));
    assert_eq!(topology.memory_bytes() >> 30, 30);
}

/// Number, threads, kind, and the threads next to which it is.
type Memory = (u32, Vec<u32>, Option<&'static str>, Vec<u32>);

fn memories(topology: &Topology) -> Vec<Memory> {
    let numbers = |threads: &[machine::HardwareThread]| threads.iter().map(|thread| thread.0).collect();
    let all = topology.nodes().iter().chain(topology.memory_only_nodes());
    all.map(|memory| (memory.node.0, numbers(&memory.threads), memory.kind.name(), numbers(&memory.beside)))
        .collect()
}

#[test]
fn memories_of_a_kind_of_their_own_stay_beside() {
    let topology = read("xml", "memory-tiers.xml").topology;
    let expected = [
        (0, vec![0, 1], None, vec![]),
        (1, vec![2, 3], None, vec![]),
        // These processors have no DRAM.
        (2, vec![4, 5], Some("HBM"), vec![]),
        (4, vec![], Some("HBM"), vec![2, 3]),
        (6, vec![], Some("NVM"), vec![2, 3]),
        (8, vec![], Some("NVM"), vec![0, 1]),
        (9, vec![], Some("NVM"), vec![4, 5]),
    ];
    assert_eq!(memories(&topology), expected);
    assert_eq!(topology.memory_bytes(), 3_077_521_408 + 1_026_519_040 + 536_870_912);
    assert_eq!(topology.special_memory_bytes(), 536_870_912 + 3 * 402_653_184);
    let text = machine::render_text(&topology);
    for line in ["NUMANode L#2 (P#2 HBM 512MB)", "(P#6 NVM 384MB) beside P#2-3, for rows only where"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let json = machine::render_json(&topology);
    assert_eq!(json["memory_only_nodes"][1]["kind"], "NVM");
    assert_eq!(json["memory_only_nodes"][1]["beside"], serde_json::json!([2, 3]));
    assert!(json["nodes"][0]["kind"].is_null());
    let picture = render_svg(&topology, None);
    assert!(picture.contains("NUMANode P#8 NVM 384MB beside P#0-1"), "{picture}");
}

/// A machine of four threads: two groups of two with a memory each, and a memory `outside` them for
/// all.
fn two_levels(outside: &str, inside: [&str; 2]) -> Topology {
    let memory = |number: u32, set: &str, attributes: &str| {
        format!(
            "<object type=\"NUMANode\" os_index=\"{number}\" cpuset=\"{set}\" local_memory=\"1024\" {attributes}/>"
        )
    };
    let group = |first: u32, set: &str, memory: String| {
        let thread = |number: u32| {
            let set = 1 << number;
            format!("<object type=\"PU\" os_index=\"{number}\" cpuset=\"{set:#010x}\"/>")
        };
        format!(
            "<object type=\"Group\" cpuset=\"{set}\">{memory}{}{}</object>",
            thread(first),
            thread(first + 1)
        )
    };
    let [one, other] = inside;
    let text = format!(
        "<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0x0000000f\">{}{}{}</object></topology>",
        memory(0, "0x0000000f", outside),
        group(0, "0x00000003", memory(1, "0x00000003", one)),
        group(2, "0x0000000c", memory(2, "0x0000000c", other)),
    );
    Description::from_hwloc_xml(&text, "two-levels").expect("a machine").topology
}

#[test]
fn processors_belong_to_ordinary_memory_and_to_the_nearest() {
    // The memory of all is first in the file, and has the smallest number.
    let near = [(1, vec![0, 1], None, vec![]), (2, vec![2, 3], None, vec![])];
    for (outside, kind) in
        [("", None), ("subtype=\"CXL-DRAM\"", Some("CXL")), ("subtype=\"NVM\"", Some("NVM"))]
    {
        let topology = two_levels(outside, ["", "subtype=\"DRAM\""]);
        let mut expected = near.to_vec();
        expected.push((0, vec![], kind, vec![0, 1, 2, 3]));
        assert_eq!(memories(&topology), expected, "{outside}");
    }
    let within = two_levels("subtype=\"DRAM\"", ["subtype=\"HBM\"", "subtype=\"MCDRAM\""]);
    let (one, other) = ((1, vec![], Some("HBM"), vec![0, 1]), (2, vec![], Some("HBM"), vec![2, 3]));
    assert_eq!(memories(&within), [(0, vec![0, 1, 2, 3], None, vec![]), one, other]);
    // Ordinary memory of all, for the threads without a memory of their own.
    let mixed = two_levels("", ["", "subtype=\"HBM\""]);
    let one = (1, vec![0, 1], None, vec![]);
    assert_eq!(memories(&mixed), [(0, vec![2, 3], None, vec![]), one, (2, vec![], Some("HBM"), vec![2, 3])]);
    // A machine of HBM only uses it.
    let only = two_levels("subtype=\"NVM\"", ["subtype=\"HBM\""; 2]);
    assert_eq!(only.counts().numa_nodes, 2);
    assert_eq!(only.memory_bytes(), 2048);
}

#[test]
fn emulated_nodes_are_one_and_unlike_ones_are_not() {
    let read = |distance: u32, bandwidths: [u32; 2]| {
        let [first, second] = bandwidths;
        let node = |number: u32| {
            format!(
                "<object type=\"NUMANode\" os_index=\"{number}\" gp_index=\"{number}\" cpuset=\"0x1\" local_memory=\"1024\"/>"
            )
        };
        let text = format!(
            "<topology><object type=\"Machine\" cpuset=\"0x1\">{}{}\
             <object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/></object>\
             <distances2 type=\"NUMANode\" nbobjs=\"2\" kind=\"5\" indexing=\"os\"><indexes length=\"3\">0 1</indexes>\
             <u64values length=\"11\">10 {distance} {distance} 10</u64values></distances2>\
             <memattr name=\"Bandwidth\"><memattr_value target_obj_gp_index=\"0\" value=\"{first}\"/>\
             <memattr_value target_obj_gp_index=\"1\" value=\"{second}\"/></memattr></topology>",
            node(0),
            node(1),
        );
        let topology = Description::from_hwloc_xml(&text, "twins").expect("a machine").topology;
        (topology.nodes()[0].memory_bytes, topology.memory_only_nodes().len())
    };
    assert_eq!(read(10, [100, 100]), (2048, 0));
    assert_eq!(read(17, [100, 100]), (1024, 1));
    assert_eq!(read(10, [100, 1000]), (1024, 1));
}

#[test]
fn bad_xml_is_refused_in_one_line() {
    let cases = [
        ("<topology>", "not XML: "),
        ("<html/>", "no XML of hwloc"),
        ("<topology><object type=\"Machine\"/></topology>", "no hardware thread"),
        (
            "<topology>\n<object type=\"Machine\" cpuset=\"7\"/></topology>",
            "line 2: `cpuset` of a Machine is `7`: expected a bitmap",
        ),
        (
            "<topology><object type=\"Machine\" allowed_cpuset=\"0x2\">\
             <object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/></object></topology>",
            "no hardware thread",
        ),
    ];
    for (text, expected) in cases {
        let error = Description::from_hwloc_xml(text, "x").expect_err(expected).to_string();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn matrices_show_sockets_domains_and_siblings() {
    let cases = [
        ("amd-epyc-7773x.csv", [1, 1, 8, 64, 128]),
        ("aws-graviton3.csv", [1, 1, 1, 64, 64]),
        ("dual-ibm-power7-8-cores-3.3-ghz-2010-q1.csv", [2, 2, 2, 16, 16]),
        ("dual-intel-xeon-cpu-x5650-2.67ghz.csv", [2, 2, 2, 12, 24]),
        ("dual-intel-xeon-gold-6242-2.8ghz.csv", [2, 2, 2, 32, 64]),
        ("hisilicon-kunpeng-920-6426-2.6ghz.csv", [1, 2, 2, 64, 64]),
        // Siblings pass a line in 5 or 11 ns, neighbours in 16 or 21.
        ("siblings-close.csv", [2, 2, 2, 16, 32]),
        // Two dies of two complexes each; lines between complexes of the first die take as long as
        // between dies.
        ("two-dies.csv", [1, 1, 4, 16, 32]),
    ];
    assert_eq!(files("matrices").len(), cases.len());
    for (file, expected) in cases {
        assert_eq!(counts(&read("matrices", file).topology), expected, "{file}");
    }
}

#[test]
fn costs_of_a_matrix_are_medians_of_their_classes() {
    let xeon = read("matrices", "dual-intel-xeon-gold-6242-2.8ghz.csv");
    let threads = xeon.topology.threads();
    let line = |to: usize| {
        xeon.line_ns(Access::Load, LineState::Modified, threads[0].thread, threads[to].thread)
            .expect("a cost")
    };
    assert_eq!((line(1), line(2), line(32)), (7.0, 48.0, 141.0));
    let costs = &xeon.load.modified;
    assert_eq!(costs.same_domain_ns.confidence, Confidence::Measured);
    assert_eq!(costs.between_nodes_ns.confidence[0][1], Confidence::Measured);
    assert_eq!(xeon.load.shared.same_domain_ns.confidence, Confidence::Estimate);
    assert_eq!(xeon.memory_ns.values[0], [100.0, 193.0]);
    assert_eq!(xeon.memory_ns.confidence[0][1], Confidence::Estimate);
    assert_eq!((xeon.clock_ghz.value, xeon.clock_ghz.confidence), (2.8, Confidence::Family));
    let epyc = read("matrices", "amd-epyc-7773x.csv");
    assert_eq!(epyc.load.modified.same_domain_ns.value, 26.0);
    assert!((100.0..125.0).contains(&epyc.load.modified.same_node_ns.value));
}

#[test]
fn complete_files_read_back_to_equal_descriptions() {
    for description in all() {
        let text = description.to_toml();
        let back =
            Description::from_toml(&text).unwrap_or_else(|error| panic!("{}: {error}", description.name));
        assert!(back == description, "{} differs", description.name);
    }
}

#[test]
fn names_with_quotes_and_control_characters_survive() {
    let mut description = Description::shipped("dual-socket").expect("it ships");
    "a \"b\" \\ \n\t\u{7f} \u{fc}".clone_into(&mut description.name);
    let back = Description::from_toml(&description.to_toml()).expect("a description");
    assert_eq!(back.name, description.name);
}

#[test]
fn measured_values_count_and_the_rest_is_estimated() {
    let topology = read("xml", "32amd64-4s2n4c-cgroup2.xml").topology;
    let measured = Measurements {
        name: "here".to_owned(),
        clock_ghz: Some(3.1),
        l3_ns: Some(17.3),
        memory_ns: Some(vec![vec![Some(91.5), None], vec![Some(-1.0), Some(f64::NAN)]]),
        memory_gbps: Some(vec![vec![Some(40.0)]]),
        core_to_core_ns: Some(vec![vec![None, Some(60.0)], vec![Some(70.0)]]),
        ..Measurements::default()
    };
    let description = Description::of_measurements(&topology, &measured);
    let l3 = &description.l3.as_ref().expect("an L3").load_ns;
    assert_eq!((l3.value, l3.confidence), (17.3, Confidence::Measured));
    assert_eq!((description.clock_ghz.value, description.clock_ghz.confidence), (3.1, Confidence::Measured));
    assert_eq!(description.l1.load_ns.confidence, Confidence::Estimate);
    // Remote memory follows the measured local one; impossible values count as not measured.
    assert_eq!(description.memory_ns.values, [[91.5, 91.5 * 1.6], [160.0, 100.0]]);
    let confidence = &description.memory_ns.confidence;
    assert_eq!((confidence[0][0], confidence[0][1]), (Confidence::Measured, Confidence::Estimate));
    assert_eq!(description.memory_gbps.values[0][0], 40.0);
    assert_eq!(description.memory_gbps.confidence[1][1], Confidence::Estimate);
    // Both directions of the one measured pair.
    assert_eq!(description.load.modified.same_domain_ns.value, 65.0);
    assert_eq!(description.core_to_core.as_ref().and_then(|known| known.between(0, 1)), Some(65.0));
    let back = Description::from_toml(&description.to_toml()).expect("a description");
    assert!(back == description);
}

#[test]
fn bad_complete_files_are_refused_in_one_clear_line() {
    let good = Description::shipped("dual-socket").expect("it ships").to_toml();
    let change = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let cases = [
        (change("clock_ghz = ", "clock_mhz = "), "`clock_mhz` is no key"),
        (change("[l2]\n", "[l2x]\n"), "`l2x` is no key"),
        (
            change("value = 2.0, conf", "value = nan, conf"),
            "`clock_ghz.value` is nan: expected a positive number",
        ),
        (
            change("value = 2.0, conf", "value = 2000.0, conf"),
            "`clock_ghz.value` is 2000.0: expected a number from 0.01 to 100",
        ),
        (change("value = 64,", "value = 65,"), "`line_bytes` is 65: expected a power of two"),
        (
            change("[80.0, 130.0],\n", ""),
            "`memory_ns.values` is a list of 1 rows: expected a matrix of 2 rows",
        ),
        (change("[80.0, 130.0]", "[80.0]"), "`memory_ns.values[0]` is a list of 1 entries"),
        (
            change("[80.0, 130.0]", "[0.0, 130.0]"),
            "`memory_ns.values[0][0]` is 0.0: expected a positive number",
        ),
        (change("[80.0, 130.0]", "[80.0, -1.0]"), "`memory_ns.values[0][1]` is -1.0"),
        (change("[0, 1]", "[1, 1]"), "`hops[0][0]` is 1: expected 0 from a node to itself"),
        (
            change("siblings = 1", "siblings = 2"),
            "`smt_shares[0].siblings` is 2: expected a number from 1 to 1",
        ),
        (
            change("bytes = { value = 32768", "bytes = { value = 0"),
            "`l1.bytes.value` is 0: expected at least 1024",
        ),
        (change("[[topology.memories]]", "[[topology.memory]]"), "`topology.memory` is no key"),
        (
            change("\nbytes = 137438953472\nthreads = [\"0-7\"]", "\nthreads = []"),
            "`topology.distances` is [[10, 16], [16, 10]]: expected a matrix of 1 rows",
        ),
        (
            change("threads = [\"8-15\"]", "threads = [\"8-15\"]\nkind = \"GPU\""),
            "`topology.memories[1].kind` is GPU: expected HBM, CXL, NVM or other",
        ),
        (
            change("threads = [\"8-15\"]", "threads = [\"8-15\"]\nbeside = \"99\""),
            "`topology.memories` is beside \"99\" for node 1: expected hardware threads that some memory has",
        ),
        (change("threads = [\"8-15\"]", "threads = [\"0-7\"]"), "`topology.memories[1].threads[0]` is 0-7"),
        (change("\"0\", \"1\",", "\"0\", \"0-9\","), "`topology.groups` is a list that makes no tree"),
        (
            change("type = \"package\"", "type = \"socket\""),
            "`topology.groups[0].type` is socket: expected one of package",
        ),
        (
            change("confidence = \"family\"", "confidence = \"high\""),
            "`confidence` is high: expected measured, family",
        ),
    ];
    for (text, expected) in cases {
        let error = Description::from_toml(&text).expect_err(expected).to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}\nlacks\n{expected}");
    }
}

#[test]
fn rows_of_measured_times_are_checked() {
    let good = read("matrices", "dual-ibm-power7-8-cores-3.3-ghz-2010-q1.csv").to_toml();
    for (from, to) in [("\"163.0\"", "\"163.0 1\""), ("\"163.0\"", "\"fast\""), ("\"163.0\"", "\"0\"")] {
        assert!(good.contains(from));
        let error = Description::from_toml(&good.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(
            error.starts_with("`core_to_core.below_ns[1]` is something else: expected 1 positive"),
            "{error}"
        );
    }
    let unknown = good.replacen("\"163.0\"", "\"-\"", 1);
    let description = Description::from_toml(&unknown).expect("a time may be missing");
    assert_eq!(description.core_to_core.expect("measured").between(0, 1), None);
}

/// Every picture is well-formed XML whose elements are within its borders.
#[test]
fn pictures_are_well_formed() {
    for description in all() {
        let name = &description.name;
        let pictures = [
            render_svg(&description.topology, Some(&description)),
            render_cores_svg(&description),
            render_memory_svg(&description),
        ];
        for picture in pictures {
            let document =
                roxmltree::Document::parse(&picture).unwrap_or_else(|error| panic!("{name}: {error}"));
            let root = document.root_element();
            let number = |element: &roxmltree::Node<'_, '_>, key: &str| -> f64 {
                element.attribute(key).and_then(|text| text.parse().ok()).unwrap_or(0.0)
            };
            let (width, height) = (number(&root, "width"), number(&root, "height"));
            for element in root.descendants().filter(|element| element.has_tag_name("rect")) {
                let right = number(&element, "x") + number(&element, "width");
                let bottom = number(&element, "y") + number(&element, "height");
                assert!(right <= width && bottom <= height, "{name}: {element:?} in {width} x {height}");
            }
        }
    }
}

#[test]
fn pictures_of_large_machines_stay_readable() {
    let large = Description::shipped("superdome-flex").expect("it ships");
    let picture = render_svg(&large.topology, Some(&large));
    for text in ["Package L#27", "P#1512-1567", "27 more like it", "1568 hardware threads", "Islands"] {
        assert!(picture.contains(text), "{text}");
    }
    assert!(picture.matches("<text").count() < 200);
    // 28 rows of sockets, whose cells are means.
    let cores = render_cores_svg(&large);
    assert!(cores.contains(">S27<") && !cores.contains(">S28<"));
    let small = render_cores_svg(&read("matrices", "dual-intel-xeon-cpu-x5650-2.67ghz.csv"));
    // 24 threads: all pairs but the diagonal have a value, and the scale has its unit.
    assert!(small.contains(">P#23<") && small.contains(">ns<"));
    assert_eq!(small.matches("fill=\"#f0f0f0\"").count(), 24);
}

#[test]
fn costs_are_shown_with_confidence_and_source() {
    let octo = Description::shipped("octo-socket").expect("it ships");
    let text = render_costs(&octo);
    for part in
        ["clock", "2.13 GHz", "measured", "[1] David, Guerraoui", "rule: 12 GB/s", "atomic of a shared line"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let flex = render_costs(&Description::shipped("superdome-flex").expect("it ships"));
    assert!(flex.contains("~226") && flex.contains(" 226"), "{flex}");
    let json = render_description_json(&octo);
    assert_eq!(json["clock_ghz"]["confidence"], "measured");
    assert_eq!(json["atomic"]["shared"]["between_nodes_ns"]["confidence"][0][7], "measured");
    assert!(json["link_gbps"]["source"].as_str().is_some_and(|source| source.contains("rule")));
}

#[test]
fn the_example_of_the_documentation_is_a_description() {
    let page = include_str!("../../../../docs/machines.md");
    let start = page.find("```toml\n").expect("an example") + 8;
    let end = start + page[start..].find("```").expect("its end");
    let description = Description::from_toml(&page[start..end]).expect("a description");
    assert_eq!(counts(&description.topology), [2, 2, 2, 32, 64]);
}

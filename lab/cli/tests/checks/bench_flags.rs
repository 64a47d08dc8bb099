//! Flags of `isles bench` on simulated machines: repetitions, machines and sockets of workers, the
//! device of the log, and remote rows.

use crate::support::{assert_fault, isles};

#[test]
fn a_repeated_run_has_mean_and_deviation_over_its_seeds() {
    let line = "bench tpcc --machine dual-socket --cores 2 --scale 0.01 --seconds 0.0005 --warmup 0";
    let run = |more: &str| isles(&format!("{line} {more}").split_whitespace().collect::<Vec<_>>());
    let json = |more: &str| -> serde_json::Value {
        serde_json::from_str(&run(&format!("{more} --json")).output).expect("one object")
    };
    let (three, alone) = (json("--seed 5 --repeat 3"), json("--seed 6"));
    let throughput: Vec<f64> = three["repetitions"]["throughput"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one.as_f64())
        .collect();
    assert_eq!((throughput.len(), Some(throughput[0])), (3, three["throughput"].as_f64()));
    assert_eq!((Some(throughput[1]), alone.get("repetitions")), (alone["throughput"].as_f64(), None));
    let mean = throughput.iter().sum::<f64>() / 3.0;
    assert!((three["repetitions"]["mean"].as_f64().expect("a number") - mean).abs() < 1e-6 * mean);
    assert!(three["repetitions"]["deviation"].as_f64().is_some_and(|deviation| deviation > 0.0), "{three}");
    let text = run("--seed 5 --repeat 3").output;
    assert!(text.contains("  repetitions    mean ") && text.contains(", seeds 5 to 7\n"), "{text}");
    assert_fault(
        &["bench", "tpcc", "--repeat", "2", "--path", "data"],
        "--repeat 2 with --path: the database of the first run would be there in the next (accepted: one of the two)\n",
    );
}

#[test]
fn workers_are_divided_among_machines_and_sockets() {
    let line = "bench micro --rows-per-site 500 --seconds 0.0002 --warmup 0 --json";
    let json = |more: &str| -> serde_json::Value {
        let words = format!("{line} {more}");
        serde_json::from_str(&isles(&words.split_whitespace().collect::<Vec<_>>()).output)
            .expect("one object")
    };
    let two = json("--machine cluster --cores 4 --machines 2 --deploy machine");
    assert_eq!((&two["config"]["machines"], &two["config"]["deploy"]), (&2.into(), &"2isl".into()));
    assert_eq!(two["config"]["transport"], "tcp");
    let mixed = json("--machine quad-socket --cores 4 --placement mix --deploy socket");
    assert_eq!(mixed["config"]["deploy"], "2isl");
    for (words, expected) in [
        (
            "--machine cluster --machines 2 --cores 5",
            "--cores 5: 2 machines cannot have equally many of them",
        ),
        ("--machine cluster --machines 9", "--machines 9: out of range (accepted: 1 to 8)"),
        ("--machine quad-socket --machines 2", "--machines 2: out of range (accepted: 1)"),
    ] {
        let words: Vec<&str> = ["bench", "micro"].into_iter().chain(words.split(' ')).collect();
        assert_fault(&words, expected);
    }
}

#[test]
fn the_log_can_be_on_a_device_of_its_own() {
    let line = "bench micro --engine paged --machine dual-socket --cores 2 --op update --rows-per-site 500 --seconds 0.1 \
                --warmup 0 --durability sync --json";
    let commits = |more: &str| {
        let words = format!("{line} {more}");
        let json: serde_json::Value =
            serde_json::from_str(&isles(&words.split_whitespace().collect::<Vec<_>>()).output)
                .expect("one object");
        json["commits"].as_u64().expect("a number")
    };
    let [ram, hdd, log_in_ram, log_on_hdd] =
        ["--disk ram", "--disk hdd", "--disk hdd --log-disk ram", "--disk ram --log-disk hdd"].map(commits);
    assert!(
        ram > 10 * hdd && log_in_ram > 10 * hdd && 10 * log_on_hdd < ram,
        "{ram} {hdd} {log_in_ram} {log_on_hdd}"
    );
}

#[test]
fn remote_rows_can_all_be_in_other_instances() {
    let line = "--machine quad-socket --cores 4 --deploy 2isl --seconds 0.001 --warmup 0 --json";
    let ratio = |workload: &str, more: &str| {
        let words = format!("bench {workload} {line} {more}");
        let json: serde_json::Value =
            serde_json::from_str(&isles(&words.split_whitespace().collect::<Vec<_>>()).output)
                .expect("one object");
        json["distributed_ratio"].as_f64().expect("a number")
    };
    for workload in [
        "micro --rows 2 --multisite 1 --rows-per-site 500",
        "tpcb --remote 100 --scale 0.01",
        "tpcc --mix payment --remote-payment 100 --scale 0.01",
    ] {
        let (any, other) = (ratio(workload, ""), ratio(workload, "--remote-rows other-instance"));
        assert!(any < 0.8 && other == 1.0, "{workload}: {any} {other}");
    }
}

#[test]
fn remote_warehouses_can_be_near_or_far() {
    let line = "bench tpcc --machine quad-socket --cores 8 --placement spread --mix payment --remote-payment 100 \
                --scale 0.01 --seconds 0.001 --warmup 0 --durability none --json";
    let bytes = |more: &str| {
        let words = format!("{line} {more}");
        let json: serde_json::Value =
            serde_json::from_str(&isles(&words.split_whitespace().collect::<Vec<_>>()).output)
                .expect("one object");
        json["counters"]["interconnect_bytes"].as_f64().expect("a number")
    };
    let choice = ["local", "any", "farthest"].map(|choice| bytes(&format!("--remote-choice {choice}")));
    assert!(choice[1..].iter().all(|bytes| *bytes > 2.0 * choice[0]), "{choice:?}");
    for (words, expected) in [
        (
            "--machine dual-socket --cores 2 --remote-choice farthest",
            "--remote-choice farthest: no other warehouse has its rows at the largest distance",
        ),
        ("--remote-choice far", "--remote-choice far: unknown value (accepted: any, local, farthest)"),
    ] {
        let words: Vec<&str> = ["bench", "tpcc"].into_iter().chain(words.split(' ')).collect();
        assert_fault(&words, expected);
    }
}

#[test]
fn schemes_draw_timestamps_as_the_published_program_does() {
    let line = "bench tpcc --machine dual-socket --cores 4 --mix narrow --scale 0.01 --seconds 0.0005 --warmup 0 \
                --durability none --json";
    let share = |cc: &str, more: &str| {
        let words = format!("{line} --cc {cc} {more}");
        let json: serde_json::Value =
            serde_json::from_str(&isles(&words.split_whitespace().collect::<Vec<_>>()).output)
                .expect("one object");
        json["breakdown"]["timestamp"].as_f64().expect("a number")
    };
    for cc in ["wait-die", "mvcc", "occ", "hstore"] {
        assert!(share(cc, "--timestamp counter --like dbx1000") > 0.0, "{cc}");
    }
    for cc in ["dl-detect", "no-wait", "silo", "tictoc"] {
        assert_eq!(share(cc, "--timestamp counter --like dbx1000"), 0.0, "{cc}");
    }
    for cc in ["mvcc", "hstore"] {
        assert_eq!(share(cc, "--timestamp counter"), 0.0, "{cc}");
    }
    // Managers of partitions use timestamps of the clock too.
    for (cc, is_drawn) in [("mvcc", false), ("hstore", true)] {
        assert_eq!(share(cc, "--like dbx1000") > 0.0, is_drawn, "{cc}");
        assert_eq!(share(cc, "--like dbx1000 --row-lock word"), 0.0, "{cc}");
    }
}

#[test]
fn latches_without_queues_are_mutexes() {
    let line = "bench tpcc --machine dual-socket --cores 16 --warehouses 1 --mix payment --scale 0.01 \
                --seconds 0.001 --warmup 0 --durability none --like dbx1000 --json";
    let throughput = |cc: &str, more: &str| {
        let words = format!("{line} --cc {cc} {more}");
        let json: serde_json::Value =
            serde_json::from_str(&isles(&words.split_whitespace().collect::<Vec<_>>()).output)
                .expect("one object");
        json["throughput"].as_f64().expect("a number")
    };
    for cc in ["no-wait", "wait-die", "dl-detect", "occ", "hstore"] {
        let (queue, mutex) = (throughput(cc, ""), throughput(cc, "--without queue-latch"));
        assert!(mutex > 0.0 && mutex != queue, "{cc}: {queue} {mutex}");
        assert_eq!(throughput(cc, "--without queue-latch"), mutex, "{cc}");
    }
}

#[test]
fn partitions_are_planned_monitored_and_placed_by_hand() {
    let json = |words: &str| -> serde_json::Value {
        let line = format!("bench {words} --machine dual-socket --engine paged --cores 16 --warmup 0 --json");
        let ran = isles(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ran.status, 0, "{words}: {}", ran.error);
        serde_json::from_str(&ran.output).expect("one object")
    };
    let micro = "micro --rows 1 --rows-per-site 500 --seconds 0.0004 --execution atrapos";
    let planned = json(&format!("{micro} --adaptive off --bins 8 --at 0.0001=split:5 --at 0.0002=merge=3"));
    let event = |number: usize, key: &str| planned["events"][number][key].clone();
    assert_eq!((event(0, "kind"), event(0, "actions")), ("split".into(), 5.into()), "{planned}");
    assert_eq!((event(1, "kind"), event(1, "actions")), ("merge".into(), 3.into()), "{planned}");
    assert!(event(0, "seconds").as_f64() > event(1, "seconds").as_f64(), "{planned}");
    assert_eq!(planned["timeline"].as_array().map(Vec::len), Some(8));
    let throughput = |more: &str| json(&format!("{micro} {more}"))["throughput"].as_f64().expect("a number");
    let [off, monitor, lists] = [
        "--adaptive off",
        "--adaptive monitor --adapt-interval 0.0001",
        "--adaptive off --without announcements",
    ]
    .map(throughput);
    assert!(monitor < off && lists < off, "{off} {monitor} {lists}");
    let dependent = "dependent --rows-per-site 500 --seconds 0.0004 --execution atrapos --adaptive off";
    let [naive, oblivious, model] =
        ["", "--partitions 8", "--partitions 8 --partition-placement model"].map(|more| {
            let run = json(&format!("{dependent} --clients global {more}"));
            let messages = run["distributed_ratio"].as_f64().expect("a number");
            (messages, run["counters"]["interconnect_bytes"].as_f64().expect("a number"))
        });
    assert_eq!((naive.0, oblivious.0, model.0), (0.0, 1.0, 1.0));
    assert!(model.1 < oblivious.1, "{model:?} {oblivious:?}");
}

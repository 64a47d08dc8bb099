//! Durable instances as processes: what goes on after a kill, what belongs together, and where
//! directories are.

// Tests look at processes, and write scratch files of their own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use platform::Hardware;
use platform::files::Files;

use crate::instances::{Ended, Running, deploy, has_two_threads, ports, signal};
use crate::support::{PROGRAM, Scratch, start};

/// Two durable instances, with what a short run of them takes.
const DURABLE: &str =
    "bench tpcc --warehouses 2 --scale 0.01 --remote-payment 40 --cores 2 --deploy core --warmup 0";

fn isles(words: &str, path: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words.split(' ')).arg(path);
    command
}

/// The standard output of a command. The error is its one line on standard error if it fails, with
/// status 1, or 2 if the request does not fit the directory.
fn told(command: &mut Command) -> Result<String, String> {
    let ran = command.output().expect("the binary of this package runs");
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&ran.stderr);
    let last = errors.lines().next_back().unwrap_or_default();
    let status = if last.contains(" (accepted: ") { 2 } else { 1 };
    assert_eq!((ran.status.code(), &*ran.stdout), (Some(status), &b""[..]), "{errors}");
    Err(last.to_owned())
}

/// A short run of durable instances, which goes on with what is there.
fn goes_on(path: &Path) -> Result<serde_json::Value, String> {
    let text = told(&mut isles(&format!("{DURABLE} --transactions 40 --json --path"), path))?;
    let result: serde_json::Value = serde_json::from_str(&text).expect("one JSON object");
    let checks = result["checks"].as_object().expect("checks");
    assert!(checks.len() == 12 && checks.values().all(|check| check == "ok"), "{checks:?}");
    Ok(result)
}

/// The last line of `isles check`, which has found something whole.
fn checked(path: &Path) -> String {
    told(&mut isles("check", path)).expect("whole").lines().next_back().expect("a line").to_owned()
}

/// Runs until a process is killed, that of an instance or the command: what is said of it.
fn killed(path: &Path, instance: Option<usize>) -> String {
    let mut command = start(&mut isles(&format!("{DURABLE} --seconds 50 --path"), path));
    let errors = BufReader::new(command.stderr.take().expect("standard error"));
    let scratch = path.to_path_buf();
    let mut running = Running { command, errors, scratch, keeps: None };
    running.await_workers();
    std::thread::sleep(Duration::from_millis(150));
    let instances = running.instances();
    let victim = instance.map_or(running.command.id(), |instance| instances[instance]);
    signal("KILL", victim);
    let Ended { status, errors, .. } = running.end();
    assert_eq!(status.code(), instance.map(|_| 1), "{errors}");
    errors.replace(&victim.to_string(), "PROCESS")
}

#[test]
fn a_deployment_goes_on_after_a_process_is_killed() {
    if !has_two_threads() {
        return;
    }
    let keeps = Scratch::new("kills");
    let path = keeps.0.join("data");
    let said = killed(&path, Some(1));
    let expected =
        "isles: instance 1 (process PROCESS) ended: signal: 9 (SIGKILL); the same command goes on from";
    assert_eq!(said, format!("{expected} {}\n", path.display()));
    let doubt = checked(&path);
    let goes_on = || goes_on(&path).expect("it goes on");
    let second = goes_on();
    assert!(second["distributed_ratio"].as_f64() > Some(0.1), "{second}");
    assert!(second["log"]["groups"].as_u64() > Some(0), "{second}");
    let recovered = &second["recovered"];
    // As many as were found before.
    let (all, committed) = (&recovered["in_doubt"], &recovered["in_doubt_committed"]);
    let (all, committed) = (all.as_u64().expect("a number"), committed.as_u64().expect("a number"));
    let expected = match all {
        0 => "Nothing is in doubt.".to_owned(),
        all => format!(
            "In doubt: the next opening commits {committed} parts, because their coordinators have decided so, and rolls back {}.",
            all - committed
        ),
    };
    assert_eq!(doubt, expected);
    // Nothing is reported of a command that is gone.
    assert_eq!(killed(&path, None), "");
    assert!(goes_on()["recovered"]["records"].as_u64() > Some(0));
    assert_eq!(checked(&path), "Nothing is in doubt.");
}

#[test]
fn instances_that_do_not_belong_together_get_one_line() {
    if !has_two_threads() {
        return;
    }
    let keeps = Scratch::new("strangers");
    let [one, other, single] = ["one", "other", "single"].map(|name| keeps.0.join(name));
    let run = |path: &Path| goes_on(path).map(drop);
    run(&one).expect("it runs");
    run(&other).expect("it runs");
    let refused = |expected: &str| {
        let why = run(&one).expect_err(expected);
        let why = why.replace(&keeps.0.display().to_string(), "");
        assert!(why.starts_with(&format!("isles: {expected}")), "{why}");
    };
    let rename = |from: &Path, to: &Path| std::fs::rename(from, to).expect("a directory");
    let (kept, aside) = (one.join("instance-1"), keeps.0.join("aside"));
    rename(&kept, &aside);
    refused("/one/instance-1: is missing, and other instances are there: ");
    std::fs::create_dir(&kept).expect("a directory");
    refused("/one/instance-1: holds no data, and /one/instance-0 does: ");
    std::fs::remove_dir_all(&kept).expect("a directory");
    rename(&other.join("instance-1"), &kept);
    refused("/one/instance-1: is of another deployment than /one/instance-0");
    rename(&kept, &other.join("instance-1"));
    rename(&one.join("instance-0"), &kept);
    rename(&aside, &one.join("instance-0"));
    refused("/one/instance-0: is instance 1 of 2, and not instance 0 of 2");
    let alone = "bench tpcc --warehouses 2 --scale 0.01 --cores 1 --warmup 0 --transactions 5 --path";
    let why = told(&mut isles(alone, &other.join("instance-0"))).expect_err("an instance");
    assert!(why.contains("instance-0: is instance 0 of a deployment of 2: "), "{why}");
    told(&mut isles(alone, &single)).expect("it runs");
    let why = run(&single).expect_err("a single one");
    assert!(why.contains("single: holds no deployment of several instances"), "{why}");
    let _open = Hardware::open_directory(Hardware::core(), &other, false).expect("it opens");
    let why = run(&other).expect_err("somebody has it");
    assert!(why.contains("other: ") && why.contains("has it open: end that first"), "{why}");
}

#[test]
fn a_deployment_is_copied_as_a_whole() {
    let scratch = Scratch::new("copied");
    let [data, copy, restored] = ["data", "copy", "restored"].map(|name| scratch.0.join(name));
    goes_on(&data).expect("a run");
    for (verb, from, to) in [("backup", &data, &copy), ("restore", &copy, &restored)] {
        let copied = told(isles(verb, from).arg(to)).expect("a copy");
        assert!(copied.contains(": ok, 2 instances, "), "{copied}");
        assert_eq!(checked(to), checked(from));
    }
    assert!(goes_on(&restored).expect("a run")["recovered"].is_object());
    let again = told(isles("backup", &data).arg(&copy)).expect_err("it is there");
    assert!(again.contains("there are files in it"), "{again}");
    // An instance that is missing is not made anew, and one instance alone is asked for.
    std::fs::remove_dir_all(data.join("instance-1")).expect("it was there");
    let missing = told(isles("backup", &data).arg(scratch.0.join("none"))).expect_err("half of it");
    assert!(missing.contains("instance-1: is missing"), "{missing}");
    assert!(!scratch.0.join("none").exists());
    let one = "bench tpcc --warehouses 2 --scale 0.01 --cores 2 --warmup 0 --transactions 40 --path";
    let refused = told(&mut isles(one, &copy)).expect_err("several instances");
    assert!(refused.contains("holds a deployment of 2 instances (accepted: with --deploy "), "{refused}");
}

#[test]
fn files_say_where_durable_instances_are() {
    let scratch = Scratch::new("paths");
    let (ports, path) = (ports(), scratch.0.join("durable.toml"));
    let write = |apart: bool| {
        let run = "tpcc --warehouses 2 --scale 0.01 --remote-payment 40 --transactions 40 --warmup 0";
        let mut text = format!("run = \"{run}\"\n");
        if apart {
            text += &format!("command = \"127.0.0.1:{}\"\n", ports[0]);
        }
        for (number, port) in ports[1..3].iter().enumerate() {
            let path = scratch.0.join(format!("machine-{number}/data"));
            text += &format!("[[instances]]\npath = {:?}\n", path.display().to_string());
            if apart {
                text += &format!("address = \"127.0.0.1:{port}\"\n");
            }
        }
        std::fs::write(&path, text).expect("a file");
    };
    // On machines of their own, and again; then both on this one.
    for (apart, recovers) in [(true, false), (true, true), (false, true)] {
        write(apart);
        let command = deploy(&path, &["--json"]);
        let numbers: &[&str] = if apart { &["0", "1"] } else { &[] };
        let instances: Vec<Child> =
            numbers.iter().map(|number| deploy(&path, &["--instance", number])).collect();
        let ran = command.wait_with_output().expect("it ends");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let result: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("one JSON object");
        assert_eq!(result["recovered"].is_object(), recovers, "{result}");
        let checks = result["checks"].as_object().expect("checks");
        assert!(checks.len() == 12 && checks.values().all(|check| check == "ok"), "{checks:?}");
        for instance in instances {
            assert!(instance.wait_with_output().expect("it ends").status.success());
        }
        for number in 0..2 {
            let alone = scratch.0.join(format!("machine-{number}/data"));
            assert_eq!(checked(&alone), "  benchmark: 4 rows");
        }
    }
}

#[test]
fn an_instance_comes_back_while_others_run() {
    comes_back("back", ports(), "");
}

#[test]
fn an_instance_comes_back_beside_strangers() {
    let over = AtomicBool::new(false);
    let ports = quiet_ports();
    std::thread::scope(|scope| {
        for port in &ports[..3] {
            scope.spawn(|| knock(*port, &over));
        }
        let _over = Over(&over);
        comes_back("besieged", ports, "certificates = \"keys\"\n");
    });
}

/// Sets a flag at its end, also after a failure.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // SeqCst: a flag, looked at now and then.
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Four free ports of this machine that the system gives to no process that connects.
fn quiet_ports() -> [u16; 4] {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let mut free = (first..32_000).filter(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok());
    [(); 4].map(|()| free.next().expect("a port"))
}

/// Strangers who say nothing or half of something, more than are heard at a time, from the first
/// moment on.
fn knock(port: u16, over: &AtomicBool) {
    let mut strangers = VecDeque::new();
    while !over.load(Ordering::SeqCst) {
        if let Ok(mut stranger) = TcpStream::connect(("127.0.0.1", port)) {
            if strangers.len() % 3 == 1 {
                let _ = stranger.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3]);
            }
            strangers.push_back(stranger);
        }
        if strangers.len() > 100 {
            strangers.pop_front();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An instance of two is killed, and comes back; `certificates` is a line of the file.
fn comes_back(name: &str, ports: [u16; 4], certificates: &str) {
    let scratch = Scratch::new(name);
    let path = scratch.0.join("back.toml");
    if !certificates.is_empty() {
        let made = Command::new(PROGRAM).arg("certificates").arg(scratch.0.join("keys")).output();
        assert!(made.is_ok_and(|made| made.status.success()));
    }
    let run = "tpcc --warehouses 2 --scale 0.01 --remote-payment 40 --seconds 50 --warmup 0";
    let mut text = format!("{certificates}run = \"{run}\"\ncommand = \"127.0.0.1:{}\"\n", ports[0]);
    let data = [0, 1].map(|number| scratch.0.join(format!("data-{number}")));
    for (port, data) in ports[1..].iter().zip(&data) {
        let data = data.display().to_string();
        text += &format!("[[instances]]\naddress = \"127.0.0.1:{port}\"\npath = {data:?}\n");
    }
    std::fs::write(&path, text).expect("a file");
    let mut command = deploy(&path, &["--json"]);
    let errors = BufReader::new(command.stderr.take().expect("standard error"));
    let mut running = Running { command, errors, scratch: scratch.0.clone(), keeps: None };
    let [staying, mut leaving] = ["0", "1"].map(|number| deploy(&path, &["--instance", number]));
    running.await_workers();
    leaving.kill().expect("it runs");
    leaving.wait().expect("it ends");
    running.await_line("it is gone; the others refuse what needs it");
    let stranger = deploy(&path, &["--instance", "0"]).wait_with_output().expect("it ends");
    let refused = "isles: the command refuses this instance: instance 0 is there already\n";
    assert_eq!(String::from_utf8_lossy(&stranger.stderr), refused);
    let back = deploy(&path, &["--instance", "1"]);
    running.await_line("is back");
    signal("INT", running.command.id());
    let Ended { status, output, errors, .. } = running.end();
    assert_eq!(status.code(), Some(0), "{errors}");
    let result: serde_json::Value = serde_json::from_str(&output).expect("one JSON object");
    let checks = result["checks"].as_object().expect("checks");
    assert!(checks.len() == 12 && checks.values().all(|check| check == "ok"), "{checks:?}");
    for instance in [staying, back] {
        assert!(instance.wait_with_output().expect("it ends").status.success());
    }
    // Nothing is in doubt.
    data.iter().for_each(|data| assert_eq!(checked(data), "  benchmark: 4 rows"));
}

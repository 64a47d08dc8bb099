//! Instances as processes: what they measure and check, and that nothing stays behind, whichever
//! process ends.

// Tests look at processes, and write scratch files of their own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use harness::{Control, Deployment, DeploymentRequest, InstanceProgram, Instances, Length, Plan, Workload};
use workloads::micro::{Micro, MicroSpec, Operation};

use crate::support::{Outcome, PROGRAM, Scratch, isles, start};

/// A process that hangs is ended after this time. No process takes as long.
const HANGING: Duration = Duration::from_secs(60);

/// True if there is room for two instances.
pub(crate) fn has_two_threads() -> bool {
    machine::discover(None).expect("this machine").threads().len() > 1
}

/// A benchmark on two instances that runs.
pub(crate) struct Running {
    pub command: Child,
    pub errors: BufReader<std::process::ChildStderr>,
    /// For files that should not stay.
    pub scratch: PathBuf,
    /// Taken when it ends.
    pub keeps: Option<Scratch>,
}

/// How it ended.
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub output: String,
    /// Lines on standard error after it began to run.
    pub errors: String,
    _keeps: Option<Scratch>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

impl Running {
    /// Begins a long benchmark, and waits until its workers run.
    fn begin(name: &str, transport: &str) -> Running {
        let keeps = Scratch::new(name);
        let scratch = keeps.0.join("temporary");
        std::fs::create_dir(&scratch).expect("a directory");
        // With little memory: what a long run takes ahead takes long.
        let file = keeps.0.join("deployment.toml");
        let run = "micro --op update --multisite 0.2 --rows-per-site 1000 --durability none --seconds 50 --warmup 0";
        let text = format!(
            "run = \"{run}\"\ntransport = \"{transport}\"\nmemory_bytes_max = 268435456\n[[instances]]\n[[instances]]\n"
        );
        std::fs::write(&file, text).expect("a file");
        let mut command = Command::new(PROGRAM);
        command.args(["deploy", "--json"]).arg(&file).env("TMPDIR", &scratch);
        let mut command = start(&mut command);
        let errors = BufReader::new(command.stderr.take().expect("standard error"));
        let mut running = Running { command, errors, scratch, keeps: Some(keeps) };
        running.await_workers();
        running
    }

    /// Waits until its workers run.
    pub fn await_workers(&mut self) {
        self.await_line("isles: running");
    }

    /// Waits until it says this on standard error.
    pub fn await_line(&mut self, what: &str) {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert!(self.errors.read_line(&mut line).expect("text") > 0, "it ended too early");
        }
    }

    /// The processes of its instances.
    pub fn instances(&self) -> Vec<u32> {
        let command = self.command.id();
        let children = format!("/proc/{command}/task/{command}/children");
        let children = std::fs::read_to_string(children).expect("the kernel lists children");
        children.split_whitespace().map(|child| child.parse().expect("a number")).collect()
    }

    pub fn end(mut self) -> Ended {
        let (mut output, mut errors) = (String::new(), String::new());
        self.errors.read_to_string(&mut errors).expect("text");
        let mut from = self.command.stdout.take().expect("standard output");
        from.read_to_string(&mut output).expect("text");
        let status = self.command.wait().expect("it ends");
        Ended { status, output, errors, _keeps: self.keeps.take() }
    }
}

pub(crate) fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// True if a process is there and has not ended.
fn lives(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state stands behind the name.
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('Z'))
}

/// Waits until the processes are gone, and the directory is empty.
fn assert_nothing_stays(processes: &[u32], scratch: &Path) {
    let began = Instant::now();
    let left = || {
        let files = std::fs::read_dir(scratch).expect("a directory").count();
        (processes.iter().filter(|process| lives(**process)).count(), files)
    };
    while left() != (0, 0) {
        assert!(began.elapsed() < HANGING, "processes and files that stay: {:?}", left());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn instances_are_processes() {
    if !has_two_threads() {
        return;
    }
    for line in [
        "tpcc --warehouses 3 --scale 0.01 --remote-items 20 --remote-payment 40 --transport uds",
        "ycsb --records 2000 --rows 4 --cc mvcc --transport tcp",
        // Parts that are longer than a message of a link.
        "micro --op update --rows 1000 --rows-per-site 100000 --row-bytes 8 --multisite 1 --transport shm",
        "micro --op mixed --rows 1000 --rows-per-site 100000 --row-bytes 8 --multisite 1 --transport tcp",
    ] {
        let scratch = Scratch::new("processes");
        let words =
            "--cores 2 --deploy core --durability none --transactions 60 --warmup 0 --in-flight 2 --json";
        let mut command = Command::new(PROGRAM);
        command.args(["bench"].into_iter().chain(line.split(' ')).chain(words.split(' ')));
        let run = Outcome::of(command.env("TMPDIR", &scratch.0));
        assert_eq!(run.status, 0, "{line}: {}", run.error);
        let result: serde_json::Value = serde_json::from_str(&run.output).expect("one JSON object");
        let instances = result["instances"].as_array().expect("a list");
        let sum: f64 = instances.iter().map(|one| one["throughput"].as_f64().expect("a number")).sum();
        let all = result["throughput"].as_f64().expect("a number");
        assert!(instances.len() == 2 && (sum - all).abs() < 1e-6 * all, "{line}: {sum}, {all}");
        assert!(result["commits"].as_u64() >= Some(60), "{line}: {result}");
        assert!(result["distributed_ratio"].as_f64() > Some(0.1), "{line}: {result}");
        assert!(result["latency_us"]["p50"].as_f64() > Some(0.0), "{line}: {result}");
        assert!(result["breakdown"]["communication"].as_f64() > Some(0.0), "{line}: {result}");
        let checks = result["checks"].as_object().expect("checks");
        assert!(!checks.is_empty() && checks.values().all(|check| check == "ok"), "{line}: {checks:?}");
        assert_nothing_stays(&[], &scratch.0);
    }
}

#[test]
fn an_instance_that_is_killed_ends_the_run() {
    if !has_two_threads() {
        return;
    }
    for transport in ["shm", "tcp"] {
        let running = Running::begin("killed", transport);
        let (instances, scratch) = (running.instances(), running.scratch.clone());
        assert_eq!(instances.len(), 2);
        signal("KILL", instances[1]);
        let ended = running.end();
        let Ended { status, output, errors, .. } = &ended;
        assert_eq!((status.code(), output.as_str()), (Some(1), ""), "{errors}");
        let expected = format!("isles: instance 1 (process {}) ended: signal: 9 (SIGKILL)\n", instances[1]);
        assert_eq!(*errors, expected);
        assert_nothing_stays(&instances, &scratch);
    }
}

#[test]
fn instances_end_with_their_command() {
    if !has_two_threads() {
        return;
    }
    let mut running = Running::begin("command", "shm");
    let instances = running.instances();
    signal("KILL", running.command.id());
    running.command.wait().expect("it ends");
    assert_nothing_stays(&instances, &running.scratch);
}

#[test]
fn an_interrupted_run_of_processes_has_a_result() {
    if !has_two_threads() {
        return;
    }
    let running = Running::begin("interrupted", "uds");
    let instances = running.instances();
    signal("INT", running.command.id());
    let Ended { status, output, errors, .. } = running.end();
    assert_eq!((status.code(), errors.as_str()), (Some(0), "isles: checking consistency\n"));
    let result: serde_json::Value = serde_json::from_str(&output).expect("one JSON object");
    assert_eq!(result["checks"]["micro_updates"], "ok", "{result}");
    assert!(instances.iter().all(|instance| !lives(*instance)));
}

/// Two instances of the micro benchmark, whose flags say `line`.
fn asked(plan: &Plan, line: &str) -> Result<harness::Measurement, harness::RunError> {
    let line = format!("instance {line}");
    on_processes(plan, PROGRAM, line.split_whitespace().map(Into::into).collect())
}

/// The same, whose processes are started so.
fn on_processes(
    plan: &Plan,
    program: &str,
    arguments: Vec<std::ffi::OsString>,
) -> Result<harness::Measurement, harness::RunError> {
    let spec = MicroSpec {
        operation: Operation::Update,
        sites: 2,
        rows_per_site: 500,
        multisite: 0.5,
        rows: 4,
        row_bytes: 8,
        ..MicroSpec::default()
    };
    let workload = Workload::Micro(Micro::new(spec).expect("valid"));
    let request = DeploymentRequest { workers: 2, instances: 2, ..DeploymentRequest::default() };
    let native = machine::discover(None).expect("this machine");
    let deployment = Deployment::on_topology(&request, &native).expect("two workers");
    let instances =
        Instances::Started(InstanceProgram { program: program.into(), arguments, paths: Vec::new() });
    harness::on_processes(&workload, plan, &deployment, &instances, Control::NONE)
}

#[test]
fn processes_are_added_up_like_threads() {
    if !has_two_threads() {
        return;
    }
    const LINE: &str = "micro --op update --rows 4 --rows-per-site 500 --row-bytes 8 --multisite 0.5 --cores 2 --deploy core --durability none --warmup 0 --instrument off --transactions";
    let plan = Plan::new(concurrency::SchemeName::Silo, Length::Commits(100));
    let measured = asked(&plan, &format!("{LINE} 100")).expect("it runs");
    assert_eq!(measured.messages_amiss, 0, "what one sends for another is in the sum");
    assert!(measured.distributed_ratio > 0.1 && measured.messages_per_distributed >= Some(4.0));
    assert_eq!(measured.rows_loaded, 1000);
    let deployed = measured.deployment.as_ref().expect("two instances");
    assert_eq!(Some(deployed.messages.iter().flatten().sum()), measured.counters.messages);
    assert!(deployed.messages[0][1] > 0 && deployed.messages[1][0] > 0, "{deployed:?}");
    let updated = ("micro_updates".to_owned(), harness::Check::Ok);
    assert!(measured.checks.contains(&updated), "{:?}", measured.checks);
    // An instance that would do something else, or nothing.
    let other = asked(&plan, &format!("{LINE} 99")).expect_err("another length").to_string();
    assert!(other.ends_with("this process understands the flags in another way"), "{other}");
    let bad = asked(&plan, &format!("{LINE} none")).expect_err("no length").to_string();
    assert!(bad.contains("--transactions none: not a whole number"), "{bad}");
    let none = asked(&plan, "--nothing").expect_err("no flags").to_string();
    assert!(none.ends_with("ended: exit status: 2"), "{none}");
}

/// A program that is no instance, but ends, or repeats what it hears, or is not there.
#[test]
fn programs_that_are_no_instances_are_named() {
    if !has_two_threads() {
        return;
    }
    let plan = Plan::new(concurrency::SchemeName::Silo, Length::Commits(100));
    let refused = |program: &str| on_processes(&plan, program, Vec::new()).expect_err(program).to_string();
    let missing = refused("/nonexistent/program");
    assert!(missing.starts_with("/nonexistent/program: "), "{missing}");
    let gone = refused("true");
    assert!(gone.starts_with("instance ") && gone.ends_with(" ended: too early"), "{gone}");
    let echo = refused("cat");
    assert!(echo.starts_with("instance ") && echo.contains("process"), "{echo}");
}

#[test]
fn an_instance_needs_a_command() {
    let alone = isles(&["instance", "micro"]);
    assert_eq!((alone.status, &*alone.output), (1, ""));
    assert_eq!(alone.error, "isles: nothing to do for an instance: isles bench starts its own\n");
}

/// Four free ports of this machine.
pub(crate) fn ports() -> [u16; 4] {
    let listeners = [(); 4].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    listeners.map(|listener| listener.local_addr().expect("an address").port())
}

/// A deployment of two instances, in a file: of one machine, or of several.
fn file(scratch: &Scratch, ports: Option<[u16; 4]>, transport: &str) -> PathBuf {
    let address = |port: u16| format!("\"127.0.0.1:{port}\"");
    let mut text =
        "run = \"tpcc --warehouses 2 --scale 0.01 --remote-payment 40 --durability none --transactions 50 --warmup 0\"\n"
            .to_owned();
    if let Some(ports) = ports {
        text += &format!("command = {}\n", address(ports[0]));
    } else {
        text += &format!("transport = \"{transport}\"\n");
    }
    for number in 1..=2 {
        text += "[[instances]]\n";
        if let Some(ports) = ports {
            text += &format!("address = {}\n", address(ports[number]));
        }
    }
    let path = scratch.0.join(format!("{transport}.toml"));
    std::fs::write(&path, text).expect("a file");
    path
}

pub(crate) fn deploy(file: &Path, more: &[&str]) -> Child {
    start(Command::new(PROGRAM).arg("deploy").arg(file).args(more))
}

fn assert_ran(command: Child) {
    let ran = command.wait_with_output().expect("it ends");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let result: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("one JSON object");
    assert!(result["distributed_ratio"].as_f64() > Some(0.1), "{result}");
    let checks = result["checks"].as_object().expect("checks");
    assert!(checks.len() == 12 && checks.values().all(|check| check == "ok"), "{checks:?}");
}

#[test]
fn a_file_says_what_runs_on_its_instances() {
    let scratch = Scratch::new("deploy");
    assert_ran(deploy(&file(&scratch, None, "uds"), &["--json"]));
}

#[test]
fn instances_of_other_machines_come_by_themselves() {
    let scratch = Scratch::new("machines");
    let path = file(&scratch, Some(ports()), "tcp");
    let other = file(&scratch, Some(ports()), "other");
    // The second knocks at the door of the first, with its own file.
    let text = std::fs::read_to_string(&path).expect("a file");
    let command = text.lines().find(|line| line.starts_with("command")).expect("a command").to_owned();
    let text = std::fs::read_to_string(&other).expect("a file");
    let lines = text.lines().map(|line| if line.starts_with("command") { &command[..] } else { line });
    std::fs::write(&other, lines.collect::<Vec<_>>().join("\n")).expect("a file");
    let stranger = deploy(&other, &["--instance", "0"]);
    let command = deploy(&path, &["--json"]);
    let stranger = stranger.wait_with_output().expect("it ends");
    assert_eq!(stranger.status.code(), Some(1));
    let refused = "isles: the command refuses this instance: it has another deployment file\n";
    assert_eq!(String::from_utf8_lossy(&stranger.stderr), refused);
    let instances = ["1", "0"].map(|number| deploy(&path, &["--instance", number]));
    assert_ran(command);
    for instance in instances {
        let ended = instance.wait_with_output().expect("it ends");
        assert_eq!((ended.status.code(), &*ended.stderr, &*ended.stdout), (Some(0), &b""[..], &b""[..]));
    }
}

/// Certificates of an authority of its own for the deployment of [`file`], which expire soon.
fn certificates(directory: &Path) -> std::process::Output {
    let mut command = Command::new(PROGRAM);
    let command = command.arg("certificates").arg(directory).args(["--days", "20"]);
    command.output().expect("the binary of this package runs")
}

#[test]
fn machines_prove_who_they_are() {
    let scratch = Scratch::new("proofs");
    let path = file(&scratch, Some(ports()), "tcp");
    let text = std::fs::read_to_string(&path).expect("a file");
    std::fs::write(&path, format!("certificates = \"keys\"\n{text}")).expect("a file");
    let missing = deploy(&path, &["--instance", "0"]).wait_with_output().expect("it ends");
    let line = String::from_utf8_lossy(&missing.stderr);
    assert!(
        missing.status.code() == Some(2) && line.contains("certificates: ") && line.contains("No such file")
    );
    let keys = scratch.0.join("keys");
    let made = certificates(&keys);
    let names = "authority.pem and certificates of command, instance-0, instance-1, which expire after 20";
    assert!(String::from_utf8_lossy(&made.stdout).contains(names));
    assert_eq!(certificates(&keys).status.code(), Some(2), "they are not overwritten");

    // The same file, and the certificates of a stranger, who believes the right authority.
    let elsewhere = scratch.0.join("elsewhere");
    assert!(certificates(&elsewhere.join("keys")).status.success());
    std::fs::copy(keys.join("authority.pem"), elsewhere.join("keys/authority.pem")).expect("a copy");
    let other = elsewhere.join("tcp.toml");
    std::fs::copy(&path, &other).expect("a copy");
    let command = deploy(&path, &["--json"]);
    let stranger = deploy(&other, &["--instance", "0"]).wait_with_output().expect("it ends");
    let line = String::from_utf8_lossy(&stranger.stderr);
    let there = "refused there: the certificate is of another authority\n";
    assert!(
        stranger.status.code() == Some(1) && line.lines().count() == 2 && line.ends_with(there),
        "{line}"
    );
    // One that has a certificate, but of another name.
    for name in ["instance-0.pem", "instance-0.key"] {
        let from = keys.join(name.replace('0', "1"));
        std::fs::copy(from, elsewhere.join("keys").join(name)).expect("a copy");
    }
    let stranger = deploy(&other, &["--instance", "0"]).wait_with_output().expect("it ends");
    let line = String::from_utf8_lossy(&stranger.stderr);
    let refused = "isles: the command refuses this instance: its certificate: ";
    assert!(
        stranger.status.code() == Some(1)
            && line.lines().nth(1).is_some_and(|line| line.starts_with(refused)),
        "{line}"
    );
    let instances = ["1", "0"].map(|number| deploy(&path, &["--instance", number]));
    let ran = command.wait_with_output().expect("it ends");
    let lines = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{lines}");
    let of_strangers: Vec<&str> = lines.lines().filter(|line| line.contains(" is refused: ")).collect();
    assert_eq!(of_strangers.len(), 2, "{lines}");
    for instance in instances {
        let ended = instance.wait_with_output().expect("it ends");
        let line = String::from_utf8_lossy(&ended.stderr);
        let warns =
            line.starts_with("isles: warning: ") && line.contains(".pem expires soon, its last day is 20");
        assert!(ended.status.success() && warns && line.lines().count() == 1, "{line}");
    }
}

#[test]
fn wrong_deployment_files_get_one_line() {
    let scratch = Scratch::new("files");
    let path = scratch.0.join("wrong.toml");
    let run = "run = \"tpcc\"\n";
    let apart = "[[instances]]\naddress = \"127.0.0.1:1\"\n[[instances]]\n";
    for (text, expected) in [
        (String::new(), "it does not say what to run, as in run = \"tpcc --seconds 5\""),
        ("run = \"tpcc --cores 3\"".to_owned(), "run: --cores: given more than once"),
        ("run = \"tpcc --placement os\"".to_owned(), "run: --placement: the file says that"),
        ("run = \"tpc\"".to_owned(), "run: WORKLOAD tpc: unknown value"),
        (format!("{run}{apart}"), "no address of the command"),
        (format!("{run}command = \"127.0.0.1:2\"\n{apart}"), "instance 1 has no address"),
        (
            format!("{run}command = \"127.0.0.1:1\"\n[[instances]]\naddress = \"127.0.0.1:1\""),
            "127.0.0.1:1 is the address of two",
        ),
        (
            format!(
                "{run}transport = \"shm\"\ncommand = \"127.0.0.1:2\"\n[[instances]]\naddress = \"127.0.0.1:1\""
            ),
            "transport shm does not cross machines: tcp does",
        ),
        (format!("{run}command = \"here\""), "line 2: "),
        (
            format!("{run}[[instances]]\npath = \"a\"\n[[instances]]"),
            "instance 1 has no path, and others have one",
        ),
        (format!("{run}[[instances]]\npath = \"a\"\n[[instances]]\npath = \"a\""), "a is the path of two"),
        (
            "run = \"tpcc --path b\"\n[[instances]]\npath = \"a\"\n[[instances]]\npath = \"c\"".to_owned(),
            "run: --path: the instances have paths",
        ),
        (
            "run = \"tpcc --durability none\"\n[[instances]]\npath = \"a\"\n[[instances]]\npath = \"c\""
                .to_owned(),
            "its instances have paths, and nothing is logged",
        ),
        (
            format!("{run}command = \"127.0.0.1:1\"\n[[instances]]\naddress = \"10.0.0.1:1\""),
            "10.0.0.1:1 is no address of this machine alone: certificates = \"DIRECTORY\"",
        ),
        (
            format!(
                "{run}plain = true\ncertificates = \"keys\"\ncommand = \"127.0.0.1:1\"\n[[instances]]\naddress = \"127.0.0.1:2\""
            ),
            "certificates, and plain = true: one of the two",
        ),
        (
            format!("{run}[[instances]]\nworkers = [{{thread = 0}}, {{thread = 5000}}]"),
            "instance 0: hardware thread 5000: this machine has, or allows, 0",
        ),
        (
            format!("{run}[[instances]]\n[[instances]]\nworkers = [{{node = 99}}]"),
            "instance 1: memory node 99: this machine has, or allows, 0",
        ),
    ] {
        std::fs::write(&path, &text).expect("a file");
        let refused = deploy(&path, &[]).wait_with_output().expect("it ends");
        let line = String::from_utf8_lossy(&refused.stderr);
        assert_eq!((refused.status.code(), line.lines().count()), (Some(2), 1), "{text}: {line}");
        assert!(line.starts_with(&format!("isles: {}: {expected}", path.display())), "{text}: {line}");
    }
}

//! Throughput of the microbenchmark and of YCSB on this machine, without the command line around
//! it:
//!
//! ```text
//! cargo run --release -p isles-workloads --example throughput -- [ycsb-a .. ycsb-f | micro-read | micro-update]
//! ```

use concurrency::SchemeName;
use harness::{Control, Deployment, Length, Plan, Workload};
use platform::HardwareThread;
use workloads::batch::Grouping;
use workloads::micro::{Micro, MicroSpec, Operation};
use workloads::ycsb::{Ycsb, YcsbSpec, YcsbWorkload};

const WORKERS: u16 = 2;
const SECONDS: f64 = 3.0;

fn run(name: &str, workload: &Workload) {
    let plan = Plan { epoch_nanos: 10_000_000, ..Plan::new(SchemeName::Silo, Length::Seconds(SECONDS)) };
    let mut deployment = Deployment::unpinned(usize::from(WORKERS), 8 << 30);
    for (worker, thread) in deployment.instances[0].workers.iter_mut().zip(0..) {
        worker.thread = Some(HardwareThread(thread));
    }
    let measured = harness::on_hardware(workload, &plan, &deployment, Control::NONE).expect("it ends well");
    let commits: u64 = measured.kinds.iter().map(|(_, kind)| kind.commits).sum();
    println!("{name}: {:.0} commits/s with {WORKERS} workers", commits as f64 / measured.elapsed_seconds);
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|argument| argument == name);
    for (name, workload) in [
        ("ycsb-a", YcsbWorkload::A),
        ("ycsb-b", YcsbWorkload::B),
        ("ycsb-c", YcsbWorkload::C),
        ("ycsb-d", YcsbWorkload::D),
        ("ycsb-e", YcsbWorkload::E),
        ("ycsb-f", YcsbWorkload::F),
    ] {
        let grouping = Grouping::Together;
        let spec = YcsbSpec { workload, partitions: WORKERS, grouping, ..YcsbSpec::default() };
        if wanted(name) {
            run(name, &Workload::Ycsb(Ycsb::new(spec).expect("valid")));
        }
    }
    for (name, operation) in [("micro-read", Operation::Read), ("micro-update", Operation::Update)] {
        let spec = MicroSpec { operation, sites: WORKERS, ..MicroSpec::default() };
        if wanted(name) {
            run(name, &Workload::Micro(Micro::new(spec).expect("valid")));
        }
    }
}

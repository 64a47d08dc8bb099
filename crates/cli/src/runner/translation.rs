//! A configuration in the terms of the driver: workload, plan and deployment.

use std::path::PathBuf;

use driver::{DeploymentError, DeploymentRequest, Length, Partitioning, Plan, Workload};
use platform::link::Mechanism;
use workloads::batch::Grouping;
use workloads::micro::{Micro, MicroSpec, RowIndex, Skew};
use workloads::tpcc::Tpcc;
use workloads::ycsb::{Ycsb, YcsbSpec};

use crate::bad_input::BadInput;
use crate::choices::{self, Choice, Switch, TpccLoad};
use crate::config::{self, Config};
use crate::errors::Failure;

/// The workload of `config`.
pub(super) fn workload(config: &Config) -> Result<Workload, Failure> {
    match &config.workload {
        config::Workload::Tpcc(options) => tpcc(options).map(Workload::Tpcc),
        config::Workload::Micro(options) => micro(options, config.cores).map(Workload::Micro),
        config::Workload::Ycsb(options) => ycsb(options, config.cores).map(Workload::Ycsb),
        config::Workload::Counter(options) => Ok(Workload::Counter(options.counters)),
        config::Workload::Ipc(options) => mechanism(options.mechanism).map(Workload::Ipc),
        config::Workload::Memory(options) => Ok(Workload::Memory { rows: options.rows }),
    }
}

/// The plan of `config`.
pub(super) fn plan(config: &Config) -> Plan {
    let length = match config.length {
        config::Length::Seconds(seconds) => Length::Seconds(seconds),
        config::Length::Transactions(count) => Length::Commits(count),
    };
    Plan {
        durability: config.durability,
        path: config.path.as_ref().map(PathBuf::from),
        warm_up_seconds: config.warmup_seconds,
        instrument: config.instrument == Switch::On,
        seed: config.seed,
        timestamps: config.timestamp,
        without: config.left_out(),
        ..Plan::new(config.cc, length)
    }
}

/// What `config` asks of a deployment.
pub(super) fn deployment_request(config: &Config) -> DeploymentRequest {
    let peers = match &config.workload {
        config::Workload::Ipc(ipc) => Some(ipc.peers),
        _ => None,
    };
    let blocks = matches!(&config.workload, config::Workload::Tpcc(tpcc) if tpcc.load == TpccLoad::Block);
    DeploymentRequest {
        workers: config.cores,
        smt: config.smt,
        placement: config.placement,
        memory: config.memory,
        peers,
        partitioning: if blocks { Partitioning::Blocks } else { Partitioning::RoundRobin },
    }
}

/// What a machine lacks for `config`, in terms of its flags.
pub(super) fn fault(config: &Config, error: DeploymentError) -> Failure {
    let problem = error.to_string();
    let memory =
        |accepted: String| BadInput::value("--memory", &config.memory.to_string(), &problem, accepted);
    let fault = match (&error, &config.workload) {
        (DeploymentError::NoPeers(_), config::Workload::Ipc(ipc)) => {
            let accepted = "same-socket, other-socket where there are two";
            BadInput::value("--peers", ipc.peers.name(), problem, accepted)
        }
        (DeploymentError::OneNode, _) => memory("local, central".to_owned()),
        (DeploymentError::NoSuchNode { hops, .. }, _) => {
            let hops: Vec<String> = hops.iter().map(|hops| format!("hops={hops}")).collect();
            memory(format!("local, central, remote, {}", hops.join(", ")))
        }
        (DeploymentError::TooFewThreads { wanted, available }, _) => {
            return Failure::Failed(format!("--cores {wanted}: the machine has {available}"));
        }
        _ => return Failure::of(error),
    };
    fault.into()
}

fn mechanism(choice: choices::Mechanism) -> Result<Mechanism, Failure> {
    let name = choice.name();
    let known = Mechanism::ALL.into_iter().find(|(other, _)| *other == name);
    known
        .map(|(_, mechanism)| mechanism)
        .ok_or_else(|| Failure::Failed(format!("--mechanism {name}: unknown to the platform")))
}

fn partitions(workers: usize) -> Result<u16, Failure> {
    u16::try_from(workers).map_err(|_| Failure::Failed("--cores: at most 65535".to_owned()))
}

/// TPC-C.
fn tpcc(options: &config::Tpcc) -> Result<Tpcc, Failure> {
    let warehouses = u16::try_from(options.warehouses)
        .map_err(|_| Failure::Failed("--warehouses: at most 65535".to_owned()))?;
    let workload = Tpcc {
        mix: options.mix.name().parse().map_err(Failure::of)?,
        schema: options.schema.name().parse().map_err(Failure::of)?,
        scale: options.scale,
        remote_payment_percent: options.remote_payment_percent,
        remote_items_percent: options.remote_items_percent,
        inserts: options.inserts == Switch::On,
        ..Tpcc::new(warehouses)
    };
    workload.validate().map_err(Failure::Failed)?;
    Ok(workload)
}

/// The microbenchmark, with one site a worker.
fn micro(options: &config::Micro, workers: usize) -> Result<Micro, Failure> {
    let skew = match (options.zipf, options.hot) {
        (Some(exponent), _) => Skew::Zipf(exponent),
        (None, Some(hot)) => Skew::Hot { requests: hot.requests, data: hot.data },
        (None, None) => Skew::None,
    };
    Micro::new(MicroSpec {
        operation: options.op,
        rows: u32::try_from(options.rows).unwrap_or(u32::MAX),
        row_bytes: usize::try_from(options.row_bytes).unwrap_or(usize::MAX),
        sites: partitions(workers)?,
        rows_per_site: options.rows_per_site,
        multisite: options.multisite,
        skew,
        index: RowIndex::Hash,
        grouping: Grouping::Together,
    })
    .map_err(Failure::of)
}

/// YCSB, with one partition a worker.
fn ycsb(options: &config::Ycsb, workers: usize) -> Result<Ycsb, Failure> {
    Ycsb::new(YcsbSpec {
        workload: options.workload,
        records: options.records,
        requests: u32::try_from(options.rows).unwrap_or(u32::MAX),
        zipf: options.zipf,
        partitions: partitions(workers)?,
        grouping: Grouping::Together,
    })
    .map_err(Failure::of)
}

#[cfg(test)]
mod tests {
    use driver::{Deployment, Peers};
    use machine::{Description, Topology};

    use super::*;
    use crate::config::tests::resolved_on;

    fn fault_on(topology: &Topology, hops: &[Vec<u32>], line: &str) -> String {
        let config = resolved_on(topology, line);
        match Deployment::on(&deployment_request(&config), topology, hops, 0) {
            Ok(_) => panic!("{line}: accepted"),
            Err(error) => match fault(&config, error) {
                Failure::BadInput(fault) => fault.to_string(),
                other => panic!("{line}: {other}"),
            },
        }
    }

    #[test]
    fn faults_name_flags() {
        let octo = Description::shipped("octo-socket").expect("shipped");
        assert_eq!(
            fault_on(&octo.topology, &octo.hops, "micro --memory hops=3"),
            "--memory hops=3: no such node seen from node 0 (accepted: local, central, remote, hops=1, hops=2)"
        );
        let native = machine::discover(None).expect("this machine");
        if native.nodes().len() == 1 {
            let fault = fault_on(&native, &[vec![0]], "micro --cores 1 --memory remote");
            assert_eq!(fault, "--memory remote: the machine has one memory node (accepted: local, central)");
        }
        if native.socket_count() == 1 && native.threads().len() > 1 {
            let fault = fault_on(&native, &[vec![0]], "ipc --peers other-socket");
            assert_eq!(
                fault,
                "--peers other-socket: the machine has one socket \
                 (accepted: same-socket, other-socket where there are two)"
            );
        }
    }

    #[test]
    fn requests_follow_flags() {
        let quad = Description::shipped("quad-socket").expect("shipped");
        let request = |line| deployment_request(&resolved_on(&quad.topology, line));
        assert_eq!(request("tpcc --load block").partitioning, Partitioning::Blocks);
        assert_eq!(request("tpcc").partitioning, Partitioning::RoundRobin);
        assert_eq!(request("ipc --peers other-socket").peers, Some(Peers::OtherSocket));
        assert_eq!(request("micro --cores 5").peers, None);
        assert_eq!(request("micro --cores 5").workers, 5);
    }
}

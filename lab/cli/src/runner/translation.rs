//! A configuration in the terms of the driver: plan and deployment.

use std::path::PathBuf;

use harness::{Adaptation, DeploymentError, DeploymentRequest, Engine, Execution, Plan};
use machine::PlaceError;

use crate::bad_input::BadInput;
use crate::choices::{self, Choice, Switch};
use crate::config::{self, Config, Split};
use crate::errors::Failure;

/// The workload of `config`.
///
/// # Errors
/// The flags do not fit the engine.
pub(super) fn workload(config: &Config) -> Result<harness::Workload, Failure> {
    let split = match (config.deploy.instances(), config.execution) {
        (1, choices::Execution::Inline) => Split::Whole,
        (1, choices::Execution::Plp | choices::Execution::Atrapos) => Split::Workers,
        _ => Split::Instances,
    };
    let for_driver = |workload: &config::Workload| workload.for_driver(config.cores, split);
    let first = for_driver(&config.workload)?;
    let changes = config.at.iter().filter(|at| at.fails.is_none() && at.shifts.is_none());
    let later = changes.map(|at| Ok((at.seconds, for_driver(&at.workload)?)));
    let later = later.collect::<Result<Vec<_>, Failure>>()?;
    if later.is_empty() {
        return Ok(first);
    }
    harness::Workload::changing(first, later).map_err(Failure::of)
}

/// The plan of `config`.
pub(super) fn plan(config: &Config) -> Plan {
    let engine = match config.pool {
        Some(pool_bytes) => Engine::Paged { pool_bytes },
        None => Engine::Memory,
    };
    let execution = match config.execution {
        choices::Execution::Inline => Execution::Inline,
        choices::Execution::Plp => Execution::Plp,
        choices::Execution::Atrapos => Execution::Atrapos,
    };
    let failure = |at: &config::At| Some(harness::Failure { seconds: at.seconds, socket: at.fails? });
    let shift = |at: &config::At| Some(harness::Shift { seconds: at.seconds, count: at.shifts? });
    Plan {
        engine,
        execution,
        adaptation: config.adapt_interval_seconds.map(Adaptation::every),
        failures: config.at.iter().filter_map(failure).collect(),
        shifts: config.at.iter().filter_map(shift).collect(),
        durability: config.durability,
        path: config.path.as_ref().map(PathBuf::from),
        warm_up_seconds: config.warmup_seconds,
        instrument: config.instrument == Switch::On,
        seed: config.seed,
        timestamps: config.timestamp,
        optimisations: config.optimisations(),
        ways: config.ways(),
        retry: config.retry,
        in_flight: config.in_flight as usize,
        ..Plan::new(config.cc.scheme(), config.length.into())
    }
}

/// What `config` asks of a deployment.
pub(super) fn deployment_request(config: &Config) -> DeploymentRequest {
    DeploymentRequest {
        workers: config.cores,
        instances: config.deploy.instances(),
        smt: config.smt,
        placement: config.placement,
        memory: config.memory,
        peers: config.workload.peers(),
        partitioning: config.workload.partitioning(),
        transport: config.transport,
    }
}

/// What a machine lacks for `config`, in terms of its flags.
pub(super) fn fault(config: &Config, error: DeploymentError) -> Failure {
    let problem = error.to_string();
    let memory =
        |accepted: String| BadInput::value("--memory", &config.memory.to_string(), &problem, accepted);
    let fault = match (&error, config.workload.peers()) {
        (DeploymentError::Place(PlaceError::NoPeers(_)), Some(peers)) => {
            let accepted = "same-socket, other-socket or other-machine where there are two";
            BadInput::value("--peers", peers.name(), problem, accepted)
        }
        (DeploymentError::Place(PlaceError::SpansMachines { .. }), _) => {
            let deploy = format!("{}isl", config.deploy.instances());
            BadInput::value("--deploy", &deploy, problem, "core, or --cores of one machine or of whole ones")
        }
        (DeploymentError::Place(PlaceError::NoOneSystem), _) => {
            let accepted = "island, spread, or --cores of one machine";
            BadInput::value("--placement", config.placement.name(), problem, accepted)
        }
        (DeploymentError::OneNode, _) => memory("local, central".to_owned()),
        (DeploymentError::NoSuchNode { hops, .. }, _) => {
            let hops: Vec<String> = hops.iter().map(|hops| format!("hops={hops}")).collect();
            memory(format!("local, central, remote, {}", hops.join(", ")))
        }
        (DeploymentError::Place(PlaceError::TooFewThreads { wanted, available }), _) => {
            return Failure::Failed(format!("--cores {wanted}: the machine has {available}"));
        }
        _ => return Failure::of(error),
    };
    fault.into()
}

#[cfg(test)]
mod tests {
    use harness::{Deployment, Partitioning, Peers};
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
                 (accepted: same-socket, other-socket or other-machine where there are two)"
            );
        }
    }

    #[test]
    fn an_instance_on_two_machines_is_refused_by_flag() {
        let cluster = Description::shipped("cluster").expect("shipped");
        let fault = |line| fault_on(&cluster.whole(), &cluster.hops, line);
        assert_eq!(
            fault("micro --cores 48 --deploy 3isl"),
            "--deploy 3isl: 3 instances of 48 workers on 4 machines: an instance would be on two of them \
             (accepted: core, or --cores of one machine or of whole ones)"
        );
        assert_eq!(
            fault("micro --cores 48 --deploy machine --placement os"),
            "--placement os: no operating system moves workers between machines \
             (accepted: island, spread, or --cores of one machine)"
        );
        assert_eq!(
            fault("micro --cores 24 --deploy machine --memory hops=2"),
            "--memory hops=2: no such node seen from node 0 (accepted: local, central, remote, hops=1)"
        );
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

//! Faults of a deployment on a machine, in terms of flags.

use harness::{Choice, DeploymentError};
use machine::PlaceError;

use crate::bad_input::BadInput;
use crate::config::Config;
use crate::errors::Failure;

/// The error of a machine that cannot run `config`, in terms of its flags.
pub(super) fn fault(config: &Config, error: DeploymentError) -> Failure {
    let problem = error.to_string();
    let memory = |accepted: String| {
        BadInput::value("--memory", &config.deployment.memory.to_string(), &problem, accepted)
    };
    let fault = match (&error, config.workload.peers()) {
        (DeploymentError::Place(PlaceError::NoPeers(_)), Some(peers)) => {
            let accepted = "same-socket, other-socket or other-machine where there are two";
            BadInput::value("--peers", peers.name(), problem, accepted)
        }
        (DeploymentError::Place(PlaceError::SpansMachines { .. }), _) => {
            let deploy = format!("{}isl", config.deployment.instances);
            BadInput::value("--deploy", &deploy, problem, "core, or --cores of one machine or of whole ones")
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
        match Deployment::on(&config.deployment, topology, hops, 0) {
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
            fault("micro --cores 24 --deploy machine --memory hops=2"),
            "--memory hops=2: no such node seen from node 0 (accepted: local, central, remote, hops=1)"
        );
    }

    #[test]
    fn requests_follow_flags() {
        let quad = Description::shipped("quad-socket").expect("shipped");
        let request = |line| resolved_on(&quad.topology, line).deployment;
        assert_eq!(request("tpcc --load block").partitioning, Partitioning::Blocks);
        assert_eq!(request("tpcc").partitioning, Partitioning::RoundRobin);
        assert_eq!(request("ipc --peers other-socket").peers, Some(Peers::OtherSocket));
        assert_eq!(request("micro --cores 5").peers, None);
        assert_eq!(request("micro --cores 5").workers, 5);
    }
}

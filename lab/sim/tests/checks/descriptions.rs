//! Descriptions as machines: every value is the model's.

use std::path::Path;

use machine::{Access, CoreCost, Description, LineState};
use sim::Config;

#[test]
fn the_model_agrees_with_every_shipped_description() {
    for name in Description::names() {
        let description = Description::shipped(name).expect("shipped");
        let model = Config::of(&description).expect("a machine").model;
        let threads = description.topology.hardware_threads();
        assert!(model.threads().eq(threads.iter().copied()), "{name}: threads keep their numbers");
        let first = threads[0];
        for holder in threads.iter().skip(1).step_by(7) {
            if description.topology.thread(*holder).map(|info| info.core) == Some(0) {
                continue;
            }
            for access in [Access::Load, Access::Store, Access::Atomic] {
                for state in [LineState::Modified, LineState::Exclusive, LineState::Shared] {
                    let nanos = description.line_ns(access, state, first, *holder).expect("a thread");
                    let picos = model.transfer_ps(access, state, first, *holder).expect("a thread");
                    assert!(picos.abs_diff((nanos * 1000.0) as u64) <= 1, "{name} {access:?} {state:?}");
                }
            }
        }
    }
}

#[test]
fn descriptions_of_no_machine_are_refused() {
    let refused = |change: &dyn Fn(&mut Description)| {
        let mut description = Description::shipped("octo-socket").expect("shipped");
        change(&mut description);
        Config::of(&description).expect_err("no machine").to_string()
    };
    let text = refused(&|description| description.memory_ns.values[2][3] = -1.0);
    assert_eq!(text, "not a machine: octo-socket: `memory_ns` holds -1: expected positive numbers");
    let text = refused(&|description| _ = description.memory_gbps.values.pop());
    assert!(text.contains("`memory_gbps` has 7 rows for 8 nodes"), "{text}");
    let text = refused(&|description| description.load.shared.between_nodes_ns.values[0][1] = 0.0);
    assert!(text.contains("`Load of a Shared line` holds 0"), "{text}");
    refused(&|description| description.clock_ghz.value = f64::NAN);
    refused(&|description| description.l1.bytes.value = 0);
}

/// Every value of a description's core reaches the model.
#[test]
fn the_model_takes_what_a_description_says_of_its_cores() {
    let mut description = Description::shipped("octo-socket").expect("shipped");
    for (index, cost) in CoreCost::ALL.into_iter().enumerate() {
        let value = match cost {
            CoreCost::PauserShare | CoreCost::MoveShare => 0.5,
            _ => 3.0 + index as f64 / 2.0,
        };
        description.core.set(cost, machine::Fact { value, ..description.core.get(cost).clone() });
    }
    let costs = Config::of(&description).expect("a machine").model.costs().clone();
    assert_eq!(
        (costs.fill_buffers, costs.store_buffer, costs.pauser_parts, costs.move_rarity),
        (3, 4, 512, 2)
    );
    let times = [
        costs.store_ps,
        costs.issue_ps,
        costs.reader_ps,
        costs.l3_reader_ps,
        costs.clock_ps,
        costs.pause_ps,
        costs.yield_ps,
        costs.system_call_ps,
        costs.wake_ps,
        costs.wake_each_ps,
        costs.message_send_ps,
        costs.message_receive_ps,
        costs.message_kib_ps / 1024,
        costs.interrupt_ps,
        costs.balance_ps,
        costs.code_miss_ps,
    ];
    let expected = [
        4_000, 4_500, 5_000, 5_500, 6_000, 6_500, 7_500, 8_000, 8_500, 9_000, 9_500, 10_000, 10_500, 11_000,
        11_500, 13_500,
    ];
    assert_eq!(times, expected);
    for (cost, value) in
        [(CoreCost::FillBuffers, 17.0), (CoreCost::PauserShare, 1.5), (CoreCost::WakeNs, f64::NAN)]
    {
        let mut description = Description::shipped("octo-socket").expect("shipped");
        description.core.set(cost, machine::Fact { value, ..description.core.get(cost).clone() });
        let text = Config::of(&description).expect_err("no machine").to_string();
        assert!(text.contains(&format!("`core.{}` is {value}", cost.key())), "{text}");
    }
}

/// Machines are valid if they report no cores, or only some of them and of their L3s.
#[test]
fn threads_without_a_core_are_cores_of_their_own() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/machine/tests");
    for file in ["xml/nocore.xml", "minusone.toml", "xml/memory-tiers.xml"] {
        let description = Description::read(&tests.join(file)).expect("a machine");
        let model = Config::of(&description).expect(file).model;
        assert_eq!(model.threads().count(), description.topology.threads().len(), "{file}");
    }
    let whole = Description::read(&tests.join("minusone.toml")).expect("a machine").to_toml();
    let some = "[[topology.groups]]\ntype = \"l3\"\nbytes = 1048576\nthreads = [\"0-1\"]\n\n\
                [[topology.groups]]\ntype = \"core\"\nthreads = [\"0-1\"]\n\n[[topology.memories]]";
    let part = whole.replacen("[[topology.memories]]", some, 1);
    let description = Description::from_toml(&part).expect("a machine");
    assert_eq!((description.topology.counts().cores, description.topology.core_count()), (1, 3));
    let model = Config::of(&description).expect("a model").model;
    assert_eq!(model.threads().count(), 4);
}

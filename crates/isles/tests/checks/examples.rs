//! The examples run and keep their promises (they assert them).

#[path = "../../examples/bank.rs"]
mod bank;
#[path = "../../examples/inventory.rs"]
mod inventory;
#[path = "../../examples/queue.rs"]
mod queue;

#[test]
fn bank_runs() {
    bank::run().expect("the bank");
}

#[test]
fn queue_runs() {
    queue::run().expect("the queue");
}

#[test]
fn inventory_runs() {
    inventory::run().expect("the inventory");
}

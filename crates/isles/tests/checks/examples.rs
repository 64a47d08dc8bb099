//! The examples run and keep their promises (they assert them).

#[path = "../../examples/bank.rs"]
mod bank;
#[path = "../../examples/inventory.rs"]
mod inventory;
#[path = "../../examples/queue.rs"]
mod queue;
#[path = "../../examples/server.rs"]
mod server;

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

#[test]
fn server_runs() {
    server::run().expect("the server");
}

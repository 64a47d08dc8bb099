//! Costs of the kernel's mechanisms for one thread that sends 256 bytes to itself and receives
//! them: system calls, paths through the kernel and copies, without sleeping, waking or another
//! core. The virtual machine's costs come from here.

use std::sync::Arc;

use platform::link::{Bell, Limits, Mechanism, Patience, Side, connect};
use platform::{Hardware, Platform};

const MESSAGE_BYTES: usize = 256;
const REPETITIONS: usize = 20_001;

/// Median nanoseconds of sending, of receiving a message that is there, and of polling for one that
/// is not.
fn costs(mechanism: Mechanism) -> Result<[u64; 3], Box<dyn std::error::Error>> {
    let c = Hardware::core();
    let bell = Arc::new(Bell::<Hardware>::new(c, None)?);
    let side = Side { bell, node: None };
    let limits = Limits { message_bytes_max: MESSAGE_BYTES, messages_max: 10 };
    let [mut first, mut second] = connect(c, mechanism, [side.clone(), side], limits, None)?;
    let mut times = [const { Vec::new() }; 3];
    let mut buffer = [0; MESSAGE_BYTES];
    for _ in 0..REPETITIONS {
        let start = Hardware::now(c);
        first.sender.send(c, &[7; MESSAGE_BYTES])?;
        let sent = Hardware::now(c);
        second.receiver.receive(c, &mut buffer, Patience::Forever)?;
        let received = Hardware::now(c);
        second.receiver.receive(c, &mut buffer, Patience::None)?;
        let polled = Hardware::now(c);
        let moments = [start, sent, received, polled];
        for (times, pair) in times.iter_mut().zip(moments.windows(2)) {
            times.push(pair[1].since(pair[0]));
        }
    }
    Ok(times.map(|mut times| *times.select_nth_unstable(REPETITIONS / 2).1))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("mechanism   send ns  receive ns  look ns");
    for (name, mechanism) in Mechanism::ALL {
        match costs(mechanism) {
            Ok([send, receive, poll]) => println!("{name:<10}{send:>9}{receive:>12}{poll:>9}"),
            Err(error) => println!("{name:<10}{error}"),
        }
    }
    Ok(())
}

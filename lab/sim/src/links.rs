//! The kernel's mechanisms on the virtual machine.
//!
//! A message goes through a buffer of the kernel: a ring in shared memory, whose lines travel
//! between the cores of sender and receiver like all others. The mechanism's own state (locks,
//! counts, queues of buffers) is a few more lines that both sides change. So the distance between
//! sockets costs as much as those transfers, and no factor stands for it. The mechanism's
//! [`KernelCosts`] are added, and for a receiver that sleeps the machine's costs of waking and
//! being woken.
//!
//! Fault model: within a machine none. No message is lost, repeated or reordered. A full link
//! refuses messages; a sender does not notice that the other end is gone.
//!
//! Deviations: buffers are those of the connection, not fresh ones from the kernel's allocator;
//! time slices, softirq threads and interrupts have no cores. Peers on two machines are connected
//! by `remote.rs`, with costs of their own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use platform::link::{
    Bell, KernelEnd, KernelMechanism, Limits, LinkError, Links, Mechanism, Patience, ReceiveError,
    RingReceiver, RingSender, SendError, Side, Wire, ring,
};
use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};

use crate::remote::RemoteDirection;
use crate::{VirtualCore, VirtualMachine, VirtualRegion, VirtualWord};

/// Largest number of messages in a queue: Linux's default of `fs.mqueue.msg_max`.
const QUEUE_MESSAGES_MAX: usize = 10;

/// Costs of a mechanism of the kernel for a core whose caches have all lines that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelCosts {
    /// Sending: the system call with its path through the kernel and the copy.
    pub send_nanos: u64,
    /// Receiving a message that has arrived.
    pub receive_nanos: u64,
    /// Polling without a message.
    pub poll_nanos: u64,
    /// Lines of the mechanism's state that a call changes.
    pub state_lines: usize,
}

impl KernelCosts {
    /// The costs of a mechanism.
    ///
    /// Times: one thread that sends 256 bytes to itself and receives them, Linux 6.18 with
    /// mitigations on a virtual machine of an AMD EPYC of the fourth generation, 2026-11-21;
    /// medians, which repeat within 3 %, rounded (the example `kernel_links` of `platform` prints
    /// them). They are not scaled by the clock of the described machine. State lines: read off the
    /// Linux 6.1 sources; what a call writes besides the data: `pipe_inode_info` with its mutex,
    /// and the wait queue (`fs/pipe.c`); the queue's lock and counts, the tree of messages, and the
    /// node of the message (`ipc/mqueue.c`); the receive queue with its lock, the sender's memory
    /// account, and the buffer's head (`net/unix/af_unix.c`); both sockets' locks, sequence numbers
    /// and memory accounts, and the heads of data and acknowledgement (`net/ipv4/tcp*.c`).
    pub fn of(mechanism: KernelMechanism) -> KernelCosts {
        let (send_nanos, receive_nanos, poll_nanos, state_lines) = match mechanism {
            KernelMechanism::Pipe => (400, 340, 380, 2),
            KernelMechanism::Fifo => (470, 440, 380, 2),
            KernelMechanism::MessageQueue => (740, 780, 420, 3),
            KernelMechanism::Unix => (1110, 1000, 430, 3),
            KernelMechanism::Tcp => (3400, 3340, 510, 6),
        };
        KernelCosts { send_nanos, receive_nanos, poll_nanos, state_lines }
    }
}

/// State of one direction, changed by both sides.
struct DirectionState {
    region: VirtualRegion,
    costs: KernelCosts,
    wire: Option<Wire>,
}

impl DirectionState {
    fn word(&self, line: usize) -> &VirtualWord {
        VirtualMachine::word_of(&self.region, line * LINE_BYTES)
    }

    /// Arrivals of the messages under way over a wire, one word for each message.
    fn arrival(&self, message: u64, messages_max: u64) -> &VirtualWord {
        self.word(self.costs.state_lines + (message % messages_max) as usize)
    }

    /// Charges a call on the mechanism.
    fn enter(&self, c: VirtualCore, nanos: u64) {
        c.keep_busy_in_system(nanos);
        for line in 0..self.costs.state_lines {
            VirtualMachine::fetch_add(c, self.word(line), 1, Ordering::AcqRel);
        }
    }
}

/// The sending half of one end.
pub struct VirtualSender(Connection<LocalSender, Arc<RemoteDirection>>);

/// The receiving half of one end.
pub struct VirtualReceiver(Connection<LocalReceiver, Arc<RemoteDirection>>);

/// Connection within a machine, or between two machines.
enum Connection<L, R> {
    Local(L),
    Remote(R),
}

struct LocalSender {
    ring: RingSender<VirtualMachine>,
    state: Arc<DirectionState>,
    messages_max: u64,
    sent: u64,
    /// End of the last transmission on the wire.
    wire_free: Nanos,
}

struct LocalReceiver {
    ring: RingReceiver<VirtualMachine>,
    state: Arc<DirectionState>,
    messages_max: u64,
    received: u64,
    /// True if the bell of a busy worker reports arrivals: as on hardware, for sockets of one
    /// machine, and not for a wire, where the bell rings before the message arrives.
    rings: bool,
}

fn connect_direction(
    c: VirtualCore,
    mechanism: KernelMechanism,
    to: Side<VirtualMachine>,
    limits: Limits,
    wire: Option<Wire>,
) -> Result<(LocalSender, LocalReceiver), OutOfMemory> {
    let costs = KernelCosts::of(mechanism);
    let messages_max = match mechanism {
        KernelMechanism::MessageQueue => limits.messages_max.min(QUEUE_MESSAGES_MAX),
        _ => limits.messages_max,
    };
    let arrivals = if wire.is_some() { messages_max } else { 0 };
    let bytes = (costs.state_lines + arrivals) * LINE_BYTES;
    let region = VirtualMachine::region(c, to.node, bytes, "kernel link state")?;
    let state = Arc::new(DirectionState { region, costs, wire });
    let (sender, receiver) = ring(c, to, Limits { messages_max, ..limits })?;
    let messages_max = messages_max as u64;
    let rings = mechanism == KernelMechanism::Unix && wire.is_none();
    Ok((
        LocalSender { ring: sender, state: Arc::clone(&state), messages_max, sent: 0, wire_free: Nanos(0) },
        LocalReceiver { ring: receiver, state, messages_max, received: 0, rings },
    ))
}

impl LocalSender {
    /// Arrival of `bytes` bytes that leave now.
    fn arrival(&mut self, c: VirtualCore, wire: Wire, bytes: usize) -> Nanos {
        let begin = VirtualMachine::now(c).max(self.wire_free);
        let passing = wire.bytes_per_second.map_or(0.0, |rate| bytes as f64 * 1e9 / rate);
        self.wire_free = begin.plus(passing as u64);
        self.wire_free.plus(wire.one_way_nanos)
    }
}

impl LocalReceiver {
    /// Arrival of the next message, if one is under way or there.
    fn next(&self, c: VirtualCore) -> Option<Nanos> {
        if !self.ring.has_message(c) {
            return None;
        }
        if self.state.wire.is_none() {
            return Some(Nanos(0));
        }
        let arrival = self.state.arrival(self.received, self.messages_max);
        Some(Nanos(VirtualMachine::load(c, arrival, Ordering::Acquire)))
    }
}

impl VirtualReceiver {
    /// Arrival of the next message or of the link's end, if one is known.
    fn next(&self, c: VirtualCore) -> Option<Nanos> {
        match &self.0 {
            Connection::Local(local) => local.next(c),
            Connection::Remote(remote) => remote.next(c),
        }
    }

    fn has_message(&self, c: VirtualCore) -> bool {
        self.next(c).is_some_and(|arrival| arrival <= VirtualMachine::now(c))
    }
}

/// The machine of a peer.
fn machine(c: VirtualCore, side: &Side<VirtualMachine>) -> usize {
    let model = &c.simulation().config.model;
    let node = side.node.and_then(|node| model.node_position(node));
    node.map_or(0, |node| usize::from(model.node_machines[node]))
}

/// The earlier one of a deadline and another moment.
fn earlier(deadline: Option<Nanos>, moment: Option<Nanos>) -> Option<Nanos> {
    deadline.into_iter().chain(moment).min()
}

fn receive_remote(
    c: VirtualCore,
    remote: &RemoteDirection,
    buffer: &mut [u8],
    patience: Patience,
) -> Result<Option<usize>, ReceiveError> {
    loop {
        let next = remote.next(c);
        if next.is_some_and(|arrival| arrival <= VirtualMachine::now(c)) {
            return remote.receive(c, buffer);
        }
        if patience.is_over::<VirtualMachine>(c) {
            remote.charge_poll(c);
            return Ok(None);
        }
        remote.sleep(c, earlier(patience.deadline(), next));
    }
}

impl Links for VirtualMachine {
    type KernelSender = VirtualSender;
    type KernelReceiver = VirtualReceiver;
    type KernelWatch = ();

    fn kernel_connect(
        c: VirtualCore,
        mechanism: KernelMechanism,
        sides: [Side<VirtualMachine>; 2],
        limits: Limits,
        wire: Option<Wire>,
    ) -> Result<[KernelEnd<VirtualMachine>; 2], LinkError> {
        let machines = [machine(c, &sides[0]), machine(c, &sides[1])];
        let [first, second] = sides;
        if machines[0] != machines[1] {
            if mechanism != KernelMechanism::Tcp {
                return Err(LinkError::Machines(Mechanism::Kernel(mechanism)));
            }
            let forth = Arc::new(RemoteDirection::new(c, machines, second.bell, limits));
            let back = Arc::new(RemoteDirection::new(c, [machines[1], machines[0]], first.bell, limits));
            let end = |out: &Arc<RemoteDirection>, into: &Arc<RemoteDirection>| KernelEnd {
                sender: VirtualSender(Connection::Remote(Arc::clone(out))),
                receiver: VirtualReceiver(Connection::Remote(Arc::clone(into))),
            };
            return Ok([end(&forth, &back), end(&back, &forth)]);
        }
        let (to_second, at_second) = connect_direction(c, mechanism, second, limits, wire)?;
        let (to_first, at_first) = connect_direction(c, mechanism, first, limits, wire)?;
        let end = |sender, receiver| KernelEnd {
            sender: VirtualSender(Connection::Local(sender)),
            receiver: VirtualReceiver(Connection::Local(receiver)),
        };
        Ok([end(to_second, at_first), end(to_first, at_second)])
    }

    fn kernel_send(c: VirtualCore, sender: &mut VirtualSender, message: &[u8]) -> Result<(), SendError> {
        let sender = match &mut sender.0 {
            Connection::Local(sender) => sender,
            Connection::Remote(remote) => return remote.send(c, message),
        };
        sender.state.enter(c, sender.state.costs.send_nanos);
        if let Some(wire) = sender.state.wire {
            if sender.ring.is_full(c) {
                return Err(SendError::Full);
            }
            let arrival = sender.arrival(c, wire, message.len());
            let slot = sender.state.arrival(sender.sent, sender.messages_max);
            // Release: the ring publishes it with the message.
            VirtualMachine::store(c, slot, arrival.0, Ordering::Release);
        }
        sender.ring.send(c, message)?;
        sender.sent += 1;
        Ok(())
    }

    fn kernel_receive(
        c: VirtualCore,
        receiver: &mut VirtualReceiver,
        buffer: &mut [u8],
        patience: Patience,
    ) -> Result<Option<usize>, ReceiveError> {
        let receiver = match &mut receiver.0 {
            Connection::Local(receiver) => receiver,
            Connection::Remote(remote) => return receive_remote(c, remote, buffer, patience),
        };
        loop {
            let next = receiver.next(c);
            if next.is_some_and(|arrival| arrival <= VirtualMachine::now(c)) {
                receiver.state.enter(c, receiver.state.costs.receive_nanos);
                receiver.received += 1;
                return Ok(receiver.ring.take(c, buffer));
            }
            if patience.is_over::<VirtualMachine>(c) {
                c.keep_busy_in_system(receiver.state.costs.poll_nanos);
                return Ok(None);
            }
            let deadline = earlier(patience.deadline(), next);
            receiver.ring.sleep(c, next.is_none(), deadline);
        }
    }

    fn kernel_rings(receiver: &VirtualReceiver) -> bool {
        matches!(&receiver.0, Connection::Local(local) if local.rings)
    }

    fn kernel_watch(_: VirtualCore, _: &[&VirtualReceiver]) {}

    /// The cost of polling the costliest of them alone.
    fn kernel_poll(
        c: VirtualCore,
        (): &mut (),
        receivers: &mut dyn Iterator<Item = &VirtualReceiver>,
        ready: &mut dyn FnMut(usize),
    ) {
        let (mut costliest, mut nanos) = (None, 0);
        for (place, receiver) in receivers.enumerate() {
            if receiver.has_message(c) {
                ready(place);
            }
            match &receiver.0 {
                Connection::Local(local) => nanos = local.state.costs.poll_nanos.max(nanos),
                Connection::Remote(remote) => costliest = Some(remote),
            }
        }
        match costliest {
            Some(remote) => remote.charge_poll(c),
            None => c.keep_busy_in_system(nanos),
        }
    }

    fn kernel_wait<'r>(
        c: VirtualCore,
        bell: &Bell<VirtualMachine>,
        receivers: impl Iterator<Item = &'r VirtualReceiver> + Clone,
        ready: &mut dyn FnMut(VirtualCore) -> bool,
        deadline: Option<Nanos>,
    ) {
        let arriving = receivers.clone().filter_map(|receiver| receiver.next(c)).min();
        let mut any = |c| ready(c) || receivers.clone().any(|receiver| receiver.has_message(c));
        bell.wait(c, 0, &mut any, earlier(deadline, arriving));
    }
}

//! One poll of many links.

use super::{Channel, Links, Receiver};

/// Polls the links of a worker together: where polling is a system call, it is one call for all of
/// them.
pub struct Watch<P: Links> {
    kernel: P::KernelWatch,
    /// The place of each link of the kernel among all.
    places: Vec<usize>,
    /// Those that need no call.
    others: Vec<usize>,
}

impl<P: Links> Watch<P> {
    /// A watch of these receivers.
    pub fn new(c: P::Core, receivers: &[&Receiver<P>]) -> Self {
        let (places, others) = (0..receivers.len()).partition(|place| receivers[*place].calls());
        let places: Vec<usize> = places;
        let kernels: Vec<_> = places.iter().filter_map(|place| kernel(receivers[*place])).collect();
        Watch { kernel: P::kernel_watch(c, &kernels), places, others }
    }

    /// Calls `ready` with the place of each receiver that may have a message or may have ended.
    /// `receivers` are those that the watch was made for, in the same order.
    pub fn poll<'a>(
        &mut self,
        c: P::Core,
        receivers: impl Iterator<Item = &'a Receiver<P>>,
        mut ready: impl FnMut(usize),
    ) where
        P: 'a,
    {
        self.others.iter().for_each(|place| ready(*place));
        let places = &self.places;
        let mut kernels = receivers.filter(|receiver| receiver.calls()).filter_map(kernel);
        P::kernel_poll(c, &mut self.kernel, &mut kernels, &mut |place| ready(places[place]));
    }
}

fn kernel<P: Links>(receiver: &Receiver<P>) -> Option<&P::KernelReceiver> {
    if let Channel::Kernel(kernel) = &receiver.channel { Some(kernel) } else { None }
}

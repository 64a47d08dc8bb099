//! Timing of a disk.

/// Costs of a disk. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskModel {
    /// Time from the request to the first byte read.
    pub read_nanos: u64,
    /// Time from the last byte sent to the acknowledgement of a write.
    pub write_nanos: u64,
    /// Time of a flush, besides the writing of dirty data in the operating system's cache.
    pub flush_nanos: u64,
    /// Additional time of an access that does not begin where the last one ended.
    pub seek_nanos: u64,
    /// Bytes a second between machine and device.
    pub bytes_per_second: u64,
    /// Requests that the device serves at the same time.
    pub queue_depth: usize,
    /// Equal devices with alternate stripes of [`STRIPE_BYTES`] (RAID-0), each with a queue of its
    /// own.
    pub spindles: u64,
}

/// Bytes of a stripe on one of several spindles.
const STRIPE_BYTES: u64 = 64 << 10;

/// Bytes a second that the operating system copies to and from its cache.
const COPY_BYTES_PER_SECOND: u64 = 8_000_000_000;
/// Time of a system call on a file: entering, looking up pages, leaving.
const CALL_NANOS: u64 = 1_000;
/// Time of a change of a name in the cache.
const NAME_NANOS: u64 = 5_000;

impl DiskModel {
    /// Memory that is mapped as a disk: no device, only the operating system's work.
    pub const RAM: DiskModel = DiskModel {
        read_nanos: 0,
        write_nanos: 0,
        flush_nanos: 500,
        seek_nanos: 0,
        bytes_per_second: COPY_BYTES_PER_SECOND,
        queue_depth: 64,
        spindles: 1,
    };

    /// A data-centre SSD, whose cache survives a loss of power.
    pub const NVME: DiskModel = DiskModel {
        read_nanos: 80_000,
        write_nanos: 15_000,
        flush_nanos: 10_000,
        seek_nanos: 0,
        bytes_per_second: 4_000_000_000,
        queue_depth: 64,
        spindles: 1,
    };

    /// A disk of 10,000 turns a minute: half a turn to the first byte, a turn until the cache is on
    /// the platter.
    pub const HDD: DiskModel = DiskModel {
        read_nanos: 3_000_000,
        write_nanos: 100_000,
        flush_nanos: 6_000_000,
        seek_nanos: 4_500_000,
        bytes_per_second: 150_000_000,
        queue_depth: 1,
        spindles: 1,
    };

    /// The disk of this name: `ram`, `nvme` or `hdd`.
    pub fn named(name: &str) -> Option<DiskModel> {
        match name {
            "ram" => Some(DiskModel::RAM),
            "nvme" => Some(DiskModel::NVME),
            "hdd" => Some(DiskModel::HDD),
            _ => None,
        }
    }
}

/// Work of an operation for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// No device access: the operation copies this many bytes in the operating system's memory.
    Cache { bytes: u64 },
    /// A change of a name.
    Name,
    /// A read from this position on.
    Read { place: u64, bytes: u64 },
    /// A write from this position on.
    Write { place: u64, bytes: u64 },
    /// A flush of everything written, which first writes this many dirty bytes.
    Flush { place: u64, dirty: u64 },
}

/// State of the device.
pub(crate) struct Device {
    model: DiskModel,
    spindles: Vec<Spindle>,
}

/// State of one of the equal devices.
struct Spindle {
    /// End of the latest request in each slot of the queue.
    slots_ps: Vec<u64>,
    /// Moment from which the path to the device is free.
    way_ps: u64,
    /// End of the last access.
    head: u64,
}

fn passing_ps(bytes: u64, bytes_per_second: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000_000 / u128::from(bytes_per_second.max(1))) as u64
}

impl Device {
    pub(crate) fn new(model: DiskModel) -> Device {
        let spindle = || Spindle { slots_ps: vec![0; model.queue_depth.max(1)], way_ps: 0, head: u64::MAX };
        Device { model, spindles: (0..model.spindles.max(1)).map(|_| spindle()).collect() }
    }

    /// Restarts time, with nothing under way.
    pub(crate) fn reset(&mut self) {
        *self = Device::new(self.model);
    }

    /// End of a request that starts at `start_ps`. Starts do not go back in time.
    pub(crate) fn done_ps(&mut self, start_ps: u64, request: Request) -> u64 {
        let called_ps = start_ps + CALL_NANOS * 1000;
        match request {
            Request::Cache { bytes } => called_ps + passing_ps(bytes, COPY_BYTES_PER_SECOND),
            Request::Name => called_ps + NAME_NANOS * 1000,
            Request::Read { place, bytes } => self.transfer(called_ps, place, bytes, self.model.read_nanos),
            Request::Write { place, bytes } => self.transfer(called_ps, place, bytes, self.model.write_nanos),
            Request::Flush { place, dirty } => {
                let written_ps = match dirty {
                    0 => called_ps,
                    _ => self.transfer(called_ps, place, dirty, self.model.write_nanos),
                };
                // A flush waits for all requests of the device.
                let slots = self.spindles.iter().flat_map(|spindle| &spindle.slots_ps);
                let idle_ps = slots.fold(written_ps, |latest, slot| latest.max(*slot));
                idle_ps + self.model.flush_nanos * 1000
            }
        }
    }

    /// End of a transfer, each part of which goes to the spindle of its stripes.
    fn transfer(&mut self, from_ps: u64, place: u64, bytes: u64, latency_nanos: u64) -> u64 {
        let count = self.spindles.len() as u64;
        if count == 1 {
            return self.spindles[0].transfer(&self.model, from_ps, place, bytes, latency_nanos);
        }
        let (end, mut done_ps) = (place + bytes, from_ps);
        for number in 0..count {
            // Bytes of the spindle in front of a place of the whole.
            let inside = |place: u64| {
                let (row, rest) = (place / (STRIPE_BYTES * count), place % (STRIPE_BYTES * count));
                row * STRIPE_BYTES + rest.saturating_sub(number * STRIPE_BYTES).min(STRIPE_BYTES)
            };
            let (first, last) = (inside(place), inside(end));
            if last > first || (bytes == 0 && place / STRIPE_BYTES % count == number) {
                let spindle = &mut self.spindles[number as usize];
                let part_ps = spindle.transfer(&self.model, from_ps, first, last - first, latency_nanos);
                done_ps = done_ps.max(part_ps);
            }
        }
        done_ps
    }
}

impl Spindle {
    fn transfer(
        &mut self,
        model: &DiskModel,
        from_ps: u64,
        place: u64,
        bytes: u64,
        latency_nanos: u64,
    ) -> u64 {
        let seek_nanos = if place == self.head { 0 } else { model.seek_nanos };
        self.head = place + bytes;
        let free = (0..self.slots_ps.len()).min_by_key(|slot| self.slots_ps[*slot]).unwrap_or(0);
        let begin_ps = from_ps.max(self.slots_ps[free]) + seek_nanos * 1000;
        self.way_ps = begin_ps.max(self.way_ps) + passing_ps(bytes, model.bytes_per_second);
        self.slots_ps[free] = self.way_ps + latency_nanos * 1000;
        self.slots_ps[free]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: u64 = 1_000_000;

    fn micros(model: DiskModel, requests: &[Request]) -> u64 {
        let mut device = Device::new(model);
        requests.iter().map(|request| device.done_ps(0, *request)).max().unwrap_or(0) / 1_000_000
    }

    #[test]
    fn requests_overlap_up_to_the_depth_and_share_the_way() {
        let read = |place| Request::Read { place, bytes: 4096 };
        let eight: Vec<_> = (0..8).map(|number| read(number * MEGABYTE)).collect();
        assert!(micros(DiskModel::NVME, &eight) < 2 * micros(DiskModel::NVME, &eight[..1]));
        assert!(micros(DiskModel::HDD, &eight) >= 8 * 7_500);
        let large = [Request::Write { place: 0, bytes: 400 * MEGABYTE }; 2];
        assert!(micros(DiskModel::NVME, &large) >= 200_000);
    }

    #[test]
    fn what_follows_on_a_turning_disk_is_not_sought() {
        let write = |place| Request::Write { place, bytes: 4096 };
        let in_order = micros(DiskModel::HDD, &[write(0), write(4096)]);
        let apart = micros(DiskModel::HDD, &[write(0), write(8192)]);
        assert_eq!(apart - in_order, DiskModel::HDD.seek_nanos / 1000);
    }

    #[test]
    fn two_spindles_serve_two_stripes_at_the_same_time() {
        let striped = DiskModel { spindles: 2, ..DiskModel::HDD };
        let read = |place| Request::Read { place, bytes: 8192 };
        // Alternate stripes are on both, every second one is on the same.
        let apart = micros(striped, &[read(0), read(STRIPE_BYTES)]);
        let same = micros(striped, &[read(0), read(2 * STRIPE_BYTES + 8192)]);
        assert_eq!(apart, micros(DiskModel::HDD, &[read(0)]));
        assert_eq!(same, micros(DiskModel::HDD, &[read(0), read(MEGABYTE)]));
        // A long transfer takes half the time on each; what follows is not sought.
        let long = [Request::Write { place: 0, bytes: 300 * MEGABYTE }];
        let (one, two) = (micros(DiskModel::HDD, &long), micros(striped, &long));
        assert!((one / 2..one / 2 + 10_000).contains(&two), "{one} {two}");
        let next = Request::Read { place: 8192, bytes: 8192 };
        assert!(micros(striped, &[read(0), next]) < same);
    }

    #[test]
    fn a_flush_pays_for_what_is_dirty_and_waits_for_the_rest() {
        let clean = micros(DiskModel::NVME, &[Request::Flush { place: 0, dirty: 0 }]);
        let dirty = micros(DiskModel::NVME, &[Request::Flush { place: 0, dirty: 40 * MEGABYTE }]);
        assert!(dirty >= clean + 10_000);
        let write = Request::Write { place: 0, bytes: 40 * MEGABYTE };
        assert!(micros(DiskModel::NVME, &[write, Request::Flush { place: 0, dirty: 0 }]) >= 10_000);
    }
}

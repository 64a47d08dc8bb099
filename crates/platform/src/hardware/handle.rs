//! The handle by which a thread of this process touches shared memory.

/// The right to touch shared memory: any thread of the process may hold one.
#[derive(Clone, Copy, Debug)]
pub struct HardwareCore {
    _private: (),
}

impl HardwareCore {
    pub(super) fn new() -> HardwareCore {
        HardwareCore { _private: () }
    }
}

//! `/proc/cpuinfo`: the fallback if sysfs has no topology, and the processor's vendor.

use super::root::Root;

/// The entry of `/proc/cpuinfo` for one processor.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuInfo {
    pub(super) processor: u32,
    pub(super) package: Option<u32>,
    pub(super) core: Option<u32>,
    /// Bulldozer-family processors: two cores share a module, which their kernels call thread
    /// siblings.
    pub(super) has_modules: bool,
}

/// AMD's family number of the module-based designs (Bulldozer to Excavator).
const FAMILY_WITH_MODULES: &str = "21";

/// Reads all processors of `/proc/cpuinfo`; empty if there is none.
pub(super) fn read(files: &Root) -> Vec<CpuInfo> {
    let mut known: Vec<CpuInfo> = Vec::new();
    let mut from_amd = false;
    for line in files.text("proc/cpuinfo").unwrap_or_default().lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        if key == "processor" {
            if let Ok(processor) = value.parse() {
                known.push(CpuInfo { processor, ..CpuInfo::default() });
            }
            continue;
        }
        let Some(current) = known.last_mut() else { continue };
        match key {
            "vendor_id" => from_amd = value == "AuthenticAMD",
            "cpu family" => current.has_modules = from_amd && value == FAMILY_WITH_MODULES,
            "physical id" => current.package = value.parse().ok(),
            "core id" => current.core = value.parse().ok(),
            _ => {}
        }
    }
    known
}

//! Smaller caches, for smaller data.

use super::{CacheSizes, Model, Translation};

impl Model {
    /// The same machine for data that is only `scale` times as large, 0 to 1: its caches hold as
    /// large a share of the data as before.
    ///
    /// The L2 and the L3 shrink by that factor. The L1 stays: it holds a worker's data of one
    /// transaction, which does not shrink. So that each level is still a level, an L2 keeps twice
    /// the L1, and an L3 as much as the L2s of its cores together. TLBs behind the first level
    /// shrink, too, to no fewer entries than the level before them.
    pub fn with_scaled_caches(self, scale: f64) -> Model {
        let CacheSizes { l1_bytes, l2_bytes, l3_bytes } = self.caches;
        let scaled = |bytes: usize| (bytes as f64 * scale.clamp(0.0, 1.0)) as usize;
        let cores_of_group = self.cores.len().div_ceil(self.groups.max(1));
        let l2 = scaled(l2_bytes).max(2 * l1_bytes).min(l2_bytes);
        let l3 = scaled(l3_bytes).max(cores_of_group * l2).min(l3_bytes);
        let translation = self.translation.clone().map(|translation| translation.scaled(scale));
        Model { translation, ..self.with_caches(CacheSizes { l1_bytes, l2_bytes: l2, l3_bytes: l3 }) }
    }
}

impl Model {
    /// Lines of the page tables of all nodes for this much memory.
    pub(crate) fn table_lines(&self, memory_bytes: usize) -> usize {
        let lines = |one: &Translation| one.table_lines(memory_bytes, self.line_shift).1;
        self.translation.as_ref().map_or(0, lines) * self.nodes.len()
    }

    /// The same machine whose operating system has no huge pages.
    pub fn with_small_pages(mut self) -> Model {
        if let Some(translation) = &mut self.translation {
            translation.huge_pages = false;
        }
        self
    }

    /// The same machine on which translation of addresses costs nothing.
    pub fn with_free_translation(self) -> Model {
        Model { translation: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use machine::Description;

    use crate::{CacheSizes, Config};

    fn scaled(machine: &str, scale: f64) -> [CacheSizes; 2] {
        let description = Description::shipped(machine).expect("shipped");
        let model = Config::of(&description).expect("a machine").model;
        [model.caches(), model.with_scaled_caches(scale).caches()]
    }

    #[test]
    fn caches_shrink_with_the_data_down_to_what_a_level_needs() {
        let [full, half] = scaled("superdome-flex", 0.5);
        assert_eq!((half.l1_bytes, half.l2_bytes), (full.l1_bytes, full.l2_bytes / 2));
        assert_eq!(half.l3_bytes, full.l3_bytes / 2);
        let [full, least] = scaled("superdome-flex", 0.001);
        assert_eq!((least.l1_bytes, least.l2_bytes), (full.l1_bytes, 2 * full.l1_bytes));
        assert_eq!(least.l3_bytes, 28 * least.l2_bytes);
    }

    #[test]
    fn caches_never_grow() {
        for machine in Description::names() {
            let [full, same] = scaled(machine, 100.0);
            assert_eq!(full, same, "{machine}");
            let [full, least] = scaled(machine, 0.001);
            assert!(least.l2_bytes <= full.l2_bytes && least.l3_bytes <= full.l3_bytes, "{machine}");
        }
    }
}

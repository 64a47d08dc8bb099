//! Costs of kinds of work from primitives that are each dominated by one kind.
//!
//! A primitive takes `bare + sum of units * cost`. Each kind has one primitive, of which it makes
//! up most; going through the kinds, each cost is what its primitive leaves after the others, never
//! less than nothing. The pass is repeated ([`ROUNDS`], Gauss-Seidel), because primitives share
//! kinds. Primitives that are the source of no kind are checks.

use platform::Work;

use crate::primitives as named;

/// Time, or instructions, and units of work of a primitive.
#[derive(Clone, Debug)]
pub struct Primitive {
    pub name: &'static str,
    /// Its cost on hardware: costseconds or instructions.
    pub hardware: f64,
    /// Its cost in the virtual machine when computation is free: the primitive's accesses.
    pub bare: f64,
    /// Units of each kind, in the order of [`Work::ALL`].
    pub units: [f64; Work::ALL.len()],
}

/// Costs of the kinds.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Cost of one unit, in the order of [`Work::ALL`].
    pub costs: [f64; Work::ALL.len()],
    /// Kinds whose cost would be negative.
    pub clamped: Vec<Work>,
}

/// Passes over the kinds: more than the longest chain of kinds that depend on each other.
const ROUNDS: usize = 100;

/// Name of the primitive from which the cost of a kind is derived.
pub fn source(work: Work) -> &'static str {
    match work {
        Work::Hash => named::HASH,
        Work::KeyCompare => named::TREE_SMALL,
        Work::CopyWord => named::ROW_COPY,
        Work::Access => named::ONE_ROW,
        Work::Transaction => named::EMPTY,
        Work::Random => named::RANDOM,
        Work::Step => named::STEP,
    }
}

/// Solves for the costs; an error if a kind's primitive is missing or has none of it.
pub fn solve(primitives: &[Primitive]) -> Result<Fit, String> {
    let mut costs = [0.0; Work::ALL.len()];
    let mut sources = Vec::new();
    for (kind, work) in Work::ALL.into_iter().enumerate() {
        let primitive = primitives.iter().find(|primitive| primitive.name == source(work));
        let primitive = primitive.filter(|primitive| primitive.units[kind] > 0.0);
        sources.push(primitive.ok_or_else(|| format!("no primitive has {work:?}: {} should", source(work)))?);
    }
    let mut clamped = Vec::new();
    for _ in 0..ROUNDS {
        clamped.clear();
        for (kind, work) in Work::ALL.into_iter().enumerate() {
            let primitive = sources[kind];
            let others = (0..costs.len()).filter(|other| *other != kind);
            let others: f64 = others.map(|other| primitive.units[other] * costs[other]).sum();
            let left = primitive.hardware - primitive.bare - others;
            if left < 0.0 {
                clamped.push(work);
            }
            costs[kind] = (left / primitive.units[kind]).max(0.0);
        }
    }
    Ok(Fit { costs, clamped })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Primitives with these costs of the kinds, each with one unit of a neighbouring kind.
    fn made(costs: [f64; Work::ALL.len()]) -> Vec<Primitive> {
        let primitive = |(kind, work): (usize, Work)| {
            let mut units = [0.0; Work::ALL.len()];
            units[kind] = 3.0;
            units[(kind + 1) % Work::ALL.len()] = 1.0;
            let computed: f64 = units.iter().zip(costs).map(|(units, cost)| units * cost).sum();
            Primitive { name: source(work), hardware: 5.0 + computed, bare: 5.0, units }
        };
        Work::ALL.into_iter().enumerate().map(primitive).collect()
    }

    #[test]
    fn costs_are_found_again() {
        let costs = [3.0, 2.0, 0.25, 5.0, 60.0, 4.0, 1.0];
        let fit = solve(&made(costs)).expect("all kinds have primitives");
        for (found, cost) in fit.costs.iter().zip(costs) {
            assert!((found - cost).abs() < 1e-9, "{fit:?}");
        }
        assert!(fit.clamped.is_empty());
    }

    #[test]
    fn nothing_costs_less_than_nothing() {
        let mut primitives = made([1.0; Work::ALL.len()]);
        primitives[0].bare = 1_000.0;
        let fit = solve(&primitives).expect("all kinds have primitives");
        assert_eq!((fit.costs[0], fit.clamped), (0.0, vec![Work::ALL[0]]));
    }

    #[test]
    fn a_kind_without_a_primitive_is_an_error() {
        let mut primitives = made([1.0; Work::ALL.len()]);
        primitives.remove(2);
        assert!(solve(&primitives).expect_err("no source").contains("CopyWord"));
    }
}

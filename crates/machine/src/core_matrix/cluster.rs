//! Nested groups in a matrix of distances.
//!
//! Agglomerative clustering with average linkage (the distance of two groups is the mean over all
//! pairs), by nearest-neighbour chains (Murtagh 1983), which takes time quadratic in the number of
//! rows. If the next merge is at a distance at least half as large again as the one before, the
//! groups so far are a level of the machine, provided that they are of similar size: a single
//! thread with a disturbed measurement is no level. One case of dissimilar sizes is a level: a tool
//! uses one line, whose home is the memory of one socket, and on some machines threads of another
//! socket pass the line through that socket, as slowly as threads of different sockets. If one
//! group has half of all threads and the others are much smaller, the others together are the other
//! half. Threads of one core may be as near as a coarse clock can distinguish, so that no gap shows
//! them: `pairs` finds them by the usual numbering of siblings.

use crate::description::median;

/// Growth of the distance from which on the groups so far are a level.
const GAP: f64 = 1.5;

/// Groups of one level.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Groups {
    /// Members of each, ascending; groups ordered by their first member.
    pub(super) members: Vec<Vec<usize>>,
    /// Median distance of two members of one group.
    pub(super) inside_ns: f64,
    /// One group was scattered: it stands for all small groups, which have half of the threads
    /// together.
    pub(super) scattered: bool,
}

impl Groups {
    /// Size of the largest group.
    pub(super) fn largest(&self) -> usize {
        self.members.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn smallest(&self) -> usize {
        self.members.iter().map(Vec::len).min().unwrap_or(0)
    }
}

/// Two groups, each named by one of its members, that were merged.
#[derive(Clone, Copy, Debug)]
struct Merge {
    one: usize,
    other: usize,
    distance: f64,
}

/// The levels of groups in a symmetric matrix, from small groups to large ones.
pub(super) fn levels(distances: &[Vec<f64>]) -> Vec<Groups> {
    let mut merges = merges(distances);
    merges.sort_by(|one, other| one.distance.total_cmp(&other.distance));
    let gap = |count: &usize| merges[*count].distance >= GAP * merges[count - 1].distance;
    let cuts = (1..merges.len()).filter(gap);
    cuts.filter_map(|count| regular(groups(distances, &merges[..count]))).collect()
}

/// Accepts groups of similar size; `None` for others.
fn regular(mut groups: Groups) -> Option<Groups> {
    let (smallest, largest) = (groups.smallest(), groups.largest());
    let threads: usize = groups.members.iter().map(Vec::len).sum();
    let halves = groups.members.iter().filter(|group| group.len() == largest).count() == 1
        && 2 * largest == threads
        && groups.members.iter().all(|group| group.len() == largest || 2 * group.len() <= largest);
    if !halves {
        return (smallest >= 2 && 2 * smallest >= largest).then_some(groups);
    }
    let (large, small): (Vec<_>, Vec<_>) =
        groups.members.into_iter().partition(|group| group.len() == largest);
    let mut rest: Vec<usize> = small.into_iter().flatten().collect();
    rest.sort_unstable();
    groups.members = large.into_iter().chain([rest]).collect();
    groups.members.sort_by_key(|group| group[0]);
    groups.scattered = true;
    Some(groups)
}

/// Siblings by the usual numberings, neighbours or half of all threads apart: no thread is nearer
/// to another than to its sibling, and other threads are at least `GAP` further away. `None` if no
/// numbering fits.
pub(super) fn pairs(distances: &[Vec<f64>]) -> Option<Groups> {
    let threads = distances.len();
    if threads < 4 || !threads.is_multiple_of(2) {
        return None;
    }
    let ways: [&dyn Fn(usize) -> usize; 2] =
        [&|thread| thread ^ 1, &|thread| (thread + threads / 2) % threads];
    ways.into_iter().find_map(|sibling| {
        let others = |one: usize| (0..threads).filter(move |other| ![one, sibling(one)].contains(other));
        let nearest = |one: usize| {
            let own = distances[one][sibling(one)];
            others(one).all(|other| own <= distances[one][other])
        };
        let inside_ns = median((0..threads).map(|one| distances[one][sibling(one)]).collect())?;
        let near = |one: usize| others(one).map(|other| distances[one][other]).min_by(f64::total_cmp);
        let outside_ns = median((0..threads).filter_map(near).collect())?;
        let fits = (0..threads).all(nearest) && outside_ns >= GAP * inside_ns;
        let pair = |one: usize| (one < sibling(one)).then(|| vec![one, sibling(one)]);
        let members = (0..threads).filter_map(pair).collect();
        fits.then_some(Groups { members, inside_ns, scattered: false })
    })
}

/// All merges down to one group, in the order in which chains find them.
fn merges(distances: &[Vec<f64>]) -> Vec<Merge> {
    let mut distances = distances.to_vec();
    let mut sizes = vec![1_usize; distances.len()];
    let mut alive: Vec<bool> = vec![true; distances.len()];
    let mut chain: Vec<usize> = Vec::new();
    let mut merges = Vec::new();
    while merges.len() + 1 < distances.len() {
        if chain.is_empty() {
            chain.extend(alive.iter().position(|alive| *alive));
        }
        let here = chain[chain.len() - 1];
        let before = chain.len().checked_sub(2).map(|index| chain[index]);
        let next = nearest(&distances[here], &alive, here, before);
        if Some(next) != before {
            chain.push(next);
            continue;
        }
        chain.truncate(chain.len() - 2);
        merges.push(Merge { one: here, other: next, distance: distances[here][next] });
        let (own, joined) = (sizes[here] as f64, sizes[next] as f64);
        for third in (0..sizes.len()).filter(|&third| alive[third] && third != here && third != next) {
            let mean = (own * distances[here][third] + joined * distances[next][third]) / (own + joined);
            distances[here][third] = mean;
            distances[third][here] = mean;
        }
        sizes[here] += sizes[next];
        alive[next] = false;
    }
    merges
}

/// The nearest group; among equally near ones the previous one in the chain, so that chains end.
fn nearest(row: &[f64], alive: &[bool], here: usize, before: Option<usize>) -> usize {
    let others = (0..row.len()).filter(|&other| alive[other] && other != here);
    let rank = |one: &usize, other: &usize| {
        row[*one].total_cmp(&row[*other]).then((Some(*one) != before).cmp(&(Some(*other) != before)))
    };
    others.min_by(rank).expect("there are at least two groups until all merges are found")
}

/// The groups after some merges.
fn groups(distances: &[Vec<f64>], merges: &[Merge]) -> Groups {
    let mut group: Vec<usize> = (0..distances.len()).collect();
    for merge in merges {
        let (keep, change) = (group[merge.one], group[merge.other]);
        group.iter_mut().filter(|group| **group == change).for_each(|group| *group = keep);
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); distances.len()];
    (0..distances.len()).for_each(|thread| members[group[thread]].push(thread));
    members.retain(|group| !group.is_empty());
    members.sort_by_key(|group| group[0]);
    let pairs = |group: &Vec<usize>| {
        let pair = |(index, one): (usize, &usize)| {
            group[..index].iter().map(|other| distances[*one][*other]).collect::<Vec<f64>>()
        };
        group.iter().enumerate().flat_map(pair).collect::<Vec<f64>>()
    };
    let inside_ns = median(members.iter().flat_map(pairs).collect()).unwrap_or(0.0);
    Groups { members, inside_ns, scattered: false }
}

#[cfg(test)]
mod tests {
    use super::levels;

    /// Threads 2i and 2i + 1 are siblings, four threads form a domain; `noise` makes all pairs
    /// different.
    fn two_levels(noise: f64) -> Vec<Vec<f64>> {
        let value =
            |one: usize, other: usize| match (one == other, one / 2 == other / 2, one / 4 == other / 4) {
                (true, _, _) => 0.0,
                (_, true, _) => 8.0,
                (_, _, true) => 25.0,
                _ => 100.0,
            };
        let disturbed =
            |one: usize, other: usize| value(one, other) * (1.0 + noise * ((one * other) % 7) as f64);
        (0..12).map(|one| (0..12).map(|other| disturbed(one, other)).collect()).collect()
    }

    #[test]
    fn nested_groups_are_found() {
        for noise in [0.0, 0.02] {
            let levels = levels(&two_levels(noise));
            let sizes: Vec<(usize, usize)> =
                levels.iter().map(|groups| (groups.members.len(), groups.largest())).collect();
            assert_eq!(sizes, [(6, 2), (3, 4)]);
            assert_eq!(levels[1].members[1], [4, 5, 6, 7]);
        }
    }

    #[test]
    fn alike_threads_have_no_levels() {
        let flat: Vec<Vec<f64>> = (0..9)
            .map(|one| {
                (0..9).map(|other| if one == other { 0.0 } else { 40.0 + (one + other) as f64 }).collect()
            })
            .collect();
        assert_eq!(levels(&flat), []);
    }

    #[test]
    fn a_socket_away_from_the_line_is_the_other_half() {
        // Pairs of threads. Those of the first six are near each other, those of the last six as
        // far from each other as from the first.
        let value = |one: usize, other: usize| match (one == other, one / 2 == other / 2) {
            (true, _) => 0.0,
            (_, true) => 8.0,
            _ if one < 6 && other < 6 => 100.0,
            _ => 200.0 + (one + other) as f64,
        };
        let matrix: Vec<Vec<f64>> =
            (0..12).map(|one| (0..12).map(|other| value(one, other)).collect()).collect();
        let levels = levels(&matrix);
        assert_eq!(levels.len(), 2);
        assert_eq!(levels[1].members, [vec![0, 1, 2, 3, 4, 5], vec![6, 7, 8, 9, 10, 11]]);
    }

    #[test]
    fn one_slow_thread_is_no_level() {
        let mut matrix = two_levels(0.0);
        matrix[0].iter_mut().for_each(|distance| *distance *= 1.6);
        matrix.iter_mut().for_each(|row| row[0] *= 1.6);
        let sizes: Vec<usize> = levels(&matrix).iter().map(|groups| groups.members.len()).collect();
        assert_eq!(sizes, [6, 3]);
    }
}

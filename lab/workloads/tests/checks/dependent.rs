//! Two dependent tables on the model: the second row is the one that the first names, and the check
//! detects damage.

use terms::random::Random;
use workloads::dependent::Dependent;
use workloads::dependent::rows::{First, Second};
use workloads::{Outcome, Workload};

use crate::model::{End, Model};

fn small() -> Dependent {
    Dependent { sites: 3, rows_per_site: 50, multisite: 0.3, divided: false, placement: None }
}

#[test]
fn the_second_row_is_the_one_that_the_first_names() {
    let (mut model, tables) = Model::load(&small(), 1);
    let divided = Dependent { divided: true, ..small() };
    let (mut random, mut other, mut shuffle) = (Random::new(2, 0), Random::new(2, 0), Random::new(3, 0));
    let mut digests = Vec::new();
    for number in 0..500 {
        let (mut one, mut whole) =
            (small().next(number, &mut random, 0), divided.next(number, &mut other, 0));
        assert_eq!(model.run(&tables, &mut one, &mut shuffle), End::Committed);
        assert_eq!(model.run(&tables, &mut whole, &mut shuffle), End::Committed);
        assert_eq!(one.digest(), whole.digest());
        digests.push(one.digest());
    }
    digests.sort_unstable();
    digests.dedup();
    assert!(digests.len() > 100 && !digests.contains(&0), "{}", digests.len());
}

#[test]
fn the_check_notices_damage() {
    let found = |damage: fn(&mut Model, &workloads::dependent::rows::Tables)| {
        let (mut model, tables) = Model::load(&small(), 1);
        damage(&mut model, &tables);
        small().check(&tables, &mut model, None).remove(0).result
    };
    assert_eq!(found(|_, _| ()), Outcome::Ok);
    let damaged = "1 rows are not what was loaded";
    let first = found(|model, tables| {
        model.corrupt(tables.first, &(1, 7), |row: &mut First| row.values[3] ^= 1);
    });
    assert_eq!(first.to_string(), damaged);
    let second = found(|model, tables| {
        let row: Second = model.rows(tables.second).next().expect("there is one");
        model.corrupt(tables.second, &(row.site, row.number, row.own), |row: &mut Second| row.values[0] = 0);
    });
    assert_eq!(second.to_string(), damaged);
    let missing = found(|model, tables| model.remove(tables.first, &(1, 7)));
    assert_eq!(missing.to_string(), "149 and 150 rows where 150 each were loaded");
    assert!(Dependent { sites: 0, ..small() }.validate().is_err());
    assert!(Dependent { multisite: -0.1, ..small() }.validate().is_err());
}

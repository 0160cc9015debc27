//! The table against a map, and at its edges.

use std::collections::HashMap;

use super::*;

/// A table with so many home lines.
fn table(home_lines: u64) -> Table {
    Table::new(reserve(home_lines).unwrap(), 0)
}

fn seen(version: u32) -> Stamp {
    Stamp::new(State::Seen, version)
}

/// Evenly spread keys, the same in every run.
fn keys(count: u64) -> Vec<Fingerprint> {
    let spread =
        |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (n.wrapping_mul(0xd1b5_4a32_d192_ed03) >> 29);
    (1..=count).map(|n| Fingerprint::from_halves(spread(n), spread(n ^ 0x5555))).collect()
}

/// Finds or creates the slot of a key.
fn locate(table: &Table, key: Fingerprint) -> Option<&StampCell> {
    match table.find(key) {
        Probe::Hit(cell) => Some(cell),
        Probe::Miss(vacancy) => table.locate(key, vacancy).map(|located| located.cell),
        Probe::Exhausted => None,
    }
}

#[test]
fn table_agrees_with_a_map_up_to_its_load_limit() {
    let scale = if cfg!(miri) { 1 } else { 20 };
    let table = table(25 * scale);
    let mut map = HashMap::new();
    for (key, version) in keys(60 * scale).into_iter().zip(1..) {
        locate(&table, key).unwrap().advance(Stamp::UNDECIDED, seen(version)).unwrap();
        map.insert(key, version);
    }
    for key in keys(120 * scale) {
        let found = match table.find(key) {
            Probe::Hit(cell) => Some(cell.load().version()),
            _ => None,
        };
        assert_eq!(found, map.get(&key).copied());
    }
    let slots: HashMap<_, _> =
        table.slots_in(0, u64::MAX).map(|(key, stamp)| (key, stamp.version())).collect();
    assert_eq!(slots, map);
}

#[test]
fn extreme_keys_have_a_home_and_are_found() {
    let table = table(3);
    let extremes = [1, 2, u64::MAX - 1, u64::MAX, 1 << 63, (1 << 63) - 1];
    for hi in extremes {
        for lo in [1, u64::MAX] {
            assert!(locate(&table, Fingerprint::from_halves(hi, lo)).is_some());
        }
    }
    assert_eq!(table.slots_in(0, u64::MAX).count(), extremes.len() * 2);
}

#[test]
fn keys_with_one_upper_half_and_different_lower_halves_are_different() {
    let table = table(8);
    for lo in 1..=20 {
        locate(&table, Fingerprint::from_halves(77, lo)).unwrap().advance(Stamp::UNDECIDED, seen(5)).unwrap();
    }
    assert!(matches!(table.find(Fingerprint::from_halves(77, 21)), Probe::Miss(_)));
    assert_eq!(table.keys_between(77, 77).count(), 20);
}

#[test]
fn keys_of_one_home_are_refused_after_the_longest_walk() {
    let table = table(4);
    let placed = (1..)
        .take_while(|lo| locate(&table, Fingerprint::from_halves(u64::MAX, *lo)).is_some())
        .count() as u64;
    assert_eq!(placed, (SPARE_LINES + 1) * SLOTS_PER_LINE);
    assert!(matches!(table.find(Fingerprint::from_halves(u64::MAX, u64::MAX)), Probe::Exhausted));
}

#[test]
fn ranges_of_keys_are_disjoint_and_complete() {
    let table = table(400);
    for key in keys(960) {
        locate(&table, key).unwrap();
    }
    let mut first = 0;
    let mut found = Vec::new();
    for line in [1, 7, 50, 51, 300, 399] {
        let next = table.hi_at(line).unwrap();
        found.extend(table.keys_between(first, next - 1).map(|(key, _)| key));
        first = next;
    }
    found.extend(table.keys_between(first, u64::MAX).map(|(key, _)| key));
    let mut expected = keys(960);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn line_boundary_is_the_smallest_hi_of_its_line() {
    for lines in [1, 2, 3, 1000, if cfg!(miri) { 2000 } else { 65_536 }] {
        let table = table(lines);
        for line in [0, 1, lines / 2, lines - 1].into_iter().filter(|line| *line < lines) {
            let hi = table.hi_at(line).unwrap();
            assert_eq!(table.home(hi) as u64, line);
            assert!(line == 0 || table.home(hi - 1) as u64 == line - 1);
        }
        assert_eq!(table.hi_at(lines), None);
    }
}

#[test]
fn count_asks_for_rotation_at_the_load_and_reports_crowding() {
    let table = table(1000);
    let asked = (1..=3000).find(|_| table.count(1, 1)).unwrap();
    assert!((1950..1950 + 1950 / 8 + 1).contains(&asked), "asked at {asked}");
    assert!(!table.is_crowded());
    table.count(3000, 9);
    assert!(table.is_crowded());
    assert_eq!((table.until_max(), table.facts()), (9, asked + 3000));
}

#[test]
fn version_out_of_range_has_no_stamp() {
    let born_late = Table::new(reserve(1).unwrap(), 1000);
    let until = 1000 + u64::from(VERSION_MAX);
    assert_eq!(born_late.stamp(State::Seen, until).map(|stamp| born_late.until(stamp)), Some(until));
    assert_eq!(born_late.stamp(State::Seen, until + 1), None);
    assert_eq!(born_late.stamp(State::Seen, 3).map(Stamp::version), Some(1), "late, never early");
}

//! Imports that meet IDs which somebody here is working on.

use std::time::Duration;

use firstseen::{Claim, Error, Lease, Store, Verdict};

use crate::{check_all, exported, import, options, seen_of, settle};

const MINUTE: Duration = Duration::from_secs(60);

fn store() -> Store {
    Store::in_memory(options()).unwrap()
}

fn claimed(store: &Store, id: u32) -> Lease {
    store.claim(id.to_le_bytes(), MINUTE).unwrap().into_lease().unwrap()
}

#[test]
fn lease_on_an_id_that_is_seen_elsewhere_is_lost() {
    let (from, store) = (store(), store());
    check_all(&from, 0..3);
    let mut leases: Vec<Lease> = (1..5).map(|id| claimed(&store, id)).collect();
    // Also with the claims in an older table than the one that takes the facts in.
    check_all(&store, 100..300);
    settle(&store);
    let imported = store.merge(&from).unwrap();
    assert_eq!((imported.changed, imported.leases_lost), (3, 2));
    assert_eq!(store.stats().leases, 2);
    let kept = leases.split_off(2);
    let [mut first, second] = <[Lease; 2]>::try_from(leases).unwrap();
    assert!(matches!(first.extend(MINUTE), Err(Error::LeaseLost { .. })));
    assert!(matches!(second.commit(), Err(Error::LeaseLost { .. })));
    drop(first);
    assert_eq!(seen_of(&store, 0..5), [0, 1, 2]);
    assert_eq!(store.check(3_u32.to_le_bytes()).unwrap(), Verdict::InFlight);
    for lease in kept {
        lease.commit().unwrap();
    }
    assert_eq!(seen_of(&store, 0..5), [0, 1, 2, 3, 4]);
}

#[test]
fn claimed_id_is_not_exported_and_what_was_before_is() {
    let (from, into) = (store(), store());
    check_all(&from, 0..2);
    let _fresh = claimed(&from, 5);
    assert!(from.forget(1_u32.to_le_bytes()).unwrap());
    let _forgotten = claimed(&from, 1);
    check_all(&into, 1..2);
    // 0 is seen; 1 was forgotten, though somebody is at it again.
    let imported = import(&into, &exported(&from)).unwrap();
    assert_eq!((imported.facts, imported.changed), (2, 2));
    assert_eq!(seen_of(&into, 0..10), [0]);
    assert!(matches!(into.claim(5_u32.to_le_bytes(), MINUTE).unwrap(), Claim::Leased(_)));
}

#[test]
fn id_whose_claim_was_aborted_is_seen_after_an_import() {
    let (from, store) = (store(), store());
    check_all(&from, 0..1);
    claimed(&store, 0).abort().unwrap();
    let imported = store.merge(&from).unwrap();
    assert_eq!((imported.changed, imported.leases_lost), (1, 0));
    assert_eq!(seen_of(&store, 0..1), [0]);
}

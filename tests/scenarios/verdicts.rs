//! Which verdict an ID gets: in a batch, among its equals, from handles on other threads.

use std::collections::HashSet;

use firstseen::Verdict::{Duplicate, FirstSeen};
use firstseen::{Error, Hash, Options, Store, Verdict};

use super::{batch, check, name, store};

#[test]
fn mixed_batch_is_answered_in_its_order() {
    let store = store(Options::new());
    assert_eq!(batch(&store, &["b", "d"]), [FirstSeen, FirstSeen]);
    let verdicts = batch(&store, &["a", "b", "c", "c", "d", "e"]);
    assert_eq!(verdicts, [FirstSeen, Duplicate, FirstSeen, Duplicate, Duplicate, FirstSeen]);
    for id in ["a", "b", "c", "d", "e"] {
        assert!(store.contains(id).unwrap(), "{id}");
    }
    assert!(!store.contains("f").unwrap());
    assert_eq!(store.len(), 5);
}

#[test]
fn batch_of_a_million_equal_ids_has_one_first_and_takes_no_memory() {
    const COUNT: usize = 1_000_000;
    let store = store(Options::new());
    let before = store.stats();
    let mut verdicts = vec![Verdict::default(); COUNT];
    store.check_batch(&vec!["the one"; COUNT], &mut verdicts).unwrap();
    assert_eq!(verdicts[0], FirstSeen);
    assert!(verdicts[1..].iter().all(|verdict| *verdict == Duplicate));
    let after = store.stats();
    assert_eq!((after.ids, after.rotations), (1, 0));
    assert_eq!(after.memory_bytes, before.memory_bytes);
    assert_eq!(after.memory_bytes_peak, before.memory_bytes_peak);
}

#[test]
fn empty_batch_is_answered_and_records_nothing() {
    let store = store(Options::new());
    assert_eq!(batch(&store, &[] as &[&str]), []);
    assert!(store.claim_batch(&[] as &[&str], super::secs(1)).unwrap().claims().is_empty());
    assert!(store.is_empty());
}

#[test]
fn ids_of_any_length_and_bytes_are_kept_apart() {
    let store = store(Options::new());
    let long = vec![7; 1 << 20];
    let lengths = [0, 1, 2, 3, 8, 9, 16, 17, 128, 129, 240, 241, 255, 256, 65_535, 65_536, 1 << 20];
    for length in lengths {
        assert_eq!(check(&store, &long[..length]), FirstSeen, "{length} bytes");
    }
    let mut other = long.clone();
    *other.last_mut().unwrap() = 8;
    assert_eq!(check(&store, &other), FirstSeen, "only the last byte differs");
    assert_eq!(check(&store, "\0"), FirstSeen);
    assert_eq!(check(&store, "\0\0"), FirstSeen);
    for length in lengths {
        assert_eq!(check(&store, &long[..length]), Duplicate, "{length} bytes");
    }
}

#[test]
fn single_calls_and_batches_and_fingerprints_share_one_memory() {
    let store = store(Options::new());
    let key = |id: &str| store.fingerprint(id).unwrap();
    assert_eq!(check(&store, "single"), FirstSeen);
    assert_eq!(batch(&store, &["single", "batch"]), [Duplicate, FirstSeen]);
    let mut verdicts = [Verdict::default(); 3];
    store.check_fingerprints(&[key("single"), key("batch"), key("key")], &mut verdicts).unwrap();
    assert_eq!(verdicts, [Duplicate, Duplicate, FirstSeen]);
    assert_eq!(check(&store, "key"), Duplicate);
}

#[test]
fn buffer_of_another_length_is_refused_and_records_nothing() {
    let store = store(Options::new());
    let mut verdicts = [Verdict::default(); 3];
    let refused = store.check_batch(&["a", "b"], &mut verdicts);
    assert_eq!(refused, Err(Error::BufferLength { ids: 2, verdicts: 3 }));
    let key = store.fingerprint("a").unwrap();
    let refused = store.check_fingerprints(&[key; 4], &mut verdicts);
    assert_eq!(refused, Err(Error::BufferLength { ids: 4, verdicts: 3 }));
    assert!(!store.contains("a").unwrap() && store.is_empty());
}

#[test]
fn exact_store_refuses_other_lengths_and_answers_the_items_before() {
    let store = store(Options::new().hash(Hash::Exact));
    let good = |number: u8| vec![number; 16];
    assert_eq!(store.check("short"), Err(Error::IdLength { length: 5 }));
    assert_eq!(store.contains(vec![0; 17]), Err(Error::IdLength { length: 17 }));
    let mut verdicts = [Verdict::default(); 4];
    let refused = store.check_batch(&[good(1), good(1), vec![1; 15], good(2)], &mut verdicts);
    let cause = Box::new(Error::IdLength { length: 15 });
    assert_eq!(refused, Err(Error::Partial { answered: 2, cause }));
    assert_eq!(verdicts[..2], [FirstSeen, Duplicate]);
    assert_eq!(check(&store, good(2)), FirstSeen, "what is behind the refused item was not recorded");
}

#[test]
fn forgotten_id_is_new_again_and_only_once() {
    let store = store(Options::new());
    assert!(!store.forget("a").unwrap(), "nothing to forget");
    assert_eq!(check(&store, "a"), FirstSeen);
    assert!(store.forget("a").unwrap());
    assert!(!store.contains("a").unwrap());
    assert!(!store.forget("a").unwrap(), "forgotten already");
    assert_eq!(batch(&store, &["a", "a"]), [FirstSeen, Duplicate]);
}

#[test]
fn handles_on_other_threads_are_the_same_store() {
    fn is_shareable<T: Send + Sync + Clone + 'static>(_: &T) {}
    let store = store(Options::new());
    is_shareable(&store);
    let firsts: Vec<usize> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..4)
            .map(|_| {
                let store: Store = store.clone();
                scope.spawn(move || (0..1_000).filter(|n| check(&store, name(*n)).is_first_seen()).count())
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    assert_eq!(firsts.iter().sum::<usize>(), 1_000);
    assert_eq!(store.len(), 1_000);
}

#[test]
fn stores_hash_the_same_id_differently() {
    let stores: Vec<Store> = (0..4).map(|_| store(Options::new())).collect();
    let keys: HashSet<_> = stores.iter().map(|store| store.fingerprint("invoice-17").unwrap()).collect();
    assert_eq!(keys.len(), stores.len());
}

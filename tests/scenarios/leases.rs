//! Claims, leases, and who may end them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use firstseen::{Claim, Error, Lease, Maintenance, ManualClock, Options, Store, Token, Verdict, Window};

use super::{check, ms, name, rests_within, secs, store, store_with_clock};

fn leased(store: &Store, id: &str, lease_ms: u64) -> Lease {
    store.claim(id, ms(lease_ms)).unwrap().into_lease().expect("nobody else has it")
}

fn forever() -> (Store, ManualClock) {
    store_with_clock(Window::Forever, Options::new())
}

#[test]
fn aborted_id_is_free_at_once_and_its_token_worthless() {
    let (store, _clock) = forever();
    let first = leased(&store, "a", 1_000);
    let token = first.token();
    first.abort().unwrap();
    let second = leased(&store, "a", 1_000);
    assert_eq!(store.commit(token), Err(Error::LeaseLost { attempt: token.attempt() }));
    assert!(second.token().attempt() > token.attempt());
    assert!(!store.contains("a").unwrap());
    second.commit().unwrap();
    assert_eq!(check(&store, "a"), Verdict::Duplicate);
}

#[test]
fn stale_worker_is_refused_and_changes_nothing() {
    type End = fn(Lease) -> firstseen::Result<()>;
    for end in [Lease::commit as End, Lease::abort] {
        let (store, clock) = forever();
        let slow = leased(&store, "job", 100);
        let attempt = slow.token().attempt();
        clock.advance(ms(200));
        leased(&store, "job", 100).commit().unwrap();
        let before = store.stats().leases_lost;
        assert_eq!(end(slow), Err(Error::LeaseLost { attempt }));
        assert_eq!(store.stats().leases_lost, before + 1);
        assert!(store.contains("job").unwrap(), "what the other has committed stays");
        assert!(matches!(store.claim("job", ms(100)), Ok(Claim::Duplicate)));
    }
}

#[test]
fn stale_worker_does_not_free_the_lease_of_another() {
    let (store, clock) = forever();
    let slow = leased(&store, "job", 100);
    clock.advance(ms(100));
    let quick = leased(&store, "job", 100);
    drop(slow);
    assert!(matches!(store.claim("job", ms(100)), Ok(Claim::InFlight { .. })));
    assert_eq!(check(&store, "job"), Verdict::InFlight);
    quick.commit().unwrap();
}

/// The heart beats twice as often as the lease ends; eight others try all the time.
#[test]
fn heartbeat_keeps_others_out_until_it_stops() {
    let (store, clock) = forever();
    let mut lease = leased(&store, "job", 100);
    let (is_beating, won, tried) = (AtomicBool::new(true), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                // Once more after the heart has stopped, whenever this thread comes to see that.
                loop {
                    let was_beating = is_beating.load(Ordering::SeqCst);
                    tried.fetch_add(1, Ordering::SeqCst);
                    if let Claim::Leased(lease) = store.claim("job", secs(1_000)).unwrap() {
                        assert!(!is_beating.load(Ordering::SeqCst), "claimed while the heart was beating");
                        won.fetch_add(1, Ordering::SeqCst);
                        let _ = lease.into_token();
                    }
                    if !was_beating {
                        return;
                    }
                }
            });
        }
        for beat in 0..20 {
            let tried_before = tried.load(Ordering::SeqCst);
            clock.advance(ms(50));
            assert_eq!(lease.extend(ms(100)).unwrap(), clock.now().saturating_add(ms(100)), "beat {beat}");
            while tried.load(Ordering::SeqCst) < tried_before + 8 {
                std::thread::yield_now();
            }
        }
        assert_eq!(won.load(Ordering::SeqCst), 0);
        is_beating.store(false, Ordering::SeqCst);
        clock.advance(ms(100));
    });
    assert_eq!(won.load(Ordering::SeqCst), 1);
    assert!(matches!(lease.commit(), Err(Error::LeaseLost { .. })));
}

#[test]
fn lease_ends_at_its_end_and_not_before() {
    let (store, clock) = forever();
    let lease = leased(&store, "job", 100);
    clock.advance(ms(99));
    let Claim::InFlight { until } = store.claim("job", ms(1)).unwrap() else { panic!("still held") };
    assert_eq!(until, clock.now().saturating_add(ms(1)));
    assert_eq!(check(&store, "job"), Verdict::InFlight);
    clock.advance(ms(1));
    assert_eq!(check(&store, "job"), Verdict::FirstSeen, "a check takes over what is over");
    assert!(matches!(lease.commit(), Err(Error::LeaseLost { .. })));
}

#[test]
fn late_commit_and_late_extension_succeed_when_nobody_took_over() {
    let (store, clock) = forever();
    let mut lease = leased(&store, "job", 100);
    clock.advance(ms(100_000));
    lease.extend(ms(100)).unwrap();
    assert!(matches!(store.claim("job", ms(1)), Ok(Claim::InFlight { .. })), "extended is held again");
    clock.advance(ms(100_000));
    assert!(!store.contains("job").unwrap());
    lease.commit().unwrap();
    assert_eq!(check(&store, "job"), Verdict::Duplicate);
    assert_eq!(store.stats().leases_lost, 0);
}

#[test]
fn dropped_lease_frees_its_id_and_a_token_keeps_it() {
    let (store, _clock) = forever();
    drop(leased(&store, "dropped", 1_000));
    assert_eq!(store.stats().leases, 0);
    drop(leased(&store, "dropped", 1_000));
    let token = leased(&store, "kept", 1_000).into_token();
    assert!(matches!(store.claim("kept", ms(1)), Ok(Claim::InFlight { .. })));
    assert_eq!(store.stats().leases, 1);
    store.commit(token).unwrap();
    assert!(store.contains("kept").unwrap() && !store.contains("dropped").unwrap());
}

#[test]
fn batch_of_claims_with_equal_ids_leases_each_once() {
    let (store, _clock) = forever();
    assert_eq!(check(&store, "seen"), Verdict::FirstSeen);
    let claims = store.claim_batch(&["a", "seen", "b", "a"], ms(100)).unwrap();
    assert_eq!(claims.leased().collect::<Vec<_>>(), [0, 2]);
    assert!(matches!(claims.claims()[1], Claim::Duplicate));
    assert!(matches!(claims.claims()[3], Claim::InFlight { .. }));
    assert_eq!(claims.commit(), Ok(2));
    let claims = store.claim_batch(&["a", "c", "d"], ms(100)).unwrap();
    assert_eq!(claims.abort(), 2);
    drop(store.claim_batch(&["c", "d"], ms(100)).unwrap());
    assert_eq!(store.stats().leases, 0);
    assert_eq!(super::batch(&store, &["a", "b", "c"])[..2], [Verdict::Duplicate; 2]);
}

#[test]
fn batch_with_a_lost_lease_commits_what_is_before_and_frees_what_is_behind() {
    let (store, clock) = forever();
    let claims = store.claim_batch(&["a", "b", "c"], ms(100)).unwrap();
    clock.advance(ms(100));
    let other = leased(&store, "b", 100);
    let refused = claims.commit();
    let Err(Error::Partial { answered: 1, cause }) = refused else { panic!("{refused:?}") };
    assert!(matches!(*cause, Error::LeaseLost { .. }));
    assert!(store.contains("a").unwrap());
    assert!(!store.contains("c").unwrap());
    assert!(matches!(store.claim("b", ms(1)), Ok(Claim::InFlight { .. })));
    drop(leased(&store, "c", 1));
    other.commit().unwrap();
}

#[test]
fn lease_limit_is_an_error_that_names_it_and_ends_with_an_abort() {
    let (store, _clock) = store_with_clock(Window::Forever, Options::new().leases_max(2));
    let (a, _b) = (leased(&store, "a", 1_000), leased(&store, "b", 1_000));
    let refused = store.claim("c", ms(1_000)).map(drop);
    assert_eq!(refused, Err(Error::LeaseLimit { leases_max: 2 }));
    let refused = store.claim_batch(&["a", "c"], ms(1_000)).map(drop);
    let cause = Box::new(Error::LeaseLimit { leases_max: 2 });
    assert_eq!(refused, Err(Error::Partial { answered: 1, cause }));
    assert_eq!(check(&store, "c"), Verdict::FirstSeen, "the refused claim left nothing behind");
    a.abort().unwrap();
    let _d = leased(&store, "d", 1_000);
}

/// All leases were over, but those of other IDs stood in other parts of the lease table: every claim was
/// refused until maintenance came by.
#[test]
fn lease_limit_counts_no_lease_that_is_over() {
    let options = Options::new().leases_max(2).maintenance(Maintenance::Manual);
    let (store, clock) = store_with_clock(Window::Forever, options);
    for round in 0..32 {
        for id in [round * 2, round * 2 + 1] {
            let claim = store.claim(name(id), ms(10));
            let Ok(Claim::Leased(lease)) = claim else { panic!("round {round}: {claim:?}") };
            let _ = lease.into_token();
        }
        clock.advance(ms(10));
    }
}

/// Each held lease is stated anew in every new table. A table that was full with them at once was replaced at
/// once, and so on for ever.
#[test]
fn maintenance_with_leases_held_comes_to_rest() {
    for window in [Window::Forever, Window::Fixed(secs(4))] {
        for count in [1, 2, 3, 5, 40] {
            let options = Options::new().maintenance(Maintenance::Manual).first_table_lines(1);
            comes_to_rest(window, options, count);
        }
        // A table may take a quarter of the budget, which is 6,000 IDs here.
        let options = Options::new().maintenance(Maintenance::Manual).memory_budget(1 << 20);
        comes_to_rest(window, options, 7_000);
    }
}

/// As many leases as are granted; a refusal is an answer too.
fn comes_to_rest(window: Window, options: Options, count: u64) {
    let (store, clock) = store_with_clock(window, options);
    let claim = |id: &u64| match store.claim(name(*id), secs(1_000)) {
        Ok(claim) => Some(claim.into_lease().expect("nobody else has it").into_token()),
        Err(Error::LeaseLimit { .. } | Error::Full { .. }) => None,
        Err(error) => panic!("{error}"),
    };
    let tokens: Vec<Token> = (0..count).map_while(|id| claim(&id)).collect();
    assert!(!tokens.is_empty());
    clock.advance(secs(100));
    assert!(rests_within(&store, 2_000), "{window:?}, {} leases: {:?}", tokens.len(), store.stats());
    assert!((0..tokens.len() as u64).all(|id| check(&store, name(id)) == Verdict::InFlight));
    assert!(tokens.into_iter().all(|token| store.commit(token).is_ok()));
}

/// The leases outlive the tables in which they were granted.
#[test]
fn leases_survive_rotations_and_expiries_of_their_tables() {
    let options = Options::new().maintenance(Maintenance::Manual).first_table_lines(2);
    let (store, clock) = store_with_clock(Window::Fixed(secs(2)), options);
    let kept: Vec<Lease> = (0..3).map(|id| leased(&store, &format!("kept-{id}"), 1_000_000)).collect();
    for round in 0..50 {
        clock.advance(secs(1));
        assert!((0..20).all(|id| check(&store, name(round * 20 + id)).is_first_seen()));
        assert!(rests_within(&store, 2_000));
        assert_eq!(check(&store, "kept-1"), Verdict::InFlight, "round {round}");
    }
    assert!(store.stats().tables_expired > 10, "{:?}", store.stats());
    for lease in kept {
        lease.commit().unwrap();
    }
    assert_eq!(check(&store, "kept-1"), Verdict::Duplicate);
}

#[test]
fn lease_of_a_store_is_worthless_to_another() {
    let (one, other) = (store(Options::new()), store(Options::new()));
    let token = leased(&one, "a", 1_000).into_token();
    assert!(matches!(other.commit(token), Err(Error::LeaseLost { .. })));
    assert!(other.is_empty());
    one.commit(token).unwrap();
}

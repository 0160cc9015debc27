//! Claims against checks, takeovers and rotations.

use super::*;

/// Claims, then commits or aborts; whether the work was done by this caller.
fn claim_and(store: &Store, commits: bool) -> Option<bool> {
    match store.claim("id", LEASE).expect("there is room") {
        Claim::Leased(lease) if commits => {
            lease.commit().expect("nobody takes a live lease over, nor commits it for its holder");
            Some(true)
        }
        Claim::Leased(lease) => {
            lease.abort().expect("nobody takes a live lease over");
            Some(false)
        }
        Claim::Duplicate => Some(false),
        Claim::InFlight { .. } => None,
    }
}

/// One caller claims, `checks` others check, maybe across a rotation: the work is done once at most, and
/// exactly once when the claim is committed.
fn claim_against_checks(name: &'static str, preemptions: usize, commits: bool, checks: usize, steps: usize) {
    model(name, preemptions, move || {
        let store = store();
        if steps > 0 {
            fill(&store);
        }
        let claimant = {
            let store = store.clone();
            thread::spawn(move || claim_and(&store, commits))
        };
        let checkers: Vec<_> = (0..checks)
            .map(|_| {
                let store = store.clone();
                thread::spawn(move || store.check("id").expect("there is room"))
            })
            .collect();
        maintain(&store, steps);
        let committed = claimant.join().expect("no panic") == Some(true);
        let verdicts: Vec<_> = checkers.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let done = usize::from(committed) + firsts(&verdicts);
        assert!(done <= 1, "done {done} times: committed {committed}, {verdicts:?}");
        if commits {
            assert_eq!(done, 1);
        }
        if done == 0 {
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::InFlight), "a duplicate of nothing");
        }
        let expected = if done == 1 { Verdict::Duplicate } else { Verdict::FirstSeen };
        assert_eq!(store.check("id"), Ok(expected));
    });
}

#[test]
fn committed_claim_against_a_check_is_done_once() {
    claim_against_checks("committed_claim_against_a_check", 3, true, 1, 0);
}

#[test]
fn aborted_claim_against_a_check_leaves_no_duplicate_of_nothing() {
    claim_against_checks("aborted_claim_against_a_check", 3, false, 1, 0);
}

#[test]
fn committed_claim_across_a_rotation_is_done_once() {
    claim_against_checks("committed_claim_across_a_rotation", 3, true, 1, 2);
}

#[test]
fn aborted_claim_across_a_rotation_leaves_no_duplicate_of_nothing() {
    claim_against_checks("aborted_claim_across_a_rotation", 3, false, 1, 2);
}

#[test]
fn aborted_claim_against_two_checks_across_a_rotation_is_done_once() {
    claim_against_checks("aborted_claim_against_two_checks_across_a_rotation", 2, false, 2, 2);
}

/// The holder of a lease that is over commits while somebody takes the ID over: one of them has done it.
fn takeover(name: &'static str, preemptions: usize, by_claim: bool, steps: usize) {
    model(name, preemptions, move || {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        let store = Store::in_memory(options().clock(clock.clock())).expect("a store of one line");
        if steps > 0 {
            fill(&store);
        }
        let late =
            store.claim("id", LEASE).expect("there is room").into_lease().expect("nobody else").into_token();
        clock.advance(LEASE);
        let other = {
            let store = store.clone();
            thread::spawn(move || {
                if by_claim {
                    claim_and(&store, true) == Some(true)
                } else {
                    store.check("id").expect("there is room").is_first_seen()
                }
            })
        };
        let holder = {
            let store = store.clone();
            thread::spawn(move || store.commit(late))
        };
        maintain(&store, steps);
        let other_did = other.join().expect("no panic");
        let holder_did = match holder.join().expect("no panic") {
            Ok(()) => true,
            Err(Error::LeaseLost { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        assert!(other_did != holder_did, "other {other_did}, holder {holder_did}");
        assert_eq!(store.check("id"), Ok(Verdict::Duplicate));
    });
}

#[test]
fn late_commit_against_a_check_has_one_winner() {
    takeover("late_commit_against_a_check", 3, false, 0);
}

#[test]
fn late_commit_against_a_claim_has_one_winner() {
    takeover("late_commit_against_a_claim", 3, true, 0);
}

#[test]
fn late_commit_against_a_check_across_a_rotation_has_one_winner() {
    takeover("late_commit_against_a_check_across_a_rotation", 3, false, 2);
}

#[test]
fn late_commit_against_a_claim_across_a_rotation_has_one_winner() {
    takeover("late_commit_against_a_claim_across_a_rotation", 2, true, 2);
}

/// An ID is forgotten while it is checked: it is new again exactly when it was forgotten first.
fn forget_against_check(name: &'static str, preemptions: usize, steps: usize) {
    model(name, preemptions, move || {
        let store = store();
        if steps > 0 {
            fill(&store);
        }
        assert_eq!(store.check("id"), Ok(Verdict::FirstSeen));
        let forgetter = {
            let store = store.clone();
            thread::spawn(move || store.forget("id").expect("there is room"))
        };
        let checker = {
            let store = store.clone();
            thread::spawn(move || store.check("id").expect("there is room"))
        };
        maintain(&store, steps);
        assert!(forgetter.join().expect("no panic"), "it was seen all the time before");
        let expected = match checker.join().expect("no panic") {
            Verdict::FirstSeen => Verdict::Duplicate,
            _ => Verdict::FirstSeen,
        };
        assert_eq!(store.check("id"), Ok(expected));
    });
}

#[test]
fn forgotten_id_is_new_exactly_once() {
    forget_against_check("forget_against_check", 3, 0);
}

#[test]
fn forgotten_id_across_a_rotation_is_new_exactly_once() {
    forget_against_check("forget_against_check_across_a_rotation", 3, 2);
}

#[test]
fn expired_id_is_new_to_one_of_two_checks_across_a_rotation() {
    model("expired_id_across_a_rotation", 3, || {
        let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
        let window = Duration::from_secs(60);
        let options = options().window(Window::Fixed(window)).clock(clock.clock());
        let store = Store::in_memory(options).expect("a store of one line");
        assert_eq!(store.check("id"), Ok(Verdict::FirstSeen));
        clock.advance(window);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let store = store.clone();
                thread::spawn(move || store.check("id").expect("there is room"))
            })
            .collect();
        maintain(&store, 2);
        let verdicts: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert_eq!(firsts(&verdicts), 1, "{verdicts:?}");
    });
}

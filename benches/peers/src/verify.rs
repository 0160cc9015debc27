//! Answers held against the generator's truth, one by one, after the clock has stopped.

use firstseen::Verdict;

use crate::peer::Outcome;
use crate::workload::Segment;

/// Checks the answers of one thread: the first sighting of each ID is new, everything else is not. Returns
/// how many were new.
///
/// # Errors
///
/// The first position with another answer.
pub(crate) fn in_order(segment: &Segment, verdicts: &[Verdict]) -> Outcome<u64> {
    let mut known = segment.known_before;
    for (position, (number, verdict)) in segment.numbers.iter().zip(verdicts).enumerate() {
        let is_new = u64::from(*number) == known;
        let right = if is_new { Verdict::FirstSeen } else { Verdict::Duplicate };
        if *verdict != right {
            return Err(format!("position {position}, ID {number}: {verdict:?} instead of {right:?}").into());
        }
        known += u64::from(is_new);
    }
    Ok(known - segment.known_before)
}

/// Checks the answers of several threads: of the sightings of each new ID exactly one was the first,
/// whichever, and known IDs had none. `is_done` says which positions were asked for. Returns how many were
/// new.
///
/// # Errors
///
/// The first ID for which that is not so.
pub(crate) fn in_any_order(
    segment: &Segment,
    verdicts: &[Verdict],
    is_done: impl Fn(usize) -> bool,
) -> Outcome<u64> {
    let known = segment.known_before;
    let highest = segment.numbers.iter().max().map_or(0, |number| u64::from(*number) + 1);
    let new_max = usize::try_from(highest.saturating_sub(known))?;
    // For each new ID: seen at all, and how often first.
    let mut sightings = vec![(false, 0_u8); new_max];
    for position in (0..verdicts.len()).filter(|position| is_done(*position)) {
        let (number, verdict) = (u64::from(segment.numbers[position]), verdicts[position]);
        let is_first = match verdict {
            Verdict::FirstSeen => true,
            Verdict::Duplicate => false,
            Verdict::InFlight => return Err(format!("position {position}: no answer").into()),
        };
        match number.checked_sub(known) {
            None if is_first => return Err(format!("ID {number} was known, and new again").into()),
            None => {}
            Some(new) => {
                let sighting = &mut sightings[usize::try_from(new)?];
                *sighting = (true, sighting.1.saturating_add(u8::from(is_first)));
            }
        }
    }
    match sightings.iter().position(|sighting| sighting.0 && sighting.1 != 1) {
        Some(new) => {
            Err(format!("ID {} was the first {} times", known + new as u64, sightings[new].1).into())
        }
        None => Ok(sightings.iter().filter(|sighting| sighting.0).count() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Duplicate, FirstSeen, InFlight};

    fn segment(numbers: &[u32], known_before: u64) -> Segment {
        Segment { ids: Vec::new(), numbers: numbers.to_vec(), known_before }
    }

    #[test]
    fn right_answers_in_order_are_counted() {
        let segment = segment(&[5, 3, 5, 6], 5);
        assert_eq!(in_order(&segment, &[FirstSeen, Duplicate, Duplicate, FirstSeen]).expect("right"), 2);
        assert_eq!(in_order(&segment, &[FirstSeen]).expect("right as far as it goes"), 1);
    }

    #[test]
    fn wrong_answer_in_order_is_found() {
        let segment = segment(&[5, 3, 5, 6], 5);
        for wrong in [
            [Duplicate, Duplicate, FirstSeen, FirstSeen],
            [FirstSeen, FirstSeen, Duplicate, FirstSeen],
            [FirstSeen, Duplicate, Duplicate, InFlight],
        ] {
            assert!(in_order(&segment, &wrong).is_err());
        }
    }

    #[test]
    fn answers_in_any_order_have_one_first_each() {
        let segment = segment(&[5, 3, 5, 6], 5);
        let all = |verdicts: &[Verdict]| in_any_order(&segment, verdicts, |_| true);
        assert_eq!(all(&[Duplicate, Duplicate, FirstSeen, FirstSeen]).expect("right"), 2);
        assert!(all(&[FirstSeen, Duplicate, FirstSeen, FirstSeen]).is_err());
        assert!(all(&[Duplicate, Duplicate, Duplicate, FirstSeen]).is_err());
        assert!(all(&[FirstSeen, FirstSeen, Duplicate, FirstSeen]).is_err());
        assert!(all(&[FirstSeen, Duplicate, Duplicate, InFlight]).is_err());
        let half = in_any_order(&segment, &[FirstSeen, InFlight, InFlight, FirstSeen], |at| at % 3 == 0);
        assert_eq!(half.expect("what was not asked does not count"), 2);
    }
}

//! The command that says what a store of some size takes.

use std::fmt::Write as _;
use std::time::Duration;

use firstseen::Window;
use firstseen::capacity::{Capacity, Flow, capacity};

use super::exit::Failure;
use super::flags::Topic;
use super::inspect::print;
use super::parse::Raw;
use super::settings;
use super::summary::grouped;
use super::values;

/// Runs it.
///
/// # Errors
///
/// A value out of form, or one that is missing.
pub(super) fn run(raw: &Raw) -> Result<(), Failure> {
    let usage = |reason: &str| Failure::Usage { reason: reason.to_string(), help: Topic::Capacity };
    if let Some(operand) = raw.operands.first() {
        return Err(usage(&format!("what is '{}'?", operand.to_string_lossy())));
    }
    let window = settings::window(raw, Topic::Capacity)?.unwrap_or_default();
    let keys = settings::value("--keys", Topic::Capacity, raw.keys.as_ref(), values::count)?;
    let rate = settings::value("--rate", Topic::Capacity, raw.rate.as_ref(), rate)?;
    let brought = match (rate, window) {
        (Some(rate), Window::Fixed(length) | Window::Sliding(length)) => Some(in_window(rate, length)),
        _ => None,
    };
    // What comes in a window is held, be it more than was said.
    let keys = keys.max(brought).ok_or_else(|| usage("how many IDs? Say --keys, or --rate and --window"))?;
    let capacity = capacity(keys, window);
    let flow = rate.map(|rate| capacity.at_rate(rate));
    print(if raw.json { json(&capacity, flow) } else { table(&capacity, flow) }.as_bytes())
}

fn rate(text: &str) -> Result<u64, String> {
    values::count(text.strip_suffix("/s").unwrap_or(text))
}

/// IDs that come in one window.
fn in_window(rate: u64, length: Duration) -> u64 {
    u64::try_from(u128::from(rate) * length.as_millis() / 1_000).unwrap_or(u64::MAX)
}

fn table(capacity: &Capacity, flow: Option<Flow>) -> String {
    let mut lines = vec![("IDs", format!("{} seen at one time", grouped(capacity.keys)))];
    if capacity.keys_held > capacity.keys {
        lines.push(("held", format!("{}, with those that are over", grouped(capacity.keys_held))));
        lines.push(("windows", format!("end up to {} ms late", capacity.tick_ms)));
    }
    let per_id = |bytes: u64| format!("{} ({} an ID)", scaled(bytes), tenths_for(bytes, capacity.keys));
    lines.extend([
        ("memory", format!("{}, without a directory", per_id(capacity.memory_bytes))),
        ("", format!("{}, the same made with --expect", per_id(capacity.memory_bytes_expected))),
        ("", format!("{}, with a directory at least", per_id(capacity.memory_bytes_least))),
        ("", format!("{} of that in filters", scaled(capacity.filter_bytes))),
        ("files", per_id(capacity.file_bytes)),
        ("", format!("{} while large ones are fused", scaled(capacity.file_bytes_peak))),
        ("log", format!("{} at most", scaled(capacity.log_bytes_max))),
        ("open", format!("{:.1} s at most after a kill", capacity.recovery_max.as_secs_f64())),
        ("filters", format!("{} at most are asked for a new ID", capacity.generations)),
        ("", format!("each is wrong for {:.2} % of them", capacity.false_positive_rate * 100.0)),
        ("written", format!("{:.1} times at most, each ID, to files", capacity.writes_per_key)),
        ("collision", format!("{:.1e}, that two IDs are taken for one", capacity.collision_probability)),
    ]);
    if let Some(flow) = flow {
        lines.extend([
            (
                "at that rate",
                format!("{} to {} a second to the log", scaled(flow.log_bytes), scaled(flow.log_bytes_alone)),
            ),
            ("", format!("{} a second to files, on average", scaled(flow.file_bytes))),
            ("", format!("{:.1} tables a day become files", flow.seals_per_day)),
            ("", format!("{} until there are so many IDs", time(flow.filled_after))),
        ]);
    }
    lines.into_iter().fold(String::new(), |mut text, (what, figure)| {
        // String's writer never fails.
        let _ = writeln!(text, "{what:<13}{figure}");
        text
    })
}

fn json(capacity: &Capacity, flow: Option<Flow>) -> String {
    let mut text = format!(
        "{{\"keys\":{},\"keys_held\":{},\"tick_ms\":{},\"memory_bytes\":{},\"memory_bytes_expected\":{},\
         \"memory_bytes_least\":{},\"filter_bytes\":{},\"file_bytes\":{},\"file_bytes_peak\":{},\
         \"log_bytes_max\":{},\"recovery_seconds_max\":{},\"generations\":{},\"false_positive_rate\":{:e},\
         \"writes_per_key\":{:.2},\"collision_probability\":{:e}",
        capacity.keys,
        capacity.keys_held,
        capacity.tick_ms,
        capacity.memory_bytes,
        capacity.memory_bytes_expected,
        capacity.memory_bytes_least,
        capacity.filter_bytes,
        capacity.file_bytes,
        capacity.file_bytes_peak,
        capacity.log_bytes_max,
        capacity.recovery_max.as_secs_f64(),
        capacity.generations,
        capacity.false_positive_rate,
        capacity.writes_per_key,
        capacity.collision_probability,
    );
    if let Some(flow) = flow {
        // String's writer never fails.
        let _ = write!(
            text,
            ",\"log_bytes_per_second\":{},\"file_bytes_per_second\":{},\"filled_after_seconds\":{}",
            flow.log_bytes,
            flow.file_bytes,
            flow.filled_after.as_secs(),
        );
    }
    text + "}\n"
}

/// Bytes in a unit that leaves two or three digits, powers of 1000 as sellers of disks count.
fn scaled(bytes: u64) -> String {
    let units =
        [(1_000_000_000_000_000, "PB"), (1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1_000, "kB"));
    let tenths = u128::from(bytes) * 10 / u128::from(unit);
    if tenths < 100 {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    } else {
        format!("{} {name}", tenths / 10)
    }
}

/// Bytes for one ID, to a tenth.
fn tenths_for(bytes: u64, ids: u64) -> String {
    let tenths = u128::from(bytes) * 10 / u128::from(ids.max(1));
    format!("{}.{} bytes", tenths / 10, tenths % 10)
}

fn time(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..=599 => format!("{seconds} s"),
        seconds @ 600..=35_999 => format!("{} minutes", seconds / 60),
        seconds @ 36_000..=863_999 => format!("{} hours", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_times_read_well() {
        for (bytes, expected) in
            [(0, "0.0 kB"), (1_500, "1.5 kB"), (26_300_000, "26 MB"), (u64::MAX, "18446 PB")]
        {
            assert_eq!(scaled(bytes), expected);
        }
        assert_eq!(time(Duration::from_secs(30 * 86_400)), "30 days");
        assert_eq!(tenths_for(263, 10), "26.3 bytes");
    }

    #[test]
    fn keys_of_a_window_are_what_the_rate_brings() {
        assert_eq!(in_window(20_000, Duration::from_secs(86_400)), 1_728_000_000);
        assert_eq!(rate("20k/s"), Ok(20_000));
        assert_eq!(rate("7"), Ok(7));
    }
}

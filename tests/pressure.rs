//! A process that may use far less memory than its store has sealed answers right.
//!
//! And takes no more memory of its own than it was given. The limit is that of a control group, which counts
//! cached pages of files too. Where no group can be made the test says so and passes.
//! `FIRSTSEEN_PRESSURE_IDS` sets the number of IDs (6 * 10^6).

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;

use firstseen::{Options, Store, Verdict};

const LIMIT: u64 = 64 << 20;
const BUDGET: u64 = 24 << 20;

/// The budget: what is made while files are fused is in it.
const CHARGED: u64 = BUDGET;

/// What the child has beside that: the program, stacks, the log's queue, buffers for files.
const BESIDE: u64 = 16 << 20;

/// Names the store to the child.
const DIR: &str = "FIRSTSEEN_PRESSURE_DIR";

fn ids() -> u64 {
    std::env::var("FIRSTSEEN_PRESSURE_IDS").map_or(6_000_000, |text| text.parse().expect("a number of IDs"))
}

fn id(number: u64) -> [u8; 16] {
    u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_le_bytes()
}

fn check(store: &Store, numbers: impl Iterator<Item = u64>, is_new: bool) {
    let ids: Vec<_> = numbers.map(id).collect();
    let mut verdicts = vec![Verdict::default(); ids.len()];
    store.check_batch(&ids, &mut verdicts).expect("there is room");
    let firsts = verdicts.iter().filter(|verdict| verdict.is_first_seen()).count();
    assert_eq!(firsts, if is_new { ids.len() } else { 0 });
}

/// A control group that goes with it.
struct Group {
    path: PathBuf,
    limit: &'static str,
    peak: &'static str,
}

impl Group {
    /// Below the group of this process; `None` where that is not allowed.
    fn new(bytes: u64) -> Option<Group> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let name = format!("firstseen-{}", std::process::id());
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controller, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
            let (base, limit, peak) = match controller {
                "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
                "" => ("/sys/fs/cgroup", "memory.max", "memory.peak"),
                _ => return None,
            };
            let group = Group { path: Path::new(base).join(path).join(&name), limit, peak };
            std::fs::create_dir(&group.path).ok()?;
            std::fs::write(group.path.join(group.limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    /// The most that its processes had in use, cached pages included.
    fn peak(&self) -> Option<u64> {
        std::fs::read_to_string(self.path.join(self.peak)).ok()?.trim().parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Leaves no page of the store in the page cache, where it would count for whoever has read it first.
fn drop_cached(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let of = format!("of={}", entry.expect("an entry").path().display());
        let arguments = [of.as_str(), "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"];
        let _ = Command::new("dd").args(arguments).status();
    }
}

#[test]
fn store_much_larger_than_the_memory_limit_answers_right() {
    let Some(group) = Group::new(LIMIT) else {
        println!("skipped: no control group with a memory limit can be made here");
        return;
    };
    let dir = std::env::temp_dir().join(format!("firstseen-pressure-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let store = Store::open_with(&dir, Options::new().memory_budget(1 << 30)).expect("a store");
    let count = ids();
    for first in (0..count).step_by(1 << 16) {
        check(&store, first..(first + (1 << 16)).min(count), true);
    }
    store.close().expect("closed");
    drop_cached(&dir);
    // The shell joins the group and becomes the child, which never had any memory outside of it.
    let program = std::env::current_exe().expect("this program");
    let script = format!("echo $$ > '{}/cgroup.procs' && exec \"$0\" \"$@\"", group.path.display());
    let child = Command::new("sh")
        .args(["-c", script.as_str()])
        .arg(program)
        .args(["child_under_a_limit_answers_right", "--exact", "--nocapture"])
        .env(DIR, &dir)
        .output()
        .expect("a child");
    let told = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    let peak = group.peak();
    std::fs::remove_dir_all(&dir).expect("removed");
    assert!(child.status.success() && told.contains("all answers are right"), "{told}");
    if let Some(peak) = peak {
        println!("{peak} bytes at most, of {LIMIT}\n{told}");
        assert!((LIMIT / 2..=LIMIT).contains(&peak), "{peak}: the limit was no limit");
    }
}

/// The other half of the test above: does nothing by itself.
#[test]
fn child_under_a_limit_answers_right() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let count = ids();
    let store = Store::open_with(dir, Options::new().memory_budget(BUDGET)).expect("a store");
    let stats = store.stats();
    assert!(stats.generation_bytes > 2 * LIMIT, "{stats:?}");
    // Old ones from everywhere, in batches and one by one, among new ones.
    for round in 0..20 {
        check(&store, (0..2_000).map(|step| (step * 104_729 + round * 7_919) % count), false);
        let new = count + round * 10_000;
        check(&store, new..new + 10_000, true);
        for number in (0..50).map(|step| (step * 1_299_709 + round * 15_485_863) % count) {
            assert!(store.check(id(number)).expect("there is room").is_duplicate(), "ID {number}");
        }
        check(&store, count..new + 10_000, false);
    }
    let stats = store.stats();
    assert!(stats.memory_bytes_peak <= CHARGED, "{stats:?}");
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix("kB"));
    let anonymous = anonymous.and_then(|text| text.trim().parse::<u64>().ok()).expect("a number") << 10;
    assert!(anonymous <= CHARGED + BESIDE, "{anonymous} bytes, {stats:?}");
    store.close().expect("closed");
    println!("all answers are right; {anonymous} bytes of its own");
}

//! What a reader of figures wants to know of the machine and the programs.

use std::fs;
use std::process::Command;

use crate::peer::is_installed;

/// Names and values, as far as they can be found out.
pub(crate) fn facts() -> Vec<(String, String)> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut facts = vec![
        ("processor".to_owned(), format!("{} ({cores} logical cores)", after("/proc/cpuinfo", "model name"))),
        ("memory".to_owned(), after("/proc/meminfo", "MemTotal")),
        ("kernel".to_owned(), read("/proc/sys/kernel/osrelease")),
        ("huge pages".to_owned(), read("/sys/kernel/mm/transparent_hugepage/enabled")),
        ("load before".to_owned(), read("/proc/loadavg")),
        ("commit".to_owned(), printed("git", &["describe", "--always", "--dirty", "--exclude", "*"])),
        ("compiler".to_owned(), printed("rustc", &["--version"])),
        ("packages".to_owned(), packages()),
    ];
    for (program, argument) in [("redis-server", "--version"), ("memcached", "--version")] {
        if is_installed(program) {
            facts.push((program.to_owned(), printed(program, &[argument])));
        }
    }
    facts
}

/// The value of the first line that begins with `name`.
fn after(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(':'));
    line.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// The first line that a program prints, asked in the folder of this package.
fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.ok().and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned())
}

/// Versions of the peers, from the lock file that this was built with. Of a package that is there more than
/// once the last is ours: the others are older and were brought along by peers.
fn packages() -> String {
    const SHOWN: [&str; 9] = [
        "dashmap",
        "fjall",
        "hashbrown",
        "heed",
        "libsqlite3-sys",
        "librocksdb-sys",
        "papaya",
        "redb",
        "lmdb-master-sys",
    ];
    let lock = include_str!("../Cargo.lock");
    let quoted = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
    let mut found = Vec::new();
    let lines: Vec<&str> = lock.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[0].starts_with("name = ")) {
        let name = quoted(pair[0]);
        if SHOWN.contains(&name.as_str()) {
            found.retain(|earlier: &String| !earlier.starts_with(&format!("{name} ")));
            found.push(format!("{name} {}", quoted(pair[1])));
        }
    }
    found.join(", ")
}

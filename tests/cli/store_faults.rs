//! `filter --store` under kills, full disks and wrong directories; damaged stores on the command line.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Folder, Random, command, finish, run};

/// How often the run is killed: reading back the log of so many killed runs takes long without optimisation.
const KILLS: u32 = if cfg!(debug_assertions) { 8 } else { 20 };

/// Bytes of a line, its newline included.
const LINE_BYTES: usize = 32;

/// What a run may print again after a kill: a block.
const AGAIN_PER_KILL: usize = (1 << 20) / LINE_BYTES;

fn line(number: usize) -> String {
    format!("{number:031}\n")
}

/// Reads an output that is appended to by runs that are killed: how often each line is there, and the pieces
/// that are no whole line.
fn counted(output: &str) -> (HashMap<String, usize>, usize) {
    let mut counts = HashMap::new();
    let mut pieces = 0;
    for line in fs::read_to_string(output).unwrap().lines() {
        if line.len() + 1 == LINE_BYTES {
            *counts.entry(line.to_owned()).or_default() += 1;
        } else {
            pieces += 1;
        }
    }
    (counts, pieces)
}

/// Whatever the moment of a kill, no line is lost, and few come twice.
#[test]
fn run_killed_again_and_again_prints_every_line_and_few_twice() {
    let folder = Folder::new("store-kills");
    let seed = std::env::var("FIRSTSEEN_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FIRSTSEEN_SEED={seed}");
    let mut random = Random::new(seed);
    let distinct = 700_000;
    let input: String = (0..distinct + distinct / 2)
        .map(|index| line(if index < distinct { index } else { index / 3 }))
        .collect();
    let input = folder.file("input", input.as_bytes());
    let (store, output) = (format!("{}/store", folder.path()), format!("{}/output", folder.path()));
    let start = |store: &str, output: &str| {
        let file = OpenOptions::new().append(true).create(true).open(output).unwrap();
        command(&["filter", "-q", "--store", store, &input]).stdout(Stdio::from(file)).spawn().unwrap()
    };
    let begun = Instant::now();
    let other = format!("{}/other", folder.path());
    finish(start(&other, &format!("{other}-output"))).quiet_success();
    let whole_ms = u64::try_from(begun.elapsed().as_millis()).unwrap().max(20);
    let mut killed = 0;
    for round in 0..KILLS {
        let bytes_before = fs::metadata(&output).map_or(0, |metadata| metadata.len());
        let mut child = start(&store, &output);
        if round % 4 == 3 {
            std::thread::sleep(Duration::from_millis(random.below(whole_ms / 4) as u64));
        } else {
            // Around the time at which a block is written and recorded.
            let has_grown = || fs::metadata(&output).is_ok_and(|metadata| metadata.len() > bytes_before);
            while !has_grown() && child.try_wait().unwrap().is_none() {}
            std::thread::sleep(Duration::from_micros(random.below(3_000) as u64));
        }
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
    }
    finish(start(&store, &output)).quiet_success();
    let (counts, pieces) = counted(&output);
    let again: usize = counts.values().map(|count| count - 1).sum();
    println!("{killed} killed, {again} lines came again, {pieces} pieces, {whole_ms} ms for a whole run");
    assert!(killed > 0, "no run was killed before its end");
    assert_eq!(counts.len(), distinct, "lines were lost");
    assert!(again <= killed * AGAIN_PER_KILL, "{again} lines came again after {killed} kills");
    assert!(pieces <= killed);
}

#[test]
fn piece_of_a_line_at_the_end_of_the_output_is_ended_first() {
    let folder = Folder::new("store-piece");
    let output = folder.file("output", b"whole\npie");
    let store = format!("{}/store", folder.path());
    let input = folder.file("input", b"piece\nwhole\n");
    let file = OpenOptions::new().append(true).open(&output).unwrap();
    let child = command(&["filter", "--store", &store, &input]).stdout(Stdio::from(file)).spawn().unwrap();
    let run = finish(child);
    assert_eq!(run.code, Some(0));
    assert!(run.stderr.contains("ended in the middle of a line"), "{}", run.stderr);
    assert_eq!(fs::read(&output).unwrap(), b"whole\npie\npiece\nwhole\n");
}

/// A file system of a few megabytes, unmounted at the end; `None` where mounting is not permitted.
struct SmallDisk(String);

impl SmallDisk {
    fn mount(folder: &Folder, bytes: &str) -> Option<SmallDisk> {
        let place = format!("{}/disk", folder.path());
        fs::create_dir(&place).unwrap();
        let options = format!("size={bytes},mode=0700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none", &place])
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(place))
    }

    fn resize(&self, bytes: &str) {
        let options = format!("remount,size={bytes}");
        assert!(Command::new("mount").args(["-o", &options, &self.0]).status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A full disk is an error; nothing that was printed is lost, and with room again the run goes on.
#[test]
fn disk_that_fills_up_stops_the_run_and_loses_nothing() {
    let folder = Folder::new("store-enospc");
    for size in ["6m", "16m", "28m"] {
        let inner = Folder::new(&format!("store-enospc-{size}"));
        let Some(disk) = SmallDisk::mount(&inner, size) else {
            println!("skipped: mounting a small file system is not permitted here");
            return;
        };
        let distinct = 1_000_000;
        let input = folder.file("input", (0..distinct).map(line).collect::<String>().as_bytes());
        let (store, output) = (format!("{}/store", disk.0), format!("{}/output-{size}", folder.path()));
        let start = || {
            let file = OpenOptions::new().append(true).create(true).open(&output).unwrap();
            command(&["filter", "-q", "--store", &store, &input]).stdout(Stdio::from(file)).spawn().unwrap()
        };
        let run = finish(start());
        assert!(run.refusal().contains("No space left on device"), "{size}: {}", run.stderr);
        disk.resize("600m");
        finish(start()).quiet_success();
        let (counts, _) = counted(&output);
        let again: usize = counts.values().map(|count| count - 1).sum();
        println!("{size}: {} lines, {again} came again", counts.len());
        assert_eq!(counts.len(), distinct, "{size}: lines were lost");
        assert!(again <= AGAIN_PER_KILL, "{size}: {again} lines came again");
        let _ = fs::remove_file(&output);
    }
}

#[test]
fn directory_that_takes_no_store_is_refused() {
    let folder = Folder::new("store-wrong-place");
    let file = folder.file("file", b"some text\n");
    let refused = |place: &str| {
        let run = run(&["filter", "--store", place], b"a\n");
        assert_eq!(run.stdout, b"", "{place}");
        run.refusal().to_owned()
    };
    assert!(refused(&file).contains("Not a directory"));
    assert_eq!(fs::read(&file).unwrap(), b"some text\n");
    let locked = format!("{}/read-only", folder.path());
    fs::create_dir(&locked).unwrap();
    let mut permissions = fs::metadata(&locked).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&locked, permissions).unwrap();
    if fs::write(format!("{locked}/probe"), b"").is_ok() {
        println!("skipped: this user may write everywhere");
    } else {
        assert!(refused(&locked).contains("Permission denied"));
    }
}

fn contents(place: &str) -> BTreeMap<String, Vec<u8>> {
    let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| name != "LOCK");
    names.map(|name| (name.clone(), fs::read(Path::new(place).join(name)).unwrap())).collect()
}

/// Other formats and files that are none are told apart, and stay as they are.
#[test]
fn manifest_of_another_format_is_refused_and_left_alone() {
    let folder = Folder::new("store-format");
    let store = format!("{}/store", folder.path());
    run(&["filter", "--store", &store], b"a\n").quiet_success();
    let manifest = format!("{store}/MANIFEST");
    let whole = fs::read_to_string(&manifest).unwrap();
    let body =
        whole.rsplit_once("checksum ").unwrap().0.replace("firstseen manifest 1", "firstseen manifest 9");
    let later = format!("{body}checksum {:016x}\n", xxhash_rust::xxh3::xxh3_64(body.as_bytes()));
    let mut sentences = HashSet::new();
    for text in [&later, "some text\n", "", &whole[..whole.len() / 2]] {
        fs::write(&manifest, text).unwrap();
        let before = contents(&store);
        let run = run(&["filter", "--store", &store], b"b\n");
        sentences.insert(run.refusal().to_owned());
        assert!(contents(&store) == before, "{text:?}");
    }
    assert_eq!(sentences.len(), 4, "{sentences:?}");
    assert!(sentences.iter().any(|sentence| sentence.contains("MANIFEST has format 9")), "{sentences:?}");
    fs::write(&manifest, &whole).unwrap();
    assert_eq!(run(&["filter", "--store", &store], b"a\nb\n").quiet_success(), b"b\n");
}

#[test]
fn damaged_store_is_verified_salvaged_and_used_again() {
    let folder = Folder::new("store-salvage");
    let store = format!("{}/store", folder.path());
    let input: String = (0..5000).map(line).collect();
    run(&["filter", "--store", &store], input.as_bytes()).quiet_success();
    let sound = run(&["verify", &store], b"");
    assert!(String::from_utf8(sound.quiet_success()).unwrap().contains("sound, 5000 IDs"));
    let generation = contents(&store).into_keys().find(|name| name.starts_with("generation-")).unwrap();
    let path = format!("{store}/{generation}");
    let mut bytes = fs::read(&path).unwrap();
    // A line may be empty, with whatever secret was drawn.
    let offset = (4096 + 64 * 100..).step_by(64).find(|offset| bytes[*offset..][..16] != [0; 16]).unwrap();
    bytes[offset] ^= 1;
    fs::write(&path, bytes).unwrap();
    let before = contents(&store);
    let damaged = run(&["verify", "--json", &store], b"");
    assert_eq!((damaged.code, &damaged.stderr[..]), (Some(1), ""));
    let expected = format!("\"damages\":[{{\"file\":\"{generation}\",\"offset\":{offset},");
    assert!(String::from_utf8(damaged.stdout).unwrap().contains(&expected));
    let into = format!("{}/saved", folder.path());
    let salvaged = run(&["salvage", &store, &into], b"");
    let text = String::from_utf8(salvaged.stdout).unwrap();
    assert_eq!((salvaged.code, &salvaged.stderr[..]), (Some(1), ""), "{text}");
    assert!(text.contains("1 lines of up to 3 IDs") && contents(&store) == before, "{text}");
    let again = run(&["filter", "--store", &into], input.as_bytes()).quiet_success();
    assert!((LINE_BYTES..=3 * LINE_BYTES).contains(&again.len()), "{} bytes came again", again.len());
    assert!(run(&["salvage", &store, &into], b"").refusal().starts_with("the directory is not empty"));
    let _ = File::open(&into).unwrap();
}

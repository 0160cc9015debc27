//! The disk alone: permissions, links, blocks and the lock. What all backends promise is tested beside them.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};

use super::*;
use crate::storage::scratch::Scratch;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o7777
}

/// A directory for a store that is not there yet, two levels down.
fn opened(scratch: &Scratch) -> (Disk, PathBuf) {
    let path = scratch.path().join("above").join("store");
    (Disk::open(&path, true).expect("it can be made"), path)
}

fn refusal(path: &Path) -> (ErrorKind, String) {
    match Disk::open(path, true) {
        Err(Error::Io { kind, message, .. }) => (kind, message),
        outcome => unreachable!("{outcome:?}"),
    }
}

#[test]
fn directory_made_belongs_to_its_owner_alone() {
    let scratch = Scratch::new("modes");
    let (disk, path) = opened(&scratch);
    drop(disk.create("log").expect("the name is free"));
    drop(disk.lock("LOCK").expect("nobody has it"));
    assert_eq!([mode(&path), mode(&path.join("log")), mode(&path.join("LOCK"))], [0o700, 0o600, 0o600]);
    assert_eq!(mode(path.parent().expect("there is one")), 0o700);
}

#[test]
fn directory_missing_without_create_is_not_found() {
    let scratch = Scratch::new("missing");
    let outcome = Disk::open(&scratch.path().join("store"), false);
    assert!(matches!(outcome, Err(Error::Io { kind: ErrorKind::NotFound, .. })), "{outcome:?}");
    assert!(!scratch.path().join("store").exists());
}

#[test]
fn directory_that_others_may_write_is_refused() {
    let scratch = Scratch::new("others");
    let (_, path) = opened(&scratch);
    for (bits, is_refused) in [(0o720, true), (0o702, true), (0o777, true), (0o755, false), (0o500, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).expect("it is ours");
        let outcome = Disk::open(&path, true);
        assert_eq!(outcome.is_err(), is_refused, "{bits:o}: {outcome:?}");
        if is_refused {
            let (kind, message) = refusal(&path);
            assert_eq!(kind, ErrorKind::PermissionDenied);
            assert!(message.contains(&format!("mode {bits:o}")), "{message}");
        }
    }
}

#[test]
fn file_in_place_of_the_directory_is_refused() {
    let scratch = Scratch::new("file");
    let path = scratch.path().join("store");
    fs::write(&path, "x").expect("there is room");
    assert_ne!(refusal(&path).0, ErrorKind::NotFound);
    assert_eq!(fs::read(&path).expect("it is there"), b"x");
}

#[test]
fn link_inside_is_refused_for_every_use() {
    let scratch = Scratch::new("links");
    let (disk, path) = opened(&scratch);
    let aim = scratch.path().join("aim");
    fs::write(&aim, "kept").expect("there is room");
    symlink(&aim, path.join("to-file")).expect("links are known here");
    symlink(scratch.path().join("nothing"), path.join("to-nothing")).expect("links are known here");
    for name in ["to-file", "to-nothing"] {
        let kinds = [
            disk.open_read(name).map(|_| ()),
            disk.open_write(name).map(|_| ()),
            disk.create(name).map(|_| ()),
            disk.lock(name).map(|_| ()),
        ]
        .map(|outcome| outcome.expect_err("a link is refused").kind());
        let refused = ErrorKind::InvalidInput;
        assert_eq!(kinds, [refused, refused, ErrorKind::AlreadyExists, refused], "{name}");
    }
    assert_eq!(fs::read(&aim).expect("it is there"), b"kept");
    assert!(!scratch.path().join("nothing").exists());
}

#[test]
fn pipe_inside_is_refused_without_waiting() {
    let scratch = Scratch::new("pipe");
    let (disk, path) = opened(&scratch);
    let made = Command::new("mkfifo").arg(path.join("log")).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: no mkfifo here");
        return;
    }
    assert_eq!(disk.open_read("log").expect_err("no regular file").kind(), ErrorKind::InvalidInput);
    assert_eq!(disk.open_write("log").expect_err("no regular file").kind(), ErrorKind::InvalidInput);
}

#[test]
fn directory_moved_away_stays_the_one_that_was_opened() {
    let scratch = Scratch::new("moved");
    let (disk, path) = opened(&scratch);
    let elsewhere = scratch.path().join("elsewhere");
    fs::rename(&path, &elsewhere).expect("it is ours");
    fs::create_dir(&path).expect("the name is free");
    drop(disk.create("log").expect("the name is free"));
    assert!(elsewhere.join("log").exists());
    assert!(!path.join("log").exists());
}

#[test]
fn allocated_file_has_blocks_for_all_of_it() {
    let scratch = Scratch::new("blocks");
    let (disk, path) = opened(&scratch);
    let file = disk.create("log").expect("the name is free");
    file.allocate(1 << 20).expect("there is room");
    let found = fs::metadata(path.join("log")).expect("it is there");
    assert_eq!(found.len(), 1 << 20);
    assert!(found.blocks() * 512 >= 1 << 20, "{} blocks", found.blocks());
}

#[test]
fn file_filled_by_hand_keeps_what_it_had() {
    let scratch = Scratch::new("filled");
    let path = scratch.path().join("log");
    let mut options = fs::OpenOptions::new();
    let mut file =
        options.read(true).write(true).create_new(true).mode(0o600).open(&path).expect("it is free");
    file.write_all(b"abc").expect("there is room");
    fill(&file, 3, 200_000).expect("there is room");
    let content = fs::read(&path).expect("it is there");
    assert_eq!((content.len(), &content[..3]), (200_000, &b"abc"[..]));
    assert!(content[3..].iter().all(|byte| *byte == 0));
}

#[test]
fn map_of_a_file_open_for_writing_is_refused() {
    let scratch = Scratch::new("maps");
    let (disk, _) = opened(&scratch);
    let file = disk.create("log").expect("the name is free");
    file.write_all_at(0, b"abc").expect("there is room");
    assert_eq!(file.map().expect_err("it can still change").kind(), ErrorKind::InvalidInput);
    let map =
        disk.open_read("log").expect("it is there").map().expect("it is sealed").expect("the disk maps");
    map.advise_random();
    map.will_need(1..100);
    assert_eq!(&map[..], b"abc");
}

#[test]
fn full_disk_is_told_and_leaves_the_length() {
    let scratch = Scratch::new("full");
    let mount = |words: &[&str]| {
        let run = Command::new(words[0]).args(&words[1..]).arg(scratch.path()).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"]) {
        println!("skipped: this user may not mount a small file system");
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        let disk = Disk::open(scratch.path(), false).expect("it is there");
        let file = disk.create("log").expect("the name is free");
        file.allocate(4096).expect("there is room for that");
        assert_eq!(file.allocate(4 << 20).expect_err("it is too long").kind(), ErrorKind::StorageFull);
        assert_eq!(file.size().expect("it is open"), 4096);
        file.allocate(512 << 10).expect("nothing of the failure takes room any more");
    });
    assert!(mount(&["umount"]), "it was mounted");
    outcome.expect("the file system was small");
}

#[test]
fn lock_is_refused_to_a_second_holder_in_the_process() {
    let scratch = Scratch::new("lock");
    let (disk, path) = opened(&scratch);
    let link = scratch.path().join("link");
    symlink(&path, &link).expect("links are known here");
    let lock = disk.lock("LOCK").expect("nobody has it");
    for other in [&path, &link] {
        let error = Disk::open(other, true).map(|disk| disk.lock("LOCK").map(|_| ()));
        let error = error.expect("it opens").expect_err("it is locked");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    }
    drop(lock);
    drop(disk.lock("LOCK").expect("it is free again"));
    assert!(path.join("LOCK").exists());
}

#[test]
fn lock_given_back_soon_is_waited_for() {
    let scratch = Scratch::new("soon");
    let (disk, _) = opened(&scratch);
    let lock = disk.lock("LOCK").expect("nobody has it");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            sleep(LOCK_PAUSE);
            drop(lock);
        });
        drop(disk.lock("LOCK").expect("it is free before the last retry"));
    });
}

#[test]
fn lock_asked_for_by_many_goes_to_one() {
    let scratch = Scratch::new("many");
    let (_, path) = opened(&scratch);
    let lock = || Disk::open(&path, true).expect("it is there").lock("LOCK");
    let got: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(lock)).collect();
        threads.into_iter().map(|thread| thread.join().expect("none panics")).collect()
    });
    assert_eq!(got.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

/// Where the test below tells its child process which directory to lock; the child is this program again.
const CHILD_VARIABLE: &str = "FIRSTSEEN_TEST_LOCK_DIRECTORY";

#[test]
fn lock_of_a_killed_process_is_free_and_of_a_living_one_is_not() {
    if let Some(path) = std::env::var_os(CHILD_VARIABLE) {
        let _lock =
            Disk::open(Path::new(&path), true).expect("it is there").lock("LOCK").expect("nobody has it");
        println!("locked");
        // Waits for ever: the parent keeps the other end of the pipe open and then kills this process.
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let scratch = Scratch::new("child");
    let (disk, path) = opened(&scratch);
    let name = "storage::disk::tests::lock_of_a_killed_process_is_free_and_of_a_living_one_is_not";
    let mut child = Command::new(std::env::current_exe().expect("it has a path"))
        .args(["--exact", name, "--nocapture"])
        .env(CHILD_VARIABLE, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be run again");
    let output = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
    let is_locked =
        std::io::BufRead::lines(output).any(|line| line.is_ok_and(|line| line.contains("locked")));
    assert!(is_locked, "the child did not come as far as the lock");
    let error = disk.lock("LOCK").expect_err("the child has it");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(error.to_string().contains(&format!("process {}", child.id())), "{error}");
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    drop(disk.lock("LOCK").expect("the system gave it back"));
}

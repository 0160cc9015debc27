//! Runs the built binary, and the slow obvious twin of what it should print.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What one run printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

impl Run {
    /// Asserts that the run succeeded without a word on stderr, and returns what it printed.
    #[track_caller]
    pub(crate) fn quiet_success(self) -> Vec<u8> {
        assert_eq!(self.stderr, "");
        assert_eq!(self.code, Some(0));
        self.stdout
    }

    /// Asserts that the run failed with exit code 2 and one sentence, and returns the sentence.
    #[track_caller]
    pub(crate) fn refusal(&self) -> &str {
        assert_eq!(self.code, Some(2), "stderr: {}", self.stderr);
        assert_eq!(self.stderr.matches('\n').count(), 1, "more than one line: {}", self.stderr);
        let sentence = self.stderr.strip_prefix("firstseen: ").and_then(|text| text.strip_suffix('\n'));
        sentence.expect("a sentence that starts with the program's name")
    }
}

/// The binary with `arguments` and with pipes at all three ends.
pub(crate) fn command<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstseen"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the binary to its end with `input` on standard input.
pub(crate) fn run<S: AsRef<OsStr>>(arguments: &[S], input: &[u8]) -> Run {
    let mut child = command(arguments).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    thread::scope(|scope| {
        scope.spawn(move || {
            // The tool may be right to stop reading before the end.
            let _ = stdin.write_all(input);
        });
        finish(child)
    })
}

/// Collects what `child` prints, up to its end.
pub(crate) fn finish(child: Child) -> Run {
    let output = child.wait_with_output().expect("the binary ends");
    Run {
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("messages are UTF-8"),
        code: output.status.code(),
    }
}

/// `firstseen filter` with `flags` over `input`; must succeed quietly.
#[track_caller]
pub(crate) fn filter(flags: &[&str], input: &[u8]) -> Vec<u8> {
    let arguments: Vec<&str> = std::iter::once("filter").chain(flags.iter().copied()).collect();
    run(&arguments, input).quiet_success()
}

/// The slow twin: a set of whole records, which no hash can confuse.
///
/// Answers with what must be printed and with the number of records.
pub(crate) fn twin(inputs: &[&[u8]], terminator: u8, crlf: bool) -> (Vec<u8>, u64) {
    let mut seen: HashSet<&[u8]> = HashSet::new();
    let mut printed = Vec::new();
    let mut records = 0;
    for input in inputs.iter().filter(|input| !input.is_empty()) {
        let whole = input.strip_suffix(&[terminator]).unwrap_or(input);
        for record in whole.split(|&byte| byte == terminator) {
            records += 1;
            let identity = if crlf { record.strip_suffix(b"\r").unwrap_or(record) } else { record };
            if seen.insert(identity) {
                printed.extend_from_slice(record);
                printed.push(terminator);
            }
        }
    }
    (printed, records)
}

/// When a test gives up on a process.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A run that is typed into, line by line, and whose lines are waited for.
#[derive(Debug)]
pub(crate) struct Typed {
    child: Child,
    stdin: ChildStdin,
    printed: Receiver<(Instant, Vec<u8>)>,
}

impl Typed {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments).spawn().expect("the binary starts");
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let (sender, printed) = channel();
        thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                let bytes = stdout.read_until(b'\n', &mut line).expect("stdout can be read");
                if bytes == 0 || sender.send((Instant::now(), line)).is_err() {
                    break;
                }
            }
        });
        Self { child, stdin, printed }
    }

    /// Types `text`.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.stdin.write_all(text.as_bytes()).expect("the tool reads");
    }

    /// The next line that is printed, and when.
    #[track_caller]
    pub(crate) fn next_line(&self) -> (Instant, String) {
        let (seen, line) =
            self.printed.recv_timeout(PATIENCE).expect("a line comes while the input stays open");
        (seen, String::from_utf8(line).expect("the test types UTF-8"))
    }

    /// Ends the input; what is left of the output must be nothing, and the run a quiet success.
    #[track_caller]
    pub(crate) fn end(self) {
        let Self { child, stdin, printed } = self;
        drop(stdin);
        assert_eq!(printed.iter().map(|(_, line)| line).next(), None);
        finish(child).quiet_success();
    }
}

/// Waits for `child`, but not longer than `limit`; says whether it ended.
pub(crate) fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let started = Instant::now();
    while started.elapsed() < limit {
        if child.try_wait().expect("the child can be asked").is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Everything left in a stream.
pub(crate) fn rest_of(mut stream: impl Read) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("a pipe can be read to its end");
    rest
}

/// A folder for one test, removed when the value is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// `name` must be one test's own.
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the test folder can be made");
        Self(path)
    }

    /// Writes a file and answers with its path.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("the test file can be written");
        path.into_os_string().into_string().expect("test paths are UTF-8")
    }

    /// The path of the folder itself.
    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("test paths are UTF-8")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind lies in the target folder and hurts nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Numbers without a pattern, the same from one seed every time.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, which fits `u32`.
    pub(crate) fn below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(((self.0 >> 33) * bound) >> 31).expect("a small number")
    }
}

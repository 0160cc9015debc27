//! A server of our own: started in a folder of its own, on a socket there, ended by its process ID.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::peer::{Outcome, is_installed};

/// How long a server may take until it listens, loading what it kept included.
const START_MAX: Duration = Duration::from_secs(600);

/// A running server.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    /// Starts a program that will listen on `socket`, and waits until it does. What it prints goes to a file
    /// beside the socket.
    pub(super) fn start(program: &str, arguments: &[&str], dir: &Path, socket: &Path) -> Outcome<Self> {
        let printed = File::create(dir.join("printed"))?;
        let process = dying_with_parent(program)
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(printed.try_clone()?)
            .stderr(printed)
            .spawn()
            .map_err(|cause| format!("{program} cannot be started: {cause}"))?;
        let mut server = Self { process, socket: socket.to_owned() };
        let begun = Instant::now();
        while server.connect().is_err() {
            if let Some(status) = server.process.try_wait()? {
                let printed = std::fs::read_to_string(dir.join("printed")).unwrap_or_default();
                return Err(format!("{program} ended at once, {status}: {printed}").into());
            }
            if begun.elapsed() > START_MAX {
                return Err(format!("{program} did not listen within {START_MAX:?}").into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(server)
    }

    /// A new connection.
    pub(super) fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(&self.socket)
    }

    /// Its process ID.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn stop(mut self) -> Outcome<()> {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.ok_or("a process ID is a positive number")?, Signal::TERM)?;
        self.process.wait()?;
        Ok(())
    }
}

/// A command that ends when this process does, however that happens, if `setpriv` (of util-linux) is there
/// to ask for it. It becomes the program, so the process ID is the same.
fn dying_with_parent(program: &str) -> Command {
    if !is_installed("setpriv") {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", program]);
    command
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `stop` both do nothing. Otherwise something has failed already, and that is what is reported.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

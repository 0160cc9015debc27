//! The inputs: files by name, and standard input.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;

use super::exit::Failure;

/// One operand.
#[derive(Debug, Clone)]
pub(super) enum Input {
    Stdin,
    File(PathBuf),
}

impl Input {
    /// `-` is standard input, everything else a path.
    pub(super) fn from_operand(operand: OsString) -> Self {
        if operand == "-" { Self::Stdin } else { Self::File(PathBuf::from(operand)) }
    }

    /// The name for messages; control characters in it are escaped, so that a message stays one line.
    pub(super) fn name(&self) -> String {
        let Self::File(path) = self else {
            return "standard input".to_string();
        };
        let name = path.to_string_lossy();
        if name.is_empty() || name.chars().any(char::is_control) {
            format!("{name:?}")
        } else {
            name.into_owned()
        }
    }

    /// Finds out without opening it whether the input can be read at all.
    ///
    /// Every operand is asked before the first one is read, so that a mistyped name costs no half-done
    /// output.
    ///
    /// # Errors
    ///
    /// The file is missing, out of reach, or a directory.
    pub(super) fn probe(&self) -> Result<(), Failure> {
        let Self::File(path) = self else {
            return Ok(());
        };
        let metadata = fs::metadata(path).map_err(|error| self.failure("cannot open", &error))?;
        if metadata.is_dir() {
            return Err(self.is_directory());
        }
        Ok(())
    }

    /// How many bytes the input has, if it is a regular file.
    pub(super) fn bytes(&self) -> Option<u64> {
        let metadata = match self {
            Self::File(path) => fs::metadata(path).ok()?,
            Self::Stdin => stdin_metadata()?,
        };
        metadata.is_file().then_some(metadata.len())
    }

    /// Opens the input.
    ///
    /// # Errors
    ///
    /// As the operating system says.
    pub(super) fn open(&self) -> Result<Box<dyn Read + Send>, Failure> {
        match self {
            Self::Stdin => Ok(Box::new(io::stdin())),
            Self::File(path) => match File::open(path) {
                Ok(file) => Ok(Box::new(file)),
                Err(error) => Err(self.failure("cannot open", &error)),
            },
        }
    }

    /// The failure of a read.
    pub(super) fn read_failure(&self, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::IsADirectory {
            return self.is_directory();
        }
        self.failure("cannot read", error)
    }

    fn failure(&self, what: &str, error: &io::Error) -> Failure {
        Failure::Input { name: self.name(), reason: format!("{what}: {error}") }
    }

    fn is_directory(&self) -> Failure {
        Failure::Input { name: self.name(), reason: "is a directory; name the files in it".to_string() }
    }
}

#[cfg(unix)]
fn stdin_metadata() -> Option<fs::Metadata> {
    use std::os::fd::AsFd as _;
    let stdin = io::stdin().as_fd().try_clone_to_owned().ok()?;
    File::from(stdin).metadata().ok()
}

#[cfg(not(unix))]
fn stdin_metadata() -> Option<fs::Metadata> {
    None
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn name_with_a_newline_stays_one_line() {
        assert_eq!(Input::from_operand("a\nb".into()).name(), "\"a\\nb\"");
        assert_eq!(Input::from_operand("a b".into()).name(), "a b");
        assert_eq!(Input::from_operand("-".into()).name(), "standard input");
        assert_eq!(Input::from_operand("".into()).name(), "\"\"");
    }
}

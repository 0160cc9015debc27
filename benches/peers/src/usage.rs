//! What a process has used, as Linux tells it, and what lies in a folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::peer::Outcome;

/// Blocks of `st_blocks`, whatever the file system's own are.
const BLOCK_BYTES: u64 = 512;

/// Bytes that a process has sent on their way to the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// `write_bytes`: pages made dirty, and so to be written once.
    pub(crate) to_disk: u64,
    /// `wchar`: bytes given to `write` and the like.
    pub(crate) by_calls: u64,
}

impl Written {
    /// So far, by this process or by another.
    pub(crate) fn by(pid: Option<u32>) -> Outcome<Self> {
        let text = fs::read_to_string(path(pid, "io"))?;
        Ok(Self { to_disk: field(&text, "write_bytes")?, by_calls: field(&text, "wchar")? })
    }

    /// What came after an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            to_disk: self.to_disk.saturating_sub(earlier.to_disk),
            by_calls: self.by_calls.saturating_sub(earlier.by_calls),
        }
    }
}

/// Resident memory now, in bytes.
pub(crate) fn memory_now(pid: Option<u32>) -> Outcome<u64> {
    Ok(field(&fs::read_to_string(path(pid, "status"))?, "VmRSS")? * 1024)
}

/// The peak of resident memory, in bytes.
pub(crate) fn memory_peak(pid: Option<u32>) -> Outcome<u64> {
    Ok(field(&fs::read_to_string(path(pid, "status"))?, "VmHWM")? * 1024)
}

/// Lets the peak of this process begin anew.
pub(crate) fn forget_memory_peak() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// Bytes that the files below a folder take on the disk, holes left out.
pub(crate) fn disk_bytes(dir: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * BLOCK_BYTES };
    }
    Ok(total)
}

fn path(pid: Option<u32>, file: &str) -> String {
    match pid {
        Some(pid) => format!("/proc/{pid}/{file}"),
        None => format!("/proc/self/{file}"),
    }
}

/// The number after `name:`.
fn field(text: &str, name: &str) -> Outcome<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let value = lines.find(|(key, _)| *key == name).map(|(_, value)| value);
    let number = value.and_then(|value| value.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("the system does not tell {name}"))?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_found_is_its_number() {
        let text = "Name:\tx\nVmHWM:\t  123 kB\nwchar: 7\n";
        assert_eq!(field(text, "VmHWM").expect("a number"), 123);
        assert_eq!(field(text, "wchar").expect("a number"), 7);
        assert!(field(text, "VmRSS").is_err());
    }

    #[test]
    fn memory_taken_raises_the_peak() {
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        assert!(memory_peak(None).expect("Linux") >= 64 << 20);
        assert!(memory_now(None).expect("Linux") > 0);
    }
}

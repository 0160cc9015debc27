//! Bytes as operations: every sequence of bytes is one, and a short change is a short change.

/// Where the clock stands in the beginning.
pub const START_MS: u64 = 1_000_000;

/// So many different IDs there are: few, so that they meet again.
pub const IDS: u8 = 64;

/// IDs in the longest batch.
const BATCH_MAX: usize = 64;

/// One call.
#[derive(Debug)]
pub enum Operation {
    Check(u8),
    CheckAt(u8, u64),
    CheckWith(u8, u64),
    CheckBatch(Vec<u8>),
    Claim(u8, u64),
    Commit(u8),
    Abort(u8),
    Extend(u8, u64),
    Forget(u8),
    Contains(u8),
    Advance(u64),
    Maintain,
    Settle,
}

/// What is left of the bytes.
pub struct Sequence<'a> {
    bytes: &'a [u8],
}

impl<'a> Sequence<'a> {
    pub fn new(bytes: &'a [u8]) -> Sequence<'a> {
        Sequence { bytes }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn id(&mut self) -> Option<u8> {
        self.byte().map(|byte| byte % IDS)
    }

    /// A length in milliseconds: small ones by one byte, any power of two and its neighbours by two.
    fn length_ms(&mut self) -> Option<u64> {
        let byte = self.byte()?;
        if byte < 0x80 {
            return Some(u64::from(byte));
        }
        let power = 1_u64 << (byte % 38);
        Some(power.saturating_add(u64::from(self.byte()?)).saturating_sub(128))
    }

    /// A point in time: near where the clock begins, or anywhere between 1970 and the end of time.
    fn at_ms(&mut self) -> Option<u64> {
        let byte = self.byte()?;
        if byte < 0x80 {
            return Some(START_MS + u64::from(byte) * 50);
        }
        let power = 1_u64 << (byte % 64);
        Some(power.wrapping_add(u64::from(self.byte()?)).wrapping_sub(128))
    }

    fn ids(&mut self) -> Option<Vec<u8>> {
        let count = usize::from(self.byte()?) % (BATCH_MAX + 1);
        let (ids, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(ids.iter().map(|byte| byte % IDS).collect())
    }
}

impl Iterator for Sequence<'_> {
    type Item = Operation;

    /// The next operation; none when the bytes end, whole or in the middle of one.
    fn next(&mut self) -> Option<Operation> {
        Some(match self.byte()? % 16 {
            0..=2 => Operation::Check(self.id()?),
            3 => Operation::CheckAt(self.id()?, self.at_ms()?),
            4 => Operation::CheckWith(self.id()?, self.length_ms()?.max(1)),
            5 => Operation::CheckBatch(self.ids()?),
            6 | 7 => Operation::Claim(self.id()?, self.length_ms()?),
            8 => Operation::Commit(self.byte()?),
            9 => Operation::Abort(self.byte()?),
            10 => Operation::Extend(self.byte()?, self.length_ms()?),
            11 => Operation::Forget(self.id()?),
            12 => Operation::Contains(self.id()?),
            13 => Operation::Advance(self.length_ms()?),
            14 => Operation::Maintain,
            _ => Operation::Settle,
        })
    }
}

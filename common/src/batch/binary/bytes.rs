//! Numbers out of bytes, from the front; `None` where they end early.

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn skip(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn f64(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes)
    }

    pub(super) fn floats<const N: usize>(&mut self) -> Option<[f64; N]> {
        let mut floats = [0.0; N];
        for float in &mut floats {
            *float = self.f64()?;
        }
        Some(floats)
    }
}

pub(super) fn put(out: &mut Vec<u8>, floats: &[f64]) {
    for float in floats {
        out.extend_from_slice(&float.to_le_bytes());
    }
}

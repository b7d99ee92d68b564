//! A second witness of how far the database got.
//!
//! After a crash the database recovers what it can read of its log and drops the rest. That is right for a torn,
//! unacknowledged tail and wrong for a damaged file, and from inside it looks the same. So the number of the last
//! acknowledged commit is kept apart: a database that comes back with less has lost something.
//!
//! Two slots are written in turn, each with a checksum, so that a torn write loses one slot and never both.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

/// FNV-1a: small, and stable over releases and machines.
pub(super) fn hash(parts: &[&[u8]]) -> u64 {
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| {
        // The end of a part counts too, so that moving a byte from one part to the next changes the hash.
        part.iter()
            .copied()
            .map(u64::from)
            .chain([256])
            .fold(hash, |hash: u64, byte| (hash ^ byte).wrapping_mul(0x0100_0000_01b3))
    })
}

const SLOT: usize = 16;

#[derive(Debug)]
pub(crate) struct Witness(File);

impl Witness {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let witness = Self(file);
        witness.record(0)?;
        if let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
        Ok(witness)
    }

    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(path).map(Self)
    }

    /// The last commit, or `None` if neither slot can be read.
    pub(crate) fn last(&self) -> io::Result<Option<u64>> {
        let mut last = None;
        for slot in 0..2 {
            let mut bytes = [0; SLOT];
            match self.0.read_exact_at(&mut bytes, slot * SLOT as u64) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
                Err(error) => return Err(error),
            }
            let (number, check) = bytes.split_at(SLOT / 2);
            if hash(&[number]).to_le_bytes() == check {
                let number = number.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
                last = last.max(Some(number));
            }
        }
        Ok(last)
    }

    pub(crate) fn record(&self, commit: u64) -> io::Result<()> {
        self.note(commit)?;
        self.0.sync_data()
    }

    /// Like [`Self::record`], but a power failure may forget it.
    pub(crate) fn note(&self, commit: u64) -> io::Result<()> {
        let number = commit.to_le_bytes();
        let mut bytes = [0; SLOT];
        bytes[..SLOT / 2].copy_from_slice(&number);
        bytes[SLOT / 2..].copy_from_slice(&hash(&[&number]).to_le_bytes());
        self.0.write_all_at(&bytes, commit % 2 * SLOT as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_one_torn_slot_and_notices_two() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("commits");
        let witness = Witness::create(&path).unwrap();
        for commit in 1..=7 {
            witness.record(commit).unwrap();
            assert_eq!(Witness::open(&path).unwrap().last().unwrap(), Some(commit));
        }
        witness.0.write_all_at(&[0xff; 3], SLOT as u64 + 2).unwrap();
        assert_eq!(witness.last().unwrap(), Some(6));
        witness.0.write_all_at(&[0xff; 3], 2).unwrap();
        assert_eq!(witness.last().unwrap(), None);
        assert!(Witness::create(&path).is_err(), "never overwritten");
    }

    #[test]
    fn where_a_part_ends_matters() {
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_ne!(hash(&[b"a"]), hash(&[b"a", b""]));
    }
}

//! Why a file could not be read.

use std::io;

/// A refusal that names the file and, where there is one, the place in it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened, read or unpacked.
    #[error("{file} cannot be read")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A row that does not fit the format.
    #[error("{file}:{line}:{column}: {reason}")]
    Row {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column of the table, from 1; in JSON the character of the line.
        column: u64,
        /// What is wrong.
        reason: String,
    },
    /// The file as a whole does not fit.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
}

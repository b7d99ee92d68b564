//! The bearer token of the API: given by the operator, or made once and kept in the data directory.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use meanfield_common::invalid::Invalid;

/// The shortest token that is taken.
const SHORTEST: usize = 16;
const FILE: &str = "token";

/// Why a token cannot be read or made. Each says its reason itself and has no source, or a chain would say it twice.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("token file {path:?}: {reason}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// Others can read it.
    #[error(
        "token file {path:?} has mode {mode:o}, which lets others read it: `chmod 600` it, or delete it for a new one"
    )]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It holds no token.
    #[error("token file {path:?}: {reason}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it; the content itself is not repeated.
        reason: Invalid,
    },
    /// The system gives no random numbers.
    #[error("no random numbers for a token: {0}")]
    Random(getrandom::Error),
}

/// Checks a token without repeating it in the error.
pub(crate) fn check(token: &str) -> Result<(), Invalid> {
    if token.len() < SHORTEST {
        let value = format!("a token of {} characters", token.len());
        return Err(Invalid::new("token", value, format!("at least {SHORTEST} characters long")));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Invalid::new("token", "a token with blanks or other characters", "visible ASCII only"));
    }
    Ok(())
}

/// The token that a coordinator keeps in its data directory.
///
/// # Errors
/// If there is none, it is not a token, or others than its owner can read it.
pub fn read(data_dir: &Path) -> Result<String, Error> {
    let path = data_dir.join(FILE);
    let failed = |reason| Error::Io { path: path.clone(), reason };
    let mode = fs::metadata(&path).map_err(failed)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Error::Exposed { path, mode });
    }
    let text = fs::read_to_string(&path).map_err(failed)?;
    let token = text.strip_suffix('\n').unwrap_or(&text).to_owned();
    check(&token).map_err(|reason| Error::Malformed { path, reason })?;
    Ok(token)
}

/// The token in the data directory, if there is one, or a data directory at all.
pub(crate) fn existing(data_dir: &Path) -> Result<Option<String>, Error> {
    use io::ErrorKind::{NotADirectory, NotFound};
    match read(data_dir) {
        Err(Error::Io { reason, .. }) if matches!(reason.kind(), NotFound | NotADirectory) => Ok(None),
        other => other.map(Some),
    }
}

/// The token in the data directory, made now if there is none.
pub(crate) fn read_or_create(data_dir: &Path) -> Result<String, Error> {
    if let Some(token) = existing(data_dir)? {
        return Ok(token);
    }
    let path = data_dir.join(FILE);
    let failed = |reason| Error::Io { path: path.clone(), reason };
    let token = generate()?;
    // Written aside and linked into place: a crash half-way must not leave a token file that is empty for ever.
    let draft = data_dir.join(format!("{FILE}.new"));
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
    // The umask may have taken bits away; none may be added.
    file.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
    writeln!(file, "{token}").and_then(|()| file.sync_all()).map_err(failed)?;
    // Unlike a rename, a link refuses to replace a token that somebody else made in the meantime.
    fs::hard_link(&draft, &path).and_then(|()| fs::remove_file(&draft)).map_err(failed)?;
    tracing::info!(?path, "made a token for the API");
    Ok(token)
}

/// A new token: 256 random bits in hexadecimal.
pub(crate) fn generate() -> Result<String, Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(Error::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_made_once_private_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let missing = read(dir.path()).unwrap_err();
        assert!(matches!(missing, Error::Io { .. }) && std::error::Error::source(&missing).is_none(), "{missing}");
        let token = read_or_create(dir.path()).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(fs::metadata(dir.path().join(FILE)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_or_create(dir.path()).unwrap(), token);
        assert_eq!(read(dir.path()).unwrap(), token);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left behind");
        assert_ne!(generate().unwrap(), token);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        read_or_create(dir.path()).unwrap();
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(dir.path().join(FILE), Permissions::from_mode(mode)).unwrap();
            let error = read_or_create(dir.path()).unwrap_err();
            assert!(error.to_string().contains(&format!("{mode:o}")), "{error}");
        }
    }

    #[test]
    fn a_file_that_holds_no_token_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["", "short\n", "two\nlines-of-sixteen-characters\n"] {
            fs::write(dir.path().join(FILE), bad).unwrap();
            fs::set_permissions(dir.path().join(FILE), Permissions::from_mode(0o600)).unwrap();
            assert!(matches!(read_or_create(dir.path()), Err(Error::Malformed { .. })), "{bad:?}");
            assert_eq!(fs::read_to_string(dir.path().join(FILE)).unwrap(), bad);
        }
    }
}

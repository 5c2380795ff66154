//! The bearer token: what a sender and a poller show, where a socket leaves the machine.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use robinhood_protocol::delta::TOKEN_BYTES_MAX;

/// Shorter ones can be guessed.
const BYTES_MIN: usize = 16;

/// A shared secret of 16 to 1,024 visible ASCII characters. It is not shown, not even for debugging.
#[derive(Clone)]
pub struct Token(Arc<str>);

/// A file that holds no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It holds something else.
    #[error(
        "{path}: a token is one line of {BYTES_MIN} to {TOKEN_BYTES_MAX} visible ASCII characters; `openssl rand -hex 32` makes one"
    )]
    Content {
        /// The file.
        path: PathBuf,
    },
}

impl Token {
    /// Reads a token from a file that holds it as its only line.
    ///
    /// # Errors
    /// When the file cannot be read or holds no token.
    pub fn from_file(path: &Path) -> Result<Self, TokenError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| TokenError::File { path: path.to_owned(), error })?;
        Self::new(text.trim_ascii_end()).ok_or(TokenError::Content { path: path.to_owned() })
    }

    /// Keeps a token; `None` when it is too short or long or has other characters than visible ASCII.
    pub fn new(text: &str) -> Option<Self> {
        let fits = (BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len());
        (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| Self(text.into()))
    }

    /// Whether this is what somebody has shown, in a time that does not depend on where they differ.
    pub(crate) fn matches(&self, shown: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differing =
            own.iter().zip(shown).fold(0, |bits, (a, b)| std::hint::black_box(bits | (a ^ b)));
        own.len() == shown.len() && differing == 0
    }

    /// For a hello, or an `Authorization` header.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_matches_and_it_is_never_shown() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdefg", "x123456789abcdef"] {
            assert!(!token.matches(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(hidden)");
        for bad in ["short", "0123456789 abcdef", &"x".repeat(1_025)] {
            assert!(Token::new(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_file_holds_the_token_as_its_only_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(Token::from_file(&path).unwrap().matches(b"0123456789abcdef"));
        std::fs::write(&path, "0123456789abcdef\nmore\n").unwrap();
        let error = Token::from_file(&path).unwrap_err().to_string();
        assert!(error.contains("one line") && !error.contains("0123"), "{error}");
        assert!(Token::from_file(&folder.path().join("none")).is_err());
    }
}

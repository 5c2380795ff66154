//! Where a cache is, and what it wants to hear before it answers.
//!
//! Place in the flow: what an adapter is attached to.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A cache: its address, and credentials where it asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where it is.
    pub address: Address,
    /// What it wants to hear first.
    pub credentials: Option<Credentials>,
}

/// Where a cache listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// Host and port, `host:port`.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// A password. It shows in no output.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name to log in with; none is that of the default user.
    pub user: Option<String>,
    password: String,
}

/// What is wrong with an address or a password.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// No address.
    #[error("\"{text}\" is no address; write HOST:PORT, or unix:PATH")]
    Address {
        /// What was written.
        text: String,
    },
    /// A file that cannot be read.
    #[error("cannot read the password file {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A variable that is not there.
    #[error("there is no password in the environment variable {variable}; set it")]
    Variable {
        /// Its name.
        variable: String,
    },
    /// Nothing in a file or variable.
    #[error("the password in {place} is empty")]
    Empty {
        /// The file or variable.
        place: String,
    },
}

impl Target {
    /// With a password.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }
}

impl From<Address> for Target {
    fn from(address: Address) -> Self {
        Self { address, credentials: None }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        text.parse().map(|address: Address| address.into())
    }
}

impl FromStr for Address {
    type Err = TargetError;

    /// `HOST:PORT` (an IPv6 host in brackets), `unix:PATH`, or a path that begins with a slash.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let path = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text));
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
            Some(1..) if path.is_none() => Ok(Self::Tcp(text.to_owned())),
            _ => Err(TargetError::Address { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Credentials {
    /// A password from the first line of a file.
    ///
    /// # Errors
    /// When the file cannot be read or its first line is empty.
    pub fn from_file(path: &Path) -> Result<Self, TargetError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TargetError::File { path: path.to_owned(), source })?;
        Self::new(text.lines().next().unwrap_or_default(), path.display().to_string())
    }

    /// A password from an environment variable.
    ///
    /// # Errors
    /// When there is no such variable or it is empty.
    pub fn from_env(variable: &str) -> Result<Self, TargetError> {
        let text = std::env::var(variable)
            .map_err(|_| TargetError::Variable { variable: variable.to_owned() })?;
        Self::new(&text, format!("the environment variable {variable}"))
    }

    fn new(password: &str, place: String) -> Result<Self, TargetError> {
        if password.is_empty() {
            return Err(TargetError::Empty { place });
        }
        Ok(Self { user: None, password: password.to_owned() })
    }

    /// For a user of this name.
    #[must_use]
    pub fn for_user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// The password, for the one command that sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_with_a_port_or_a_path() {
        for (text, shown) in [
            ("localhost:11211", "localhost:11211"),
            ("[::1]:6379", "[::1]:6379"),
            ("unix:run/cache.sock", "unix:run/cache.sock"),
            ("/run/cache.sock", "unix:/run/cache.sock"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for text in ["", "localhost", "localhost:", ":1", "localhost:0", "a:65536", "unix:"] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_is_the_first_line_of_a_file_and_shows_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "geheim\n").unwrap();
        let target: Target = "localhost:1".parse().unwrap();
        let target = target.with_credentials(Credentials::from_file(&path).unwrap().for_user("u"));
        assert_eq!(target.credentials.as_ref().unwrap().reveal(), "geheim");
        assert!(!format!("{target:?}").contains("geheim"));
        std::fs::write(&path, "\n").unwrap();
        assert!(Credentials::from_file(&path).unwrap_err().to_string().contains("is empty"));
        let error = Credentials::from_env("ROBINHOOD_NO_SUCH_VARIABLE").unwrap_err().to_string();
        assert!(error.contains("ROBINHOOD_NO_SUCH_VARIABLE; set it"), "{error}");
    }
}

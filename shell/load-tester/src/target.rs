//! Where a server is: an internet address, or a Unix socket.
//!
//! Place in the flow: typed by a user, used by every connection. A Unix socket spares both sides the network stack: less than half the
//! time a request on one machine, for servers that have one (memcached `-s`, Redis `unixsocket`).

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An internet address.
    Inet(SocketAddr),
    /// The path of a Unix stream socket.
    Unix(PathBuf),
}

/// The longest path that the system takes for a socket, in bytes.
const PATH_BYTES_MAX: usize = 107;

impl FromStr for Target {
    type Err = String;

    /// `127.0.0.1:11211`, `[::1]:6379`, `localhost:8080` or `unix:/run/memcached.sock`. A name is looked up, and its first address taken.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.len() {
                0 => {
                    Err("`unix:` needs the path of a socket, as in `unix:/run/memcached.sock`"
                        .into())
                }
                bytes if bytes > PATH_BYTES_MAX => Err(format!(
                    "the path of a socket has at most {PATH_BYTES_MAX} bytes, this one {bytes}"
                )),
                _ => Ok(Self::Unix(path.into())),
            };
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Inet(address));
        }
        let help = "write HOST:PORT, as in `127.0.0.1:11211`, or `unix:PATH`";
        let mut found = text.to_socket_addrs().map_err(|error| format!("{error}: {help}"))?;
        found.next().map(Self::Inet).ok_or_else(|| format!("`{text}` has no address: {help}"))
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_names_and_paths_are_targets() {
        for text in ["127.0.0.1:11211", "[::1]:6379", "unix:/run/cache.sock"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        let named: Target = "localhost:80".parse().unwrap();
        assert!(matches!(named, Target::Inet(address) if address.ip().is_loopback()));
    }

    #[test]
    fn what_is_no_target_is_refused_with_help() {
        let long = format!("unix:{}", "x".repeat(108));
        for (bad, help) in
            [("", "HOST:PORT"), ("11211", "HOST:PORT"), ("unix:", "path"), (&long, "107")]
        {
            let error = bad.parse::<Target>().unwrap_err();
            assert!(error.contains(help), "{bad}: {error}");
        }
    }
}

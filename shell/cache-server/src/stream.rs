//! Sockets of either kind behind one type.
//!
//! Place in the flow: under connections and the acceptor. All of them never wait.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};

use crate::config::Address;

/// A connection of a client.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket that connections come in on.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Stream {
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).read(into),
            Self::Unix(stream) => (&*stream).read(into),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write(bytes),
            Self::Unix(stream) => (&*stream).write(bytes),
        }
    }

    pub(crate) fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&*stream).write_vectored(pieces),
            Self::Unix(stream) => (&*stream).write_vectored(pieces),
        }
    }

    /// Ends both directions: whoever waits for this connection is told that something happened.
    pub(crate) fn shut_down(&self) {
        _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        }; // it may have ended by itself
    }
}

impl Listener {
    /// Listens, and says where in fact.
    pub(crate) fn bind(address: &Address) -> io::Result<(Self, Address)> {
        match address {
            Address::Inet(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let address = listener.local_addr()?;
                Ok((Self::Tcp(listener), Address::Inet(address)))
            }
            Address::Unix(path) => {
                let listener = UnixListener::bind(path).or_else(|error| {
                    // Nobody answers there: its server is gone and has left the file.
                    let is_socket = |file: std::fs::Metadata| file.file_type().is_socket();
                    let dead = error.kind() == io::ErrorKind::AddrInUse
                        && std::fs::symlink_metadata(path).is_ok_and(is_socket)
                        && UnixStream::connect(path)
                            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
                    if !dead {
                        return Err(error);
                    }
                    std::fs::remove_file(path)?;
                    UnixListener::bind(path)
                })?;
                listener.set_nonblocking(true)?;
                Ok((Self::Unix(listener), Address::Unix(path.clone())))
            }
        }
    }

    /// The next connection, which never waits; `None` when there is none.
    pub(crate) fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match self {
            Self::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?; // an answer never waits for the acknowledgement of the one before
                Ok(Stream::Tcp(stream))
            }),
            Self::Unix(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }),
        };
        match accepted {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

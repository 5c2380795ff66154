//! The answers of memcached's text protocol, and of both protocols to what is no command.
//!
//! Place in the flow: a server appends these to what it sends; answers with something to show in the meta protocol are in
//! [`super::meta`]. All constants are complete lines, in memcached's own words where it has any.

use crate::memcached::{append, append_number};
use crate::scan;

/// Ends values and statistics.
pub const END: &[u8] = b"END\r\n";
/// A value has been stored.
pub const STORED: &[u8] = b"STORED\r\n";
/// The condition of the command does not hold.
pub const NOT_STORED: &[u8] = b"NOT_STORED\r\n";
/// The value has another version.
pub const EXISTS: &[u8] = b"EXISTS\r\n";
/// There is no such value.
pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
/// A value has been deleted.
pub const DELETED: &[u8] = b"DELETED\r\n";
/// A value has a new time to live.
pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
/// Done.
pub const OK: &[u8] = b"OK\r\n";
/// The statistics begin anew.
pub const RESET: &[u8] = b"RESET\r\n";
/// The answer to [`super::meta::Operation::NoOp`].
pub const META_NO_OP: &[u8] = b"MN\r\n";
/// The answer to [`super::meta::Operation::Debug`] where there is no value.
pub const META_MISS: &[u8] = b"EN\r\n";

/// There is no such command, or not with so many words.
pub const ERROR: &[u8] = b"ERROR\r\n";
/// A word of the command is not what it should be.
pub const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
/// A value does not end where the command said.
pub const BAD_DATA: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// A time to live that is no number.
pub const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
/// A number to count by that is none.
pub const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
/// The value cannot be counted with: [`super::NotANumber`].
pub const NOT_A_NUMBER: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
/// The value is above the limit.
pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
/// There is no space for the value.
pub const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// The budget cannot be what was asked for.
pub const MEMLIMIT_REFUSED: &[u8] = b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";

pub(super) const MEMLIMIT_TOO_SMALL: &[u8] =
    b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n";
pub(super) const MEMLIMIT_TOO_LARGE: &[u8] =
    b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n";
pub(super) const DELETE_USAGE: &[u8] =
    b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
pub(super) const NO_SHUTDOWN: &[u8] = b"ERROR: shutdown not enabled\r\n";

pub(super) const FLAGS_ARE_TOO_LONG: &[u8] = b"CLIENT_ERROR options flags are too long\r\n";
pub(super) const FLAGS_TOO_LONG: &[u8] = b"CLIENT_ERROR options flags too long\r\n";
pub(super) const DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
pub(super) const BAD_FLAG: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
pub(super) const BAD_FLAGS: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
pub(super) const BAD_BASE64: &[u8] = b"CLIENT_ERROR error decoding key\r\n";
pub(super) const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
pub(super) const BAD_MODE_LENGTH: &[u8] = b"CLIENT_ERROR incorrect length for M token\r\n";
pub(super) const BAD_INITIAL: &[u8] = b"CLIENT_ERROR invalid numeric initial value\r\n";
pub(super) const BAD_META_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta value\r\n";
pub(super) const BAD_SET_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";
pub(super) const BAD_ARITHMETIC_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ma M token\r\n";
pub(super) const OPAQUE_TOO_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";

// What memcached has no words for.
pub(super) const LINE_TOO_LONG: &[u8] = b"CLIENT_ERROR line too long\r\n";
pub(super) const TOO_MANY_KEYS: &[u8] = b"CLIENT_ERROR too many keys in one command\r\n";
pub(super) const BINARY: &[u8] =
    b"CLIENT_ERROR the binary protocol is not spoken here; set the client to the text protocol\r\n";
pub(super) const LIMIT_USAGE: &[u8] =
    b"CLIENT_ERROR usage: robinhood limit <partition> <bytes> [noreply]\r\n";

/// Appends what stands before a value of `bytes`; the value and CR LF follow. With a version where it was asked for.
#[inline]
pub fn value_header(out: &mut Vec<u8>, key: &[u8], flags: u32, bytes: usize, version: Option<u64>) {
    append(out, &[b"VALUE ", key]);
    append_number(out, flags);
    append_number(out, bytes);
    if let Some(version) = version {
        append_number(out, version);
    }
    append(out, &[b"\r\n"]);
}

/// Appends the number that a command counted to.
pub fn number(out: &mut Vec<u8>, number: u64) {
    scan::write_number(out, number);
    append(out, &[b"\r\n"]);
}

/// Appends the server's version, a text without line ends.
pub fn version(out: &mut Vec<u8>, version: &str) {
    append(out, &[b"VERSION ", version.as_bytes(), b"\r\n"]);
}

/// Appends a statistic: a name without spaces, and a text without line ends.
pub fn stat(out: &mut Vec<u8>, name: &str, value: &str) {
    append(out, &[b"STAT ", name.as_bytes(), b" ", value.as_bytes(), b"\r\n"]);
}

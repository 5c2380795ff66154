//! Answers of the meta protocol.
//!
//! Place in the flow: below [`super::MetaCommand`], which says what an answer repeats and shows.

use super::{Asked, MetaCommand, Operation, Shown, Status};
use crate::memcached::server::Key;
use crate::memcached::{append, append_number};
use crate::scan;

impl MetaCommand<'_> {
    /// Appends the answer to [`Operation::Get`] and [`Operation::Arithmetic`] with a value: `HD`, or `VA` where the value
    /// is to follow, which is then followed by CR LF. Says whether it is.
    #[inline]
    pub fn write_hit(&self, out: &mut Vec<u8>, shown: &Shown) -> bool {
        let counts = matches!(self.operation, Operation::Arithmetic { .. });
        if counts && self.quiet {
            return false;
        }
        match self.with_value {
            true => {
                append(out, &[b"VA"]);
                append_number(out, shown.bytes);
            }
            false => append(out, &[b"HD"]),
        }
        for asked in self.asked() {
            match asked {
                Asked::Opaque(word) => append(out, &[b" ", word]),
                Asked::Key => self.write_key(out),
                Asked::Version => write_flag(out, b" c", shown.version),
                Asked::TimeToLive { before } => {
                    match if before { shown.ttl_before_s } else { shown.ttl_s } {
                        Some(ttl_s) => write_flag(out, b" t", ttl_s),
                        None => append(out, &[b" t-1"]),
                    }
                }
                _ if counts => {}
                Asked::Size => write_flag(out, b" s", shown.bytes as u64),
                Asked::Flags => write_flag(out, b" f", shown.flags),
                Asked::SinceUse => write_flag(out, b" l", shown.since_use_s),
                Asked::UsedBefore => write_flag(out, b" h", u8::from(shown.used_before)),
            }
        }
        if !counts {
            for (letter, is_set) in [(b" Z", shown.taken), (b" X", shown.stale), (b" W", shown.won)]
            {
                if is_set {
                    append(out, &[letter]);
                }
            }
        }
        append(out, &[b"\r\n"]);
        self.with_value
    }

    /// Appends the answer without a value; nothing when it is the usual one and the command is quiet. `stored_version` is
    /// what [`Operation::Set`] has given to the value, or 0.
    #[inline]
    pub fn write_status(&self, out: &mut Vec<u8>, status: Status, stored_version: u64) {
        let (code, usual): (&[u8], bool) = match status {
            Status::Done => (b"HD", true),
            Status::Miss => (b"EN", true),
            Status::NotFound => (b"NF", false),
            Status::NotStored => (b"NS", false),
            Status::Exists => (b"EX", false),
        };
        if usual && self.quiet {
            return;
        }
        append(out, &[code]);
        let stores = matches!(self.operation, Operation::Set(_));
        for asked in self.asked() {
            match asked {
                Asked::Opaque(word) => append(out, &[b" ", word]),
                Asked::Key => self.write_key(out),
                Asked::Version if stores => write_flag(out, b" c", stored_version),
                _ => {}
            }
        }
        append(out, &[b"\r\n"]);
    }

    fn write_key(&self, out: &mut Vec<u8>) {
        append(out, &[b" k", self.key.word, if self.key.base64 { b" b" } else { b"" }]);
    }
}

#[inline]
fn write_flag(out: &mut Vec<u8>, letter: &[u8], number: impl itoa::Integer) {
    append(out, &[letter]);
    scan::write_number(out, number);
}

/// Appends the answer to [`Operation::Debug`] where there is a value. `class` stands for the class of sizes that the value
/// is in, `all_bytes` is what it takes with everything.
pub fn write_debug(out: &mut Vec<u8>, key: &Key<'_>, shown: &Shown, class: u32, all_bytes: usize) {
    append(out, &[b"ME ", key.word, b" exp="]);
    // memcached has the time since the value will have expired.
    scan::write_number(out, shown.ttl_s.map_or(-1, |ttl_s| -i64::from(ttl_s)));
    write_flag(out, b" la=", shown.since_use_s);
    write_flag(out, b" cas=", shown.version);
    append(out, &[b" fetch=", if shown.used_before { b"yes" } else { b"no" }]);
    write_flag(out, b" cls=", class);
    write_flag(out, b" size=", all_bytes as u64);
    append(out, &[b"\r\n"]);
}

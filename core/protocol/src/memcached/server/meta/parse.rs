//! Lines of the meta protocol to [`MetaCommand`]s.
//!
//! Place in the flow: [`crate::memcached::server::parse`] found the line. What is refused, and with which words, follows
//! memcached 1.6 command by command.

use super::{MetaCommand, Operation, decode};
use crate::memcached::KEY_BYTES_MAX;
use crate::memcached::server::words::{Words, signed, unsigned};
use crate::memcached::server::{Command, Frame, Parsed, Verb, is_key, reply, text};

/// The longest `O` flag, in bytes with its letter.
const OPAQUE_BYTES_MAX: usize = 32;

/// The most flags in a command; one less where a length stands before them.
const FLAGS_MAX: usize = 17;

/// What the flags of a command say.
struct Flags<'a> {
    command: MetaCommand<'a>,
    /// `M`: its letter.
    mode: Option<u8>,
    /// Whether the opaque word is too long. memcached notices last.
    opaque_too_long: bool,
}

impl<'a> Flags<'a> {
    /// The command, after all else has been looked at.
    #[inline]
    fn finish(self) -> Result<MetaCommand<'a>, &'static [u8]> {
        match self.opaque_too_long {
            true => Err(reply::OPAQUE_TOO_LONG),
            false => Ok(self.command),
        }
    }

    /// Takes in one flag. `Err` is final, but an error in `later` is only said when nothing else is wrong.
    #[inline]
    fn take(
        &mut self,
        word: &[u8],
        later: &mut Option<&'static [u8]>,
    ) -> Result<(), &'static [u8]> {
        let (letter, token) = (word[0], &word[1..]);
        let command = &mut self.command;
        let mut number = |slot: &mut u64, reply| match unsigned(token) {
            Some(number) => *slot = number,
            None => *later = Some(reply),
        };
        match letter {
            b'k' | b's' | b't' | b'c' | b'f' | b'l' | b'h' | b'P' | b'L' => {}
            b'v' => command.with_value = true,
            b'q' => command.quiet = true,
            b'u' => command.no_bump = true,
            b'I' => command.invalidate = true,
            b'x' => command.remove_value = true,
            b'O' => self.opaque_too_long = word.len() > OPAQUE_BYTES_MAX,
            b'b' => {
                command.key.base64 = true;
                if decode(command.key.word, &mut [0; KEY_BYTES_MAX]).is_none() {
                    *later = Some(reply::BAD_BASE64);
                }
            }
            b'T' | b'N' | b'R' => {
                let exptime = signed(token);
                if exptime.is_none() {
                    *later = Some(reply::BAD_TOKEN);
                }
                match letter {
                    b'T' => {
                        command.exptime = exptime;
                        command.vivify_exptime = command.vivify_exptime.and(exptime);
                    }
                    b'N' => command.vivify_exptime = exptime,
                    _ => {
                        command.renew_exptime = exptime;
                        command.renew_first = command.exptime.is_none();
                    }
                }
            }
            b'C' | b'E' => {
                let version = unsigned(token);
                if version.is_none() {
                    *later = Some(reply::BAD_TOKEN);
                }
                match letter {
                    b'C' => command.version = version,
                    _ => command.new_version = version,
                }
            }
            b'D' => number(&mut command.delta, reply::BAD_META_DELTA),
            b'J' => number(&mut command.initial, reply::BAD_INITIAL),
            b'F' => match unsigned(token).and_then(|flags| u32::try_from(flags).ok()) {
                Some(flags) => command.flags = flags,
                None => *later = later.or(Some(reply::BAD_LINE)),
            },
            b'M' => match token {
                [mode] => self.mode = Some(*mode),
                _ => *later = Some(reply::BAD_MODE_LENGTH),
            },
            _ => return Err(reply::BAD_FLAG),
        }
        Ok(())
    }
}

/// The key of a command.
#[inline]
fn key<'a>(words: &mut Words<'a>) -> Result<&'a [u8], &'static [u8]> {
    let key = words.next().ok_or(reply::ERROR)?;
    if is_key(key) { Ok(key) } else { Err(reply::BAD_LINE) }
}

/// The flags of a command: all words that are left.
#[inline]
fn flags<'a>(
    operation: Operation,
    key: &'a [u8],
    words: Words<'a>,
) -> Result<Flags<'a>, &'static [u8]> {
    let command = MetaCommand::new(operation, key, words);
    let mut flags = Flags { command, mode: None, opaque_too_long: false };
    let (mut seen, mut later) = (0u128, None);
    for word in words {
        // A letter beyond 7 bits is what memcached calls a duplicate, too.
        let bit = 1u128.checked_shl(u32::from(word[0])).ok_or(reply::DUPLICATE_FLAG)?;
        if seen & bit != 0 || word[0] == 127 {
            return Err(reply::DUPLICATE_FLAG);
        }
        seen |= bit;
        flags.take(word, &mut later)?;
    }
    later.map_or(Ok(flags), Err)
}

/// Refuses a command of too many words, whatever else is wrong with it.
#[inline]
fn bounded(words: Words<'_>, words_max: usize, reply: &'static [u8]) -> Result<(), &'static [u8]> {
    // So few bytes cannot be so many words.
    let few = words.rest().len() < 2 * words_max;
    if few || words.count() <= words_max { Ok(()) } else { Err(reply) }
}

/// The key, and the words after it: not too many.
#[inline]
fn key_and_flags<'a>(
    mut words: Words<'a>,
    too_many: &'static [u8],
) -> Result<(&'a [u8], Words<'a>), &'static [u8]> {
    let key = key(&mut words)?;
    bounded(words, FLAGS_MAX, too_many)?;
    Ok((key, words))
}

#[inline]
pub(in crate::memcached::server) fn get<'a>(words: Words<'a>, frame: Frame<'a, '_>) -> Parsed<'a> {
    line(frame, || {
        let (key, words) = key_and_flags(words, reply::FLAGS_ARE_TOO_LONG)?;
        flags(Operation::Get, key, words)?.finish()
    })
}

pub(in crate::memcached::server) fn delete<'a>(
    words: Words<'a>,
    frame: Frame<'a, '_>,
) -> Parsed<'a> {
    line(frame, || {
        let (key, words) = key_and_flags(words, reply::FLAGS_TOO_LONG)?;
        flags(Operation::Delete, key, words).map_err(|_| reply::BAD_FLAGS)?.finish()
    })
}

pub(in crate::memcached::server) fn arithmetic<'a>(
    words: Words<'a>,
    frame: Frame<'a, '_>,
) -> Parsed<'a> {
    line(frame, || {
        let (key, words) = key_and_flags(words, reply::FLAGS_TOO_LONG)?;
        let operation = Operation::Arithmetic { increase: true };
        let mut flags = flags(operation, key, words).map_err(|_| reply::BAD_FLAGS)?;
        let increase = match flags.mode {
            None | Some(b'I' | b'+') => true,
            Some(b'D' | b'-') => false,
            Some(_) => return Err(reply::BAD_ARITHMETIC_MODE),
        };
        flags.command.operation = Operation::Arithmetic { increase };
        flags.command.version = flags.command.version.filter(|version| *version != 0);
        flags.finish()
    })
}

/// `<key> [b]`; other flags mean nothing.
pub(in crate::memcached::server) fn debug<'a>(
    words: Words<'a>,
    frame: Frame<'a, '_>,
) -> Parsed<'a> {
    line(frame, || {
        let mut words = words;
        let key = words.next().filter(|key| is_key(key)).ok_or(reply::BAD_LINE)?;
        let mut command = MetaCommand::new(Operation::Debug, key, Words::new(b""));
        command.key.base64 = words.next() == Some(b"b");
        if command.key.base64 && decode(key, &mut [0; KEY_BYTES_MAX]).is_none() {
            return Err(reply::BAD_LINE);
        }
        Ok(command)
    })
}

/// A command that is its line.
#[inline]
fn line<'a>(
    frame: Frame<'a, '_>,
    command: impl FnOnce() -> Result<MetaCommand<'a>, &'static [u8]>,
) -> Parsed<'a> {
    match command() {
        Ok(command) => frame.command(Command::Meta(command)),
        Err(reply) => frame.bad(reply),
    }
}

/// `<key> <bytes> <flags>`, and the value. From the bytes on, what is wrong takes the value with it.
pub(in crate::memcached::server) fn set<'a>(
    mut words: Words<'a>,
    frame: Frame<'a, '_>,
) -> Parsed<'a> {
    let mut head = || {
        let key = key(&mut words)?;
        let value_bytes = words.next().ok_or(reply::BAD_LINE)?;
        bounded(words, FLAGS_MAX - 1, reply::FLAGS_TOO_LONG)?;
        Ok((key, text::length(value_bytes).ok_or(reply::BAD_LINE)?))
    };
    let (key, value_bytes) = match head() {
        Ok(head) => head,
        Err(reply) => return frame.bad(reply),
    };
    let command = flags(Operation::Set(Verb::Set), key, words).and_then(|mut flags| {
        flags.command.operation = Operation::Set(verb(&flags)?);
        flags.finish()
    });
    match command {
        Err(reply) => frame.bad_with_value(reply, value_bytes, None),
        Ok(command) if value_bytes > frame.limits.value_bytes_max => {
            frame.bad_with_value(reply::TOO_LARGE, value_bytes, Some(command.key))
        }
        Ok(command) => frame.with_value(value_bytes, reply::BAD_DATA, |value| {
            Command::Meta(MetaCommand { value, ..command })
        }),
    }
}

/// How to store.
fn verb(flags: &Flags<'_>) -> Result<Verb, &'static [u8]> {
    let verb = match flags.mode {
        None | Some(b'S') => Verb::Set,
        Some(b'E') => Verb::Add,
        Some(b'A') => Verb::Append,
        Some(b'P') => Verb::Prepend,
        Some(b'R') => Verb::Replace,
        Some(_) => return Err(reply::BAD_SET_MODE),
    };
    match (verb, flags.command.version) {
        (Verb::Set | Verb::Replace, Some(version)) => Ok(Verb::Cas(version)),
        _ => Ok(verb),
    }
}

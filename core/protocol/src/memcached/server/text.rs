//! Commands in words, as lines to [`Command`]s.
//!
//! Place in the flow: [`super::parse`] found the line. What is refused, with which words and whether its value is thrown
//! away follows memcached 1.6 command by command.

use super::words::{Words, signed, unsigned};
use super::{
    ANNOUNCED_BYTES_MAX, Command, Frame, Key, Keys, Parsed, Verb, close, is_key, meta, reply,
};

/// The smallest and largest arguments of `cache_memlimit`.
const MEMLIMIT_MIB: std::ops::RangeInclusive<u64> = 8..=1_000_000_000;

/// What a line is.
pub(super) fn command<'a>(line: &'a [u8], frame: Frame<'a, '_>) -> Parsed<'a> {
    let mut words = Words::new(line);
    match words.next().unwrap_or_default() {
        b"get" | b"bget" => get(words, frame, false),
        b"gets" => get(words, frame, true),
        b"set" => store(Verb::Set, words, frame),
        b"mg" => meta::get(words, frame),
        b"ms" => meta::set(words, frame),
        b"md" => meta::delete(words, frame),
        b"ma" => meta::arithmetic(words, frame),
        b"mn" => frame.command(Command::Meta(meta::NO_OP)),
        b"me" => meta::debug(words, frame),
        b"gat" => get_and_touch(words, frame, false),
        b"gats" => get_and_touch(words, frame, true),
        b"add" => store(Verb::Add, words, frame),
        b"replace" => store(Verb::Replace, words, frame),
        b"append" => store(Verb::Append, words, frame),
        b"prepend" => store(Verb::Prepend, words, frame),
        b"cas" => store(Verb::Cas(0), words, frame),
        b"delete" => delete(words, frame),
        b"incr" => arithmetic(words, frame, true),
        b"decr" => arithmetic(words, frame, false),
        b"touch" => touch(words, frame),
        name => administration(name, words, frame),
    }
}

#[inline]
fn get<'a>(words: Words<'a>, frame: Frame<'a, '_>, with_version: bool) -> Parsed<'a> {
    match keys(words, frame) {
        Ok((_, 0)) => frame.bad(reply::ERROR),
        Ok((keys, _)) => frame.command(Command::Get { keys, with_version }),
        Err(reply) => frame.bad(reply),
    }
}

fn get_and_touch<'a>(mut words: Words<'a>, frame: Frame<'a, '_>, with_version: bool) -> Parsed<'a> {
    let Some(exptime) = words.next() else { return frame.bad(reply::ERROR) };
    let Some(exptime) = signed(exptime) else { return frame.bad(reply::BAD_EXPTIME) };
    match keys(words, frame) {
        Ok((keys, _)) => frame.command(Command::GetAndTouch { keys, exptime, with_version }),
        Err(reply) => frame.bad(reply),
    }
}

/// All words as keys, and how many they are.
#[inline]
fn keys<'a>(words: Words<'a>, frame: Frame<'a, '_>) -> Result<(Keys<'a>, usize), &'static [u8]> {
    let mut count = 0;
    for key in words {
        count += 1;
        if !is_key(key) {
            return Err(reply::BAD_LINE);
        }
    }
    match count <= frame.limits.keys_per_command_max {
        true => Ok((Keys(words), count)),
        false => Err(reply::TOO_MANY_KEYS),
    }
}

/// Whether there is to be no answer: that is the last word of a command.
#[inline]
fn is_noreply(words: &[&[u8]]) -> bool {
    words.last().is_some_and(|word| *word == b"noreply")
}

/// `<key> <flags> <exptime> <bytes> [<version>] [noreply]`; a version for [`Verb::Cas`] only.
#[inline]
fn store<'a>(verb: Verb, mut words: Words<'a>, frame: Frame<'a, '_>) -> Parsed<'a> {
    let (all, count) = words.collect_up_to::<7>();
    let needed = if let Verb::Cas(_) = verb { 5 } else { 4 };
    if count != needed && count != needed + 1 {
        return frame.bad(reply::ERROR);
    }
    let noreply = is_noreply(&all[..count]);
    let [key, flags, exptime, value_bytes, version, ..] = all;
    let numbers = || {
        let flags = u32::try_from(unsigned(flags)?).ok()?;
        let exptime = signed(exptime)?;
        let value_bytes = length(value_bytes)?;
        let verb = if let Verb::Cas(_) = verb { Verb::Cas(unsigned(version)?) } else { verb };
        Some((flags, exptime, value_bytes, verb))
    };
    let Some((flags, exptime, value_bytes, verb)) = numbers().filter(|_| is_key(key)) else {
        return frame.bad_unless(noreply, reply::BAD_LINE);
    };
    if value_bytes > frame.limits.value_bytes_max {
        let reply = if noreply { b"" } else { reply::TOO_LARGE };
        let forget = (verb == Verb::Set).then_some(Key::plain(key));
        return frame.bad_with_value(reply, value_bytes, forget);
    }
    let bad_end = if noreply { b"" } else { reply::BAD_DATA };
    frame.with_value(value_bytes, bad_end, |value| Command::Store {
        verb,
        key,
        flags,
        exptime,
        value,
        noreply,
    })
}

/// The length of a value.
#[inline]
pub(super) fn length(word: &[u8]) -> Option<usize> {
    signed(word).filter(|bytes| *bytes <= ANNOUNCED_BYTES_MAX).and_then(|b| usize::try_from(b).ok())
}

/// `<key> [0] [noreply]`; the 0 is a time to wait, which old clients send.
fn delete<'a>(mut words: Words<'a>, frame: Frame<'a, '_>) -> Parsed<'a> {
    let (all, count) = words.collect_up_to::<4>();
    if count == 0 || count > 3 {
        return frame.bad(reply::ERROR);
    }
    let noreply = count > 1 && is_noreply(&all[..count]);
    let key = match all[..count] {
        [key] => key,
        [key, b"0" | b"noreply"] => key,
        [key, b"0", b"noreply"] => key,
        _ => return frame.bad_unless(noreply, reply::DELETE_USAGE),
    };
    match is_key(key) {
        true => frame.command(Command::Delete { key, noreply }),
        false => frame.bad_unless(noreply, reply::BAD_LINE),
    }
}

/// A command of a key and a number, which is refused with `bad_number` where that is none.
fn key_and_number<'a>(
    mut words: Words<'a>,
    frame: Frame<'a, '_>,
    bad_number: &'static [u8],
    command: impl FnOnce(&'a [u8], &'a [u8], bool) -> Option<Command<'a>>,
) -> Parsed<'a> {
    let (all, count) = words.collect_up_to::<4>();
    if count != 2 && count != 3 {
        return frame.bad(reply::ERROR);
    }
    let noreply = is_noreply(&all[..count]);
    let [key, number, ..] = all;
    if !is_key(key) {
        return frame.bad_unless(noreply, reply::BAD_LINE);
    }
    match command(key, number, noreply) {
        Some(command) => frame.command(command),
        None => frame.bad_unless(noreply, bad_number),
    }
}

fn arithmetic<'a>(words: Words<'a>, frame: Frame<'a, '_>, increase: bool) -> Parsed<'a> {
    key_and_number(words, frame, reply::BAD_DELTA, |key, delta, noreply| {
        Some(Command::Arithmetic { key, delta: unsigned(delta)?, increase, noreply })
    })
}

fn touch<'a>(words: Words<'a>, frame: Frame<'a, '_>) -> Parsed<'a> {
    key_and_number(words, frame, reply::BAD_EXPTIME, |key, exptime, noreply| {
        Some(Command::Touch { key, exptime: signed(exptime)?, noreply })
    })
}

/// What no request in a hurry asks for.
#[cold]
fn administration<'a>(name: &[u8], mut words: Words<'a>, frame: Frame<'a, '_>) -> Parsed<'a> {
    match name {
        b"version" => return frame.command(Command::Version),
        b"quit" => return frame.command(Command::Quit),
        b"stats" => {
            let arguments = words.rest().trim_ascii();
            return frame.command(Command::Stats { arguments });
        }
        b"shutdown" => return frame.bad(reply::NO_SHUTDOWN),
        _ => {}
    }
    let (all, count) = words.collect_up_to::<4>();
    let arguments = &all[..count];
    let noreply = is_noreply(arguments);
    match name {
        b"flush_all" => flush_all(arguments, noreply, frame),
        b"verbosity" => match arguments {
            [level] | [level, _] if unsigned(level).is_some() => {
                frame.command(Command::Verbosity { noreply })
            }
            [_] | [_, _] => frame.bad_unless(noreply, reply::BAD_LINE),
            _ => frame.bad(reply::ERROR),
        },
        b"cache_memlimit" => match arguments {
            [mebibytes] | [mebibytes, _] => memlimit(mebibytes, noreply, frame),
            _ => frame.bad(reply::ERROR),
        },
        b"robinhood" => match arguments {
            [b"limit", partition, bytes] | [b"limit", partition, bytes, b"noreply"] => {
                match unsigned(bytes) {
                    Some(bytes) => frame.command(Command::Limit { partition, bytes, noreply }),
                    None => frame.bad_unless(noreply, reply::LIMIT_USAGE),
                }
            }
            _ => frame.bad_unless(noreply, reply::LIMIT_USAGE),
        },
        _ => unknown(words, arguments, frame),
    }
}

/// No command. A browser that was made to send one would go on with headers, in which an attacker may have put commands.
#[cold]
fn unknown<'a>(words: Words<'a>, arguments: &[&[u8]], frame: Frame<'a, '_>) -> Parsed<'a> {
    let last = words.last().or(arguments.last().copied()).unwrap_or_default();
    match last.starts_with(b"HTTP/") {
        true => close(frame.buffer, b""),
        false => frame.bad(reply::ERROR),
    }
}

/// `[<delay>] [noreply]`
fn flush_all<'a>(arguments: &[&[u8]], noreply: bool, frame: Frame<'a, '_>) -> Parsed<'a> {
    let delay = match arguments {
        [] | [b"noreply"] => Some(0),
        [delay] | [delay, _] => signed(delay),
        _ => return frame.bad(reply::ERROR),
    };
    match delay {
        Some(delay_s) => frame.command(Command::FlushAll { delay_s, noreply }),
        None => frame.bad_unless(noreply, reply::BAD_EXPTIME),
    }
}

fn memlimit<'a>(mebibytes: &[u8], noreply: bool, frame: Frame<'a, '_>) -> Parsed<'a> {
    match unsigned(mebibytes) {
        Some(mebibytes) if MEMLIMIT_MIB.contains(&mebibytes) => {
            frame.command(Command::CacheMemlimit { bytes: mebibytes << 20, noreply })
        }
        Some(mebibytes) if mebibytes < *MEMLIMIT_MIB.start() => {
            frame.bad_unless(noreply, reply::MEMLIMIT_TOO_SMALL)
        }
        Some(_) => frame.bad_unless(noreply, reply::MEMLIMIT_TOO_LARGE),
        None => frame.bad_unless(noreply, reply::ERROR),
    }
}

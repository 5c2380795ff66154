//! Random commands of memcached's protocols, good and bad ones.
//!
//! Left out is what is known to differ; docs/cache-server.md lists it.

use robinhood_stats::mixed_bits;

/// Keys of every partition, and of none.
const KEYS: &[&str] = &["a:1", "a:2", "b:1", "c:1", "d:other", "bare"];
/// Keys in base64, which are not used without.
const BINARY_KEYS: &[&str] = &["YToB", "/////w==", "AAA="];
const TIMES: &[&str] = &["0", "0", "1000", "100000", "2000000000", "-1"];
const FLAGS: &[&str] = &["0", "1", "65535", "4294967295"];
const NUMBERS: &[&str] = &["0", "1", "7", "10", "100", "9000000000"];
const VALUES: &[&str] =
    &["", "0", "9", "10", "99", "100", "5   ", " 7", "12 of them", "-1", "x", "1x"];
const ODD_VALUES: &[&str] =
    &["9223372036854775807", "18446744073709551616", "a\r\n", "END\r\n", "VALUE a:1 0 1\r\n1\r\n"];

/// Lines that are no commands, or bad ones without a value; divided by `|`.
const BAD_LINES: &str = "| |x|GET a:1|get|gets|gat|gat 10|gat x a:1|set a:1 0 0|set a:1 0 0 1 noreply x|set a:1 x 0 1|\
set a:1 0 x 1|set a:1 0 0 -1|set a:1 0 0 x|set a:1 0 0 noreply|cas a:1 0 0 1|cas a:1 0 0 1 x|cas a:1 0 0 1 -1|delete|\
delete a:1 1|delete a:1 1 noreply|delete a b c d|incr a:1|incr a:1 x|incr a:1 -1|incr a:1 x noreply|decr|touch a:1|\
touch a:1 x|touch a:1 x noreply|flush_all x|flush_all 1 2 3|verbosity|verbosity x|verbosity 1 2 3|cache_memlimit|\
cache_memlimit 1|cache_memlimit x|cache_memlimit 2000000000|shutdown|mg|ms|ms a:1|ms a:1 x|ms a:1 -1|md|ma|me|mx a:1|\
mg a:1 v v|mg a:1 !|mg a:1 \u{e9}|mg a:1 Tx|mg a:1 Nx|mg a:1 Rx|mg a:1 Fx|mg a:1 Cx|mg a:1 M|mg a:1 MEE|mg a:1 Jx|\
mg a:1 Dx|mg a:1 Tx Fx|mg a:1 b|md a:1 v v|md a:1 Tx|ma a:1 MX|ma a:1 Dx|me a:1 b|\
mg a:1 O12345678901234567890123456789012|md a:1 O12345678901234567890123456789012|\
mg a:1 s v t c f h l k O8 q u P1 L2 N0 R0 T0 F1 C1|ma a:1 s v t c f h l k O8 q u P1 L2 N0 R0 T0 F1 C1|mn x|version x|\
stats nothing|verbosity 0|flush_all -1|flush_all 0 noreply";

/// Flags of `ms` for which its value is thrown away; divided by `|`.
const BAD_FLAGS: &str = "v v|!|Tx|Fx|Cx|MX|MEE|O12345678901234567890123456789012|Jx Fx";

/// A stream of random choices.
pub(crate) struct Draws {
    state: u64,
}

/// A part of a command.
pub(crate) enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A version that the server has given: [`crate::answers::Versions::pick`].
    Version(u64),
}

/// Some commands that are sent together.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) pieces: Vec<Piece>,
    /// Whether the last command ends the connection.
    pub(crate) closes: bool,
}

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: mixed_bits(seed) }
    }

    const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mixed_bits(self.state)
    }

    pub(crate) const fn below(&mut self, bound: usize) -> usize {
        ((self.bits() as u128 * bound as u128) >> 64) as usize
    }

    /// True once in so many times.
    const fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// One of the texts that `|` divides.
    fn of_divided<'a>(&mut self, choices: &'a str) -> &'a str {
        self.of(&Vec::from_iter(choices.split('|')))
    }

    fn value(&mut self) -> Vec<u8> {
        match self.below(40) {
            0 => vec![b'v'; 5_000 + self.below(200_000)],
            1..10 => (0..self.below(100)).map(|_| self.bits().to_le_bytes()[0]).collect(),
            10..15 => self.of(ODD_VALUES).as_bytes().to_vec(),
            _ => self.of(VALUES).as_bytes().to_vec(),
        }
    }
}

impl Batch {
    pub(crate) fn random(draws: &mut Draws) -> Self {
        let mut batch = Self::default();
        for _ in 0..1 + draws.below(4) {
            match draws.below(100) {
                0..25 => batch.read(draws),
                25..45 => batch.store(draws),
                45..60 => batch.change(draws),
                60..90 => batch.meta(draws),
                90 => batch.text("flush_all\r\n"),
                91 => batch.text("version\r\nmn\r\n"),
                _ => {
                    let line = draws.of_divided(BAD_LINES);
                    batch.text(line);
                    batch.text(if draws.once_in(4) { "\n" } else { "\r\n" });
                }
            }
        }
        match draws.below(30) {
            0 => batch.bad_store(draws),
            1 => batch.large_store(draws),
            2 => batch.bad_data(draws),
            3 => {
                batch.text(draws.of(&["quit\r\n", "quit now\r\n"]));
                batch.closes = true;
            }
            _ => {}
        }
        batch
    }

    /// These commands. `{}` is the version that was seen first; what asks over HTTP closes the connection.
    pub(crate) fn of_text(text: &str) -> Self {
        let mut batch = Self { closes: text.contains("HTTP"), ..Self::default() };
        for (index, part) in text.split("{}").enumerate() {
            if index > 0 {
                batch.pieces.push(Piece::Version(0));
            }
            batch.text(part);
        }
        batch
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut() {
            Some(Piece::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.pieces.push(Piece::Bytes(bytes.to_vec())),
        }
    }

    fn version(&mut self, draws: &mut Draws) {
        self.pieces.push(Piece::Version(draws.bits()));
    }

    /// `get` and its kin, with one to five keys.
    fn read(&mut self, draws: &mut Draws) {
        self.text(draws.of(&["get", "get", "gets", "gets", "gat ", "gats "]));
        if matches!(self.pieces.last(), Some(Piece::Bytes(bytes)) if bytes.ends_with(b" ")) {
            self.text(draws.of(TIMES));
        }
        for _ in 0..1 + draws.below(5) {
            self.text(if draws.once_in(9) { "  " } else { " " });
            self.text(draws.of(KEYS));
        }
        self.text("\r\n");
    }

    /// `set` and its kin.
    fn store(&mut self, draws: &mut Draws) {
        let verb =
            draws.of(&["set", "set", "set", "add", "replace", "append", "prepend", "cas", "cas"]);
        let value = draws.value();
        let (key, flags, time) = (draws.of(KEYS), draws.of(FLAGS), draws.of(TIMES));
        self.text(&format!("{verb} {key} {flags} {time} {}", value.len()));
        if verb == "cas" {
            self.text(" ");
            self.version(draws);
        }
        self.text(draws.of(&["", "", "", " noreply", " other"]));
        self.text("\r\n");
        self.bytes(&value);
        self.text("\r\n");
    }

    /// `delete`, `incr`, `decr`, `touch`.
    fn change(&mut self, draws: &mut Draws) {
        let key = draws.of(KEYS);
        let command = match draws.below(5) {
            0 => format!("delete {key}{}", draws.of(&["", " 0"])),
            1 | 2 => format!("mn\r\nincr {key} {}", draws.of(NUMBERS)),
            3 => format!("mn\r\ndecr {key} {}", draws.of(NUMBERS)),
            _ => format!("touch {key} {}", draws.of(TIMES)),
        };
        self.text(&command);
        self.text(draws.of(&["", "", "", " noreply"]));
        self.text("\r\n");
    }

    /// `mg` and its kin, with flags in any order.
    fn meta(&mut self, draws: &mut Draws) {
        let operation = draws.of(&["mg", "mg", "mg", "ms", "ms", "md", "ma", "me", "mn"]);
        if operation == "mn" {
            return self.text("mn\r\n");
        }
        let binary = operation != "ma" && draws.once_in(5);
        let key = draws.of(if binary { BINARY_KEYS } else { KEYS });
        if operation == "ma" {
            self.text("mn\r\n");
        }
        self.text(&format!("{operation} {key}"));
        if operation == "me" {
            return self.text(if binary { " b\r\n" } else { "\r\n" });
        }
        let value = draws.value();
        if operation == "ms" {
            self.text(&format!(" {}", value.len()));
        }
        self.flags(draws, operation, binary);
        self.text("\r\n");
        if operation == "ms" {
            self.bytes(&value);
            self.text("\r\n");
        }
    }

    fn flags(&mut self, draws: &mut Draws, operation: &str, binary: bool) {
        let letters = match operation {
            "mg" => "v v v k t s c f l O q u T N R P L I",
            "ms" => "c k O q F T M C I P s t",
            "md" => "k O q C I I T L",
            _ => "v v k t c O q C N J D M",
        };
        let mut letters = Vec::from_iter(letters.split(' '));
        let mut asked = Vec::new();
        for _ in 0..draws.below(6) {
            let letter = letters[draws.below(letters.len())];
            letters.retain(|other| *other != letter);
            asked.push(letter);
        }
        // What is left out here is among the differences that are listed.
        match operation {
            "ms" if asked.contains(&"C") => asked.retain(|letter| *letter != "I"),
            "ma" if asked.contains(&"N") => asked.retain(|letter| *letter != "q"),
            _ => {}
        }
        if binary {
            asked.retain(|letter| !matches!(*letter, "N" | "M"));
            asked.insert(draws.below(asked.len() + 1), "b");
        }
        let shows_time = asked.contains(&"t");
        for letter in asked {
            self.text(&format!(" {letter}"));
            match letter {
                "O" => self.text(draws.of(&["", "1", "opaque", "1234567890123456789012345678901"])),
                // How long something has left that has been told to expire at once is nobody's business.
                "T" if shows_time || operation == "ms" => {
                    self.text(draws.of(&["0", "1000", "100000"]));
                }
                "T" => self.text(draws.of(TIMES)),
                "N" => self.text(draws.of(&["0", "500", "100000"])),
                "R" => self.text(draws.of(&["30", "2000", "200000"])),
                "C" => self.version(draws),
                "F" => self.text(draws.of(FLAGS)),
                "J" | "D" => self.text(draws.of(NUMBERS)),
                "M" if operation == "ms" => self.text(draws.of(&["S", "E", "A", "P", "R"])),
                "M" => self.text(draws.of(&["I", "+", "D", "-"])),
                "P" | "L" => self.text("hint"),
                _ => {}
            }
        }
    }

    /// `ms` with something wrong, so that its value is thrown away.
    fn bad_store(&mut self, draws: &mut Draws) {
        let flags = draws.of_divided(BAD_FLAGS);
        self.text(&format!("ms {} 3 {flags}\r\nabc\r\n", draws.of(KEYS)));
    }

    /// A value that no server takes.
    fn large_store(&mut self, draws: &mut Draws) {
        let key = draws.of(KEYS);
        let command = match draws.below(4) {
            0 => format!("ms {key} 1100000"),
            1 => format!("add {key} 0 0 1100000"),
            2 => format!("set {key} 0 0 1100000 noreply"),
            _ => format!("set {key} 0 0 1100000"),
        };
        self.text(&format!("{command}\r\n"));
        self.bytes(&vec![b'v'; 1_100_000]);
        self.text("\r\n");
    }

    /// A value that is longer or shorter than was said. What is missing is taken from what follows.
    fn bad_data(&mut self, draws: &mut Draws) {
        let value = draws.of(&["a", "ab", "abc\r\n", "abcdef", "abcd"]);
        let command = match draws.below(3) {
            0 => format!("ms {} 4", draws.of(KEYS)),
            1 => format!("set {} 0 0 4 noreply", draws.of(KEYS)),
            _ => format!("set {} 0 0 4", draws.of(KEYS)),
        };
        self.text(&format!("{command}\r\n{value}\r\n"));
    }
}

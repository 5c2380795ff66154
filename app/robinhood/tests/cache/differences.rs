//! The same random commands for memcached and for `robinhood cache`, and the same answers from both.

use crate::answers::{Versions, are_alike};
use crate::commands::{Batch, Draws, Piece};
use crate::servers::{Connection, Server};

const SEEDS: u64 = 30;
const BATCHES: usize = 150;

/// One of the two servers, and what it has said.
struct Side<'a> {
    server: &'a Server,
    connection: Connection,
    versions: Versions,
}

impl<'a> Side<'a> {
    fn new(server: &'a Server) -> Self {
        let mut connection = server.connect();
        // Another seed may have left something.
        assert_eq!(connection.ask(b"flush_all\r\n"), r"OK\r\n");
        Self { server, connection, versions: Versions::default() }
    }

    /// The bytes of some commands, with the versions that this server has given.
    fn bytes(&self, batch: &Batch) -> Vec<u8> {
        let piece = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.clone(),
            Piece::Version(pick) => self.versions.pick(*pick).to_string().into_bytes(),
        };
        batch.pieces.iter().flat_map(piece).collect()
    }

    /// Sends some commands in pieces, and gives the answers to them.
    fn answers(&mut self, batch: &Batch, number: usize, cuts: &[usize]) -> Vec<String> {
        let mut bytes = self.bytes(batch);
        let last = format!("EN O{number}\r\n");
        if !batch.closes {
            // After a value that is too short, the spaces are what is taken.
            bytes.extend(format!("     \r\nmg last:{number} O{number}\r\n").bytes());
        }
        let mut sent = 0;
        for cut in cuts {
            let end = cut * bytes.len() / 100;
            if end > sent {
                self.connection.send(&bytes[sent..end]);
                sent = end;
            }
        }
        self.connection.send(&bytes[sent..]);
        let (answered, open) = self.connection.receive_until(last.as_bytes());
        if !open {
            self.connection = self.server.connect();
        }
        let mut answers = self.versions.answers(&answered);
        answers.push(if open { "open" } else { "closed" }.to_owned());
        answers
    }
}

#[test]
fn memcached_and_robinhood_answer_the_same() {
    let Some(memcached) = reference() else { return };
    let robinhood = Server::robinhood(&[]);
    for seed in 0..SEEDS {
        let mut draws = Draws::new(seed);
        let (mut theirs, mut ours) = (Side::new(&memcached), Side::new(&robinhood));
        for number in 0..BATCHES {
            let batch = Batch::random(&mut draws);
            let mut cuts: Vec<usize> = (0..draws.below(4)).map(|_| draws.below(100)).collect();
            cuts.sort_unstable();
            let sent = theirs.bytes(&batch);
            let expected = theirs.answers(&batch, number, &cuts);
            let found = ours.answers(&batch, number, &cuts);
            println!("seed {seed}, batch {number}"); // shown when they differ
            check(&sent, &expected, &found);
        }
    }
}

/// What random commands leave out, because it depends on more than they look at. `{}` is the version that was seen first.
const CONVERSATIONS: &[&[&str]] = &[
    // A version that is too old: the value is stored and is stale, and one client is told to renew it.
    &[
        "ms a:1 2 c\r\nab\r\n",
        "ms a:1 1 c\r\nc\r\n",
        "ms a:1 1 C{} I c F7\r\nd\r\n",
        "mg a:1 c v f\r\nmg a:1 c v\r\n",
        "ms a:1 1 C{}\r\ne\r\nms a:1 1 C{} I ME\r\ne\r\nms a:1 1 C{} I MA\r\ne\r\nms none 1 C{} I\r\ne\r\n",
        "mg a:1 v\r\ncas a:1 0 0 1 {}\r\nx\r\n",
        "md a:1 C{}\r\nmd a:1 I\r\nmg a:1\r\nmg a:1\r\nappend a:1 0 0 1\r\nx\r\nmg a:1 v\r\n",
    ],
    // Whether it was used before, in memcached's sense.
    &[
        "set a:1 0 0 1\r\n1\r\n",
        "mg a:1 h u\r\nmg a:1 h u\r\nmg a:1 h\r\nmg a:1 h\r\n",
        "mn\r\n",
        "set a:1 0 0 1\r\n1\r\nmg a:1 h u\r\nget a:1\r\nmg a:1 h u\r\n",
        "append a:1 0 0 1\r\n1\r\nmg a:1 h u\r\ntouch a:1 0\r\nmg a:1 h u\r\n",
    ],
    // Counting, with times.
    &[
        "ma b:1 N100 J7 t v c\r\nmn\r\n",
        "ma b:1 t T200 v\r\n",
        "ma b:1 T300 t v\r\n",
        "ma b:1 C{} v\r\nma b:1 C0 v q\r\nma b:1 q\r\nma b:1 N5 v D1000 MD\r\n",
        "ma YToB b k v N0\r\nma YToB b k v\r\nma YToB b k v q\r\nmd YToB b k\r\n",
    ],
    // A stub, whose maker is told to fill it.
    &[
        "mg c:1 N100 t\r\n",
        "mg c:1 t N100 v s f k O1\r\n",
        "ms c:1 2\r\nab\r\nmg c:1 v R200\r\nmg c:1 v R200\r\nmg c:1 R50\r\n",
        "mg c:1 T20 R30\r\nms c:1 2 T20\r\nab\r\nmg c:1 T40 R30\r\nmg c:1 R30 T20\r\nmg c:1 R30\r\n",
    ],
    &["GET / HTTP/1.1\r\nhost: a\r\n\r\n"],
];

#[test]
fn memcached_and_robinhood_hold_the_same_conversations() {
    let Some(memcached) = reference() else { return };
    let robinhood = Server::robinhood(&[]);
    for conversation in CONVERSATIONS {
        let (mut theirs, mut ours) = (Side::new(&memcached), Side::new(&robinhood));
        for (number, text) in conversation.iter().enumerate() {
            let batch = Batch::of_text(text);
            let sent = theirs.bytes(&batch);
            check(&sent, &theirs.answers(&batch, number, &[]), &ours.answers(&batch, number, &[]));
        }
    }
}

/// Figures of `stats` that mean the same in both. (`cmd_meta` and `total_items` do not: here `mn` is a command, and a number that is counted on an item.)
const FIGURES: [&str; 18] = [
    "cmd_get",
    "get_hits",
    "get_misses",
    "cmd_set",
    "cmd_touch",
    "touch_hits",
    "touch_misses",
    "cmd_flush",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
    "cas_hits",
    "cas_badval",
    "cas_misses",
    "curr_items",
];

#[test]
fn stats_reset_sets_the_same_figures_to_zero() {
    const COMMANDS: &[u8] = b"set a:1 0 0 1\r\n1\r\nadd a:2 0 0 1\r\nx\r\nget a:1\r\nget a:3\r\n\
        touch a:1 0\r\ntouch a:3 0\r\nincr a:1 1\r\nincr a:3 1\r\ndecr a:1 1\r\ndecr a:3 1\r\n\
        cas a:1 0 0 1 1234567\r\n1\r\ncas a:3 0 0 1 1\r\n1\r\ndelete a:2\r\ndelete a:3\r\nmn\r\n";
    let Some(memcached) = reference() else { return };
    let figures = |server: &Server| {
        let mut connection = server.connect();
        let mut after = Vec::new();
        connection.ask(b"flush_all\r\n");
        for command in [COMMANDS, b"stats reset\r\nmn\r\n", COMMANDS] {
            connection.send(command);
            let (answered, _) = connection.receive_until(b"MN\r\n");
            if command != COMMANDS {
                assert_eq!(answered, b"RESET\r\nMN\r\n");
            }
            connection.send(b"stats\r\n");
            let (stats, _) = connection.receive_until(b"END\r\n");
            let stats = String::from_utf8(stats).expect("plain text");
            let figure = |name: &str| {
                let line =
                    stats.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
                format!("{name} {}", line.unwrap_or("is missing"))
            };
            after.push(FIGURES.map(figure));
        }
        after
    };
    let (theirs, ours) = (figures(&memcached), figures(&Server::robinhood(&[])));
    assert_eq!(theirs, ours);
    assert!(ours[1].contains(&"cmd_get 0".to_owned()) && ours[2].contains(&"cmd_get 2".to_owned()));
}

/// memcached, where it is the release that ours is compared with: from one to another, words and flags change.
fn reference() -> Option<Server> {
    const ANSWER: &str = r"VERSION 1.6.18\r\n";
    let memcached = Server::memcached()?;
    let answer = memcached.connect().ask(b"version\r\n");
    if answer != ANSWER {
        eprintln!("skipped: this memcached says {answer}, not {ANSWER}");
        return None;
    }
    Some(memcached)
}

/// Panics where the answers differ.
fn check(sent: &[u8], expected: &[String], found: &[String]) {
    let alike = expected.len() == found.len()
        && expected.iter().zip(found).all(|(left, right)| are_alike(left, right));
    assert!(alike, "{}", report(sent, expected, found));
}

/// What was asked and what was answered, one below the other.
fn report(sent: &[u8], expected: &[String], found: &[String]) -> String {
    let cut = |text: &str| text.chars().take(160).collect::<String>();
    let mut text = String::new();
    for line in sent.split_inclusive(|byte| *byte == b'\n') {
        text += &format!("sent       {}\n", cut(&line.escape_ascii().to_string()));
    }
    for index in 0..expected.len().max(found.len()) {
        let of = |answers: &[String]| {
            answers.get(index).map_or_else(|| "-".to_owned(), |line| cut(line))
        };
        let (left, right) = (of(expected), of(found));
        let mark = if are_alike(&left, &right) { ' ' } else { '!' };
        text += &format!("{mark} memcached {left}\n{mark} robinhood {right}\n");
    }
    text
}

//! Answers of two servers as something that can be compared: versions of values as the order in which they were first
//! seen, times with a tolerance, and without what every server has of its own.

/// How far two clocks may be apart, in seconds.
const TOLERANCE_S: i64 = 5;

/// What has been seen of a server's versions, which mean nothing but being the same or not.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    seen: Vec<u64>,
}

impl Versions {
    /// A version that the server has given before, the same one for servers that have given the same answers; 1 when it has
    /// given none.
    pub(crate) fn pick(&self, pick: u64) -> u64 {
        let index = usize::try_from(pick).unwrap_or(0) % self.seen.len().max(1);
        self.seen.get(index).copied().unwrap_or(1)
    }

    /// The answers in these bytes, one by one.
    pub(crate) fn answers(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut answers = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.windows(2).position(|bytes| bytes == b"\r\n").unwrap_or(rest.len());
            let line = rest[..end].escape_ascii().to_string();
            rest = &rest[(end + 2).min(rest.len())..];
            let (line, data_bytes) = self.normal(&line);
            answers.push(line);
            if let Some(data_bytes) = data_bytes {
                let data = &rest[..data_bytes.min(rest.len())];
                answers.push(format!("{} bytes: {}", data.len(), data.escape_ascii()));
                rest = &rest[data.len()..];
                rest = rest.strip_prefix(b"\r\n").expect("a value ends with CR LF");
            }
        }
        answers
    }

    /// A line, and the bytes of the value after it where there is one.
    fn normal(&mut self, line: &str) -> (String, Option<usize>) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut normal = Vec::new();
        let mut data_bytes = None;
        for (index, word) in words.iter().enumerate() {
            let word = match (words[0], index) {
                ("VERSION", 1) => "of the server".to_owned(),
                ("VALUE", 3) | ("VA", 1) => {
                    data_bytes = Some(word.parse().expect("a length"));
                    (*word).to_owned()
                }
                ("VALUE", 4) => self.seen(word),
                ("VA", 2..) | ("HD" | "EN" | "NF" | "NS" | "EX", 1..) => match word.split_at(1) {
                    ("c", "0") => "c0".to_owned(),
                    ("c", version) => format!("c{}", self.seen(version)),
                    _ => (*word).to_owned(),
                },
                ("ME", 2..) => match word.split_once('=') {
                    Some(("cas", version)) => format!("cas={}", self.seen(version)),
                    Some(("cls" | "size" | "fetch", _)) => continue,
                    _ => (*word).to_owned(),
                },
                _ => (*word).to_owned(),
            };
            normal.push(word);
        }
        (normal.join(" "), data_bytes)
    }

    fn seen(&mut self, version: &str) -> String {
        let version: u64 = version.parse().expect("a version");
        let index = self.seen.iter().position(|seen| *seen == version).unwrap_or_else(|| {
            self.seen.push(version);
            self.seen.len() - 1
        });
        format!("#{index}")
    }
}

/// Whether two answers are the same, but for clocks.
pub(crate) fn are_alike(left: &str, right: &str) -> bool {
    if left == right {
        return true;
    }
    let (left, right): (Vec<_>, Vec<_>) = (left.split(' ').collect(), right.split(' ').collect());
    left.len() == right.len()
        && left.iter().zip(&right).all(|(left, right)| {
            left == right
                || time(left).zip(time(right)).is_some_and(|(left, right)| {
                    left.0 == right.0 && (left.1 - right.1).abs() <= TOLERANCE_S
                })
        })
}

/// A word that is a time: which, and how many seconds.
fn time(word: &str) -> Option<(&str, i64)> {
    ["t", "l", "la=", "exp="].into_iter().find_map(|name| {
        let seconds = word.strip_prefix(name)?.parse().ok()?;
        Some((name, seconds))
    })
}

#[test]
fn versions_are_compared_by_their_order_and_times_by_and_large() {
    let mut versions = Versions::default();
    assert_eq!(versions.pick(7), 1);
    let answers =
        versions.answers(b"VALUE k 0 2 99\r\n\r\n\r\nEND\r\nHD c7 t30\r\nEX c0\r\nHD c99\r\n");
    assert_eq!(
        answers,
        ["VALUE k 0 2 #0", r"2 bytes: \r\n", "END", "HD c#1 t30", "EX c0", "HD c#0"]
    );
    assert_eq!((versions.pick(0), versions.pick(3)), (99, 7));
    assert!(are_alike("HD t30", "HD t31") && !are_alike("HD t30", "HD t-1"));
    assert!(are_alike("ME k la=1", "ME k la=0"));
    assert!(!are_alike("HD t30", "HD l30") && !are_alike("HD", "HD t30"));
}

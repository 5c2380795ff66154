//! What the tests of all protocols need.

use crate::protocol::{Answer, Asked, Garbage, Kind, Protocol, Request};

/// The bytes of a request, readable.
pub(super) fn encoded(protocol: &mut impl Protocol, kind: Kind, key: &str, value: &str) -> String {
    let (key, value) = (key.as_bytes(), value.as_bytes());
    let mut out = Vec::new();
    protocol.encode(&Request { index: 0, kind, key, value }, &mut out);
    out.escape_ascii().to_string()
}

/// What the bytes are as an answer to a request of this kind, followed by another answer's start; and that they are none without
/// their last byte.
pub(super) fn decoded(
    protocol: &mut impl Protocol,
    kind: Kind,
    bytes: &str,
) -> Result<Answer, Garbage> {
    let asked = Asked { index: 0, kind };
    let more = format!("{bytes}{}", &bytes[..1]);
    let answer = protocol.decode(asked, more.as_bytes())?.expect("a whole answer");
    assert_eq!(protocol.decode(asked, &bytes.as_bytes()[..bytes.len() - 1]), Ok(None));
    assert_eq!(answer.bytes, bytes.len());
    Ok(answer)
}

#[test]
fn a_part_of_bytes_is_found_in_them_and_nothing_else_is() {
    let bytes = b"0123456789";
    assert_eq!(super::range_of(&bytes[3..5], bytes), 3..5);
    assert_eq!(super::range_of(&bytes[10..], bytes), 10..10);
    assert!(std::panic::catch_unwind(|| super::range_of(bytes, &bytes[1..])).is_err());
    assert!(std::panic::catch_unwind(|| super::range_of(bytes, &bytes[..9])).is_err());
}

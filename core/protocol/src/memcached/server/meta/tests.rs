use super::*;
use crate::memcached::server::{Command, Limits, Parsed, parse};
use crate::memcached::tests::escaped;

const LIMITS: Limits =
    Limits { value_bytes_max: 100, keys_per_command_max: 4, line_bytes_max: 4_096 };

const SHOWN: Shown = Shown {
    bytes: 5,
    flags: 7,
    version: 99,
    ttl_s: Some(30),
    ttl_before_s: Some(30),
    since_use_s: 3,
    used_before: true,
    won: false,
    stale: false,
    taken: false,
};

fn meta(line: &str) -> MetaCommand<'_> {
    match parse(line.as_bytes(), &LIMITS) {
        Parsed::Command { command: Command::Meta(command), bytes } if bytes == line.len() => {
            command
        }
        other => panic!("{line}: {other:?}"),
    }
}

fn hit(line: &str, shown: Shown) -> String {
    escaped(|out| {
        meta(line).write_hit(out, &shown);
    })
}

fn status(line: &str, status: Status, stored_version: u64) -> String {
    escaped(|out| meta(line).write_status(out, status, stored_version))
}

#[test]
fn a_hit_shows_what_was_asked_for_in_the_order_of_the_question() {
    let all = hit("mg key s v t f c h l k O8 q u\n", SHOWN);
    assert_eq!(all, r"VA 5 s5 t30 f7 c99 h1 l3 kkey O8\r\n");
    assert_eq!(hit("mg key\n", SHOWN), r"HD\r\n");
    let for_ever = Shown { ttl_before_s: None, used_before: false, ..SHOWN };
    assert_eq!(hit("mg a2V5 h t b k\n", for_ever), r"HD h0 t-1 ka2V5 b\r\n");
    let renewed = Shown { won: true, stale: true, taken: true, ..SHOWN };
    assert_eq!(hit("mg key O1\n", renewed), r"HD O1 Z X W\r\n");
}

#[test]
fn the_time_to_live_is_shown_as_of_its_place_in_the_command() {
    let changed = Shown { ttl_s: Some(60), ttl_before_s: None, ..SHOWN };
    assert_eq!(hit("mg key t T60\n", changed), r"HD t-1\r\n");
    assert_eq!(hit("mg key T60 t\n", changed), r"HD t60\r\n");
    assert_eq!(hit("mg key N60 t\n", changed), r"HD t60\r\n");
    assert_eq!(hit("ma key t N60\n", changed), r"HD t-1\r\n");
}

#[test]
fn counting_shows_the_number_and_what_belongs_to_it() {
    assert_eq!(hit("ma key v t c N0 k O8\n", SHOWN), r"VA 5 t30 c99 kkey O8\r\n");
    let marked = Shown { stale: true, won: true, ..SHOWN };
    assert_eq!(hit("ma key s f h l\n", marked), r"HD\r\n");
    assert_eq!(hit("ma key q v\n", SHOWN), "");
}

#[test]
fn whether_a_value_follows_is_said() {
    for (line, follows) in [("mg k v\n", true), ("mg k\n", false), ("ma k v q\n", false)] {
        assert_eq!(meta(line).write_hit(&mut Vec::new(), &SHOWN), follows, "{line}");
    }
}

#[test]
fn quiet_commands_leave_out_the_usual_answer_only() {
    assert_eq!(status("mg k O1 k\n", Status::Miss, 0), r"EN O1 kk\r\n");
    assert_eq!(status("mg k O1 q\n", Status::Miss, 0), "");
    assert_eq!(status("md k O1 k\n", Status::Done, 0), r"HD O1 kk\r\n");
    assert_eq!(status("md k q\n", Status::Done, 0), "");
    assert_eq!(status("ms k 0 c k O1\n\r\n", Status::Done, 5), r"HD c5 kk O1\r\n");
    assert_eq!(status("ms k 0 q c\n\r\n", Status::NotStored, 0), r"NS c0\r\n");
    assert_eq!(status("ma k q O1\n", Status::Exists, 0), r"EX O1\r\n");
    assert_eq!(status("ma k q\n", Status::NotFound, 0), r"NF\r\n");
}

#[test]
fn what_is_known_of_a_value_is_shown() {
    let key = meta("me key\n").key;
    let shown = escaped(|out| write_debug(out, &key, &SHOWN, 1, 64));
    assert_eq!(shown, r"ME key exp=-30 la=3 cas=99 fetch=yes cls=1 size=64\r\n");
    let for_ever = Shown { ttl_s: None, used_before: false, ..SHOWN };
    let shown = escaped(|out| write_debug(out, &key, &for_ever, 1, 64));
    assert_eq!(shown, r"ME key exp=-1 la=3 cas=99 fetch=no cls=1 size=64\r\n");
}

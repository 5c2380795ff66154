use proptest::prelude::*;
use robinhood_stats::Instant;

use super::*;

const PORT: u16 = 40_000;

fn record(request_end_bytes: u64, answer_end_bytes: u64) -> RequestRecord {
    let zero = Instant::ZERO;
    RequestRecord {
        port: PORT,
        due: zero,
        sent: zero,
        received: zero,
        request_end_bytes,
        answer_end_bytes,
        kernel_service: None,
    }
}

/// Bytes `start..start + bytes` of a stream whose opening has the number `opening`.
fn data(from_client: bool, opening: u32, start: u64, bytes: u32, at_ns: u64) -> Segment {
    let sequence = opening.wrapping_add(1).wrapping_add(start as u32);
    Segment { at_ns, client_port: PORT, from_client, sequence, opens: false, bytes }
}

fn opening(from_client: bool, sequence: u32) -> Segment {
    Segment { at_ns: 0, client_port: PORT, from_client, sequence, opens: true, bytes: 0 }
}

fn connections(segments: &[Segment]) -> Connections {
    let mut connections = Connections::default();
    segments.iter().for_each(|segment| connections.handle_segment(segment));
    connections
}

#[test]
fn a_request_and_its_answer_have_the_times_of_their_last_bytes() {
    let seen = connections(&[
        opening(true, 100),
        opening(false, 900),
        data(true, 100, 0, 16, 10),  // first request
        data(true, 100, 16, 20, 20), // second request, and the beginning of a third
        data(false, 900, 0, 5, 30),  // beginning of the first answer
        data(false, 900, 5, 30, 40), // its end, and the second one
        data(true, 100, 36, 12, 50), // end of the third
    ]);
    assert_eq!(seen.times_on_wire(&record(16, 10)), Some((10, 40)));
    assert_eq!(seen.times_on_wire(&record(32, 35)), Some((20, 40)));
    assert_eq!(seen.times_on_wire(&record(48, 35)), Some((50, 40)));
    assert_eq!(seen.times_on_wire(&record(49, 35)), None, "never on the wire");
    let elsewhere = RequestRecord { port: 1, ..record(16, 10) };
    assert_eq!(seen.times_on_wire(&elsewhere), None);
}

#[test]
fn repeated_segments_change_nothing_and_early_ones_count_when_the_gap_closes() {
    let seen = connections(&[
        opening(true, 1),
        opening(false, 1),
        opening(true, 1), // repeated
        data(true, 1, 0, 10, 10),
        data(true, 1, 20, 10, 20), // early
        data(true, 1, 30, 10, 25), // early
        data(true, 1, 0, 10, 30),  // repeated
        data(true, 1, 5, 15, 40),  // closes the gap, half of it repeated
        data(false, 1, 0, 1, 50),
    ]);
    let request = |bytes| seen.times_on_wire(&record(bytes, 1)).map(|times| times.0);
    assert_eq!([10, 11, 20, 40, 41].map(request), [Some(10), Some(40), Some(40), Some(40), None]);
}

#[test]
fn streams_with_an_unknown_start_or_a_port_used_twice_have_no_times() {
    let answer = [opening(false, 1), data(false, 1, 0, 1, 5)];
    let late = [data(true, 1, 0, 10, 10), opening(true, 1), data(true, 1, 0, 10, 20)];
    let twice = [opening(true, 1), data(true, 1, 0, 10, 10), opening(true, 77)];
    for requests in [late, twice] {
        let seen = connections(&[answer.as_slice(), &requests].concat());
        assert_eq!(seen.times_on_wire(&record(10, 1)), None);
    }
}

#[test]
fn keep_alive_probes_before_the_first_byte_are_no_data() {
    let mut probe = data(true, 1, 0, 1, 5);
    probe.sequence -= 1;
    let answer = [opening(false, 1), data(false, 1, 0, 1, 5)];
    let requests = [opening(true, 1), probe, data(true, 1, 0, 10, 10)];
    let seen = connections(&[answer.as_slice(), &requests].concat());
    assert_eq!(seen.times_on_wire(&record(1, 1)), Some((10, 5)));
}

/// A stream cut into segments, some of which are repeated, moved or merged with their neighbours: ranges of bytes in the order of capture.
fn segmentation() -> impl Strategy<Value = (u64, Vec<(u64, u32)>)> {
    prop::collection::vec(1..2_000u32, 1..40).prop_flat_map(|sizes| {
        let mut start = 0;
        let mut parts = Vec::new();
        for &size in &sizes {
            parts.push((start, size));
            start += u64::from(size);
        }
        let (all, count) = (parts.clone(), parts.len());
        let extra = prop::collection::vec((0..count, 0..count, 0..=count, 1..2_000u32), 0..20);
        let swaps = prop::collection::vec((0..count, 1..4usize), 0..10);
        (Just(start), extra, swaps).prop_map(move |(total, extra, swaps)| {
            let mut order = all.clone();
            for (place, distance) in swaps {
                let other = (place + distance).min(order.len() - 1);
                order.swap(place, other);
            }
            for (from, _, at, bytes) in extra {
                let start = all[from].0;
                let bytes = u64::from(bytes).min(total - start);
                order.insert(at, (start, u32::try_from(bytes).unwrap()));
            }
            (total, order)
        })
    })
}

proptest! {
    #[test]
    fn any_segmentation_gives_each_byte_the_time_from_which_all_before_it_are_there(
        (total, order) in segmentation(),
        opened in prop_oneof![Just(u32::MAX), Just(u32::MAX - 1_000), any::<u32>()],
    ) {
        let mut segments = vec![opening(true, opened), opening(false, 7), data(false, 7, 0, 1, 1)];
        let mut first_seen = vec![u64::MAX; total as usize];
        for (&(start, bytes), at_ns) in order.iter().zip(1..) {
            segments.push(data(true, opened, start, bytes, at_ns));
            for seen in &mut first_seen[start as usize..][..bytes as usize] {
                *seen = at_ns.min(*seen);
            }
        }
        let seen = connections(&segments);
        let mut whole_since = 0;
        for (byte, &at_ns) in first_seen.iter().enumerate() {
            whole_since = at_ns.max(whole_since);
            let found = seen.times_on_wire(&record(byte as u64 + 1, 1));
            prop_assert_eq!(found, Some((whole_since, 1)), "byte {}", byte);
        }
    }
}

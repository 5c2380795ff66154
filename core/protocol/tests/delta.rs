//! Deltas as frames: what is written is read, and how many bytes it takes.

use proptest::prelude::*;
use robinhood_blocking::{
    BatchRecord, Blocker, Delta, Detail, Outcome, Recorder, RecorderConfig, Report, Weight,
};
use robinhood_protocol::delta::{self, DecodeError, EncodeError, Frame, HEAD_BYTES};
use robinhood_stats::{BackendName, Nanos};

fn name(text: &str) -> BackendName {
    text.parse().unwrap()
}

fn framed(delta: &Delta) -> Vec<u8> {
    let mut out = Vec::new();
    delta::write_delta(delta, &mut out).unwrap();
    out
}

/// Latency in us, place of the blocker, weight in 2^-16.
type Drawn = (u64, usize, u64);

fn drawn() -> impl Strategy<Value = Drawn> {
    let weight = prop_oneof![4 => Just(Weight::ONE.0), 1 => 1..=Weight::MAX.0];
    let micros = prop_oneof![1_000..900_000_u64, 0..3_600_000_000_u64];
    (micros, 0..8_usize, weight)
}

fn counted(requests: &[Drawn], detail: Detail, sender: u64, boot_nonce: u64) -> Delta {
    let service = name("shop");
    let mut recorder = Recorder::new(RecorderConfig { service, sender, boot_nonce, detail });
    for &(micros, place, weight) in requests {
        let latency = Nanos::from_micros(micros);
        let blocker = match place {
            0 => Blocker::Own,
            1 => Blocker::Nobody,
            _ => {
                let id = recorder.backend(&name(&format!("backend-{place}")));
                let hits = (micros % 3) as u32;
                let (failures, timeouts) = (u32::from(hits == 0), u32::from(hits < 2));
                let latency = (hits < 2).then_some(latency);
                let batch = BatchRecord { queries: 2, hits, failures, timeouts, latency };
                recorder.record_batch(id, batch);
                Blocker::Backend(id)
            }
        };
        let outcome = if micros % 7 == 0 { Outcome::Cancelled } else { Outcome::Complete };
        recorder.record(Report { latency, blocker, outcome, weight: Weight(weight) }).unwrap();
    }
    recorder.take_delta(Nanos::from_micros(micros_of(requests)))
}

fn micros_of(requests: &[Drawn]) -> u64 {
    requests.first().map_or(0, |first| first.0)
}

proptest! {
    #[test]
    fn a_delta_is_read_as_it_was_written_and_only_when_all_of_it_is_there(
        requests in prop::collection::vec(drawn(), 0..200),
        sampled in any::<bool>(),
        all in any::<bool>(),
        (sender, boot_nonce) in any::<(u64, u64)>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut requests = requests;
        if !sampled {
            requests.iter_mut().for_each(|request| request.2 = Weight::ONE.0);
        }
        let detail = if all { Detail::All } else { Detail::WIRE };
        let sent = counted(&requests, detail, sender, boot_nonce);
        let bytes = framed(&sent);
        let followed = [&bytes[..], b"RH"].concat();
        let Ok(Some((Frame::Delta(payload), used))) = delta::parse(&followed) else {
            panic!("no frame")
        };
        prop_assert_eq!(used, bytes.len());
        prop_assert_eq!(delta::decode(payload), Ok(sent));
        let cut = cut.index(bytes.len());
        prop_assert_eq!(delta::parse(&bytes[..cut]), Ok(None));
        let short = delta::decode(&payload[..cut.saturating_sub(HEAD_BYTES)]);
        prop_assert!(short.is_err(), "a part was read as a whole: {:?}", short);
    }
}

#[test]
fn what_is_no_delta_is_told_why() {
    let good = framed(&counted(&[(5_000, 2, Weight::ONE.0)], Detail::All, 1, 2));
    let payload = &good[HEAD_BYTES..];
    let longer = [payload, &[0, 0]].concat();
    assert_eq!(delta::decode(&longer), Err(DecodeError::Trailing { bytes: 2 }));
    assert_eq!(delta::decode(&[]), Err(DecodeError::Truncated));
    let mut bad_name = payload.to_vec();
    bad_name[1] = b'S';
    assert_eq!(delta::decode(&bad_name), Err(DecodeError::Name));
    let names_at = payload.windows(2).position(|pair| pair == b"\x01\x09").unwrap();
    let mut million = payload.to_vec();
    million.splice(names_at..=names_at, [0xc0, 0x84, 0x3d]);
    assert_eq!(delta::decode(&million), Err(DecodeError::TooManyNames { names: 1_000_000 }));
    let mut flags = payload.to_vec();
    let flags_at = payload.windows(9).position(|name| name == b"backend-2").unwrap() + 9;
    flags[flags_at] = 7;
    assert_eq!(delta::decode(&flags), Err(DecodeError::Flags(7)));
}

#[test]
fn a_delta_that_no_receiver_takes_is_not_written() {
    let mut delta = counted(&[(5_000, 2, Weight::ONE.0)], Detail::All, 1, 2);
    delta.reports = 0;
    let mut out = b"before".to_vec();
    assert!(matches!(delta::write_delta(&delta, &mut out), Err(EncodeError::Malformed(_))));
    let mut recorder = Recorder::new(RecorderConfig::default());
    for place in 0..1_024 {
        let id = recorder.backend(&name(&format!("{}{place}", "b".repeat(60))));
        for micros in (0..120).map(|step| (4 + step % 4) << (step / 4)) {
            let latency = Some(Nanos::from_micros(micros));
            let batch = BatchRecord { queries: 900, latency, ..BatchRecord::default() };
            (0..40).for_each(|_| recorder.record_batch(id, batch));
        }
    }
    let large = recorder.take_delta(Nanos::ZERO);
    let error = delta::write_delta(&large, &mut out);
    assert!(matches!(error, Err(EncodeError::TooLarge { .. })), "{error:?}");
    assert_eq!(out, b"before");
}

/// SplitMix64, as a number from 0 to below 1.
fn draw(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// One second of an application server: each request asks 5 of 20 backends in batches of two queries, of which 30 % miss. Backends take from 2
/// to 8 ms, with a tail that falls with the third power.
fn second(recorder: &mut Recorder, requests: u32, state: &mut u64) {
    let ids: Vec<_> =
        (0..20).map(|i| recorder.backend(&name(&format!("backend-{i:02}")))).collect();
    for _ in 0..requests {
        let mut slowest = (Nanos::from_micros(300), Blocker::Nobody);
        for _ in 0..5 {
            let place = (draw(state) * 20.0) as usize;
            let hits = (0..2).filter(|_| draw(state) < 0.7).count() as u32;
            let base_us = 2_000.0 + 300.0 * place as f64;
            let took = Nanos((base_us * 1e3 / (1.0 - draw(state)).cbrt()) as u64);
            let latency = (hits < 2).then_some(took);
            recorder.record_batch(
                ids[place],
                BatchRecord { queries: 2, hits, latency, ..BatchRecord::default() },
            );
            if let Some(latency) = latency.filter(|latency| *latency > slowest.0) {
                slowest = (latency, Blocker::Backend(ids[place]));
            }
        }
        recorder.record(Report::complete(slowest.0, slowest.1)).unwrap();
    }
}

/// Shown with `cargo test -p robinhood-protocol --test delta -- --nocapture`.
#[test]
fn a_second_of_twenty_backends_is_two_kilobytes_at_1_000_requests_and_never_six() {
    let mut state = 7;
    for (requests, bytes_max) in [(100, 2_000), (1_000, 2_000), (20_000, 6_000), (200_000, 6_000)] {
        let mut recorder = Recorder::new(RecorderConfig::default());
        let sizes: Vec<usize> = (0..5)
            .map(|_| {
                second(&mut recorder, requests, &mut state);
                framed(&recorder.take_delta(Nanos::from_millis(500))).len()
            })
            .collect();
        println!("{requests} requests/s: {sizes:?} bytes");
        assert!(sizes.iter().all(|&bytes| bytes <= bytes_max), "{requests}/s: {sizes:?}");
    }
}

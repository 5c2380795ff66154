//! What policies see beyond reports.

use robinhood_cache::{PartitionId, Sharing};
use robinhood_controller::{PolicyKind, Sight};
use robinhood_stats::BackendName;
use robinhood_workload::{Generator, Request};

use super::small;
use crate::Options;
use crate::control::Control;
use crate::insight::curves;
use crate::sensors::Sensors;
use crate::source::Source;
use crate::world::{BackendTally, World};

fn small_world() -> World {
    let workload = small();
    let source = Source::Generated(Box::new(Generator::new(&workload, 7).unwrap()));
    World::new(&workload, source, 7, Sharing::Partitioned, &Options::default())
}

/// Lets so many requests pass.
fn pass(world: &mut World, requests: u32) {
    let mut request = Request::new();
    for _ in 0..requests {
        assert!(world.next_request(&mut request).unwrap());
        while world.poll_completion(world.arrival(request.due)).is_some() {}
        world.handle_request(&mut request);
    }
}

#[test]
fn nothing_is_measured_that_the_policy_does_not_look_at() {
    for policy in PolicyKind::ALL {
        let mut world = small_world();
        let control = Control::new(&small(), policy, 1, &Options::default()).unwrap();
        control.apply_start(&mut world);
        for server in &world.servers {
            let fits = match policy.sight() {
                Sight::Reports => matches!(server.sensors, Sensors::None),
                Sight::HitSlopes => matches!(server.sensors, Sensors::Slopes(_)),
                Sight::ShadowHits => matches!(server.sensors, Sensors::Hits(..)),
                Sight::MissRatioCurves => matches!(server.sensors, Sensors::Footprints(_)),
            };
            assert!(fits, "{policy}");
        }
    }
}

#[test]
fn footprint_curves_foresee_the_misses_at_the_present_limits() {
    let (workload, mut world) = (small(), small_world());
    for server in &mut world.servers {
        server.watch(Sight::MissRatioCurves, workload.cache_per_server);
    }
    pass(&mut world, 30_000);
    let before: Vec<BackendTally> = world.tallies.clone();
    pass(&mut world, 150_000);
    let names: Vec<BackendName> = workload.names().cloned().collect();
    let curves = curves(&world.servers, &names);
    assert_eq!(curves.len(), 3);
    for (backend, (name, curve)) in curves.iter().enumerate() {
        let foreseen = curve.at(world.servers[0].ledger.limit(PartitionId(backend as u16)));
        let (now, before) = (world.tallies[backend], before[backend]);
        let hits = (now.hits - before.hits) as f64 / (now.queries - before.queries) as f64;
        // 30 to 300 keys in each sample: a few points.
        assert!((foreseen - (1.0 - hits)).abs() < 0.06, "{name}: {foreseen} and {}", 1.0 - hits);
    }
}

use super::*;

fn queue(servers: u32, utilisation: f64) -> Mdc {
    Mdc::new(Load::new(servers, utilisation).unwrap()).unwrap()
}

#[test]
fn waits_of_one_server_agree_with_the_table() {
    // Erlang's alternating form with 60 digits: utilisation; mean wait, its P50, P90, P99, P99.9, P99 of the sojourn in units of 1/50.
    let table = [
        (0.5, [0.5, 0.0, 1.51574, 3.33626, 5.16839, 216.81]),
        (0.7, [1.16667, 0.72975, 3.07709, 6.48550, 9.89435, 374.27]),
        (0.8, [2.0, 1.27594, 5.01151, 10.35589, 15.70027, 567.79]),
        (0.9, [4.5, 3.01305, 10.78250, 21.89824, 33.01397, 1144.91]),
        (0.95, [9.5, 6.48067, 22.30223, 44.93777, 67.57330, 2296.89]),
    ];
    for (utilisation, expected) in table {
        let queue = queue(1, utilisation);
        let wait = |p| queue.wait_quantile(p);
        let sojourn = 50.0 * queue.sojourn_quantile(0.99);
        let found = [queue.wait_mean(), wait(0.5), wait(0.9), wait(0.99), wait(0.999), sojourn];
        for (place, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            let allowed = if place == 5 { 6e-3 } else { 6e-6 };
            assert!((found - expected).abs() < allowed, "{utilisation}: {found}, not {expected}");
        }
    }
}

#[test]
fn waits_of_several_servers_agree_with_the_table() {
    // Servers, utilisation; probability of waiting, mean wait, its P99 and P99.9.
    let table = [
        (2, 0.8, [0.701898, 0.903284, 5.06955, 7.74174]),
        (4, 0.5, [0.163294, 0.049652, 0.71081, 1.16899]),
        (4, 0.7, [0.409948, 0.189708, 1.48804, 2.34068]),
        (4, 0.8, [0.578282, 0.386095, 2.45458, 3.79067]),
        (4, 0.9, [0.775437, 0.999966, 5.33938, 8.11831]),
        (8, 0.7, [0.251569, 0.062680, 0.68562, 1.11442]),
        (8, 0.8, [0.433795, 0.151954, 1.16960, 1.83769]),
        (16, 0.8, [0.281604, 0.052548, 0.54347, 0.87840]),
    ];
    for (servers, utilisation, expected) in table {
        let queue = queue(servers, utilisation);
        let wait = |p| queue.wait_quantile(p);
        let found = [queue.wait_probability(), queue.wait_mean(), wait(0.99), wait(0.999)];
        for (place, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            let allowed = if place < 2 { 6e-7 } else { 6e-6 };
            let error = (found - expected).abs();
            assert!(error < allowed, "{servers}, {utilisation}: {found}, not {expected}");
        }
    }
    let sojourn_us = [0.5, 0.99, 0.999].map(|p| 50.0 * queue(4, 0.8).sojourn_quantile(p));
    for (found, expected) in sojourn_us.into_iter().zip([56.86, 172.73, 239.53]) {
        assert!((found - expected).abs() < 6e-3, "{found}, not {expected}");
    }
}

/// Erlang's form for one server; its terms alternate, so only short waits keep digits.
fn erlang(utilisation: f64, time: f64) -> f64 {
    let term = |k: u32| {
        let x = utilisation * (f64::from(k) - time);
        let power = (1..=k).fold(1.0, |product, i| product * x / f64::from(i));
        power * libm::exp(-x)
    };
    (1.0 - utilisation) * (0..=time as u32).map(term).sum::<f64>()
}

#[test]
fn with_one_server_the_distribution_is_erlangs() {
    for utilisation in [0.05, 0.3, 0.6, 0.9, 0.97] {
        let queue = queue(1, utilisation);
        assert!((queue.wait_probability() - utilisation).abs() < 1e-12);
        for step in 0..80 {
            let time = f64::from(step) / 10.0;
            let (found, expected) = (1.0 - queue.wait_exceeds(time), erlang(utilisation, time));
            assert!((found - expected).abs() < 1e-10, "{utilisation} {time}: {found} {expected}");
        }
    }
}

#[test]
fn the_mean_is_the_area_under_the_tail() {
    for (servers, utilisation) in [(1, 0.7), (3, 0.9), (12, 0.85), (100, 0.95), (300, 0.98)] {
        let queue = queue(servers, utilisation);
        // Simpson's rule between whole service times, in steps far below the time between two departures.
        let steps = 32 * servers;
        let area = |whole: u32| {
            let weight = |i: u32| if i == 0 || i == steps { 1 } else { 2 + 2 * (i % 2) };
            // Derivatives jump at whole numbers: the end is the value just below.
            let part = |i: u32| (f64::from(i) / f64::from(steps)).min(1.0 - 1e-14);
            let tail = |i: u32| queue.wait_exceeds(f64::from(whole) + part(i));
            let sum: f64 = (0..=steps).map(|i| f64::from(weight(i)) * tail(i)).sum();
            sum / f64::from(3 * steps)
        };
        let lasts = |whole: &u32| queue.wait_exceeds(f64::from(*whole)) > 1e-13;
        let area: f64 = (0..).take_while(lasts).map(area).sum();
        assert!(
            (area / queue.wait_mean() - 1.0).abs() < 1e-6,
            "{servers} {utilisation}: {area} instead of {}",
            queue.wait_mean()
        );
    }
}

#[test]
fn tails_fall_and_quantiles_invert_them() {
    for (servers, utilisation) in [(1, 0.95), (2, 0.5), (7, 0.8), (512, 0.9)] {
        let queue = queue(servers, utilisation);
        let tails: Vec<f64> = (0..2_000).map(|i| queue.wait_exceeds(f64::from(i) / 16.0)).collect();
        assert!(tails.is_sorted_by(|a, b| *a >= *b - 1e-14), "{servers} {utilisation}");
        for p in [0.99, 0.999_999] {
            let wait = queue.wait_quantile(p);
            let left = queue.wait_exceeds(wait);
            assert!(wait == 0.0 || (left / (1.0 - p) - 1.0).abs() < 1e-6, "{servers}: {left}");
        }
    }
}

#[test]
fn fixed_service_times_wait_less_than_exponential_ones_and_more_than_half() {
    for (servers, utilisation) in [(1, 0.5), (2, 0.8), (4, 0.5), (16, 0.9), (64, 0.7)] {
        let load = Load::new(servers, utilisation).unwrap();
        let ratio = queue(servers, utilisation).wait_mean() / crate::Mmc::new(load).wait_mean();
        assert!((0.5 - 1e-12..0.75).contains(&ratio), "{servers} {utilisation}: {ratio}");
    }
}

#[test]
fn loads_that_the_method_cannot_do_are_refused() {
    let refused = |servers, utilisation| Mdc::new(Load::new(servers, utilisation).unwrap());
    assert!(matches!(refused(513, 0.5), Err(LoadError::Servers { servers_max: 512, .. })));
    assert!(matches!(refused(1, 0.99), Err(LoadError::NearSaturation { .. })));
}

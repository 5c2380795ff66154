//! Protocols that read and write keys: from their flags to a plan, and a server filled with what is read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use robinhood_load_tester::preload::{PreloadError, preload};
use robinhood_load_tester::protocol::Protocol;
use robinhood_load_tester::sources::keyvalue::KeyValueSource;
use robinhood_load_tester::{Instance, Target};
use robinhood_workload::keyvalue::{self, KeyValueSpec, KeyValues, SizeDistribution, SizeLimits};

use super::args::KeyValueFlags;
use super::setup::Plan;
use crate::failure::Failure;
use crate::output;

/// What a protocol with keys brings along.
pub(crate) struct KeyValueTarget {
    pub(crate) target: Target,
    pub(crate) seed: u64,
    /// The first one fills the server, the others do not.
    pub(crate) instance: Instance,
    /// Whether the keys are written before the load begins.
    pub(crate) fill: bool,
    pub(crate) protocol: Box<dyn Fn(u32) -> Box<dyn Protocol>>,
}

/// Reads the workload, checks it against the limits of the protocol, fills the server.
pub(crate) fn plan(
    flags: &KeyValueFlags,
    target: KeyValueTarget,
    stop: &AtomicBool,
) -> Result<Plan, Failure> {
    let mut protocol = (target.protocol)(0);
    let keys_per_get = flags.keys_per_get;
    if keys_per_get > 1 && !protocol.reads_many() {
        let name = protocol.name();
        return Err(Failure::usage(format!(
            "--keys-per-get {keys_per_get}: {name} reads one key at a time; memcached and resp read several"
        )));
    }
    let limits = protocol.limits();
    let limits = SizeLimits {
        whose: protocol.name(),
        key_bytes_max: limits.key_bytes_max as u64,
        value_bytes_max: limits.value_bytes_max as u64,
    };
    let spec = spec(flags, &limits)?;
    let data = KeyValues::new(&spec)
        .map_err(|error| Failure::usage(format!("--workload {}: {error}", flags.workload)))?;
    if target.fill && !flags.no_preload {
        if target.instance.number == 1 {
            fill(&target.target, protocol.as_mut(), &data, stop)?;
        } else {
            eprintln!("instance 1 fills the server: let --start-at be after that");
        }
    }
    let mut workload = format!(
        "{}: {} keys, {:.4} of the requests read, {:.4} of the reads should hit",
        spec.name,
        data.keys(),
        spec.get_share,
        data.expected_hit_share()
    );
    if keys_per_get > 1 {
        workload += &format!(", {keys_per_get} keys a read");
    }
    let seed = target.seed;
    Ok(Plan {
        target: target.target,
        workload,
        protocol: target.protocol,
        source: Box::new(move |client| {
            Box::new(KeyValueSource::new(&data, seed, client).keys_per_get(keys_per_get))
        }),
        arrivals: spec.arrivals,
    })
}

/// Prints a preset, or a file as it was understood: to be edited and read back.
pub(crate) fn print(workload: &str) -> Result<(), Failure> {
    output::say(&keyvalue::write_toml(&named(workload, &SizeLimits::NONE)?));
    Ok(())
}

/// The preset of this name, or what the file says.
fn named(workload: &str, limits: &SizeLimits) -> Result<KeyValueSpec, Failure> {
    if !Path::new(workload).is_file() {
        return keyvalue::by_name(workload).map_err(|error| {
            Failure::usage(format!("--workload: {error}; and there is no such file"))
        });
    }
    let mut read = |path: &str| std::fs::read_to_string(path).map_err(|error| error.to_string());
    let text = read(workload)
        .map_err(|error| Failure::failed(format!("cannot read {workload}: {error}")))?;
    keyvalue::read(&text, workload, limits, &mut read).map_err(Failure::configuration)
}

/// The preset or file, with what flags say differently.
fn spec(flags: &KeyValueFlags, limits: &SizeLimits) -> Result<KeyValueSpec, Failure> {
    let mut spec = named(&flags.workload, limits)?;
    if let Some(keys) = flags.keys {
        spec.keys = keys;
    }
    if let Some(bytes) = flags.value_bytes {
        spec.value_sizes = SizeDistribution::Fixed(bytes);
    }
    if let Some(share) = flags.get_share {
        spec.get_share = share;
    }
    if flags.hit_share.is_some() {
        spec.hit_share = flags.hit_share;
    }
    spec.check_limits(limits)
        .map_err(|error| Failure::usage(format!("--workload {}: {error}", flags.workload)))?;
    Ok(spec)
}

fn fill(
    target: &Target,
    protocol: &mut dyn Protocol,
    data: &Arc<KeyValues>,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let progress = |keys| eprint!("\rfilling: {keys} keys");
    let done = preload(target, protocol, data, stop, progress).map_err(|error| match error {
        PreloadError::Stopped => Failure::failed(error),
        error => Failure::failed(format!("{error} (--no-preload leaves the server as it is)")),
    })?;
    eprintln!(
        "\rfilled: {} keys, {:.1} MiB of values; {} read back",
        done.keys,
        done.value_bytes as f64 / (1 << 20) as f64,
        done.checked
    );
    if done.missing > 0 {
        eprintln!(
            "note: {} of {} keys that were read back are gone: the server's memory is too small for this workload, and fewer reads will hit than the workload says",
            done.missing, done.checked
        );
    }
    Ok(())
}

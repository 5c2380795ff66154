//! What a store takes from the system: resident bytes an item beyond key and value, and resident memory while sizes change.
//!
//! Run `cargo bench -p robinhood-cache --bench memory`; without `--bench` (as `cargo test` runs it) it does one small round. Each scenario runs in a
//! process of its own, so that none uses memory again that another has given back.

#[expect(dead_code, reason = "the helpers are those of the bench of the store")]
mod measure;

use measure::{Clock, KEY_BYTES, Key, PARTITIONS, key, resident_bytes};
use robinhood_cache::{Store, StoreConfig, item_bytes};
use robinhood_stats::Bytes;

const SMALL: usize = 200;
const LARGE: usize = 4_096;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn new_store(budget: Bytes, attributes: bool) -> Store {
    let config = StoreConfig { attributes, ..StoreConfig::new(budget, PARTITIONS.into()) };
    Store::new(&config).expect("the configuration is in range")
}

fn insert(store: &Store, (partition, key): &Key, value: &[u8]) {
    store.insert(*partition, key, value).expect("a small item fits");
}

/// Resident bytes an item beyond key and value, when `items` have come in and each was read once.
fn items(items: usize, attributes: bool) {
    let before = resident_bytes();
    let store = new_store(Bytes(2 * items as u64 * item_bytes(KEY_BYTES, SMALL).0), attributes);
    for item in 0..items {
        insert(&store, &key(item), &[7; SMALL]);
    }
    for item in 0..items {
        let (partition, key) = key(item);
        assert!(store.get(partition, &key).is_some());
    }
    let resident = (resident_bytes() - before) as f64 / items as f64;
    let (booked, memory) = (store.used_total().0 as f64 / items as f64, store.memory());
    let payload = (KEY_BYTES + SMALL) as f64;
    println!(
        "| {items} | {} | {:.1} | {:.1} | {:.1} | {:.1} |",
        if attributes { "yes" } else { "no" },
        resident - payload,
        booked - payload,
        memory.live_bytes.0 as f64 / items as f64 - payload,
        memory.index_bytes.0 as f64 / items as f64,
    );
}

/// Fills a store, then changes the sizes of what comes in, each time with a quarter more bytes than it holds. Half of the operations are look-ups
/// of random items, so that eviction meets all pages.
fn churn(budget: Bytes) {
    let before = resident_bytes();
    let store = new_store(budget, true);
    let (mut random, mut next) = (Random(3), 0);
    let mut slow = [0_u64; 2]; // inserts of more than 200 us and of more than 1 ms
    for (phase, value_bytes) in [SMALL, LARGE, SMALL, 1_000].into_iter().enumerate() {
        let value = vec![phase as u8; value_bytes];
        let inserts = (budget.0 * 5 / 4 / store.item_bytes(&[0; KEY_BYTES], &value).0) as usize;
        let (mut most, mut most_pages) = (0, 0);
        for done in 0..inserts {
            let (partition, key_read) = key(next - random.below(next.min(10_000_000) + 1));
            let _hit_or_miss = store.get(partition, &key_read);
            let start = Clock::now();
            insert(&store, &key(next), &value);
            let micros = start.elapsed().as_micros();
            slow = [slow[0] + u64::from(micros > 200), slow[1] + u64::from(micros > 1_000)];
            next += 1;
            if done % 10_000 == 0 {
                most = most.max(resident_bytes() - before);
                most_pages = most_pages.max(store.memory().page_bytes.0);
            }
        }
        let memory = store.memory();
        println!(
            "| {value_bytes} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
            most as f64 / budget.as_f64(),
            most_pages as f64 / budget.as_f64(),
            memory.page_bytes.as_f64() / budget.as_f64(),
            memory.live_bytes.as_f64() / budget.as_f64(),
            memory.index_bytes.as_f64() / budget.as_f64(),
        );
    }
    store.trim();
    let resident = (resident_bytes() - before) as f64 / budget.as_f64();
    println!(
        "\nafter a trim: {resident:.3}; of {next} inserts {} took more than 200 us of wall time, {} more than 1 ms",
        slow[0], slow[1]
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let full = arguments.iter().any(|argument| argument == "--bench");
    let scenario = arguments.iter().position(|argument| argument == "--scenario");
    let (count, budget) =
        if full { (10_000_000, Bytes::from_mib(2_048)) } else { (10_000, Bytes::from_mib(4)) };
    match scenario.map(|place| arguments[place + 1].as_str()) {
        Some("library") => items(count, false),
        Some("server") => items(count, true),
        Some("churn") => churn(budget),
        _ => {
            println!("### Memory an item beyond key and value, values of {SMALL} B\n");
            println!("| items | attributes | resident | booked | in blocks | index |");
            println!("| --- | --- | --- | --- | --- | --- |");
            let run = |scenario| {
                let program = std::env::current_exe().expect("a bench knows its program");
                let mut command = std::process::Command::new(program);
                command.args(["--scenario", scenario]).args(full.then_some("--bench"));
                assert!(command.status().expect("the bench runs again").success());
            };
            run("library");
            run("server");
            println!("\n### Sizes that change, budget {budget}: parts of the budget\n");
            println!("| values, B | most resident | most pages | pages | live | index |");
            println!("| --- | --- | --- | --- | --- | --- |");
            run("churn");
        }
    }
}

//! Both trace formats on the same requests: bytes a query, and how fast they are read and written.
//!
//! `cargo bench -p robinhood-workload --bench traces`. The sizes are printed first; the rates are queries per second of one thread, from and to memory.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use robinhood_workload::presets::{self, Scale};
use robinhood_workload::{
    Generator, Record, Request, RequestStream, TraceFormat, TraceOptions, TraceReader,
    TraceRecords, TraceWriter,
};

const REQUESTS: u64 = 50_000;

fn written(preset: &str, format: TraceFormat) -> (Vec<u8>, u64) {
    let workload = presets::by_name(preset, Scale::EIGHTH).expect("a preset");
    let mut stream = Generator::new(&workload, 1).expect("a preset can run");
    let mut writer = TraceWriter::new(Vec::new(), format);
    let mut request = Request::new();
    for _ in 0..REQUESTS {
        stream.generate(&mut request);
        writer.write(&request, &stream).expect("memory takes everything");
    }
    let queries = writer.queries();
    (writer.finish().expect("memory takes everything"), queries)
}

fn read(bytes: &[u8]) -> usize {
    let mut stream = TraceReader::new(bytes, "memory", TraceOptions::default());
    let mut request = Request::new();
    let mut queries = 0;
    while stream.next_into(&mut request).expect("a good trace") {
        queries += request.queries();
    }
    queries
}

fn convert(bytes: &[u8], format: TraceFormat) -> usize {
    let mut records = TraceRecords::new(bytes, "memory", false);
    let mut writer = TraceWriter::new(Vec::with_capacity(16 * bytes.len()), format);
    let mut record = Record::new();
    while records.next_into(&mut record).expect("a good trace") {
        writer.write_record(&record, &records).expect("memory takes everything");
    }
    writer.finish().expect("memory takes everything").len()
}

fn formats(c: &mut Criterion) {
    for preset in ["onerf", "demo"] {
        let formats = [TraceFormat::JsonLines, TraceFormat::Binary];
        let mut group = c.benchmark_group(preset);
        group.sample_size(10);
        for (format, other) in formats.into_iter().zip(formats.into_iter().rev()) {
            let (bytes, queries) = written(preset, format);
            let per_query = bytes.len() as f64 / queries as f64;
            println!("{preset}, {format}: {queries} queries, {per_query:.2} bytes a query");
            group.throughput(Throughput::Elements(queries));
            group.bench_function(format!("read {format}"), |b| b.iter(|| read(black_box(&bytes))));
            group.bench_function(format!("convert {format} to {other}"), |b| {
                b.iter(|| convert(black_box(&bytes), other));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, formats);
criterion_main!(benches);

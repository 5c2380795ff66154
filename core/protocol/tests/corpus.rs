//! The corpus of the fuzz targets, as ordinary tests.

mod checks;

use std::path::Path;

#[test]
fn every_parser_keeps_its_promises_on_its_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, _) in checks::TARGETS {
        let folder = corpus.join(target);
        let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
        let mut count = 0;
        for file in files {
            let path = file.unwrap().path();
            println!("{path:?}"); // shown when a check panics
            checks::run(target, &std::fs::read(&path).unwrap());
            count += 1;
        }
        assert!(count >= 5, "{folder:?} has {count} files");
    }
}

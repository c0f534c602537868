//! What fuzzing has found worth keeping, once more: `fuzz/seeds` is where each run of the fuzzer starts, and a test.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod anything;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let files = std::fs::read_dir(folder.join(target)).unwrap();
    files.map(|f| std::fs::read(f.unwrap().path()).unwrap()).collect()
}

#[test]
fn every_table_that_was_found_is_read_or_refused() {
    let seeds = seeds("table");
    assert!(seeds.len() >= 10, "the seeds are gone");
    seeds.iter().for_each(|data| anything::table(data));
}

#[cfg(feature = "parquet")]
#[test]
fn every_parquet_file_that_was_found_is_read_or_refused() {
    let seeds = seeds("parquet");
    assert!(seeds.len() >= 4, "the seeds are gone");
    seeds.iter().for_each(|data| anything::parquet(data));
}

//! What fuzzing has found worth keeping, once more: `fuzz/seeds` is where each run of the fuzzer starts, and a test.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod anything;

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let files = std::fs::read_dir(folder.join(target)).unwrap();
    files.map(|f| std::fs::read(f.unwrap().path()).unwrap()).collect()
}

#[test]
fn every_checkpoint_that_was_found_is_gone_on_with_or_refused() {
    let seeds = seeds("checkpoint");
    assert!(seeds.len() >= 10, "the seeds are gone");
    seeds.iter().for_each(|data| anything::checkpoint(data));
}

#[test]
fn all_settings_that_were_found_are_run_or_refused() {
    let seeds = seeds("filter_spec");
    assert!(seeds.len() >= 10, "the seeds are gone");
    seeds.iter().for_each(|data| anything::filter_spec(data));
}

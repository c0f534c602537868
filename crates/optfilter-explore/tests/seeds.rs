//! The requests that the fuzzer starts from, as they are and with any change.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod anything;

use proptest::prelude::*;

fn seeds() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/request");
    let files = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = files.map(|f| f.unwrap().path()).collect();
    names.sort();
    names.iter().map(|name| std::fs::read(name).unwrap()).collect()
}

#[test]
fn every_request_is_answered_or_refused() {
    let seeds = seeds();
    assert!(seeds.len() >= 10, "the seeds are gone");
    seeds.iter().for_each(|data| anything::request(data));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn requests_with_any_change_are_answered_or_refused(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let seeds = seeds();
        let mut data = which.get(&seeds).clone();
        for (at, byte) in &changes {
            let at = at.index(data.len());
            data[at] = *byte;
        }
        anything::request(&data);
        data.truncate(cut.index(data.len()));
        anything::request(&data);
    }
}

//! NumPy's archives: numbers and texts are read, and what is neither says so.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter_table::npz::{Npz, Values};
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kinds.npz")
}

#[test]
fn numbers_and_texts_are_read() {
    let file = Npz::open(&golden()).unwrap();
    let x = file.array("x").unwrap();
    assert_eq!((&x.shape[..], x.doubles()), (&[3, 2][..], vec![0.0, 0.25, 0.5, 0.75, 1.0, 1.25]));
    assert_eq!(file.array("yes").unwrap().values, Values::Bytes(vec![1, 0, 1]));
    assert_eq!(file.texts("y").unwrap().unwrap(), ["up", "dówn", "\u{1f553}"]);
    assert_eq!(file.texts("plain").unwrap().unwrap(), ["a", "bcd", ""]);
    assert_eq!(file.texts("x").unwrap(), None);
    for (name, expected) in [
        ("y", "holds texts, not numbers"),
        ("objects", "Python objects; save it with"),
        ("records", "columns of several types"),
        ("when", "\"M8[s]\" is not supported"),
        ("turned", "Fortran order"),
        ("absent", "it has: x, y"),
    ] {
        let error = file.array(name).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(file.texts("objects").unwrap_err().to_string().contains("dtype=str"));
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let good = std::fs::read(golden()).unwrap();
    let read = |bytes: &[u8]| {
        let Ok(file) = Npz::of(Path::new("damaged.npz"), bytes.to_vec()) else { return false };
        file.names().iter().all(|n| file.array(n).is_ok() | file.texts(n).is_ok())
    };
    for at in 0..good.len() {
        for value in [0x00, 0x7f, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = value;
            read(&bytes);
        }
    }
    // Sizes and places of 64 bits that no file has.
    let directory = good.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    let mut bytes = good.clone();
    bytes[directory + 20..directory + 28].fill(0xff);
    bytes[directory + 42..directory + 46].fill(0xff);
    let extra = [&[1, 0, 24, 0][..], &[0xff; 24]].concat();
    bytes[directory + 30] = extra.len() as u8;
    let name = usize::from(bytes[directory + 28]);
    bytes.splice(directory + 46 + name..directory + 46 + name, extra);
    assert!(!read(&bytes));
}

//! NumPy's legacy stream against draws of NumPy itself (`golden/numpy_legacy.py`).

#![allow(clippy::unwrap_used)] // helpers of tests

use optfilter_paper::numpy_random::RandomState;

/// An exact hexadecimal float as Python prints it.
fn parse_hex(text: &str) -> f64 {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let (mantissa, exponent) = rest.strip_prefix("0x").unwrap().split_once('p').unwrap();
    let (whole, fraction) = mantissa.split_once('.').unwrap();
    let mut value = f64::from_bits(0);
    for (i, digit) in fraction.chars().enumerate() {
        value += f64::from(digit.to_digit(16).unwrap()) / 16.0_f64.powi(i as i32 + 1);
    }
    value += whole.parse::<f64>().unwrap();
    sign * value * 2.0_f64.powi(exponent.parse().unwrap())
}

#[test]
fn the_stream_is_numpys() {
    let golden = include_str!("golden/numpy_legacy.csv");
    let mut random = RandomState::new(0);
    let mut last_seed = None;
    let mut checked = 0;
    // How many draws of each line come before those it prints.
    let skipped = [0, 0, 0, 697, 1996];
    for (i, line) in golden.lines().enumerate() {
        let mut fields = line.split(',');
        let seed: u32 = fields.next().unwrap().parse().unwrap();
        if last_seed != Some(seed) {
            random.reseed(seed);
            last_seed = Some(seed);
        }
        let normal = fields.next().unwrap() == "normal";
        let mut draw = || {
            if normal { random.normal() } else { random.uniform() }
        };
        for _ in 0..skipped[i % 5] {
            draw();
        }
        for expected in fields {
            let (ours, numpys) = (draw(), parse_hex(expected));
            // Uniforms are integers in disguise and exact; the logarithm of another C library may differ in its last place.
            let tolerance = if normal { 4.0 * f64::EPSILON * numpys.abs() } else { 0.0 };
            assert!((ours - numpys).abs() <= tolerance, "seed {seed}: {ours} {numpys}");
            checked += 1;
        }
    }
    assert_eq!(checked, 125);
}

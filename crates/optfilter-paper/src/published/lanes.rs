//! Trajectories side by side as the library's [`Lanes`]: which lane holds what, and an exponential for weights.
//!
//! Nothing is reordered or fused, so each lane computes the very bits that scalar code would.

use optfilter::scalar::{Lanes, Scalar};

/// The same number in every lane.
#[inline(always)]
pub fn all<const W: usize>(value: f64) -> Lanes<W> {
    Lanes::from_f64(value)
}

/// The lanes of a block: consecutive (parameter, run) pairs. Lanes beyond the end repeat the last pair.
pub(super) struct Pairs<const W: usize> {
    runs: usize,
    parameter: [usize; W],
    run: [usize; W],
}

impl<const W: usize> Pairs<W> {
    #[inline(always)]
    pub fn new(parameters: usize, runs: usize, first: usize) -> Self {
        let last = parameters * runs - 1;
        let mut out = Self { runs, parameter: [0; W], run: [0; W] };
        for l in 0..W {
            let pair = (first + l).min(last);
            out.parameter[l] = pair / runs;
            out.run[l] = pair % runs;
        }
        out
    }

    #[inline(always)]
    pub fn parameter(&self, values: &[f64]) -> Lanes<W> {
        let mut out = all(0.0);
        for l in 0..W {
            out.0[l] = values[self.parameter[l]];
        }
        out
    }

    /// The `t`-th group of `N` rows of an array with one row per component.
    #[inline(always)]
    pub fn rows<const N: usize>(&self, values: &[f64], t: usize) -> [Lanes<W>; N] {
        let mut out = [all(0.0); N];
        for c in 0..N {
            let row = &values[(t * N + c) * self.runs..][..self.runs];
            for l in 0..W {
                out[c].0[l] = row[self.run[l]];
            }
        }
        out
    }
}

/// `exp(x)` for `x <= 0` without a branch, so that loops of it become vector code; within two units in the last place.
///
/// Below -708 the result stays at `exp(-708)`, about 3e-308. Written out here because the C library's differs between
/// systems and is slow where the result underflows.
#[inline(always)]
pub fn exp_negative(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // Adding 1.5 * 2^52 rounds to an integer, which then stands in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let x = if x < -708.0 { -708.0 } else { x };
    let shifted = x * core::f64::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    // Taylor to degree 13: the remainder at |r| <= ln(2)/2 is below 5e-18.
    let mut p = 1.0 / 6_227_020_800.0;
    for c in [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        p = p * r + c;
    }
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    p * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for i in 0..200_000 {
            let x = -f64::from(i) * 0.0035;
            let (ours, libm) = (exp_negative(x), x.exp());
            assert!((ours - libm).abs() <= 2.0 * f64::EPSILON * libm, "{x}");
        }
        assert_eq!(exp_negative(0.0), 1.0);
        assert!(exp_negative(f64::NEG_INFINITY) < 1e-300);
        assert!(exp_negative(f64::NAN).is_nan());
    }
}

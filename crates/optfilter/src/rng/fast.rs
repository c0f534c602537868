//! Elementary functions without branches or calls, so that loops over them become vector code.
//!
//! Used where many values are needed at once and no model's result depends on the last bit: normal
//! draws and particle weights. Errors are within 2 units in the last place on the ranges used, which
//! the tests check against the platform's functions.

const LN2_HI: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LO: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
/// 1.5 * 2^52: adding and subtracting it rounds to a whole number.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Natural logarithm of a positive normal number.
#[inline(always)]
pub(crate) fn ln(x: f64) -> f64 {
    // x = 2^k m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m-1)/(m+1), by a polynomial
    // (the coefficients are those of fdlibm's log).
    const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
    let shifted = x.to_bits().wrapping_sub(SQRT_HALF_BITS);
    let k_biased = (shifted >> 52).wrapping_add(1023) & 0xfff;
    let m = f64::from_bits((shifted & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF_BITS));
    // The integer k as a double, by writing it into the fraction of 2^52.
    let k = f64::from_bits(k_biased | 0x4330_0000_0000_0000) - (4_503_599_627_370_496.0 + 1023.0);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w
        * (0.399_999_999_994_094_2 + w * (0.222_221_984_321_497_84 + w * 0.153_138_376_992_093_73));
    let odd = z
        * (0.666_666_666_666_673_5
            + w * (0.285_714_287_436_623_9
                + w * (0.181_835_721_616_180_5 + w * 0.147_981_986_051_165_86)));
    let r = even + odd;
    let half_square = 0.5 * f * f;
    k * LN2_HI - ((half_square - (s * (half_square + r) + k * LN2_LO)) - f)
}

/// Exponential; 0 below -708, where the result would not be a normal number.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let clamped = if x < -708.0 { -708.0 } else { x };
    let clamped = if clamped > 709.0 { 709.0 } else { clamped };
    let shifted = clamped * core::f64::consts::LOG2_E + ROUND;
    let k = shifted - ROUND;
    let r = (clamped - k * LN2_HI) - k * LN2_LO;
    // Taylor to the 13th power: the rest is below 5e-18 for |r| <= ln(2)/2.
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
    // 2^k: the low bits of the shifted number hold k; move them to the exponent.
    let scale = f64::from_bits((shifted.to_bits().wrapping_add(1023)) << 52);
    let y = p * scale;
    if x < -708.0 { 0.0 } else { y }
}

/// Sine and cosine of `turn` whole turns, `turn` in [0, 1).
#[inline(always)]
pub(crate) fn sin_cos_turn(turn: f64) -> (f64, f64) {
    // Quarter turns q and a rest within an eighth of a turn to either side.
    let shifted = turn * 4.0 + ROUND;
    let q_bits = shifted.to_bits();
    let r = (turn * 4.0 - (shifted - ROUND)) * core::f64::consts::FRAC_PI_2;
    let z = r * r;
    let mut s = 1.0 / 355_687_428_096_000.0;
    for c in [
        -1.0 / 1_307_674_368_000.0,
        1.0 / 6_227_020_800.0,
        -1.0 / 39_916_800.0,
        1.0 / 362_880.0,
        -1.0 / 5_040.0,
        1.0 / 120.0,
        -1.0 / 6.0,
    ] {
        s = s * z + c;
    }
    let sin = r + r * (z * s);
    let mut c = -1.0 / 6_402_373_705_728_000.0;
    for k in [
        1.0 / 20_922_789_888_000.0,
        -1.0 / 87_178_291_200.0,
        1.0 / 479_001_600.0,
        -1.0 / 3_628_800.0,
        1.0 / 40_320.0,
        -1.0 / 720.0,
        1.0 / 24.0,
        -0.5,
    ] {
        c = c * z + k;
    }
    let cos = 1.0 + z * c;
    // Odd quarters swap the two; the signs follow from the quarter's two bits.
    let swap = q_bits & 1 == 1;
    let (a, b) = if swap { (cos, sin) } else { (sin, cos) };
    let sin_sign = (q_bits & 2) << 62;
    let cos_sign = (q_bits.wrapping_add(1) & 2) << 62;
    (f64::from_bits(a.to_bits() ^ sin_sign), f64::from_bits(b.to_bits() ^ cos_sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(ours: f64, theirs: f64, ulps: f64, what: &str, x: f64) {
        let unit = f64::EPSILON * theirs.abs().max(f64::MIN_POSITIVE);
        assert!((ours - theirs).abs() <= ulps * unit, "{what}({x}) = {ours}, not {theirs}");
    }

    #[test]
    fn agree_with_the_platform() {
        for i in 0..200_000 {
            let u = (f64::from(i) + 0.5) / 200_000.0;
            close(ln(u), u.ln(), 2.0, "ln", u);
            close(ln(u * 1e-15), (u * 1e-15).ln(), 2.0, "ln", u * 1e-15);
            let x = 1400.0 * (u - 0.5);
            close(exp(x), x.exp(), 2.0, "exp", x);
            let (s, c) = sin_cos_turn(u);
            let angle = u * core::f64::consts::TAU;
            // The argument's own rounding, not ours, dominates: compare absolutely.
            assert!((s - angle.sin()).abs() < 1e-15 && (c - angle.cos()).abs() < 1e-15, "{u}");
        }
        assert_eq!(exp(-1e9), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(ln(1.0), 0.0);
    }
}

//! Random numbers from named streams.
//!
//! A [`Stream`] is named by a seed, a run and a purpose, and counts its draws (Philox 4x32-10, a
//! counter-based generator). Results therefore do not depend on threads, lanes or the order in which
//! runs are made, and a stream's position is all there is to save.
//!
//! ```
//! use optfilter::rng::Stream;
//! let mut a = Stream::new(7, 0, "process noise");
//! let mut b = Stream::new(7, 0, "process noise");
//! assert_eq!(a.normal(), b.normal());
//! assert_ne!(a.normal(), Stream::new(7, 1, "process noise").normal());
//! ```

pub(crate) mod fast;
mod philox;

use crate::simd::dispatch;
use serde::{Deserialize, Serialize};

/// Blocks of the generator that are computed side by side.
const WIDTH: usize = 16;

/// A named stream of random numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    key: [u32; 2],
    run: u64,
    /// The next word to be drawn; each block has two words of 64 bits.
    position: u64,
    /// The second normal of a pair, if only the first was asked for.
    spare: Option<f64>,
}

impl Stream {
    /// The stream of that name, at its beginning.
    pub fn new(seed: u64, run: u64, purpose: &str) -> Self {
        // FNV-1a of the purpose, mixed with the seed by splitmix64, so that near seeds and like
        // purposes have unrelated keys.
        let hash = purpose.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mixed = splitmix(splitmix(seed).wrapping_add(hash));
        Self { key: [mixed as u32, (mixed >> 32) as u32], run, position: 0, spare: None }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [first, second] = self.blocks::<1>(self.position / 2);
        let word = if self.position.is_multiple_of(2) { first[0] } else { second[0] };
        self.position = self.position.wrapping_add(1);
        word
    }

    /// A number uniform in the open interval (0, 1).
    pub fn uniform(&mut self) -> f64 {
        open_unit(self.bits())
    }

    /// A standard normal number.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let ([first], [second]) = self.normal_pairs::<1>();
        self.spare = Some(second);
        first
    }

    /// Fills a slice with standard normal numbers: the same as calling [`normal`](Self::normal) for
    /// each, but several times faster.
    pub fn fill_normal(&mut self, out: &mut [f64]) {
        let mut rest = out;
        if !rest.is_empty()
            && let Some(spare) = self.spare.take()
        {
            rest[0] = spare;
            rest = &mut rest[1..];
        }
        dispatch(
            #[inline(always)]
            || {
                let mut chunks = rest.chunks_exact_mut(2 * WIDTH);
                for chunk in &mut chunks {
                    let (first, second) = self.normal_pairs::<WIDTH>();
                    for i in 0..WIDTH {
                        chunk[2 * i] = first[i];
                        chunk[2 * i + 1] = second[i];
                    }
                }
                for v in chunks.into_remainder() {
                    *v = self.normal();
                }
            },
        );
    }

    /// Fills a slice with numbers uniform in (0, 1): the same as calling [`uniform`](Self::uniform).
    pub fn fill_uniform(&mut self, out: &mut [f64]) {
        dispatch(
            #[inline(always)]
            || {
                let mut rest = &mut out[..];
                if !rest.is_empty() && !self.position.is_multiple_of(2) {
                    rest[0] = self.uniform();
                    rest = &mut rest[1..];
                }
                let mut chunks = rest.chunks_exact_mut(2 * WIDTH);
                for chunk in &mut chunks {
                    let [first, second] = self.blocks::<WIDTH>(self.position / 2);
                    self.position = self.position.wrapping_add(2 * WIDTH as u64);
                    for i in 0..WIDTH {
                        chunk[2 * i] = open_unit(first[i]);
                        chunk[2 * i + 1] = open_unit(second[i]);
                    }
                }
                for v in chunks.into_remainder() {
                    *v = self.uniform();
                }
            },
        );
    }

    /// The two words of `L` consecutive blocks.
    #[inline(always)]
    fn blocks<const L: usize>(&self, first_block: u64) -> [[u64; L]; 2] {
        let mut block = [0; L];
        for (i, b) in block.iter_mut().enumerate() {
            *b = first_block.wrapping_add(i as u64);
        }
        philox::blocks(block, self.run, self.key)
    }

    /// `L` pairs of normals from the next `L` whole blocks, by the Box-Muller transform.
    #[inline(always)]
    fn normal_pairs<const L: usize>(&mut self) -> ([f64; L], [f64; L]) {
        let block = self.position.div_ceil(2);
        let [radius_bits, angle_bits] = self.blocks::<L>(block);
        self.position = block.wrapping_add(L as u64).wrapping_mul(2);
        let (mut first, mut second) = ([0.0; L], [0.0; L]);
        for i in 0..L {
            let radius = crate::scalar::Scalar::sqrt(-2.0 * fast::ln(open_unit(radius_bits[i])));
            let (sin, cos) = fast::sin_cos_turn(open_unit(angle_bits[i]));
            first[i] = radius * cos;
            second[i] = radius * sin;
        }
        (first, second)
    }
}

/// The middle of one of 2^52 equal parts of (0, 1), chosen by the upper bits.
#[inline(always)]
fn open_unit(bits: u64) -> f64 {
    // A double in [1, 2) with these bits as fraction, less 1, plus half a part: exact, branch-free, and
    // without an integer conversion, which not every vector unit has.
    f64::from_bits((bits >> 12) | 0x3ff0_0000_0000_0000) - (1.0 - f64::EPSILON / 2.0)
}

fn splitmix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filling_equals_drawing_one_by_one() {
        for start in 0..4 {
            for len in [0, 1, 2, 31, 32, 33, 100, 257] {
                let mut a = Stream::new(1, 2, "x");
                for _ in 0..start {
                    a.uniform();
                    a.normal();
                }
                let mut b = a.clone();
                let mut filled = alloc::vec![0.0; len];
                a.fill_normal(&mut filled);
                for v in &filled {
                    assert_eq!(v.to_bits(), b.normal().to_bits());
                }
                a.fill_uniform(&mut filled);
                for v in &filled {
                    assert_eq!(v.to_bits(), b.uniform().to_bits());
                }
                assert_eq!(a, b);
            }
        }
    }

    #[test]
    fn normals_have_normal_moments() {
        let n = 1_000_000;
        let mut z = alloc::vec![0.0; n];
        Stream::new(3, 0, "moments").fill_normal(&mut z);
        let moment = |p: i32| z.iter().map(|v| v.powi(p)).sum::<f64>() / n as f64;
        // Five standard errors: the variance of the k-th moment's estimate is (m_2k - m_k^2) / n.
        let root = (n as f64).sqrt();
        assert!(moment(1).abs() < 5.0 / root);
        assert!((moment(2) - 1.0).abs() < 5.0 * 2f64.sqrt() / root);
        assert!(moment(3).abs() < 5.0 * 15f64.sqrt() / root);
        assert!((moment(4) - 3.0).abs() < 5.0 * 96f64.sqrt() / root);
        // Neighbours, which share a block, are uncorrelated.
        let product = z.chunks(2).map(|p| p[0] * p[1]).sum::<f64>() / (n / 2) as f64;
        assert!(product.abs() < 5.0 * 2f64.sqrt() / root);
    }
}

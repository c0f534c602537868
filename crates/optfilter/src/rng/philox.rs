//! Philox 4x32-10, a counter-based generator, several blocks side by side.
//!
//! Reference: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3". The
//! crate rand_philox computes one block at a time; here the blocks are vector lanes, which the normal
//! draws of the particle filter need. The known-answer vectors of the authors' library are the test.

/// The 4 x 32 bits of each block, as two words of 64 bits, for counters (block, run).
#[inline(always)]
pub(super) fn blocks<const L: usize>(block: [u64; L], run: u64, key: [u32; 2]) -> [[u64; L]; 2] {
    const LOW: u64 = 0xffff_ffff;
    // 32-bit words held in 64-bit lanes, so that the wide products need no widening.
    let (mut c0, mut c1) = ([0; L], [0; L]);
    for i in 0..L {
        c0[i] = block[i] & LOW;
        c1[i] = block[i] >> 32;
    }
    let (mut c2, mut c3) = ([run & LOW; L], [run >> 32; L]);
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        for i in 0..L {
            let product0 = c0[i] * 0xd251_1f53;
            let product1 = c2[i] * 0xcd9e_8d57;
            let (old1, old3) = (c1[i], c3[i]);
            c0[i] = (product1 >> 32) ^ old1 ^ u64::from(k0);
            c1[i] = product1 & LOW;
            c2[i] = (product0 >> 32) ^ old3 ^ u64::from(k1);
            c3[i] = product0 & LOW;
        }
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    let (mut low, mut high) = ([0; L], [0; L]);
    for i in 0..L {
        low[i] = c0[i] | (c1[i] << 32);
        high[i] = c2[i] | (c3[i] << 32);
    }
    [low, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_the_reference_library() {
        let words = |ctr: [u32; 4], key: [u32; 2]| {
            let block = u64::from(ctr[0]) | (u64::from(ctr[1]) << 32);
            let run = u64::from(ctr[2]) | (u64::from(ctr[3]) << 32);
            let [low, high] = blocks([block], run, key);
            [low[0] as u32, (low[0] >> 32) as u32, high[0] as u32, (high[0] >> 32) as u32]
        };
        assert_eq!(words([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            words([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            words([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}

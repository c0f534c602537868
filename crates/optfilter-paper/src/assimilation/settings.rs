//! What is compared, and at which lengths and sizes.

use super::contest::Contender;

/// Rows of a window, and iterations, at which sizes are compared.
pub(super) const LARGE: (usize, u32) = (24, 10);
/// States beyond which a window has this many probes.
pub(super) const PROBED: (usize, u32) = (30_000, 4);
/// Past rows and iterations of the sweep, and its cycles at most.
pub(super) const LENGTHS: [usize; 7] = [0, 4, 8, 16, 24, 40, 56];
pub(super) const ITERATIONS: [u32; 4] = [1, 2, 3, 5];
pub(super) const SWEPT: usize = 300;
/// The ensemble filter whose speed is compared with DAPPER's.
pub(super) const LOCAL: Contender = Contender::Letkf { members: 20, inflation: 1.02, radius: 7.0 };
/// Cycles before errors count: DAPPER's twenty units of time.
pub(super) const BURN_IN: usize = 400;

/// The contenders of a setting, chosen on other seeds than those reported.
pub(super) fn contenders(stride: usize) -> Vec<Contender> {
    let window = |length, iterations| Contender::Window { length, iterations };
    let mut all = vec![
        Contender::Descent { rate: 0.2, steps: 1 },
        window(24, 2),
        window(40, 3),
        window(48, 4),
        window(56, 5),
        Contender::Letkf { members: 7, inflation: 1.04, radius: 4.0 },
        Contender::Etkf { members: 24, inflation: 1.02 },
    ];
    if stride > 1 {
        all.retain(|c| !matches!(c, Contender::Descent { .. }));
    }
    all
}

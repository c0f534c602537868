//! Implicit MAP filters over 100 trajectories against loops written by hand for the one case.
//!
//! The hand-written loops hold the trajectories in arrays of 32 as the library does, do nothing but the
//! arithmetic of the filter, and are compiled for AVX-512 where the machine has it.

use crate::models::*;
use crate::{Row, race};
use nalgebra::vector;
use optfilter::Series;
use optfilter::batch::Batch;
use optfilter::filter::ImplicitMap;
use optfilter::model::likelihood::SquaredError;
use optfilter::model::{Growth, Lorenz63};
use optfilter::optim::{Adam, GradientDescent};
use std::hint::black_box;

const T: usize = 200;
const RUNS: usize = 100;
const L: usize = 32;

pub fn rows(rows: &mut Vec<Row>) {
    let (growth, lorenz) = measurements(T * RUNS);
    let per_step = |(a, b): (f64, f64)| (a / T as f64, b / T as f64);
    let pool = one_thread();

    let series = growth.chunks(T).map(|y| Series::new(y, 1).unwrap().with_dt(0.1).unwrap().predict_first()).collect();
    let batch = Batch::new(series);
    let filter = ImplicitMap::new(Growth, SquaredError, Adam::with_decay(0.1, 0.1, 0.1).unwrap(), 50).unwrap();
    let starts = vec![vector![0.1]; RUNS];
    let packed = soa(&growth, 1);
    let (ours_us, peer_us) = pool.install(|| {
        per_step(race(
            1,
            || {
                black_box(batch.run(&filter, &starts).unwrap());
            },
            || {
                black_box(by_hand(|| adam_growth(&packed)));
            },
        ))
    });
    let work = "implicit MAP Adam K=50 toy, 100 trajectories";
    rows.push(Row { work, unit: "step of all", peer: "loop by hand", ours_us, peer_us });

    let series = lorenz.chunks(3 * T).map(|y| Series::new(y, 3).unwrap().with_dt(DT).unwrap().predict_first()).collect();
    let batch = Batch::new(series);
    let model = Lorenz63::default().rk4();
    let filter = ImplicitMap::new(model, SquaredError, GradientDescent::new(0.05).unwrap(), 3).unwrap();
    let starts = vec![vector![10.0, 10.0, 10.0]; RUNS];
    let packed = soa(&lorenz, 3);
    let (ours_us, peer_us) = pool.install(|| {
        per_step(race(
            2,
            || {
                black_box(batch.run(&filter, &starts).unwrap());
            },
            || {
                black_box(by_hand(|| gd_lorenz(&packed)));
            },
        ))
    });
    let work = "implicit MAP GD K=3 Lorenz RK4, 100 trajectories";
    rows.push(Row { work, unit: "step of all", peer: "loop by hand", ours_us, peer_us });
}

fn one_thread() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap()
}

/// Group x time x component x lane; the last group repeats trajectories to fill its lanes.
fn soa(y: &[f64], m: usize) -> Vec<Vec<[f64; L]>> {
    let trajectory = |b: usize| &y[(b % RUNS) * T * m..][..T * m];
    (0..RUNS.div_ceil(L))
        .map(|g| (0..T * m).map(|k| std::array::from_fn(|l| trajectory(g * L + l)[k])).collect())
        .collect()
}

#[inline(always)]
fn by_hand<R>(f: impl FnOnce() -> R) -> R {
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2")]
    fn wide<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        // SAFETY: the features were detected (the machines with these two have the others as well).
        return unsafe { wide(f) };
    }
    f()
}

#[inline(always)]
fn adam_growth(packed: &[Vec<[f64; L]>]) -> Vec<[f64; L]> {
    let (lr, b, eps) = (0.1, 0.1, 1e-8);
    let mut out = Vec::with_capacity(T * packed.len());
    for group in packed {
        let mut x = [0.1; L];
        for (t, y) in group.iter().enumerate() {
            let push = 8.0 * (1.2 * (t as f64 + 1.0) * 0.1).cos();
            for x in &mut x {
                *x = *x * 0.5 + *x * 25.0 / (1.0 + *x * *x) + push;
            }
            let (mut m, mut v, mut power) = ([0.0; L], [0.0; L], 1.0);
            for _ in 0..50 {
                power *= b;
                let (scaled, correct) = (lr / (1.0 - power), 1.0 / (1.0 - power));
                for i in 0..L {
                    let g = x[i] * 0.1 * (x[i] * x[i] * 0.05 - y[i]);
                    m[i] = b * m[i] + (1.0 - b) * g;
                    v[i] = b * v[i] + (1.0 - b) * (g * g);
                    x[i] -= scaled * m[i] / ((v[i] * correct).sqrt() + eps);
                }
            }
            out.push(x);
        }
    }
    out
}

#[inline(always)]
fn gd_lorenz(packed: &[Vec<[f64; L]>]) -> Vec<[f64; L]> {
    let drift = |x: &[f64; 3]| [10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]];
    let mut out = Vec::with_capacity(3 * T * packed.len());
    for group in packed {
        let mut x = [[10.0; L]; 3];
        for y in group.chunks_exact(3) {
            for i in 0..L {
                let a = [x[0][i], x[1][i], x[2][i]];
                let shift = |k: &[f64; 3], h: f64| [a[0] + k[0] * h, a[1] + k[1] * h, a[2] + k[2] * h];
                let k1 = drift(&a);
                let k2 = drift(&shift(&k1, DT / 2.0));
                let k3 = drift(&shift(&k2, DT / 2.0));
                let k4 = drift(&shift(&k3, DT));
                for j in 0..3 {
                    let mut v = a[j] + (k1[j] + 2.0 * (k2[j] + k3[j]) + k4[j]) * (DT / 6.0);
                    for _ in 0..3 {
                        v -= 0.05 * (v - y[j][i]);
                    }
                    x[j][i] = v;
                }
            }
            out.extend_from_slice(&x);
        }
    }
    out
}

//! Times the paper's network on one core: one Adam step at batch 32, the forward pass of 32 images, and that of 1000 particles
//! with weights of their own, as a share of what the core's multiply-adds can do at most.
//!
//! `cargo run --release -p optfilter-nn --example speed`

use optfilter::optim::{Adam, Optimizer, descend};
use optfilter::rng::Stream;
use optfilter_nn::kernel::Level;
use optfilter_nn::{Evaluator, Loss, Minibatch, Network, NetworkObjective, Reduction, Targets};
use std::hint::black_box;
use std::time::Instant;

/// Multiply-adds of one forward pass of one image, times two.
const FLOP: f64 = 2.0 * 9.0 * 32.0 * (1024.0 + 32.0 * (256.0 + 64.0 + 16.0)) + 256.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let network = Network::paper_cnn();
    let mut stream = Stream::new(1, 0, "weights");
    let x: Vec<f32> = (0..32 * 1024).map(|i| ((i * 37 % 101) as f32) / 101.0).collect();
    let y: Vec<u32> = (0..32).map(|i| i % 2).collect();
    let batch = Minibatch::new(
        &network,
        &x,
        Targets::Classes(&y),
        Loss::BinaryCrossEntropy,
        Reduction::Sum,
    )?;
    let adam = Adam::new(1e-3)?;
    for level in Level::available() {
        let mut evaluator = Evaluator::at_level(&network, level);
        let mut w: Vec<f32> = network.init(&mut stream);
        let mut state = adam.init(&w);
        let mut steps = Vec::new();
        for _ in 0..10 {
            let mut objective = NetworkObjective::new(&mut evaluator, batch);
            let start = Instant::now();
            descend(&adam, &mut objective, &mut w, &mut state, 20);
            steps.push(start.elapsed().as_secs_f64() / 20.0 * 1e3);
        }
        let mut z = [0.0; 32];
        let mut passes = Vec::new();
        for _ in 0..10 {
            let start = Instant::now();
            for _ in 0..10 {
                evaluator.predict(&w, &x, &mut z);
            }
            passes.push(start.elapsed().as_secs_f64() / 10.0 * 1e3);
        }
        steps.sort_by(f64::total_cmp);
        passes.sort_by(f64::total_cmp);
        println!(
            "{level:?}: Adam step {:.3} ms (best {:.3}); forward {:.3} ms (best {:.3}), {:.1} GFLOP/s",
            steps[5],
            steps[0],
            passes[5],
            passes[0],
            32.0 * FLOP / passes[0] / 1e6
        );
    }
    let particles: Vec<Vec<f32>> = (0..1000).map(|_| network.init(&mut stream)).collect();
    let mut evaluator = Evaluator::new(&network);
    let mut z = [0.0; 32];
    // The best of a few rounds of each: on a shared machine the rest measures the neighbours.
    let (mut highest, mut least) = (0.0_f64, f64::INFINITY);
    for _ in 0..5 {
        highest = highest.max(peak());
        let start = Instant::now();
        for w in &particles {
            evaluator.predict(w, &x, &mut z);
        }
        least = least.min(start.elapsed().as_secs_f64());
    }
    let rate = 1000.0 * 32.0 * FLOP / least / 1e9;
    println!(
        "1000 particles x 32 images: {:.0} ms, {rate:.1} GFLOP/s, {:.0} % of {highest:.1} GFLOP/s",
        least * 1e3,
        100.0 * rate / highest
    );
    Ok(())
}

/// GFLOP/s of nothing but independent multiply-adds in registers, on the widest vectors there are.
fn peak() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        const ROUNDS: u32 = 20_000_000;
        if std::arch::is_x86_feature_detected!("avx512f") {
            let start = Instant::now();
            // SAFETY: the processor has AVX-512, as was just asked.
            black_box(unsafe { multiply_adds_avx512(ROUNDS) });
            return 2.0 * 16.0 * 12.0 * f64::from(ROUNDS) / start.elapsed().as_secs_f64() / 1e9;
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            let start = Instant::now();
            // SAFETY: the processor has AVX2 and FMA, as was just asked.
            black_box(unsafe { multiply_adds_avx2(ROUNDS) });
            return 2.0 * 8.0 * 12.0 * f64::from(ROUNDS) / start.elapsed().as_secs_f64() / 1e9;
        }
    }
    f64::NAN
}

/// Twelve sums at a time: more than latency times throughput of any processor so far.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_adds_avx512(rounds: u32) -> f32 {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_reduce_add_ps, _mm512_set1_ps};
    let (a, b) = (_mm512_set1_ps(black_box(0.999_999)), _mm512_set1_ps(black_box(1e-6)));
    let mut sums = [_mm512_set1_ps(1.0); 12];
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, a, b);
        }
    }
    sums.iter().map(|s| _mm512_reduce_add_ps(*s)).sum()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_adds_avx2(rounds: u32) -> f32 {
    use std::arch::x86_64::{_mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps};
    let (a, b) = (_mm256_set1_ps(black_box(0.999_999)), _mm256_set1_ps(black_box(1e-6)));
    let mut sums = [_mm256_set1_ps(1.0); 12];
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, a, b);
        }
    }
    sums.iter().map(|s| _mm256_cvtss_f32(*s)).sum()
}

//! Side-by-side timings against peers, as ratios within one run.
//!
//! Each row times the same work by optfilter and by a peer, in alternating rounds, and prints the best
//! round of each and their ratio (peer / ours; above 1 we are faster). Run on an idle machine:
//!
//! ```text
//! cargo run --release --manifest-path bench/Cargo.toml
//! ```

mod gaussian;
mod implicit;
mod models;
mod particle;

use std::time::Instant;

/// One row: ours, the peer's name, the peer's.
struct Row {
    work: &'static str,
    unit: &'static str,
    peer: &'static str,
    ours_us: f64,
    peer_us: f64,
}

/// Times two pieces of work in alternating rounds; returns the best microseconds per call of each.
fn race(calls: usize, mut ours: impl FnMut(), mut peer: impl FnMut()) -> (f64, f64) {
    let mut best = [f64::INFINITY; 2];
    for round in 0..80 {
        for (slot, work) in [(0, &mut ours as &mut dyn FnMut()), (1, &mut peer)] {
            let start = Instant::now();
            for _ in 0..calls {
                work();
            }
            let us = start.elapsed().as_secs_f64() * 1e6 / calls as f64;
            // The first rounds warm caches and branch predictors.
            if round > 2 {
                best[slot] = best[slot].min(us);
            }
        }
    }
    (best[0], best[1])
}

fn main() {
    let mut rows = Vec::new();
    gaussian::rows(&mut rows);
    particle::rows(&mut rows);
    implicit::rows(&mut rows);
    println!("| work | per | ours, us | peer | peer, us | peer / ours |");
    println!("|---|---|---|---|---|---|");
    for r in rows {
        let ratio = r.peer_us / r.ours_us;
        println!(
            "| {} | {} | {:.4} | {} | {:.4} | {ratio:.2} |",
            r.work, r.unit, r.ours_us, r.peer, r.peer_us
        );
    }
}

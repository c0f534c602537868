//! What windows cost on Lorenz '96 of any size, in bare model steps, and how well they follow it.
//!
//! ```text
//! cargo run --release -p optfilter-paper --example window_cost [STATES [CYCLES [L [K [PROBES]]]]]
//! ```
//!
//! `optfilter-reproduce assimilation --full --states 1000,10000` has the same in its report; here the window can be any.

use optfilter_paper::assimilation::{Shape, measure};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<u32> = std::env::args().skip(1).map(|t| t.parse()).collect::<Result<_, _>>()?;
    let or = |i: usize, default: u32| given.get(i).copied().unwrap_or(default);
    let shape = Shape { length: or(2, 24) as usize, iterations: or(3, 10), probes: or(4, 0) };
    println!(
        "| D | filter | cycles | RMSE | ms a cycle | bare model steps | over the count | vectors of memory |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let sizes = measure(or(0, 1000) as usize, or(1, 60) as usize, shape, &|_| true)?;
    for size in sizes.into_iter().flatten() {
        println!(
            "| {} | {} | {} | {:.4} | {:.4} | {:.2} | {:.2} | {} |",
            size.states,
            size.filter,
            size.cycles,
            size.rmse,
            1e3 * size.cycle,
            size.steps(),
            size.steps() / size.count,
            size.vectors.map_or("-".into(), |held| format!("{held:.1}")),
        );
    }
    Ok(())
}

//! Figure 3: filtering densities of a particle filter with 100,000 particles, and the implicit MAP estimates.

use super::picture::{Picture, untitled};
use super::trajectory::{ADAM, Q, R};
use crate::published::model::Toy;
use crate::published::{Quirks, imap, particle, simulate};
use optfilter_plot::color::{BLUE, GRID, INK, PAPER, VERMILION};
use optfilter_plot::{Axis, Mark, Panel};

const PARTICLES: usize = 100_000;
const LIMIT: f64 = 32.0;
const BINS: usize = 128;
/// Steps per row of the figure.
const ROW: usize = 50;
const ROWS: usize = 2;

/// The figure with its caption.
pub fn picture(seed: u32) -> Picture {
    let quirks = Quirks::PUBLISHED;
    let model = Toy::new(&quirks);
    let data = simulate::toy(Q, R, 1, seed, &quirks);
    let estimates = imap::estimates(model, &data, ADAM, 0, &quirks);
    let mut histograms: Vec<(usize, Vec<f64>)> = Vec::new();
    let filter = particle::ToyParticles::new(&model, Q, R, &quirks);
    let shown = ROWS * ROW;
    let collect = |_: usize, t: usize, particles: &[Vec<f64>; 1]| {
        // Every other step, the first shown being step 2.
        if (t + 1).is_multiple_of(2) && t < shown {
            let mut bins = vec![0.0; BINS];
            for x in &particles[0] {
                let bin = (x + LIMIT) / (2.0 * LIMIT) * BINS as f64;
                if bin >= 0.0 && bin < BINS as f64 {
                    bins[bin as usize] += 1.0;
                }
            }
            histograms.push((t, bins));
        }
    };
    particle::run_until(&[(filter, &data)], 0, seed, PARTICLES, shown, &quirks, collect);

    let mut figure = untitled("Figure 3: filtering densities and implicit MAP estimates", 1, 212.0);
    for row in 0..ROWS {
        let first = row * ROW;
        let x = Axis::linear("time step").range(first as f64 + 0.5, (first + ROW) as f64 + 2.5);
        let heading = if row == 0 { "Filtering densities every other step" } else { "" };
        let mut panel = Panel::new(heading, x, Axis::linear("state").range(-LIMIT, LIMIT));
        let (mut truth, mut found) = (Vec::new(), Vec::new());
        for (t, bins) in histograms.iter().filter(|(t, _)| t / ROW == row) {
            let most = bins.iter().fold(0.0_f64, |a, &b| a.max(b));
            let at = (*t + 1) as f64;
            let outline = bins.iter().enumerate().map(|(b, count)| {
                let state = -LIMIT + (b as f64 + 0.5) / BINS as f64 * 2.0 * LIMIT;
                (at + 1.8 * count / most, state)
            });
            let ends = [(at, -LIMIT), (at, LIMIT)];
            let outline = ends[..1].iter().copied().chain(outline).chain(ends[1..].iter().copied());
            let density = Mark::area(outline).color(BLUE).opacity(0.55);
            panel.marks.push(density.named("density, 100,000 particles"));
            panel.marks.push(Mark::line(ends).color(GRID).size(0.6));
            let x = data.x[*t];
            truth.extend([(at - 0.25, x), (at + 0.25, x), (f64::NAN, f64::NAN)]);
            found.push((at, estimates[*t][0]));
        }
        panel.marks.extend([
            Mark::line(truth).color(INK).size(1.8).named("true state"),
            Mark::points(found.clone()).color(PAPER).size(3.9),
            Mark::points(found)
                .color(VERMILION)
                .size(3.2)
                .named("implicit MAP, Adam (50, 0.1, 0.1)"),
        ]);
        figure.panels.push(panel);
    }
    Picture {
        name: "figure-3-densities",
        caption: "Filtering distribution of a particle filter with 100,000 particles (each scaled to its own height) at every other step, with the implicit MAP \
                  estimate and the true state; toy system, Q = 3, R = 2, first run. The estimate sits on a mode at most steps, on the wrong one around some crossings of zero."
            .into(),
        figure,
    }
}

//! Figure 3: filtering densities of a particle filter with 100,000 particles, and the implicit MAP estimates.

use super::Figure;
use super::axes::{Mark, Panel, Scale, legend_row};
use super::canvas::{Canvas, INK, PALETTE};
use super::trajectory::{ADAM, Q, R};
use crate::published::model::Toy;
use crate::published::{Quirks, imap, particle, simulate};

const PARTICLES: usize = 100_000;
const LIMIT: f64 = 32.0;
const BINS: usize = 128;
/// Steps per row of the figure.
const ROW: usize = 50;
const ROWS: usize = 2;

/// Draw it.
pub fn draw(seed: u32) -> Figure {
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

    let title = "Figure 3: filtering densities and implicit MAP estimates";
    let mut canvas = Canvas::new(920.0, 590.0, title);
    for row in 0..ROWS {
        let first = row * ROW;
        let panel = Panel {
            x: 56.0,
            y: 30.0 + 264.0 * row as f64,
            w: 844.0,
            h: 212.0,
            sx: Scale::linear(first as f64 + 0.5, (first + ROW) as f64 + 2.5),
            sy: Scale::linear(-LIMIT, LIMIT),
        };
        let heading = if row == 0 { "Filtering densities every other step" } else { "" };
        panel.draw(&mut canvas, heading, "time step", "state");
        panel.clip(&mut canvas);
        for (t, bins) in histograms.iter().filter(|(t, _)| t / ROW == row) {
            let most = bins.iter().fold(0.0_f64, |a, &b| a.max(b));
            let at = (*t + 1) as f64;
            let mut outline = vec![panel.at(at, -LIMIT)];
            for (b, count) in bins.iter().enumerate() {
                let state = -LIMIT + (b as f64 + 0.5) / BINS as f64 * 2.0 * LIMIT;
                outline.push(panel.at(at + 1.8 * count / most, state));
            }
            outline.push(panel.at(at, LIMIT));
            canvas.polygon(&outline, PALETTE[0], r#"fill-opacity="0.55""#);
            canvas.line(panel.at(at, -LIMIT), panel.at(at, LIMIT), "#cfd8e0", 0.6);
            let x = data.x[*t];
            let (px, py) = panel.at(at, x);
            canvas.line((px - 4.0, py), (px + 4.0, py), INK, 1.8);
            canvas.dot(
                panel.at(at, estimates[*t][0]),
                3.2,
                PALETTE[3],
                r##"stroke="#ffffff" stroke-width="0.7""##,
            );
        }
        canvas.end_clip();
    }
    legend_row(
        &mut canvas,
        478.0,
        574.0,
        &[
            ("density, 100,000 particles", PALETTE[0], Mark::Patch),
            ("implicit MAP, Adam (50, 0.1, 0.1)", PALETTE[3], Mark::Dot),
            ("true state", INK, Mark::Line),
        ],
    );
    Figure {
        name: "figure-3-densities",
        caption: "Filtering distribution of a particle filter with 100,000 particles (each scaled to its own height) at every other step, with the implicit MAP \
                  estimate and the true state; toy system, Q = 3, R = 2, first run. The estimate sits on a mode at most steps, on the wrong one around some crossings of zero."
            .into(),
        svg: canvas.finish(),
    }
}

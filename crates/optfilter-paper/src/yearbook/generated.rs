//! A made-up stand-in for the portraits: striped patches whose stripes turn over the decades.
//!
//! Two classes differ by a right angle between their stripes. Until 1930 the stripes of class 0 lie level; then both
//! classes turn together, 60 degrees by 2010, so that weights fitted to the first years are certain to fail in the last
//! ones: past 45 degrees each class looks more like what the other one was. Position, stripe width, contrast, brightness and noise vary from
//! image to image. Same shapes and years as the real data; never to be mistaken for it: every output carries its name.

use super::data::{Dataset, PIXELS, SIDE};
use optfilter::rng::Stream;

/// Images before 1931, as many as the paper has.
const EARLY: usize = 886;
/// Images of each year from 1931 on: 32 to learn from, 16 to validate, 100 to test.
const YEARLY: usize = 148;
/// Degrees turned by 2010.
const TURN: f64 = 60.0;

impl Dataset {
    /// The stand-in; always the same.
    pub fn generated() -> Self {
        Self::striped(2010, "generated stand-in (turning stripes, not portraits)")
    }

    /// The stand-in of a demonstration, which has turned as far by another year.
    pub fn turning(last: i32) -> Self {
        Self::striped(last, "demonstration on generated stripes, not portraits")
    }

    fn striped(last: i32, name: &str) -> Self {
        let mut data = Self {
            name: name.into(),
            generated: true,
            images: Vec::new(),
            year: Vec::new(),
            label: Vec::new(),
            problems: Vec::new(),
        };
        for i in 0..EARLY {
            data.push(1905 + (i * 26 / EARLY) as i32, i as u64, last);
        }
        for year in 1931..=last {
            for i in 0..YEARLY {
                data.push(year, i as u64, last);
            }
        }
        data
    }

    fn push(&mut self, year: i32, index: u64, last: i32) {
        let mut stream = Stream::new(1905, year as u64 * 10_000 + index, "stand-in image");
        let label = stream.uniform() < 0.5;
        let turned = TURN * f64::from((year - 1930).max(0)) / f64::from(last - 1930);
        let degrees = turned + if label { 90.0 } else { 0.0 } + 12.0 * stream.normal();
        let (sin, cos) = degrees.to_radians().sin_cos();
        let frequency = 0.5 + 0.2 * stream.uniform();
        let phase = std::f64::consts::TAU * stream.uniform();
        let (brightness, contrast) = (0.5 + 0.08 * stream.normal(), 0.2 + 0.2 * stream.uniform());
        let centre = [15.5 + 3.0 * stream.normal(), 15.5 + 3.0 * stream.normal()];
        let mut noise = [0.0; PIXELS];
        stream.fill_normal(&mut noise);
        for (i, noise) in noise.iter().enumerate() {
            let (y, x) = ((i / SIDE) as f64 - centre[0], (i % SIDE) as f64 - centre[1]);
            let patch = (-(x * x + y * y) / 200.0).exp();
            let stripe = (frequency * (cos * y - sin * x) * 2.0 + phase).sin();
            let value = brightness + contrast * patch * stripe + 0.06 * noise;
            self.images.push((255.0 * value).clamp(0.0, 255.0) as u8);
        }
        self.year.push(year);
        self.label.push(u8::from(label));
    }
}

//! Which images of a year are learnt from, which validate and which test.

use super::data::{Dataset, PIXELS};
use optfilter::rng::Stream;

/// Labelled images ready for the network.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Pixels in `[0, 1]`.
    pub images: Vec<f32>,
    /// Classes.
    pub labels: Vec<u32>,
}

impl Part {
    fn of(data: &Dataset, indices: &[usize]) -> Self {
        let mut part = Self::default();
        for &i in indices {
            part.images.extend(
                data.images[i * PIXELS..(i + 1) * PIXELS].iter().map(|v| f32::from(*v) / 255.0),
            );
            part.labels.push(u32::from(data.label[i]));
        }
        part
    }

    /// Percent of the images whose class the network's outputs name; none for no images.
    pub fn percent_right(&self, z: &[f32]) -> Option<f64> {
        let right = z.iter().zip(&self.labels).filter(|(z, y)| (**z > 0.0) == (**y == 1)).count();
        (!self.labels.is_empty()).then(|| 100.0 * right as f64 / self.labels.len() as f64)
    }
}

/// The images of one year, by their place in the data.
#[derive(Clone, Debug)]
pub struct YearSplit {
    /// The year.
    pub year: i32,
    train: Vec<usize>,
    validation: Vec<usize>,
    test: Vec<usize>,
}

impl YearSplit {
    /// From one permutation of the year's n images: min(32, 2n/3) to learn from, min(16, half the rest) to validate, the
    /// next 100 at most to test.
    pub fn new(data: &Dataset, year: i32, seed: u64) -> Self {
        let mut all: Vec<usize> = (0..data.len()).filter(|i| data.year[*i] == year).collect();
        let mut stream = Stream::new(seed, year as u64, "yearbook split");
        for i in (1..all.len()).rev() {
            let j = (stream.uniform() * (i + 1) as f64) as usize;
            all.swap(i, j.min(i));
        }
        let n = all.len();
        let train = (2 * n / 3).min(32);
        let validation = ((n - train) / 2).min(16);
        let rest = all.split_off(train + validation);
        let held = all.split_off(train);
        Self { year, train: all, validation: held, test: rest.into_iter().take(100).collect() }
    }

    /// Number of test images.
    pub fn n_test(&self) -> usize {
        self.test.len()
    }
    /// The images to learn from.
    pub fn train(&self, data: &Dataset) -> Part {
        Part::of(data, &self.train)
    }
    /// The images to choose configurations by.
    pub fn validation(&self, data: &Dataset) -> Part {
        Part::of(data, &self.validation)
    }
    /// The images that are reported.
    pub fn test(&self, data: &Dataset) -> Part {
        Part::of(data, &self.test)
    }
}

/// Batches for the pre-training: 64 images of the years up to 1930, drawn with replacement.
pub fn pretraining_batch(data: &Dataset, early: &[usize], stream: &mut Stream) -> Part {
    let pick = |_| early[((stream.uniform() * early.len() as f64) as usize).min(early.len() - 1)];
    Part::of(data, &(0..64).map(pick).collect::<Vec<_>>())
}

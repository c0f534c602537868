//! Following a user's own drifting stream: predict first, then learn from the labels, time step after time step.
//!
//! The score of a time step is computed before its labels are used (*prequential*), so nothing is ever judged on what it
//! has seen. [`Stream`] holds the data, [`Follower`] a network with a filter, [`prequential`] runs one over the other,
//! [`Live`] follows one that need not fit in memory, whose labels may be late or missing, and
//! [`tune`] chooses the number of steps and the learning rate by prequential loss alone.
//!
//! ```
//! use optfilter_nn::adapt::{Follower, Labels, Setup, Stream, WeightMethod, prequential};
//! use optfilter_nn::Shape;
//! // A threshold that moves: the label says whether x is above it.
//! let (mut x, mut y, mut time) = (Vec::new(), Vec::new(), Vec::new());
//! for t in 0..40 {
//!     for i in 0..20 {
//!         let value = f64::from(i) / 10.0 - 1.0;
//!         x.push(value);
//!         y.push(u32::from(value > f64::from(t) / 40.0 - 0.5));
//!         time.push(f64::from(t));
//!     }
//! }
//! let stream = Stream::new(Shape::Vector(1), x, Labels::classes(y, 2), time)?;
//! let score = |method| -> Result<f64, Box<dyn std::error::Error>> {
//!     let setup = Setup { network: "mlp:8".into(), method, lr: 0.01, ..Setup::default() };
//!     let mut follower = Follower::new(&stream, &setup, None)?;
//!     let scores = prequential(&mut follower, &stream, 1..stream.steps())?;
//!     Ok(scores.iter().map(|s| s.right as f64).sum::<f64>() / scores.iter().map(|s| s.n as f64).sum::<f64>())
//! };
//! assert!(score(WeightMethod::ImplicitMap { steps: 30 })? > score(WeightMethod::Static)? + 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bank;
mod error;
mod follow;
mod labels;
mod live;
mod member;
mod outputs;
mod prequential;
mod read;
mod samples;
mod saved;
mod scale;
mod score;
mod setting;
mod setup;
mod steps;
mod stream;
mod tally;
mod tune;

pub use error::AdaptError;
pub use follow::{Follower, Prediction};
pub use labels::Labels;
pub use live::Live;
pub use prequential::{prequential, prequential_into};
pub use read::{CsvOptions, class_name, read_csv, read_npz};
pub use saved::Saved;
pub use scale::{LARGEST, Moments, Scaling};
pub use score::{Score, judge, level, mean_loss, most_likely};
pub use setting::Setting;
pub use setup::{BankOptions, Setup, WeightMethod};
pub use steps::{Step, TableSteps};
pub use stream::Stream;
pub use tally::{Piece, Tally};
pub use tune::{Choice, Rolling, Tuned, tune, tune_rolling};

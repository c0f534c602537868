//! The ensemble transform Kalman filter, whole (ETKF) or local (LETKF): a Kalman filter whose covariance is the
//! spread of a few members.
//!
//! ```text
//! predict   x_k <- f(x_k) + q_k,   q_k ~ N(0, Q)                            each member, k = 1 .. N
//! update    A, Y = deviations of the members and of h(x_k) from their means
//!           w = ((N-1) I + Y' R^-1 Y)^-1 Y' R^-1 (y - mean h)
//!           T = (I + Y' R^-1 Y / (N-1))^-1/2                               the symmetric root
//!           mean <- mean + A w,   A <- inflation A T (rotated)
//! ```
//!
//! N members know N - 1 directions. For more, [`local`](Ensemble::local) corrects every state by the measurements near
//! it alone, with a w and a T of its own. What a finite ensemble underestimates is made up for by the inflation of
//! the deviations after each update; a random rotation, which keeps mean and covariance, prevents that single
//! members run away. All as in DAPPER's `EnKF('Sqrt')` and `LETKF`, except that there two neighbours may share
//! an analysis.
//!
//! Nothing is n x n unless its covariance is asked for, up to 1,000 states. R is m x m only where measurements are correlated ([`DiagonalNoise`](crate::model::DiagonalNoise)
//! says that they are not); it is then decomposed at every update, and localised by its symmetric root. The
//! innovation covariance is reported up to 1,000 measurements.
//!
//! The Lorenz '96 system, 40 states of which all are measured, by seven members:
//!
//! ```
//! use nalgebra::{DVector, Dyn};
//! use optfilter::filter::{Belief, EnsembleKalmanFilter, EnsembleBelief, Localization};
//! use optfilter::model::{DiagonalNoise, Lorenz96};
//! use optfilter::{Series, drive::Run, metrics, rng::Stream};
//! let model = Lorenz96::new(Dyn(40), 8.0).rk4();
//! let noise = DiagonalNoise::new(DVector::zeros(40), DVector::repeat(40, 1.0))?;
//! # let mut truth = DVector::from_fn(40, |i, _| if i == 0 { 9.0 } else { 8.0 });
//! # let (mut stream, mut states, mut seen) = (Stream::new(1, 0, "noise"), vec![], vec![]);
//! # for k in 0..300 {
//! #     use optfilter::model::{Dynamics, Step};
//! #     let mut next = truth.clone();
//! #     model.transition(truth.as_slice(), &[], &Step::even(k + 1, 0.05), next.as_mut_slice());
//! #     truth = next;
//! #     states.extend_from_slice(truth.as_slice());
//! #     seen.extend(truth.iter().map(|x| x + stream.normal()));
//! # }
//! let filter = EnsembleKalmanFilter::new(model, noise, 1.04)?.rotated().local(Localization::index(4.0, true)?)?;
//! let (mean, variances) = (DVector::repeat(40, 8.0), vec![4.0; 40]);
//! let mut belief = EnsembleBelief::independent(&mean, &variances, 7, Stream::new(1, 0, "members"))?;
//! let series = Series::new(&seen, 40)?.with_dt(0.05)?.predict_first();
//! let trace = filter.run(&mut belief, &series)?;
//! let rmse = metrics::rmse(&trace.means[100 * 40..], &states[100 * 40..]);
//! println!("{rmse:.2}"); // of measurements with an error of 1
//! assert!((0.18..0.26).contains(&rmse)); // DAPPER 1.7.1: 0.22
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! References: Bishop, Etherton and Majumdar 2001; Hunt, Kostelich and Szunyogh 2007; Sakov and Oke 2008.

use super::ensemble_belief::{EnsembleBelief, centre};
use super::ensemble_transform::{Local, Rotation, Transform, Whitened};
use super::gaussian::{LN_TAU, not_positive_definite};
use super::localization::Localization;
use super::particle_belief::{LANES, load, store};
use super::spread::Spread;
use super::traits::{Belief, Filter, Update, residual};
use crate::Shapes;
use crate::eigen::{Eigen, WIDTH, add_scaled, dot};
use crate::error::{FilterError, check_square};
use crate::model::likelihood::{Observed, masked_cov};
use crate::model::stretch::{measurement_cov, measurement_factors};
use crate::model::{Model, Noise, Step};
use crate::scalar::{Lanes, Scalar};
use crate::simd::dispatch;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// States that a thread takes at once.
const BLOCK: usize = 64;

/// The ensemble transform Kalman filter, whole or local.
#[derive(Clone, Debug, PartialEq)]
pub struct EnsembleKalmanFilter<M, Q> {
    model: M,
    noise: Q,
    inflation: f64,
    rotate: bool,
    localization: Option<Localization>,
}

impl<M: Model, Q: Noise<M::State, M::Output>> EnsembleKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model, its noise, and a factor on the members' deviations after each update (1: none).
    pub fn new(model: M, noise: Q, inflation: f64) -> Result<Self, FilterError> {
        if !(inflation > 0.0 && inflation.is_finite()) {
            let (argument, requirement) = ("inflation", "positive and finite");
            return Err(FilterError::Setting { argument, value: inflation, requirement });
        }
        Ok(Self { model, noise, inflation, rotate: false, localization: None })
    }

    /// With a random rotation of the members after each update.
    #[must_use]
    pub fn rotated(self) -> Self {
        Self { rotate: true, ..self }
    }

    /// With an analysis for each state.
    pub fn local(self, localization: Localization) -> Result<Self, FilterError> {
        localization.check_dims(self.model.state_dim().value(), self.model.output_dim().value())?;
        Ok(Self { localization: Some(localization), ..self })
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Filter for EnsembleKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = EnsembleBelief<M::State>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        let Some(spread) = Spread::of_step((&self.model, &self.noise), Spread::of, u, step)? else {
            return Err(not_positive_definite("process_cov (Q)", step.index));
        };
        let mut stream = belief.stream.clone();
        let mut values = vec![0.0; belief.values.len()];
        if !matches!(spread, Spread::None) {
            stream.fill_normal(&mut values);
            spread.throw(&mut values, belief.stride());
        }
        dispatch(
            #[inline(always)]
            || {
                let transition = |x: &[_], out: &mut [_]| self.model.transition(x, u, step, out);
                let n = self.model.state_dim();
                each_group(&belief.values, n, &mut values, n, belief.stride(), transition);
            },
        );
        Ok(belief.moved_to(values, stream))
    }

    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        let (n, m) = (self.model.state_dim(), self.model.output_dim());
        let (count, stride) = (belief.count, belief.stride());
        let mut rows = vec![0.0; y.len() * stride];
        dispatch(
            #[inline(always)]
            || {
                let observe = |x: &[_], out: &mut [_]| self.model.observe(x, u, step, out);
                each_group(&belief.values, n, &mut rows, m, stride, observe);
            },
        );
        let mut seen = OVector::<f64, M::Output>::zeros_generic(m, U1);
        for (j, row) in rows.chunks_exact_mut(stride).enumerate() {
            if self.model.is_angle(j) {
                let (origin, turn) = (row[0], self.model.turn(j));
                row.iter_mut().for_each(|v| *v = origin + (*v - origin).wrap(turn));
            }
            seen[j] = centre(row, count);
            // A measurement that nobody made: no spread, no innovation, and so no effect.
            if !observed.has(j) {
                row.fill(0.0);
            }
        }
        let innovation = residual(&self.model, y, seen, observed);
        let scatter = self.scatter(m, observed, u, step)?;
        let reported = Self::Belief::has_cov(y.len()).then(|| {
            let row = |i: usize| &rows[i * stride..(i + 1) * stride];
            OMatrix::from_fn_generic(m, m, |i, j| {
                dot(row(i), row(j)) / (count - 1) as f64 + scatter.entry(i, j)
            })
        });
        let mut whitened = innovation.as_slice().to_vec();
        let Some(ln_det) = scatter.whiten(&mut rows, &mut whitened, stride, observed) else {
            return Err(not_positive_definite("measurement_cov (R)", step.index));
        };

        let mut stream = belief.stream.clone();
        let rotation = self.rotate.then(|| Rotation::draw(count, stride, &mut stream));
        let seen = Whitened { rows: &rows, innovation: &whitened, count, stride };
        let analysis = Analysis { seen, inflation: self.inflation, rotation };
        let mut values = belief.values.clone();
        let Some((nis, volume)) = analysis.run(&mut values, self.localization.as_ref()) else {
            let quantity = "ensemble";
            return Err(FilterError::Diverged { index: step.index, quantity, last_good: vec![] });
        };
        let log_likelihood =
            -0.5 * (nis + volume + ln_det + observed.count(y.len()) as f64 * LN_TAU);
        let mut update = Update::point(innovation);
        update.innovation_cov = reported;
        (update.log_likelihood, update.nis) = (Some(log_likelihood), Some(nis));
        Ok((belief.moved_to(values, stream), update))
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> EnsembleKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// R of the measurements that were made.
    fn scatter(
        &self,
        m: M::Output,
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<Scatter<M::Output>, FilterError> {
        let mut variances = vec![0.0; m.value()];
        if self.noise.measurement_variances(step, &mut variances) {
            if let Some(factors) = measurement_factors(&self.model, u, step) {
                variances.iter_mut().zip(&factors).for_each(|(v, f)| *v *= f * f);
            }
            return Ok(Scatter::Each(variances));
        }
        let r = measurement_cov(&self.model, &self.noise, u, step);
        check_square("measurement_cov (R)", m.value(), &r, Some(step.index))?;
        let all = 0..m.value();
        if all.clone().all(|j| all.clone().all(|i| i == j || r[(i, j)] == 0.0)) {
            return Ok(Scatter::Each(all.map(|i| r[(i, i)]).collect()));
        }
        let r = if observed == Observed::All { r } else { masked_cov(&r, observed) };
        Ok(Scatter::Joint(r))
    }
}

/// How measurements scatter: each by itself, or jointly.
enum Scatter<M: Dim>
where
    DefaultAllocator: Allocator<M, M>,
{
    Each(Vec<f64>),
    Joint(OMatrix<f64, M, M>),
}

impl<M: Dim> Scatter<M>
where
    DefaultAllocator: Allocator<M, M>,
{
    fn entry(&self, i: usize, j: usize) -> f64 {
        match self {
            Self::Each(variances) if i == j => variances[i],
            Self::Each(_) => 0.0,
            Self::Joint(r) => r[(i, j)],
        }
    }

    /// R^-1/2 times the rows and the innovation, and ln det R; `None` if R is not positive definite.
    fn whiten(
        &self,
        rows: &mut [f64],
        innovation: &mut [f64],
        stride: usize,
        observed: Observed<'_>,
    ) -> Option<f64> {
        let mut ln_det = 0.0;
        match self {
            Self::Each(variances) => {
                for i in observed.indices(innovation.len()) {
                    if !(variances[i] > 0.0 && variances[i].is_finite()) {
                        return None;
                    }
                    let scale = 1.0 / Scalar::sqrt(variances[i]);
                    innovation[i] *= scale;
                    rows[i * stride..(i + 1) * stride].iter_mut().for_each(|v| *v *= scale);
                    ln_det += Scalar::ln(variances[i]);
                }
            }
            Self::Joint(r) => {
                let m = innovation.len();
                let mut eigen = Eigen::default();
                eigen.reset(m);
                for i in 0..m {
                    (0..m).for_each(|j| eigen.row_mut(i)[j] = r[(i, j)]);
                }
                if !eigen.solve() || !eigen.values.iter().all(|v| *v > 0.0) {
                    return None;
                }
                let (from, before) = (rows.to_vec(), innovation.to_vec());
                rows.fill(0.0);
                innovation.fill(0.0);
                let mut turned = vec![0.0; stride];
                for (k, value) in eigen.values.iter().enumerate() {
                    turned.fill(0.0);
                    let mut d = 0.0;
                    for j in 0..m {
                        add_scaled(&mut turned, eigen.row(k)[j], &from[j * stride..][..stride]);
                        d += eigen.row(k)[j] * before[j];
                    }
                    for i in 0..m {
                        let share = eigen.row(k)[i] / Scalar::sqrt(*value);
                        add_scaled(&mut rows[i * stride..][..stride], share, &turned);
                        innovation[i] += share * d;
                    }
                    ln_det += Scalar::ln(*value);
                }
            }
        }
        Some(ln_det)
    }
}

/// Adds f of every member to `out`, sixteen members at once; rows of `stride` numbers per component.
#[inline(always)]
fn each_group<N: Dim, M: Dim>(
    from: &[f64],
    n: N,
    out: &mut [f64],
    m: M,
    stride: usize,
    f: impl Fn(&[Lanes<LANES>], &mut [Lanes<LANES>]),
) where
    DefaultAllocator: Allocator<N> + Allocator<M>,
{
    let zero = Lanes([0.0; LANES]);
    let mut x = OVector::<Lanes<LANES>, N>::from_element_generic(n, U1, zero);
    let mut value = OVector::<Lanes<LANES>, M>::from_element_generic(m, U1, zero);
    let groups = stride / LANES;
    for g in 0..groups {
        for i in 0..n.value() {
            x[i] = load(from, i * groups + g);
        }
        f(x.as_slice(), value.as_mut_slice());
        for i in 0..m.value() {
            let sum = load(out, i * groups + g) + value[i];
            store(out, i * groups + g, sum);
        }
    }
}

/// What is done to every state, whatever the model.
struct Analysis<'a> {
    seen: Whitened<'a>,
    inflation: f64,
    rotation: Option<Rotation>,
}

impl Analysis<'_> {
    /// Improves all members; returns the normalised innovation squared and ln det (R^-1 S), or `None` where a
    /// number is not finite.
    fn run(&self, values: &mut [f64], localization: Option<&Localization>) -> Option<(f64, f64)> {
        let (m, count, stride) = (self.seen.innovation.len(), self.seen.count, self.seen.stride);
        let mut whole = Transform::default();
        if !dispatch(
            #[inline(always)]
            || whole.find(&self.seen),
        ) {
            return None;
        }
        let evidence = whole.evidence(&self.seen);
        let Some(localization) = localization else {
            dispatch(
                #[inline(always)]
                || {
                    for row in values.chunks_exact_mut(stride) {
                        let before = centre(row, count);
                        let moved = whole.apply(row);
                        self.spread(row, before + moved);
                    }
                },
            );
            return Some(evidence);
        };
        let n = values.len() / stride;
        let block = |(block, rows): (usize, &mut [f64])| {
            let mut locals: [Local; WIDTH] = Default::default();
            let (mut means, mut sound) = ([0.0; WIDTH], true);
            for (g, rows) in rows.chunks_mut(WIDTH * stride).enumerate() {
                let group = &mut locals[..rows.len() / stride];
                for (i, local) in group.iter_mut().enumerate() {
                    let state = block * BLOCK + g * WIDTH + i;
                    localization.weights_into(state, n, m, &mut local.near);
                }
                dispatch(
                    #[inline(always)]
                    || {
                        for (row, mean) in rows.chunks_exact_mut(stride).zip(&mut means) {
                            *mean = centre(row, count);
                        }
                        let Some(moved) = Local::apply_all(group, &self.seen, rows) else {
                            sound = false;
                            return;
                        };
                        for (i, row) in rows.chunks_exact_mut(stride).enumerate() {
                            self.spread(row, means[i] + moved.0[i]);
                        }
                    },
                );
            }
            sound
        };
        // States are independent of each other, so threads change no bit.
        #[cfg(feature = "std")]
        let sound = if n > BLOCK {
            use rayon::prelude::*;
            values.par_chunks_mut(BLOCK * stride).enumerate().map(block).all(|sound| sound)
        } else {
            values.chunks_mut(BLOCK * stride).enumerate().all(block)
        };
        #[cfg(not(feature = "std"))]
        let sound = values.chunks_mut(BLOCK * stride).enumerate().all(block);
        sound.then_some(evidence)
    }

    /// The members' values of one state from its mean and their deviations, which are turned and inflated.
    #[inline(always)]
    fn spread(&self, row: &mut [f64], mean: f64) {
        let count = self.seen.count;
        if let Some(rotation) = &self.rotation {
            rotation.apply(row);
        }
        for v in &mut row[..count] {
            *v = mean + self.inflation * *v;
        }
        let first = row[0];
        row[count..].fill(first);
    }
}

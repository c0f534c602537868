//! The two systems, as each library wants them.

use multicalc::scalar::{Numeric, VectorFn};
use nalgebra::Const;
use optfilter::model::{Dynamics, JacobianMut, Observation, Step};
use optfilter::scalar::Scalar;

pub const DT: f64 = 0.02;

/// The growth system without any hand-written derivative.
pub struct AutoGrowth;
impl Dynamics for AutoGrowth {
    type State = Const<1>;
    fn state_dim(&self) -> Const<1> {
        Const
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], step: &Step, out: &mut [S]) {
        let push = 8.0 * (1.2 * step.time).cos();
        out[0] = x[0].scale(0.5) + x[0].scale(25.0) / (S::ONE + x[0] * x[0]) + S::from_f64(push);
    }
}
impl Observation for AutoGrowth {
    type Output = Const<1>;
    fn output_dim(&self) -> Const<1> {
        Const
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = (x[0] * x[0]).scale(0.05);
    }
}

/// The same for multicalc; the time is a field, as its documentation advises.
pub struct PeerGrowth {
    pub time: f64,
}
impl VectorFn<1, 1> for PeerGrowth {
    fn eval<S: Numeric>(&self, x: &[S; 1]) -> [S; 1] {
        let push = S::from_f64(8.0 * (1.2 * self.time).cos());
        let x = x[0];
        [x * S::from_f64(0.5) + x * S::from_f64(25.0) / (S::from_f64(1.0) + x * x) + push]
    }
}
pub struct PeerSquare;
impl VectorFn<1, 1> for PeerSquare {
    fn eval<S: Numeric>(&self, x: &[S; 1]) -> [S; 1] {
        [x[0] * x[0] * S::from_f64(0.05)]
    }
}

/// Lorenz '63 by RK4 without any hand-written derivative.
pub struct AutoLorenz;
impl Dynamics for AutoLorenz {
    type State = Const<3>;
    fn state_dim(&self) -> Const<3> {
        Const
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        optfilter::model::Lorenz63::default().rk4().transition(x, u, step, out);
    }
}
impl Observation for AutoLorenz {
    type Output = Const<3>;
    fn output_dim(&self) -> Const<3> {
        Const
    }
    #[inline(always)]
    fn is_identity(&self) -> bool {
        true
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out.copy_from_slice(x);
    }
}

/// The same for multicalc.
pub struct PeerLorenz;
impl PeerLorenz {
    fn drift<S: Numeric>(x: &[S; 3]) -> [S; 3] {
        let c = S::from_f64;
        [c(10.0) * (x[1] - x[0]), x[0] * (c(28.0) - x[2]) - x[1], x[0] * x[1] - c(8.0 / 3.0) * x[2]]
    }
}
impl VectorFn<3, 3> for PeerLorenz {
    fn eval<S: Numeric>(&self, x: &[S; 3]) -> [S; 3] {
        let c = S::from_f64;
        let shift = |x: &[S; 3], k: &[S; 3], h: f64| std::array::from_fn(|i| x[i] + k[i] * c(h));
        let k1 = Self::drift(x);
        let k2 = Self::drift(&shift(x, &k1, DT / 2.0));
        let k3 = Self::drift(&shift(x, &k2, DT / 2.0));
        let k4 = Self::drift(&shift(x, &k3, DT));
        std::array::from_fn(|i| x[i] + (k1[i] + c(2.0) * (k2[i] + k3[i]) + k4[i]) * c(DT / 6.0))
    }
}
pub struct PeerIdentity;
impl VectorFn<3, 3> for PeerIdentity {
    fn eval<S: Numeric>(&self, x: &[S; 3]) -> [S; 3] {
        *x
    }
}

/// Lorenz '63 by Euler's method with its Jacobian written by hand.
pub struct HandLorenz;
impl Dynamics for HandLorenz {
    type State = Const<3>;
    fn state_dim(&self) -> Const<3> {
        Const
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        optfilter::model::Lorenz63::default().euler().transition(x, u, step, out);
    }
    #[inline(always)]
    fn transition_jacobian(&self, x: &[f64], _u: &[f64], step: &Step, out: &mut JacobianMut<'_>) -> bool {
        let dt = step.dt;
        let rows = [
            [1.0 - 10.0 * dt, 10.0 * dt, 0.0],
            [(28.0 - x[2]) * dt, 1.0 - dt, -x[0] * dt],
            [x[1] * dt, x[0] * dt, 1.0 - 8.0 / 3.0 * dt],
        ];
        for (i, row) in rows.iter().enumerate() {
            for (j, v) in row.iter().enumerate() {
                out[(i, j)] = *v;
            }
        }
        true
    }
}
impl Observation for HandLorenz {
    type Output = Const<3>;
    fn output_dim(&self) -> Const<3> {
        Const
    }
    #[inline(always)]
    fn is_identity(&self) -> bool {
        true
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out.copy_from_slice(x);
    }
    #[inline(always)]
    fn observation_jacobian(&self, _x: &[f64], _u: &[f64], _step: &Step, out: &mut JacobianMut<'_>) -> bool {
        for i in 0..3 {
            out[(i, i)] = 1.0;
        }
        true
    }
}

/// Measurements that keep the filters on their way: the growth system's and Lorenz's, `count` of each.
pub fn measurements(count: usize) -> (Vec<f64>, Vec<f64>) {
    use nalgebra::{matrix, vector};
    use optfilter::filter::GaussianBelief;
    use optfilter::model::{GaussianNoise, Growth, Lorenz63};
    use optfilter::rng::Stream;
    let mut stream = Stream::new(1, 0, "benchmark");
    let start = GaussianBelief::new(vector![0.0], matrix![1.0]).unwrap();
    let noise = GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    let growth = optfilter::simulate::simulate(&Growth, &noise, &start, count, 0.1, &mut stream).unwrap();
    let eye = nalgebra::Matrix3::identity();
    let start = GaussianBelief::new(vector![10.0, 10.0, 10.0], eye).unwrap();
    let noise = GaussianNoise::new(eye * 2.0, eye * 2.0).unwrap();
    let model = Lorenz63::default().rk4();
    let lorenz = optfilter::simulate::simulate(&model, &noise, &start, count, DT, &mut stream).unwrap();
    (growth.observations, lorenz.observations)
}

//! Every system and integrator: the transposed Jacobian is that of the Jacobian, by dot products.

use nalgebra::{Const, DefaultAllocator, Dim, Dyn, matrix};
use optfilter::Shapes;
use optfilter::model::{
    Growth, Integrated, Integrator, Linear, Lorenz63, Lorenz96, Model, RandomWalk, Step,
    linearize_observation, linearize_transition, observation_vjp_of, transition_vjp_of,
};
use optfilter::rng::Stream;

/// Holds `r' (J v)` against `(J' r)' v`, to the rounding of its terms.
fn hold(forward: &[f64], r: &[f64], back: &[f64], v: &[f64], what: &str) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let size: f64 = forward.iter().zip(r).map(|(a, b)| (a * b).abs()).sum();
    let (one, other) = (dot(forward, r), dot(back, v));
    assert!((one - other).abs() <= 1e-13 * size, "{what}: {one} {other}");
}

fn check<M: Model>(model: &M, what: &str)
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let (dim, m) = (model.state_dim(), model.output_dim().value());
    let n = dim.value();
    let mut stream = Stream::new(9, 0, "adjoints");
    for k in 1..=5 {
        let step = Step::even(k, 0.03);
        let mut drawn = |len: usize| (0..len).map(|_| 3.0 * stream.normal()).collect::<Vec<_>>();
        let (x, v, r, s) = (drawn(n), drawn(n), drawn(n), drawn(m));
        let mut back = vec![0.0; n];
        let (_, jacobian) = linearize_transition(model, &x, &[], &step);
        let forward: Vec<f64> =
            (0..n).map(|i| (0..n).map(|j| jacobian[(i, j)] * v[j]).sum()).collect();
        transition_vjp_of(model, &x, &[], &step, &r, &mut back);
        hold(&forward, &r, &back, &v, what);
        let (_, jacobian) = linearize_observation(model, dim, &x, &[], &step);
        let forward: Vec<f64> =
            (0..m).map(|i| (0..n).map(|j| jacobian[(i, j)] * v[j]).sum()).collect();
        observation_vjp_of(model, &x, &[], &step, &s, &mut back);
        hold(&forward, &s, &back, &v, what);
    }
}

#[test]
fn every_system_and_integrator_passes_the_adjoint_test() {
    check(&Growth, "growth");
    check(&RandomWalk::new(Const::<3>), "random walk");
    let linear = Linear::new(matrix![1.0, 0.3; -0.2, 0.9], matrix![1.0, 2.0]).unwrap();
    check(&linear, "linear");
    for method in [Integrator::Euler, Integrator::Rk4] {
        for substeps in [1, 3] {
            let what = format!("{method:?}, {substeps}");
            let three = Integrated { substeps, ..Integrated::new(Lorenz63::default(), method) };
            check(&three, &format!("Lorenz '63, {what}"));
            for n in [5, 40] {
                let of = Lorenz96::new(Dyn(n), 8.0);
                let ring = Integrated { substeps, ..Integrated::new(of, method) };
                check(&ring, &format!("Lorenz '96, {n}, {what}"));
            }
        }
    }
}

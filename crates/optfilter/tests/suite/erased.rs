//! A model behind a pointer is the model, to the bit, in every kind of number.

use nalgebra::{Const, DefaultAllocator, Dim, Dyn};
use optfilter::Shapes;
use optfilter::model::{
    Dynamics, Erased, Growth, Integrated, Integrator, Lorenz63, Lorenz96, Model, Observation, Step,
    Stretch, linearize_observation, linearize_transition, observation_vjp_of, transition_vjp_of,
};
use optfilter::scalar::{Dual, Lanes, Scalar};

/// Forty angles in degrees, seen two by two, with inputs, noise that varies and no derivatives by hand: those are taken by the tape.
#[derive(Clone)]
struct Ring;

impl Dynamics for Ring {
    type State = Dyn;
    fn state_dim(&self) -> Dyn {
        Dyn(40)
    }
    fn input_dim(&self) -> usize {
        1
    }
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        for i in 0..x.len() {
            let next = x[(i + 1) % x.len()];
            out[i] = x[i] + (next * x[i]).sin().scale(step.dt) + S::from_f64(u[0]);
        }
    }
    fn is_state_angle(&self, component: usize) -> bool {
        component == 3
    }
    fn state_turn(&self, _component: usize) -> f64 {
        360.0
    }
    fn process_stretch(&self) -> Option<Stretch<Self>> {
        Some(|_, u, step, out| out.fill(u[0] + step.time))
    }
}

impl Observation for Ring {
    type Output = Const<20>;
    fn output_dim(&self) -> Const<20> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        for (out, pair) in out.iter_mut().zip(x.chunks_exact(2)) {
            *out = pair[0].atan2(pair[1]);
        }
    }
    fn is_angle(&self, _component: usize) -> bool {
        true
    }
}

fn numbers(len: usize, phase: f64) -> Vec<f64> {
    (0..len).map(|i| 0.7 + 0.4 * (phase + 1.3 * i as f64).sin()).collect()
}

/// Equal where both are evaluated in numbers made of plain ones by `lift`.
fn same_in<S: Scalar, M: Model>(model: &M, erased: &Erased, lift: impl Fn(f64) -> S) {
    let (n, m) = (model.state_dim().value(), model.output_dim().value());
    let u = numbers(model.input_dim(), 0.5);
    let step = Step { time: 2.0, ..Step::even(3, 0.05) };
    let x: Vec<S> = numbers(n, 0.0).into_iter().map(&lift).collect();
    let (mut a, mut b) = (vec![S::ZERO; n], vec![S::ONE; n]);
    model.transition(&x, &u, &step, &mut a);
    erased.transition(&x, &u, &step, &mut b);
    assert_eq!(a, b);
    let (mut a, mut b) = (vec![S::ZERO; m], vec![S::ONE; m]);
    model.observe(&x, &u, &step, &mut a);
    erased.observe(&x, &u, &step, &mut b);
    assert_eq!(a, b);
}

/// The same of transposed derivatives.
fn same_back_in<S: Scalar, M: Model>(model: &M, erased: &Erased, lift: impl Fn(f64) -> S)
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let (n, m) = (model.state_dim().value(), model.output_dim().value());
    let u = numbers(model.input_dim(), 0.5);
    let step = Step { time: 2.0, ..Step::even(3, 0.05) };
    let x: Vec<S> = numbers(n, 0.0).into_iter().map(&lift).collect();
    let r: Vec<S> = numbers(n.max(m), 1.0).into_iter().map(&lift).collect();
    let (mut a, mut b) = (vec![S::ZERO; n], vec![S::ONE; n]);
    transition_vjp_of(model, &x, &u, &step, &r[..n], &mut a);
    transition_vjp_of(erased, &x, &u, &step, &r[..n], &mut b);
    assert_eq!(a, b);
    let (mut a, mut b) = (vec![S::ZERO; n], vec![S::ONE; n]);
    observation_vjp_of(model, &x, &u, &step, &r[..m], &mut a);
    observation_vjp_of(erased, &x, &u, &step, &r[..m], &mut b);
    assert_eq!(a, b);
}

fn is_the_model<M: Model + Clone + Send + Sync + 'static>(model: M)
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let erased = Erased::new(model.clone());
    let (n, m) = (model.state_dim().value(), model.output_dim().value());
    assert_eq!((erased.state_dim().0, erased.output_dim().0), (n, m));
    assert_eq!(erased.input_dim(), model.input_dim());
    assert_eq!(erased.is_identity(), model.is_identity());
    for i in 0..n {
        assert_eq!(erased.is_state_angle(i), model.is_state_angle(i));
        if model.is_state_angle(i) {
            assert_eq!(erased.state_turn(i), model.state_turn(i));
        }
    }
    for i in 0..m {
        assert_eq!(erased.is_angle(i), model.is_angle(i));
        assert_eq!(erased.turn(i), model.turn(i));
    }

    same_in(&model, &erased, |v| v);
    same_in(&model, &erased, Lanes::<8>::from_f64);
    same_in(&model, &erased, Lanes::<16>::from_f64);
    same_in(&model, &erased, |v| Dual::<f64, 1> { re: v, eps: [v] });
    same_in(&model, &erased, |v| Dual::<f64, 4> { re: v, eps: [v; 4] });
    same_in(&model, &erased, |v| Dual::<f64, 8> { re: v, eps: [v; 8] });
    let second = |v| Dual::<f64, 4> { re: v, eps: [1.0; 4] };
    same_in(&model, &erased, |v| Dual::<_, 4> { re: second(v), eps: [second(1.0); 4] });
    same_back_in(&model, &erased, |v| v);
    same_back_in(&model, &erased, |v| Dual::<f64, 4> { re: v, eps: [v; 4] });

    let u = numbers(model.input_dim(), 0.5);
    let step = Step { time: 2.0, ..Step::even(3, 0.05) };
    let (x, v) = (numbers(n, 0.0), numbers(n, 2.0));
    let a = linearize_transition(&model, &x, &u, &step);
    let b = linearize_transition(&erased, &x, &u, &step);
    assert_eq!((a.0.as_slice(), a.1.as_slice()), (b.0.as_slice(), b.1.as_slice()));
    let a = linearize_observation(&model, model.state_dim(), &x, &u, &step);
    let b = linearize_observation(&erased, erased.state_dim(), &x, &u, &step);
    assert_eq!((a.0.as_slice(), a.1.as_slice()), (b.0.as_slice(), b.1.as_slice()));

    // What a transition leaves behind for its derivatives.
    let len = model.stage_cache_len();
    assert_eq!(erased.stage_cache_len(), len);
    if len > 0 {
        let mut ends = [vec![0.0; n], vec![1.0; n]];
        let mut trails = [vec![0.0; len], vec![1.0; len]];
        model.transition_with_cache(&x, &u, &step, &mut ends[0], &mut trails[0]);
        erased.transition_with_cache(&x, &u, &step, &mut ends[1], &mut trails[1]);
        assert_eq!((&ends[0], &trails[0]), (&ends[1], &trails[1]));
        model.vjp_cached(&x, &u, &step, &trails[0], &v, &mut ends[0]);
        erased.vjp_cached(&x, &u, &step, &trails[0], &v, &mut ends[1]);
        assert_eq!(ends[0], ends[1]);
        model.jvp_cached(&x, &u, &step, &trails[0], &v, &mut ends[0]);
        erased.jvp_cached(&x, &u, &step, &trails[0], &v, &mut ends[1]);
        assert_eq!(ends[0], ends[1]);
    }
    assert_eq!(erased.process_stretch().is_some(), model.process_stretch().is_some());
    if let (Some(a), Some(b)) = (model.process_stretch(), erased.process_stretch()) {
        let (mut one, mut two) = (vec![0.0; n], vec![1.0; n]);
        a(&model, &u, &step, &mut one);
        b(&erased, &u, &step, &mut two);
        assert_eq!(one, two);
    }
}

#[test]
fn a_model_without_its_type_is_the_model() {
    is_the_model(Growth);
    for substeps in [1, 3] {
        let drift = Lorenz63::default();
        is_the_model(Integrated { drift, method: Integrator::Rk4, substeps });
        // Longer than what is worked on on the stack, and than what the vector unit takes.
        for n in [5, 40] {
            let drift = Lorenz96::new(Dyn(n), 8.0);
            is_the_model(Integrated { drift, method: Integrator::Rk4, substeps });
        }
    }
    is_the_model(Ring);
}

#[test]
fn sizes_are_types_only_where_they_fit() {
    let erased = Erased::new(Growth);
    assert!(erased.sized::<1, 1>().is_some());
    assert!(erased.sized::<2, 1>().is_none());
    assert!(erased.sized::<1, 2>().is_none());
}

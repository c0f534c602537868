//! Rows of one filter, for `cargo xtask instructions` to count: `kernels NAME ROWS`; without arguments, the names.

use nalgebra::{DefaultAllocator, Dyn, SMatrix, SVector, matrix, vector};
use optfilter::drive::drive;
use optfilter::filter::{
    Belief, ExtendedKalmanFilter, Filter, GaussianBelief, ImplicitMap, IteratedKalmanFilter,
    KalmanFilter, ParticleBelief, ParticleFilter, PointBelief, Resampling, Scheme, SigmaPoints,
    UnscentedKalmanFilter, Window, WindowBelief,
};
use optfilter::model::likelihood::Gaussian;
use optfilter::model::{
    Dynamics, GaussianNoise, Growth, Integrated, Integrator, Linear, Lorenz63, RandomWalk, Step,
};
use optfilter::optim::{Adam, ConjugateGradients, GradientDescent};
use optfilter::rng::Stream;
use optfilter::smoother::Smooth;
use optfilter::{Series, Shapes};
use std::error::Error;
use std::hint::black_box;

type Done = Result<(), Box<dyn Error>>;
type Kernel = fn(usize) -> Done;

const KERNELS: [(&str, Kernel); 11] = [
    ("kf track", |rows| run(&track()?, on_track()?, &measurements(rows), 1)),
    ("rts track", |rows| {
        let numbers = measurements(rows);
        black_box(track()?.smooth(&on_track()?, &Series::new(&numbers, 1)?)?);
        Ok(())
    }),
    ("ekf growth", |rows| {
        run(&ExtendedKalmanFilter::new(Growth, scalar()?), at(0.1)?, &measurements(rows), 1)
    }),
    ("ekf lorenz", |rows| {
        run(&ExtendedKalmanFilter::new(lorenz(), noise()?), on_lorenz()?, &path(rows), 3)
    }),
    ("iekf lorenz", |rows| {
        run(&IteratedKalmanFilter::new(lorenz(), noise()?, 5)?, on_lorenz()?, &path(rows), 3)
    }),
    ("ukf lorenz", |rows| {
        let points = SigmaPoints { alpha: 1.0, beta: 1.0, kappa: -1.0 };
        run(&UnscentedKalmanFilter::new(lorenz(), noise()?, points)?, on_lorenz()?, &path(rows), 3)
    }),
    ("ekf walk of 40, sizes at run time", |rows| {
        let (n, eye) = (40, nalgebra::DMatrix::identity(40, 40));
        let filter = ExtendedKalmanFilter::new(
            RandomWalk::new(Dyn(n)),
            GaussianNoise::new(&eye * 0.1, eye.clone())?,
        );
        let start = GaussianBelief::new(nalgebra::DVector::zeros(n), eye)?;
        run(&filter, start, &measurements(n * rows), n)
    }),
    ("pf growth, 100", |rows| {
        let resampling = Resampling::Below(Scheme::Systematic, 0.5);
        let likelihood = Gaussian::new(matrix![1.0])?;
        let filter = ParticleFilter::new(Growth, likelihood, scalar()?, resampling)?;
        let start = ParticleBelief::new(&at(0.1)?, 100, Stream::new(1, 0, "kernels"))?;
        run(&filter, start, &measurements(rows), 1)
    }),
    ("imap adam growth, K=50", |rows| {
        let filter = ImplicitMap::new(Growth, Gaussian::new(matrix![1.0])?, Adam::new(0.1)?, 50)?;
        run(&filter, PointBelief::new(vector![0.1])?, &measurements(rows), 1)
    }),
    ("imap gd lorenz, K=3", |rows| {
        let likelihood = Gaussian::new(SMatrix::<f64, 3, 3>::identity())?;
        let filter = ImplicitMap::new(lorenz(), likelihood, GradientDescent::new(0.05)?, 3)?;
        run(&filter, PointBelief::new(SVector::<f64, 3>::repeat(1.0))?, &path(rows), 3)
    }),
    ("window cg lorenz, L=8, K=3", |rows| {
        let likelihood = Gaussian::new(SMatrix::<f64, 3, 3>::identity())?;
        let filter = Window::new(lorenz(), likelihood, ConjugateGradients::default(), 3, 8)?;
        run(&filter, WindowBelief::new(SVector::<f64, 3>::repeat(1.0))?, &path(rows), 3)
    }),
];

fn main() -> Done {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, rows] = &args[..] else {
        KERNELS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let kernel = KERNELS.iter().find(|(known, _)| known == name);
    kernel.ok_or_else(|| format!("there is no kernel {name:?}"))?.1(rows.parse()?)
}

fn run<F>(filter: &F, mut belief: F::Belief, numbers: &[f64], outputs: usize) -> Done
where
    F: Filter,
    F::Belief: Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    let series = Series::new(numbers, outputs)?.with_dt(DT)?;
    drive(filter, &mut belief, &series, &mut |_, _, belief, update| {
        black_box((belief, update));
        Ok(())
    })?;
    Ok(())
}

const DT: f64 = 0.02;

fn lorenz() -> Integrated<Lorenz63> {
    Integrated { drift: Lorenz63::default(), method: Integrator::Rk4, substeps: 1 }
}

fn noise() -> Result<GaussianNoise<nalgebra::Const<3>, nalgebra::Const<3>>, Box<dyn Error>> {
    Ok(GaussianNoise::new(SMatrix::identity() * 0.1, SMatrix::identity())?)
}

fn scalar() -> Result<GaussianNoise<nalgebra::Const<1>, nalgebra::Const<1>>, Box<dyn Error>> {
    Ok(GaussianNoise::new(matrix![3.0], matrix![2.0])?)
}

fn at(mean: f64) -> Result<GaussianBelief<nalgebra::Const<1>>, Box<dyn Error>> {
    Ok(GaussianBelief::new(vector![mean], matrix![1.0])?)
}

fn on_lorenz() -> Result<GaussianBelief<nalgebra::Const<3>>, Box<dyn Error>> {
    Ok(GaussianBelief::new(SVector::repeat(1.0), SMatrix::identity())?)
}

type Track = KalmanFilter<
    nalgebra::Const<2>,
    nalgebra::Const<1>,
    GaussianNoise<nalgebra::Const<2>, nalgebra::Const<1>>,
>;

fn track() -> Result<Track, Box<dyn Error>> {
    let model = Linear::new(matrix![1.0, 1.0; 0.0, 1.0], matrix![1.0, 0.0])?;
    let noise = GaussianNoise::new(matrix![0.1, 0.0; 0.0, 0.1], matrix![0.5])?;
    Ok(KalmanFilter::new(model, noise))
}

fn on_track() -> Result<GaussianBelief<nalgebra::Const<2>>, Box<dyn Error>> {
    Ok(GaussianBelief::new(vector![0.0, 1.0], SMatrix::identity())?)
}

/// Numbers without a pattern that repeats.
fn measurements(count: usize) -> Vec<f64> {
    (0..count).map(|k| 3.0 * (1.7 * k as f64).sin() + (0.3 * k as f64).cos()).collect()
}

/// A path of the Lorenz system, measured badly.
fn path(rows: usize) -> Vec<f64> {
    let (model, mut x, mut out) = (lorenz(), [1.0; 3], Vec::with_capacity(3 * rows));
    let errors = measurements(3 * rows);
    for k in 1..=rows {
        let mut next = [0.0; 3];
        model.transition(&x, &[], &Step::even(k as u64, DT), &mut next);
        x = next;
        out.extend(x.iter().zip(&errors[3 * k - 3..]).map(|(x, e)| x + 0.1 * e));
    }
    out
}

//! The settings worth trying.
//!
//! Learning rates mean something only relative to the model: for gradient descent a step must stay
//! below one over the curvature of the likelihood, and the step of an adaptive rule has the size of its
//! rate whatever the gradient. The grids are therefore in units of 1 / curvature and of the state change
//! that the data's row-to-row change asks for, both at the states the series is typically in.

use crate::ModelSpec;
use crate::run::{Dataset, typical_states};
use optfilter_run::{CG, FilterSpec, Linearized, Method};

const STEPS: [u32; 6] = [1, 3, 5, 10, 25, 50];
const GRADIENT_FRACTIONS: [f64; 8] = [0.002, 0.006, 0.02, 0.06, 0.15, 0.35, 0.6, 0.9];
const ADAPTIVE_FRACTIONS: [f64; 9] = [0.0005, 0.0015, 0.005, 0.015, 0.05, 0.12, 0.3, 0.7, 1.5];
/// Past rows, iterations and discounts of windows with conjugate gradients.
const WINDOWS: [u32; 7] = [2, 4, 8, 16, 32, 48, 64];
const ITERATIONS: [u32; 4] = [1, 2, 3, 5];
const DISCOUNTS: [f64; 5] = [1.0, 0.95, 0.85, 0.7, 0.5];
const PROCESS_SCALES: [f64; 9] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0];

/// The settings that all of a method have in common.
pub(super) fn base(spec: &ModelSpec, method: Method) -> FilterSpec {
    FilterSpec {
        method: Some(method),
        error_bars: Some(false),
        predict_first: spec.filter.predict_first,
        irregular: spec.filter.irregular,
        ..FilterSpec::default()
    }
}

/// Whether it is a Kalman filter: one whose means stay the same where all noise is scaled.
pub(super) fn is_kalman(method: Method) -> bool {
    matches!(method, Method::Kf | Method::Ekf | Method::Iekf | Method::Ukf)
}

/// Every setting of these methods, in an order that mixes them; what they are in units of comes from the rows
/// before `end`.
pub fn candidates(
    spec: &ModelSpec,
    data: &Dataset,
    methods: &[Method],
    end: usize,
) -> Vec<FilterSpec> {
    let (gradient_unit, adaptive_unit) = units(spec, data, end);
    let mut all: Vec<FilterSpec> = Vec::new();
    for &method in methods {
        let plan = base(spec, method);
        if spec.runner(&plan).is_err() {
            continue;
        }
        match method {
            Method::Imap => {
                let mut add = |optimizer: &str, steps: u32, lr: f64, decay: Option<f64>| {
                    let lr = round(lr);
                    let plan = FilterSpec {
                        optimizer: Some(optimizer.into()),
                        steps: Some(steps),
                        lr: Some(lr),
                        decay,
                        ..plan.clone()
                    };
                    let momentum = matches!(optimizer, "momentum" | "nesterov");
                    // Momentum carried from row to row is a speed that the model may lack; within a
                    // single step it is nothing.
                    if momentum && steps <= 3 {
                        all.push(FilterSpec { carry: Some(true), ..plan.clone() });
                    }
                    if !momentum || steps > 1 {
                        all.push(plan);
                    }
                };
                for steps in STEPS {
                    for fraction in GRADIENT_FRACTIONS {
                        add("gd", steps, fraction * gradient_unit, None);
                        if fraction < 0.5 || steps == 1 {
                            add("momentum", steps, fraction * gradient_unit, Some(0.5));
                            add("nesterov", steps, fraction * gradient_unit, Some(0.7));
                            add("nesterov", steps, fraction * gradient_unit, Some(0.9));
                        }
                    }
                    for fraction in ADAPTIVE_FRACTIONS {
                        // The whole way of K steps is what must fit; K times the rate bounds it.
                        let lr = 3.0 * fraction * adaptive_unit / f64::from(steps).sqrt();
                        add("adam", steps, lr, None);
                        add("adam", steps, lr, Some(0.9));
                        add("rmsprop", steps, lr, Some(0.9));
                        add("adagrad", steps, lr, None);
                        if steps > 5 {
                            add("adadelta", steps, 30.0 * fraction, Some(0.9));
                        }
                    }
                }
                for window in WINDOWS {
                    for discount in DISCOUNTS {
                        // Beyond the rows that still count, a longer window is the same at a higher price.
                        if f64::from(window) * (1.0 - discount) > 6.0 {
                            continue;
                        }
                        let plan = FilterSpec {
                            window: Some(window),
                            discount: Some(discount),
                            ..plan.clone()
                        };
                        let cg = |steps| FilterSpec {
                            optimizer: Some(CG.into()),
                            steps: Some(steps),
                            ..plan.clone()
                        };
                        all.extend(ITERATIONS.map(cg));
                        let gd = |fraction| FilterSpec {
                            optimizer: Some("gd".into()),
                            steps: Some(3),
                            lr: Some(round(fraction * gradient_unit / f64::from(window))),
                            ..plan.clone()
                        };
                        if window <= 8 {
                            all.extend([0.06, 0.15, 0.35].map(gd));
                        }
                    }
                }
            }
            Method::Vkf => {
                for scale in [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0] {
                    let lr = round(0.1 * adaptive_unit);
                    all.push(FilterSpec {
                        steps: Some(100),
                        lr: Some(lr),
                        process_scale: Some(scale),
                        ..plan.clone()
                    });
                }
            }
            Method::Pf => {
                for scale in [0.1, 0.3, 1.0, 3.0, 10.0] {
                    all.push(FilterSpec {
                        process_scale: Some(scale),
                        particles: Some(500),
                        ..plan.clone()
                    });
                }
            }
            _ => {
                all.extend(
                    PROCESS_SCALES
                        .map(|scale| FilterSpec { process_scale: Some(scale), ..plan.clone() }),
                );
            }
        }
    }
    all
}

/// The same filter with all its noise times `factor`.
pub(super) fn calibrated(plan: &FilterSpec, factor: f64) -> FilterSpec {
    FilterSpec {
        process_scale: Some(round(plan.process_scale() * factor)),
        measurement_scale: Some(round(plan.measurement_scale() * factor)),
        ..plan.clone()
    }
}

/// Neighbours of a setting, for a finer look.
pub(super) fn neighbours(spec: &ModelSpec, plan: &FilterSpec) -> Vec<FilterSpec> {
    let mut out = Vec::new();
    if plan.method().optimizes() {
        if plan.optimizer() != CG {
            for factor in [0.6, 0.8, 1.25, 1.6] {
                out.push(FilterSpec { lr: Some(round(plan.lr() * factor)), ..plan.clone() });
            }
        }
        if plan.is_windowed() {
            let before = plan.window() as u32;
            for window in [before * 2 / 3, before * 3 / 2 + 1] {
                out.push(FilterSpec { window: Some(window), ..plan.clone() });
            }
            let fading = 1.0 - plan.discount();
            for discount in [1.0 - 0.5 * fading, 1.0 - 1.6 * fading - 0.02] {
                if discount > 0.1 && discount != plan.discount() {
                    out.push(FilterSpec { discount: Some(round(discount)), ..plan.clone() });
                }
            }
        }
        let before = plan.steps();
        for steps in [before * 2 / 3, before * 3 / 2 + 1] {
            if steps >= 1 && steps != before {
                out.push(FilterSpec { steps: Some(steps), ..plan.clone() });
            }
        }
        if let Some(decay) = plan.decay {
            for decay in [1.0 - 0.5 * (1.0 - decay), 1.0 - 2.0 * (1.0 - decay)] {
                if (0.0..1.0).contains(&decay) {
                    out.push(FilterSpec { decay: Some(round(decay)), ..plan.clone() });
                }
            }
        }
        return out;
    }
    for factor in [0.4, 0.65, 1.5, 2.5] {
        let scale = round(plan.process_scale() * factor);
        out.push(FilterSpec { process_scale: Some(scale), ..plan.clone() });
    }
    // A particle filter of counts knows no R.
    let reads_r = is_kalman(plan.method()) || spec.likelihoods.iter().any(|l| l.needs_noise());
    for factor in if reads_r { &[0.6, 1.7][..] } else { &[] } {
        let scale = round(plan.measurement_scale() * factor);
        out.push(FilterSpec { measurement_scale: Some(scale), ..plan.clone() });
    }
    out
}

/// Three significant digits: nobody wants to paste more.
fn round(v: f64) -> f64 {
    format!("{v:.2e}").parse().unwrap_or(v)
}

/// One over the typical curvature, and the change of the state that the data's changes ask for.
fn units(spec: &ModelSpec, data: &Dataset, end: usize) -> (f64, f64) {
    let scales = data.yardstick(spec, 0, end).outputs;
    let (mut curvatures, mut moves) = (Vec::new(), Vec::new());
    let Ok(problem) = spec.problem() else { return (1.0, 1.0) };
    for (state, row) in typical_states(spec, data, 50, end) {
        let (step, u) = (&data.steps[row], data.input(row));
        let Ok(at) = Linearized::at(&problem, &state, step, u) else { continue };
        let curvature = at.curvature();
        if curvature.is_finite() && curvature > 0.0 {
            curvatures.push(curvature);
        }
        for (i, scale) in scales.iter().enumerate() {
            let slope = at.h.row(i).norm();
            if slope > 1e-9 {
                moves.push(scale / slope);
            }
        }
    }
    // The sharpest tenth of the curvatures decides what is stable; the median move is typical.
    let pick = |values: &mut Vec<f64>, share: f64| {
        values.sort_by(f64::total_cmp);
        values.get(((values.len() as f64) * share) as usize).copied()
    };
    let curvature = pick(&mut curvatures, 0.9).unwrap_or(1.0);
    (1.0 / curvature, pick(&mut moves, 0.5).unwrap_or(1.0))
}

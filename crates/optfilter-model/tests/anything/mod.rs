//! What must hold for any bytes as a checkpoint and any text as the settings of a filter: an error, or a filter that
//! runs. For the fuzz targets, and for the test that replays what they have found.
#![allow(dead_code)] // each user has its own part

use optfilter::model::Step;
use optfilter_model::{FilterSpec, Method, ModelSpec};
use optfilter_run::{DynFilter, Estimate, Session};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Linear with two states, counts, and one that states no noise.
const MODELS: [&str; 3] = [
    "states = [\"p\", \"v\"]\n[dynamics]\np = \"p + v\"\nv = \"v\"\n[observation]\ny = \"p\"\n[process_noise]\n\
     std = 0.1\n[measurement_noise]\nstd = 1\n[initial]\nmean = 0\nstd = 1\n",
    "states = [\"a\"]\n[dynamics]\na = \"0.9*a\"\n[observation]\ny = { equation = \"a\", likelihood = \"poisson\", \
     link = \"log\" }\n[process_noise]\nstd = 0.1\n[initial]\nmean = 0\nstd = 1\n",
    "states = [\"x\"]\n[dynamics]\nx = \"x/2 + 25*x/(1 + x^2)\"\n[observation]\ny = \"x^2/20\"\n[initial]\nmean = 1\n\
     std = 1\n",
];

/// A model, perhaps with settings.
fn model(choice: u8, settings: &str) -> Option<ModelSpec> {
    let text = format!("{}[filter]\n{settings}", MODELS[usize::from(choice) % MODELS.len()]);
    ModelSpec::parse("any.toml", &text).ok()
}

/// Settings as a file has them, or as JSON; the first byte chooses that and the model.
pub fn filter_spec(data: &[u8]) {
    let Some((choice, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (spec, filter) = if choice & 1 == 0 {
        let Some(spec) = model(choice >> 1, text) else { return };
        let filter = spec.filter.clone();
        (spec, filter)
    } else {
        let Ok(filter) = serde_json::from_str::<FilterSpec>(text) else { return };
        if filter.validate().is_err() {
            return;
        }
        // What is valid can be written to a file and read back. Numbers of a file are doubles.
        if filter.seed.is_none_or(|seed| seed < 1 << 53) {
            let back = model(choice >> 1, filter.to_toml().trim_start_matches("[filter]\n"));
            assert_eq!(back.map(|m| m.filter), Some(filter.clone()), "{}", filter.to_toml());
        }
        let Some(spec) = model(choice >> 1, "") else { return };
        (spec, filter)
    };
    let _ = (filter.flags(), filter.filled(), filter.essential().to_toml());
    // What takes long, or much memory, as it was told to is no mistake.
    let within = FilterSpec {
        steps: Some(filter.steps().min(20)),
        particles: Some(filter.particles().min(50)),
        ..filter
    };
    let Ok(runner) = spec.runner(&within) else { return };
    let Ok(mut session) = Session::new(&*runner, &within, spec.dt) else { return };
    go_on(&mut session);
}

/// What the first byte of a checkpoint's input chooses.
struct Chosen {
    filter: FilterSpec,
    runner: Arc<dyn DynFilter>,
    /// Under which name its belief is saved.
    kind: String,
    dt: f64,
}

thread_local! {
    /// Kept: to read a model and make a filter of it takes ten times as long as to try a checkpoint.
    static CHOICES: RefCell<BTreeMap<u8, Option<Rc<Chosen>>>> = const { RefCell::new(BTreeMap::new()) };
}

fn chosen(choice: u8) -> Option<Rc<Chosen>> {
    let make = || {
        let method = Method::ALL[usize::from(choice & 15) % Method::ALL.len()];
        let filter = FilterSpec {
            method: Some(method),
            steps: Some(3),
            particles: (method == Method::Pf).then_some(20),
            carry: (method == Method::Imap && choice & 16 > 0).then_some(true),
            window: (method == Method::Imap && choice & 32 > 0).then_some(2),
            ..FilterSpec::default()
        };
        let spec = model(0, "")?;
        let runner = spec.runner(&filter).ok()?;
        Some(Rc::new(Chosen { kind: kind(&*runner), filter, runner, dt: spec.dt }))
    };
    CHOICES.with_borrow_mut(|all| all.entry(choice & 63).or_insert_with(make).clone())
}

/// A checkpoint of one of the filters; the first byte chooses which and how much of it is as it should be.
pub fn checkpoint(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let Some(chosen) = chosen(*choice) else { return };
    let Chosen { filter, runner, kind, dt } = &*chosen;
    let Ok(mut session) = Session::new(&**runner, filter, *dt) else { return };
    match choice >> 6 {
        0 if session.restore(body).is_err() => {}
        1 if session.restore(&sealed("session", body)).is_err() => {}
        0 | 1 => go_on(&mut session),
        _ => {
            let Ok(mut live) = runner.load(&sealed(kind, body)) else { return };
            let mut out = Estimate::default();
            live.estimate(&mut out);
            for index in 1..4 {
                let step = Step::even(index, 1.0);
                if live.step(true, &step, &[], &[1.0], &mut out).is_ok() {
                    assert!(out.mean.iter().all(|x| x.is_finite()), "{out:?}");
                }
            }
        }
    }
}

fn go_on(session: &mut Session) {
    for y in [1.0, f64::NAN, 2.0] {
        if session.take(None, false, &[], &[y]).is_ok() {
            let mean = &session.estimate.mean;
            assert!(mean.iter().all(|x| x.is_finite()), "{mean:?}");
        }
    }
}

/// Under which name the filter saves its belief.
pub fn kind(runner: &dyn optfilter_run::DynFilter) -> String {
    let saved = runner.start(runner.default_start()).ok().and_then(|live| live.save().ok());
    let saved = saved.unwrap_or_default();
    let length = saved.get(10).copied().unwrap_or(0);
    String::from_utf8_lossy(saved.get(12..12 + usize::from(length)).unwrap_or_default()).into()
}

/// A body with the header and the checksum that make it a checkpoint: `optfilter::checkpoint` has the format.
pub fn sealed(kind: &str, body: &[u8]) -> Vec<u8> {
    let mut out = b"OPTFILT\n\x01\x00".to_vec();
    out.extend_from_slice(&(kind.len() as u16).to_le_bytes());
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(&(body.len() as u64).to_le_bytes());
    out.extend_from_slice(body);
    let sum = out.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

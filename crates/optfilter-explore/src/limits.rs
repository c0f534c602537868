//! How much one question may ask for, so that none of them ends the program or keeps it from the others.
//!
//! Numbers that size memory have a largest value. What remains is work: counted roughly, in changes of one number (some 50
//! nanoseconds each), before anything begins. A run is looked at between its rows, so a row may take seconds; what is not
//! looked at until it ends (a cell of a map, a forecast) has some twenty seconds as a whole. [`Patience`] ends what takes longer than was said.

use crate::fault::Fault;
use optfilter_model::{ModelSpec, Time};
use optfilter_run::{FilterSpec, Method};
use std::time::{Duration, Instant};

/// The settings that size something, with the largest value of each.
pub const LARGEST: [(&str, u32); 4] =
    [("steps", 10_000), ("window", 1_000), ("particles", 1_000_000), ("members", 1_000)];
/// Numbers that one thing may hold at once: 400 MB.
pub const MAX_NUMBERS: usize = 50_000_000;
/// Numbers of states, or of measurements, of a whole table: 160 MB.
pub const MAX_OF_TABLE: usize = 20_000_000;
/// Work of one row.
const MAX_ROW: f64 = 1e8;
/// Work that nobody can end before it is done.
pub const MAX_AT_ONCE: f64 = 4e8;
/// Work between two looks at the clock.
const BETWEEN_LOOKS: f64 = 1e6;
/// Operations of matrices that take as long as the change of a number by its equation.
const MATRIX: f64 = 0.1;

/// What the prediction of one state vector costs.
pub fn model_work(spec: &ModelSpec) -> f64 {
    let substeps = match spec.time {
        Time::Discrete => 1.0,
        Time::Continuous { substeps, .. } => f64::from(substeps),
    };
    (spec.states.len() + spec.observations.len()) as f64 * substeps
}

/// About what a filter does for a row.
pub fn row_work(spec: &ModelSpec, filter: &FilterSpec) -> f64 {
    let (n, m) = (spec.states.len(), spec.observations.len());
    let (model, steps) = (model_work(spec), f64::from(filter.steps()));
    let size = (n + m) as f64;
    match filter.method() {
        Method::Imap => {
            let bars = filter.error_bars.unwrap_or(true);
            let directions = if bars { 1.0 + size.min(100.0) } else { 1.0 };
            steps * (filter.window() + 1) as f64 * directions * model
        }
        Method::Pf => f64::from(filter.particles()) * model,
        Method::Etkf | Method::Letkf => {
            let members = f64::from(filter.members());
            let places = if filter.method() == Method::Letkf { n as f64 } else { 1.0 };
            members * model + MATRIX * members * members * (size + members * places)
        }
        method => {
            let rounds = if matches!(method, Method::Vkf | Method::Iekf) { steps } else { 1.0 };
            size * model + rounds * (model + MATRIX * size * size * size)
        }
    }
}

/// Whether a filter asks for no more than a page may have; else which setting is to be smaller.
pub fn check(spec: &ModelSpec, filter: &FilterSpec) -> Result<(), Fault> {
    let given = [filter.steps, filter.window, filter.particles, filter.members];
    for ((key, largest), value) in LARGEST.into_iter().zip(given) {
        if let Some(value) = value.filter(|value| *value > largest) {
            let message = format!("{value} is too many for the page; at most {largest}");
            return Err(Fault::Filter(key, message));
        }
    }
    let n = spec.states.len();
    let (key, count) = match filter.method() {
        Method::Pf => ("particles", filter.particles() as usize),
        Method::Etkf | Method::Letkf => ("members", filter.members() as usize),
        Method::Imap => ("window", filter.window()),
        _ => ("", n),
    };
    if count.saturating_mul(n) > MAX_NUMBERS {
        let message = format!("{count} times {n} states are too many numbers for the page");
        return Err(Fault::Filter(key, message));
    }
    if row_work(spec, filter) > MAX_ROW {
        let key = if key.is_empty() || filter.method() == Method::Imap { "steps" } else { key };
        let key = if filter.method().is_gaussian() { "method" } else { key };
        let message =
            "a single row would take too long for the page; the program itself has no such limit";
        return Err(Fault::Filter(key, message.into()));
    }
    Ok(())
}

/// Rows between two looks whether a run should end.
pub fn stride(spec: &ModelSpec, filter: &FilterSpec) -> usize {
    (BETWEEN_LOOKS / row_work(spec, filter).max(1.0)).clamp(1.0, 64.0) as usize
}

/// How long a run may take, or the opening of a step.
pub const LONGEST: Duration = Duration::from_secs(60);
/// How long may take what is asked for besides: smoothing, and a forecast.
pub const LONGEST_MORE: Duration = Duration::from_secs(20);

/// Whether something newer was asked for.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Until when somebody waits: for so long, and only while nothing newer was asked for.
pub struct Patience<'a> {
    begun: Instant,
    longest: Duration,
    stop: Stop<'a>,
}

impl<'a> Patience<'a> {
    /// From now on.
    pub fn new(longest: Duration, stop: Stop<'a>) -> Self {
        Self { begun: Instant::now(), longest, stop }
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.is_late() || (self.stop)()
    }

    /// Why it is over.
    pub fn fault(&self) -> Fault {
        match self.is_late() {
            true => Fault::Limit(format!("it took longer than {} s", self.longest.as_secs())),
            false => Fault::Stopped,
        }
    }

    /// An error if it is over.
    pub fn check(&self) -> Result<(), Fault> {
        if self.is_over() { Err(self.fault()) } else { Ok(()) }
    }

    fn is_late(&self) -> bool {
        self.begun.elapsed() > self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(system: &str) -> ModelSpec {
        ModelSpec::parse("test", &format!("system = {system:?}")).unwrap()
    }

    /// Every end of every slider is allowed, and what is allowed is sized in proportion.
    #[test]
    fn the_sliders_are_within_the_limits_and_work_grows_with_the_settings() {
        let of = |text: &str| serde_json::from_str::<FilterSpec>(text).unwrap();
        for system in ["local-level", "lorenz63", "lorenz96"] {
            let spec = spec(system);
            for text in [
                r#"{"method":"imap","steps":200,"window":64}"#,
                r#"{"method":"pf","particles":20000}"#,
                r#"{"method":"etkf","members":400}"#,
                r#"{"method":"letkf","members":400}"#,
                r#"{"method":"iekf","steps":200}"#,
                r#"{"method":"ukf"}"#,
            ] {
                assert_eq!(check(&spec, &of(text)), Ok(()), "{system} {text}");
                assert!((1..=64).contains(&stride(&spec, &of(text))));
            }
        }
        let spec = spec("lorenz63");
        for (text, key) in [
            (r#"{"method":"etkf","members":4000000000}"#, "members"),
            (r#"{"method":"pf","particles":4000000000}"#, "particles"),
            (r#"{"method":"imap","window":4000000000}"#, "window"),
            (r#"{"method":"imap","steps":4000000000}"#, "steps"),
            (r#"{"method":"imap","steps":10000,"window":1000}"#, "steps"),
        ] {
            let Err(Fault::Filter(found, message)) = check(&spec, &of(text)) else {
                panic!("{text} is allowed")
            };
            assert_eq!(found, key, "{message}");
        }
        assert_eq!(stride(&spec, &of(r#"{"method":"pf","particles":1000000}"#)), 1);
        assert_eq!(stride(&spec, &of(r#"{"method":"ekf"}"#)), 64);
    }

    #[test]
    fn patience_ends_by_time_and_by_something_newer() {
        let never = || false;
        assert_eq!(Patience::new(Duration::from_secs(60), &never).check(), Ok(()));
        let late = Patience::new(Duration::ZERO, &never);
        std::thread::sleep(Duration::from_millis(2));
        assert!(matches!(late.check(), Err(Fault::Limit(_))));
        assert_eq!(Patience::new(Duration::from_secs(60), &|| true).check(), Err(Fault::Stopped));
    }
}

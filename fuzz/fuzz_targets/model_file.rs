//! Any text as a model file: an error with a place, or a model that can be evaluated and described.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optfilter::model::{Dynamics, Observation, Step};
use optfilter_model::ModelSpec;

fuzz_target!(|text: &str| {
    match ModelSpec::parse("fuzz.toml", text) {
        Err(e) => assert!(e.line >= 1 && e.column >= 1 && !e.to_string().is_empty()),
        Ok(spec) => {
            let model = spec.compile();
            let step = Step::even(1, spec.dt);
            let u = vec![0.5; spec.inputs.len()];
            let mut next = vec![0.0; spec.states.len()];
            let mut seen = vec![0.0; spec.observations.len()];
            model.transition(&spec.initial_mean, &u, &step, &mut next);
            model.observe(&next, &u, &step, &mut seen);
            let page = spec.describe();
            assert!(page.contains("Dynamics"));
        }
    }
});

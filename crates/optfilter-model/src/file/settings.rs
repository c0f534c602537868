//! The `[filter]` table: which filter to use, and with what.

use serde::Serialize;

/// Choices of filter, each of which the command line may override.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    /// imap, ekf, iekf, ukf, pf, kf or vkf.
    pub method: Option<String>,
    /// gd, momentum, nesterov, adagrad, adadelta, rmsprop or adam.
    pub optimizer: Option<String>,
    /// Optimizer steps per measurement.
    pub steps: Option<u32>,
    /// Learning rate.
    pub lr: Option<f64>,
    /// Decay (momentum, gamma, rho or both betas).
    pub decay: Option<f64>,
    /// Whether the optimizer's state is carried from row to row.
    pub carry: Option<bool>,
    /// A factor on the process noise of the classical filters.
    pub process_scale: Option<f64>,
    /// Particles of the particle filter.
    pub particles: Option<u32>,
}

impl Settings {
    /// The keys of the table.
    pub const KEYS: [&'static str; 8] =
        ["method", "optimizer", "steps", "lr", "decay", "carry", "process_scale", "particles"];

    /// The known methods.
    pub const METHODS: [&'static str; 7] = ["imap", "ekf", "iekf", "ukf", "pf", "kf", "vkf"];

    /// The table as text for a model file.
    pub fn to_toml(&self) -> String {
        let mut out = String::from("[filter]\n");
        let mut line = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                out.push_str(&format!("{key} = {value}\n"));
            }
        };
        line("method", self.method.as_ref().map(|m| format!("{m:?}")));
        line("optimizer", self.optimizer.as_ref().map(|m| format!("{m:?}")));
        line("steps", self.steps.map(|v| v.to_string()));
        line("lr", self.lr.map(|v| format!("{v}")));
        line("decay", self.decay.map(|v| format!("{v}")));
        line("carry", self.carry.map(|v| v.to_string()));
        line("process_scale", self.process_scale.map(|v| format!("{v}")));
        line("particles", self.particles.map(|v| v.to_string()));
        out
    }

    /// The file's text with its `[filter]` table replaced by this one, or with this one at the end.
    /// Everything else, comments included, stays as it is.
    pub fn write_into(&self, text: &str) -> String {
        let is_header = |line: &str| line.trim_start().starts_with('[');
        let mut out = String::new();
        let mut inside = false;
        let mut written = false;
        for line in text.split_inclusive('\n') {
            let bare = line.split('#').next().unwrap_or("").trim();
            if bare == "[filter]" {
                inside = true;
                written = true;
                out.push_str(&self.to_toml());
                continue;
            }
            if inside && is_header(line) {
                inside = false;
                out.push('\n');
            }
            // Inside the old table only comments are kept.
            if !inside || line.trim_start().starts_with('#') {
                out.push_str(line);
            }
        }
        if !written {
            if !out.is_empty() && !out.ends_with('\n') {
                out.push('\n');
            }
            out.push('\n');
            out.push_str(&self.to_toml());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_filter_table_is_replaced() {
        let settings =
            Settings { method: Some("ekf".into()), lr: Some(0.1), ..Settings::default() };
        let before =
            "# mine\nstates = [\"x\"]\n[filter] # old\nmethod = \"pf\"\n[initial]\nmean = 1\n";
        let after = "# mine\nstates = [\"x\"]\n[filter]\nmethod = \"ekf\"\nlr = 0.1\n\n[initial]\nmean = 1\n";
        assert_eq!(settings.write_into(before), after);
        assert_eq!(settings.write_into(after), after);
        assert!(
            settings
                .write_into("a = 1")
                .ends_with("a = 1\n\n[filter]\nmethod = \"ekf\"\nlr = 0.1\n")
        );
    }
}

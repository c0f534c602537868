//! Flags that choose a filter, shared by the commands that run one.

use crate::failure::Failure;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use optfilter_model::ModelSpec;
use optfilter_model::run::Prepared;
use optfilter_run::{CG, FilterSpec, Kind, Method, SETTINGS, Setting};
use std::io::Write;

/// Which filter, with what: a flag for each line of the table of settings. A flag overrides the model file's filter table.
#[derive(Clone, Debug, Default)]
pub struct FilterFlags(FilterSpec);

impl clap::Args for FilterFlags {
    fn augment_args(command: Command) -> Command {
        let flags = SETTINGS.iter().filter(|setting| setting.is_flag()).map(flag);
        let no_std = Arg::new(NO_STD)
            .long(NO_STD)
            .action(ArgAction::SetTrue)
            .conflicts_with_all(["error_bars", "strict"])
            .help("The same as --error-bars=false");
        command.next_help_heading("Filter").args(flags).arg(no_std)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for FilterFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = FilterSpec::default();
        for setting in SETTINGS.iter().filter(|setting| setting.is_flag()) {
            if let Some(value) = matches.get_one::<String>(setting.name) {
                given.set(setting.name, value);
            }
        }
        if matches.get_flag(NO_STD) {
            given.error_bars = Some(false);
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = Self::from_arg_matches(matches)?.0.over(&self.0);
        Ok(())
    }
}

const NO_STD: &str = "no-std";

/// The flag of a setting.
fn flag(setting: &'static Setting) -> Arg {
    let mut help = setting.help.to_owned();
    if let Kind::Choice(names) = setting.kind {
        help += &format!(": {}", names.join(", "));
    }
    let readers = setting.readers();
    if readers != "every filter" {
        help += &format!(" ({readers})");
    }
    if !matches!(setting.default, "" | "false") {
        help += &format!(" [default: {}]", setting.default);
    }
    let arg = Arg::new(setting.name).long(setting.name.replace('_', "-")).help(help);
    let arg = arg.hide_short_help(
        ["beta1", "beta2", "eps", "eps_in_sqrt", "accumulator"].contains(&setting.name),
    );
    match setting.kind {
        Kind::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_name("BOOL")
            .hide_possible_values(true)
            .value_parser(PossibleValuesParser::new(["true", "false"])),
        Kind::Choice(names) => arg
            .value_name(setting.placeholder)
            .hide_possible_values(true)
            .value_parser(PossibleValuesParser::new(names)),
        _ => arg.value_name(setting.placeholder).allow_negative_numbers(true).value_parser(
            move |text: &str| {
                let is_whole = setting.kind == Kind::Whole;
                let kind = if is_whole { "whole number" } else { "number" };
                match text.parse::<f64>() {
                    Ok(v) if !setting.range.holds(v) => Err(setting.range.complaint(v)),
                    Ok(_) if !is_whole || text.parse::<u64>().is_ok() => Ok(text.to_owned()),
                    _ => Err(format!("a {kind} is expected, {}", setting.range.requirement)),
                }
            },
        ),
    }
}

/// A positive finite number.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v > 0.0 && v.is_finite() => Ok(v),
        _ => Err("a positive number is expected".into()),
    }
}

/// Flags of a filter, with the form that the problem gives it.
pub fn with_form(flags: &str, form: Option<&str>) -> String {
    form.map_or_else(|| flags.to_owned(), |form| format!("{flags} ({form})"))
}

/// What to say of states that no measurement moves under a filter.
pub fn unmoved_text(states: &[&str], filter: &FilterSpec) -> Option<String> {
    let hint = match filter.method() {
        Method::Imap | Method::Vkf => "; kf, ekf (with noise) or imap with --window would",
        _ if states.len() == 1 => "; nothing that is measured depends on it",
        _ => "; nothing that is measured depends on them",
    };
    (!states.is_empty()).then(|| format!("no measurement moves {}{hint}", states.join(", ")))
}

/// Says it on standard error.
pub fn warn_of_unmoved(states: &[&str], filter: &FilterSpec) {
    if let Some(text) = unmoved_text(states, filter) {
        let _ = writeln!(std::io::stderr(), "warning: {text}");
    }
}

impl FilterFlags {
    /// The model with the filter of these flags over the file's settings, checked and built.
    pub fn prepare(&self, spec: ModelSpec) -> Result<Prepared, Failure> {
        let problem = spec.problem()?;
        let (given, of_file) = (&self.0, &spec.filter);
        // Settings of another method in the file mean nothing for the one asked for.
        let same =
            given.method.is_none() || given.method == of_file.method || of_file.method.is_none();
        let FilterSpec { predict_first, irregular, .. } = *of_file;
        let clock = FilterSpec { predict_first, irregular, ..FilterSpec::default() };
        let filter = given.over(if same { of_file } else { &clock }).fitted(&problem);
        let method = filter.method();
        if given.strict() && given.error_bars == Some(false) {
            let message =
                "--strict is about standard deviations, and --error-bars=false leaves them out";
            return Err(Failure::usage(message));
        }
        if let Some(setting) = self.unread(method).first() {
            let (flag, readers) = (setting.flag(), setting.readers());
            let of = if setting.name == "steps" { " (of an optimizer)" } else { "" };
            let message = format!("{flag}{of} belongs to {readers}, not to {}", method.name());
            return Err(Failure::usage(message));
        }
        let rates = ["lr", "decay", "beta1", "beta2", "eps", "eps_in_sqrt", "accumulator"];
        let rate = given.given().into_iter().find(|(setting, _)| rates.contains(&setting.name));
        if let (Some((setting, _)), CG) = (rate, filter.optimizer()) {
            let message = format!(
                "{} is not for cg, which has no learning rate; its numbers are --steps and --probes",
                setting.flag()
            );
            return Err(Failure::usage(message));
        }
        Ok(Prepared::new(spec, problem, filter)?)
    }

    /// Refuses a discount without a window, which a filter that runs forwards does not read. (A smoother's reaches over everything.)
    pub fn check_discount(&self, filter: &FilterSpec) -> Result<(), Failure> {
        if self.0.discount() != 1.0 && filter.window() == 0 {
            let message =
                "--discount fades the past rows of a window: say how many, as in --window 16";
            return Err(Failure::usage(message));
        }
        Ok(())
    }

    /// The settings among these flags that a filter does not read.
    fn unread(&self, method: Method) -> Vec<&'static Setting> {
        // A gate has words of its own for what it is not for, and a filter without standard deviations is asked for none.
        let told = ["gate", "gating", "error_bars", "strict", "seed"];
        let given = self.0.given().into_iter().filter(|(_, value)| value != "false");
        let given = given.map(|(setting, _)| setting);
        given.filter(|s| !s.is_read_by(method) && !told.contains(&s.name)).collect()
    }

    /// The same with imap where no filter is named, and something is asked that only an optimizer can be: a rate, steps, or what
    /// is `asked` besides.
    pub fn or_imap(&self, asked: bool) -> Self {
        let mut out = self.0.clone();
        if asked || out.optimizer.is_some() || out.lr.is_some() || out.steps.is_some() {
            out.method = out.method.or(Some(Method::Imap));
        }
        Self(out)
    }

    /// These flags for another filter: without those that it does not read.
    pub fn of(&self, method: Method) -> Self {
        let given = FilterSpec { method: Some(method), ..self.0.clone() };
        let unread = self.unread(method);
        Self(given.only(|setting| !unread.iter().any(|one| one.name == setting.name)))
    }
}

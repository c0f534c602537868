//! `optfilter tune`: which filter, with which settings, predicts this series best.

use crate::failure::Failure;
use crate::feed;
use crate::files;
use crate::reading::SeriesFlags;
use crate::settings::warn_of_unmoved;
use crate::style;
use crate::whole::Source;
use optfilter_model::ModelSpec;
use optfilter_model::run::{Dataset, Score};
use optfilter_model::tune::{Metric, News, Search, Strategy, Tuned, tune};
use optfilter_run::{Method, RunModel};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Search the settings that predict a series best, without ground truth
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter tune nile.toml nile.csv
  optfilter tune model.toml data.csv --methods imap,ekf --budget 400 --save model.toml
  optfilter tune lorenz63 simulated.csv --metric truth --truth x,y,z
  optfilter tune model.toml sensors.csv --by sensor

Settings are compared by the density they predicted for each measurement; a filter without error bars is given the \
spread of its own errors before. The first tenth of the rows lets filters settle; rows up to six tenths search; each \
of the last four tenths is predicted by what was best on all rows before it. The last of these choices wins. \
Prediction errors are relative to repeating the measurement before, on the same rows. Of several series (--by, several \
tables) one setting is chosen for all; they take turns, so that each tenth of the rows is a tenth of every series.")]
pub struct Args {
    #[command(flatten)]
    series: SeriesFlags,
    /// Compare by predicted density, by one-step prediction error, or by error against true states
    #[arg(long, value_name = "METRIC", default_value = "likelihood", value_parser = ["likelihood", "prediction", "truth"])]
    metric: String,
    /// Columns with true states: STATE or STATE=COLUMN, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    truth: Vec<String>,
    /// About how many settings to try (the best ones are refined a little beyond it)
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    budget: u64,
    /// Filters to consider [default: all that fit the model]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = optfilter_run::Method::NAMES)]
    methods: Vec<String>,
    /// How to search
    #[arg(long, value_name = "HOW", default_value = "halving", value_parser = ["grid", "random", "halving"])]
    strategy: String,
    /// Use at most this many rows from the start of the table, and read no more; of several series whole ones, evenly spread, with usually more than half as many rows
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    max_rows: usize,
    /// Seed of the random draws
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Write the winning settings into the model file, or the model with them into a new file
    #[arg(long, value_name = "MODEL")]
    save: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let (text, spec) = args.series.model()?;
    if let Some(path) = &args.save {
        files::check_save(path, &args.series.model, "--json prints the choice")?;
    }
    let truth = truth_columns(&spec, &args.truth)?;
    let metric = match (args.metric.as_str(), truth.is_empty()) {
        ("truth", true) => return Err(Failure::usage("--metric truth needs --truth COLS")),
        ("truth", false) => Metric::Truth,
        ("prediction", _) => Metric::Prediction,
        _ => Metric::Likelihood,
    };
    let tables = feed::expand(&args.series.data)?;
    let source =
        Source { truth: &truth, ..args.series.source(&tables, spec.filter.predict_first()) };
    let (series, all_rows) = source.read_some(&spec, args.max_rows)?;
    let mut data = Dataset::merged(series.into_iter().map(|whole| whole.data).collect());
    data.truncate(args.max_rows);
    if data.len() < 30 {
        return Err(Failure::data(format!(
            "{} rows are too few to tune on; 30 are needed",
            data.len()
        )));
    }
    let methods = methods(&spec, &args.methods);
    let strategy = match args.strategy.as_str() {
        "grid" => Strategy::Grid,
        "random" => Strategy::Random,
        _ => Strategy::Halving,
    };
    let search =
        Search { metric, strategy, budget: args.budget as usize, methods, seed: args.seed };
    let mut screen = Screen::new();
    let tuned = tune(&spec, &data, &search, &mut |p| screen.show(p))?;
    screen.clear();
    let best = &tuned.board[0];
    let unmoved = spec.unmoved(&best.filter);
    if let (Some(_), Some(row)) = (&args.save, best.diverged_at) {
        return Err(Failure {
            code: 4,
            message: format!(
                "the choice ({}) diverged at row {}, among those that only judge; nothing was saved",
                best.filter.flags(),
                row + 1
            ),
        });
    }
    if let Some(path) = &args.save {
        let after = optfilter_model::replace_filter(&text, &best.filter.essential());
        if let Err(e) = ModelSpec::parse(&path.display().to_string(), &after) {
            return Err(Failure::usage(format!(
                "the choice ({}) cannot be written into the model: {}; write its filter as a table [filter]",
                best.filter.flags(),
                e.message
            )));
        }
        files::save(path, &after)?;
    }
    if args.json {
        let mut value = serde_json::to_value(&tuned).map_err(Failure::other)?;
        value["flags"] = best.filter.flags().into();
        value["rows"] = data.len().into();
        value["series"] = data.series_count().into();
        value["unmoved"] = unmoved.into();
        return files::print(&format!("{value}\n"));
    }
    warn_of_unmoved(&unmoved, &best.filter);
    files::print(&report(&spec, &data, all_rows, &tuned, metric, args.save.as_deref()))
}

/// STATE or STATE=COLUMN as pairs.
pub fn truth_columns(spec: &ModelSpec, given: &[String]) -> Result<Vec<(String, String)>, Failure> {
    given
        .iter()
        .map(|text| {
            let (state, column) = text.split_once('=').unwrap_or((text, text));
            if spec.states.iter().any(|s| s == state) {
                return Ok((state.to_owned(), column.to_owned()));
            }
            Err(Failure::usage(format!(
                "--truth: there is no state `{state}`; the states are {}",
                spec.states.join(", ")
            )))
        })
        .collect()
}

/// The methods asked for, or all that make sense: one filter of each kind that fits the model.
fn methods(spec: &ModelSpec, given: &[String]) -> Vec<Method> {
    if !given.is_empty() {
        return given.iter().filter_map(|n| Method::from_name(n)).collect();
    }
    if spec.compile().is_linear() {
        // For a linear model the extended, iterated and unscented filters are the Kalman filter.
        let gaussian =
            spec.likelihoods.iter().all(|l| *l == optfilter_model::LikelihoodKind::Gaussian);
        let kalman = if gaussian { Method::Kf } else { Method::Ekf };
        return vec![Method::Imap, kalman, Method::Pf, Method::Vkf];
    }
    vec![Method::Imap, Method::Ekf, Method::Iekf, Method::Ukf, Method::Pf, Method::Vkf]
}

fn report(
    spec: &ModelSpec,
    data: &Dataset,
    all_rows: Option<usize>,
    tuned: &Tuned,
    metric: Metric,
    saved: Option<&std::path::Path>,
) -> String {
    let with_truth = metric == Metric::Truth;
    let error = |score: &Score| if with_truth { score.truth } else { score.prediction };
    let last = &tuned.windows[tuned.windows.len() - 1].rows;
    let mut out = format!(
        "{}: {} settings tried on {} rows{}{}, {} diverged\nchosen on rows {} to {}, judged on the rest\n",
        spec.name,
        tuned.tried,
        data.len(),
        match all_rows {
            None => " (the first of the table; --max-rows takes more)".to_owned(),
            Some(all) if all > data.len() => format!(" (of {all}; --max-rows takes more)"),
            Some(_) => String::new(),
        },
        if data.series_count() > 1 {
            format!(" of {} series", data.series_count())
        } else {
            String::new()
        },
        tuned.diverged,
        tuned.chosen_on.start + 1,
        tuned.chosen_on.end,
    );
    for (method, why) in &tuned.left_out {
        out.push_str(&format!("{} is left out: {why}\n", method.name()));
    }
    let what = if with_truth { "error" } else { "prediction error" };
    let head =
        ["", "log score", &format!("{what}, chosen"), "judged", "against the best", "settings"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (i, entry) in tuned.board.iter().enumerate() {
        let verdict = match (i, entry.clearly_worse) {
            (0, _) => "the best",
            (_, true) => "worse",
            (_, false) => "within noise",
        };
        let diverged = |row: usize| format!("diverged at row {}", row + 1);
        let cell =
            |score: &Option<Score>, of: &dyn Fn(&Score) -> f64| match (score, entry.diverged_at) {
                (Some(score), _) => style::short(of(score)),
                (None, row) => row.map_or_else(String::new, diverged),
            };
        rows.push(vec![
            (i + 1).to_string(),
            cell(&entry.chosen, &|s| s.log_score),
            cell(&entry.chosen, &error),
            cell(&entry.judged, &error),
            verdict.into(),
            entry.filter.flags(),
        ]);
    }
    out.push('\n');
    out.push_str(&style::table(&rows));
    let by = match metric {
        Metric::Likelihood => "log score",
        Metric::Prediction => "prediction error",
        Metric::Truth => "error",
    };
    out.push_str(&format!(
        "\nAgainst the best, by {by} row by row on the rows that chose: the worst leave as `worse` until what is left may differ by luck (95 %).\n"
    ));
    let best = &tuned.board[0];
    out.push_str(&format!("\nWinning flags:\n  {}\n", style::good(&best.filter.flags())));
    if let Some(row) = best.diverged_at {
        out.push_str(&format!(
            "  They diverged at row {}, among rows {} to {}, which did not choose: do not rely on them.\n",
            row + 1,
            last.start + 1,
            last.end
        ));
    }
    out.push_str(&format!(
        "\nOn rows {} to {}, each tenth predicted by what was chosen on the rows before it:\n",
        tuned.windows[0].rows.start + 1,
        data.len()
    ));
    out.push_str(&verdict(tuned, with_truth));
    let alike = tuned.board.iter().skip(1).filter(|e| !e.clearly_worse).count();
    if alike > 0 {
        let other = tuned
            .board
            .iter()
            .skip(1)
            .find(|e| !e.clearly_worse && e.filter.method() != best.filter.method());
        out.push_str(&format!(
            "\n{alike} of the other settings shown cannot be told from the best on this series{}.\n",
            other.map_or(String::new(), |e| format!(", among them {}", e.filter.method().name()))
        ));
    }
    if let Some(path) = saved {
        out.push_str(&format!("\nSaved to {}.\n", path.display()));
    }
    out
}

/// How the choices did on rows that had no part in them.
fn verdict(tuned: &Tuned, with_truth: bool) -> String {
    let mut out = String::new();
    let mut against = |ratio: f64, what: &str| {
        let gain = 100.0 * (1.0 - ratio);
        let how = if gain >= 0.0 { "less" } else { "more" };
        out.push_str(&format!("  {} % {how} error than {what}\n", style::short(gain.abs())));
    };
    let flags = tuned.default.filter.flags();
    let of_default = &tuned.default.score;
    if let Some(judged) = &tuned.judged {
        if !with_truth {
            against(judged.prediction, "repeating the measurement before");
        }
        if let Some(score) = of_default {
            let ratio = match with_truth {
                true => judged.truth / score.truth,
                false => judged.prediction / score.prediction,
            };
            against(ratio, &format!("the default ({flags})"));
        }
    }
    if of_default.is_none() && tuned.judged.is_some() {
        out.push_str(&format!("  the default ({flags}) diverges here\n"));
    }
    for window in &tuned.windows {
        if let Some(row) = window.diverged_at {
            out.push_str(&format!(
                "  rows {} to {} are not counted: what was chosen before them ({}) diverged at row {}\n",
                window.rows.start + 1,
                window.rows.end,
                window.filter.flags(),
                row + 1
            ));
        }
    }
    out
}

/// A leader-board on a terminal; nothing elsewhere.
struct Screen {
    terminal: bool,
    lines: usize,
    shown: Instant,
}

impl Screen {
    fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { terminal, lines: 0, shown: Instant::now() - Duration::from_secs(1) }
    }

    fn show(&mut self, progress: &News) {
        let due = self.shown.elapsed() >= Duration::from_millis(150);
        if !self.terminal || !due {
            return;
        }
        self.clear();
        let mut err = std::io::stderr().lock();
        let filled = 30 * progress.done / progress.planned.max(1);
        let _ = writeln!(
            err,
            "[{}{}] {} of {}",
            "#".repeat(filled.min(30)),
            " ".repeat(30 - filled.min(30)),
            progress.done,
            progress.planned
        );
        for (plan, v) in &progress.leaders {
            let _ = writeln!(err, "  {:>8}  {}", style::short(*v), plan.flags());
        }
        self.lines = 1 + progress.leaders.len();
        self.shown = Instant::now();
    }

    fn clear(&mut self) {
        if self.terminal && self.lines > 0 {
            // Up so many lines, then erase to the end of the screen.
            let _ = write!(std::io::stderr(), "\x1b[{}A\x1b[J", self.lines);
            self.lines = 0;
        }
    }
}

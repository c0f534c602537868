//! What a page may ask for: one function for each question, from JSON to an answer.

use crate::controls::{self, Units};
use crate::desk::Desk;
use crate::fault::Fault;
use crate::gallery;
use crate::http::Answer;
use crate::limits::{LONGEST, LONGEST_MORE, Patience};
use crate::pack::Pack;
use crate::page;
use crate::run::{self, Recent};
use crate::scores;
use crate::search::{self, MapAsk};
use crate::step::Bookmarks;
use crate::subject::{Named, Shelf, Subject};
use crate::table::Table;
use crate::takeaway;
use crate::text::{base64, decoded};
use crate::view::{self, View};
use optfilter_plot::Theme;
use optfilter_run::{FilterSpec, Flag, RunModel, lost_track};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;

/// What a page opens with, as the command line or Python gave it.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The text of the model.
    pub model: String,
    /// Its name.
    pub name: String,
    /// The filter.
    pub filter: FilterSpec,
}

/// Everything that answers.
#[derive(Default)]
pub struct Api {
    /// What the page opens with; the gallery if there is nothing.
    pub opening: Option<Opening>,
    /// Where the page may save its model file.
    pub save: Option<std::path::PathBuf>,
    /// The tables.
    pub shelf: Shelf,
    desk: Desk,
    recent: Recent,
    bookmarks: Bookmarks,
}

/// Who asks, and what for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    page: String,
    lane: String,
    number: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeAsk {
    subject: Named,
    #[serde(default)]
    filter: Option<FilterSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunAsk {
    from: From,
    subject: Named,
    filter: FilterSpec,
    #[serde(default)]
    view: View,
    /// Whether standard deviations are wanted; without them an implicit filter is several times as fast.
    #[serde(default = "yes")]
    bars: bool,
    #[serde(default)]
    smooth: bool,
    /// Rows to forecast.
    #[serde(default)]
    ahead: usize,
    /// Rows whose scores are wanted apart from the rest: from, to (not included).
    #[serde(default)]
    chosen: Option<(usize, usize)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepAsk {
    from: From,
    subject: Named,
    filter: FilterSpec,
    row: usize,
    along: Vec<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchAsk {
    from: From,
    subject: Named,
    #[serde(default)]
    filter: FilterSpec,
    #[serde(default)]
    map: Option<MapAsk>,
    #[serde(default)]
    budget: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeAsk {
    what: String,
    subject: Named,
    filter: FilterSpec,
    #[serde(default)]
    view: View,
    #[serde(default)]
    dark: bool,
    /// What the page itself wants to find again, for an exported page.
    #[serde(default)]
    state: Value,
}

fn yes() -> bool {
    true
}

/// The longest forecast.
const MAX_AHEAD: usize = 10_000;

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(body)
        .map_err(|e| Fault::Request(format!("the request is not understood: {e}")))
}

impl Api {
    /// For what is given: a model with its table, and a file to save to.
    pub fn new(given: Option<(Opening, Table)>, save: Option<std::path::PathBuf>) -> Self {
        let (opening, table) = given.unzip();
        Self { opening, save, shelf: Shelf::new(table), ..Self::default() }
    }

    /// Answers a question that has one answer.
    pub fn answer(&self, method: &str, path: &str, query: &str, body: Vec<u8>) -> Answer {
        let made = match (method, path) {
            ("GET", "api/start") => Ok(self.start()),
            ("POST", "api/describe") => parsed(&body).and_then(|ask| self.describe(&ask)),
            ("POST", "api/run") => parsed(&body).and_then(|ask| self.run(&ask)),
            ("POST", "api/step") => parsed(&body).and_then(|ask| self.step(&ask)),
            ("POST", "api/take") => parsed(&body).and_then(|ask| self.take(&ask)),
            ("POST", "api/table") => self.table(query, body),
            ("GET", _) => match page::file(path) {
                Some(answer) => Ok(answer),
                None => return Answer::new(404, "text/plain", "there is nothing here"),
            },
            _ => return Answer::new(405, "text/plain", "this cannot be asked"),
        };
        made.unwrap_or_else(|fault| fault.answer())
    }

    /// Answers a question whose answer comes piece by piece; `tell` says whether anyone still listens.
    pub fn stream(
        &self,
        path: &str,
        body: &[u8],
        stop: &AtomicBool,
        tell: &mut (dyn FnMut(Value) -> bool + Send),
    ) {
        let done = parsed(body).and_then(|ask: SearchAsk| {
            self.desk.came(&ask.from.page, &ask.from.lane, ask.from.number);
            let subject = self.shelf.subject(&ask.subject)?;
            match (path, &ask.map) {
                ("api/map", Some(map)) => {
                    let filter = run::settled(&subject, &ask.filter, false)?;
                    search::map(&subject, &filter, map, stop, tell)
                }
                ("api/tune", _) => search::board(&subject, ask.budget, stop, tell),
                _ => Err(Fault::Request("a map needs its two settings".into())),
            }
        });
        if let Err(fault) = done {
            tell(json!({"error": fault.value()}));
        }
    }

    /// Whether a question has an answer that comes piece by piece.
    pub fn is_stream(path: &str) -> bool {
        matches!(path, "api/map" | "api/tune")
    }

    fn start(&self) -> Answer {
        let opening = self.opening.as_ref().map(|o| {
            json!({"model": o.model, "name": o.name, "filter": run::settings(&o.filter), "table": "given"})
        });
        let save = self.save.as_ref().map(|path| path.display().to_string());
        Answer::json(
            200,
            &json!({
                "version": env!("CARGO_PKG_VERSION"), "gallery": gallery::list(), "opening": opening, "save": save,
            }),
        )
    }

    fn describe(&self, ask: &DescribeAsk) -> Result<Answer, Fault> {
        let subject = self.shelf.subject(&ask.subject)?;
        Ok(Answer::json(200, &described(&subject, ask.filter.as_ref())?))
    }

    /// Keeps a table that was dropped on the page; its name is the query.
    fn table(&self, query: &str, body: Vec<u8>) -> Result<Answer, Fault> {
        let name: String = decoded(query).chars().filter(|c| !c.is_control()).take(200).collect();
        if name.is_empty() || body.is_empty() {
            return Err(Fault::Request("a table needs a name and something in it".into()));
        }
        let id = self.shelf.keep(&name, body);
        Ok(Answer::json(200, &json!({"table": id, "name": name})))
    }

    fn run(&self, ask: &RunAsk) -> Result<Answer, Fault> {
        let From { page, lane, number } = &ask.from;
        self.desk.came(page, lane, *number);
        let stop = || self.desk.is_old(page, lane, *number);
        let subject = self.shelf.subject(&ask.subject)?;
        ask.view.check(&subject)?;
        let filter = run::settled(&subject, &ask.filter, ask.bars)?;
        let made = self.recent.run(&subject, &filter, &Patience::new(LONGEST, &stop))?;
        let mut pack = Pack::default();
        view::data(&subject, &ask.view, &mut pack);
        view::estimates(&subject, &made, &ask.view, &mut pack);
        let mut notes: Vec<String> = made.word.iter().cloned().collect();
        let gone = |flag: &f64| *flag == f64::from(Flag::Lost as u8);
        if let Some(first) = made.flags.iter().position(gone) {
            let rows = made.flags.iter().filter(|flag| gone(flag)).count();
            notes.push(lost_track(rows as u64, first as u64 + 1));
        }
        if let Some(why) = &made.failed {
            notes.push(format!("the filter stopped at row {}: {why}", made.done + 1));
        }
        let lost = made.stds.first().is_none_or(|s| s.is_nan());
        if ask.smooth {
            match run::smoothed(&subject, &filter, &Patience::new(LONGEST_MORE, &stop)) {
                Ok((means, stds)) => {
                    let rows = ask.view.rows(&subject);
                    let n = subject.spec.states.len();
                    for &i in &ask.view.states {
                        view::moments(
                            &subject,
                            (&means, &stds),
                            (i, n),
                            &rows,
                            "smoothed",
                            &mut pack,
                        );
                    }
                }
                Err(Fault::Stopped) => return Err(Fault::Stopped),
                Err(fault) => notes.push(format!("no smoothing: {fault}")),
            }
        }
        if ask.ahead > 0 {
            let (rows, patience) = (ask.ahead.min(MAX_AHEAD), Patience::new(LONGEST_MORE, &stop));
            match run::ahead(&subject, &filter, rows, &patience) {
                Ok(forecast) => view::ahead(&subject, &forecast, &ask.view, &mut pack),
                Err(Fault::Stopped) => return Err(Fault::Stopped),
                Err(fault) => notes.push(format!("no forecast: {fault}")),
            }
        }
        let rows = subject.data.len();
        let chosen = ask.chosen.map(|(from, to)| from.min(rows)..to.min(rows));
        let (scores, rest) = scores::both(&subject, &made, chosen);
        let essential = filter.essential();
        Ok(pack.answer(json!({
            "scores": scores, "rest": rest, "notes": notes, "failed_at": made.failed.as_ref().map(|_| made.done),
            "nanoseconds_per_row": 1e9 * made.seconds / made.done.max(1) as f64,
            "has_bars": !lost, "bars": ask.bars,
            "flags": essential.flags(), "settings": run::settings(&essential),
            "filled": run::settings(&essential.filled()),
            "shown": controls::shown(&essential, subject.spec.process_noise.is_some() || subject.spec.measurement_cov.is_some()),
        })))
    }

    fn step(&self, ask: &StepAsk) -> Result<Answer, Fault> {
        let From { page, lane, number } = &ask.from;
        self.desk.came(page, lane, *number);
        let stop = || self.desk.is_old(page, lane, *number);
        let subject = self.shelf.subject(&ask.subject)?;
        let filter = run::settled(&subject, &ask.filter, true)?;
        let opened = self.bookmarks.open(
            &subject,
            &filter,
            ask.row,
            &ask.along,
            &Patience::new(LONGEST, &stop),
        )?;
        let value = serde_json::to_value(&opened).map_err(|e| Fault::Request(e.to_string()))?;
        Ok(Answer::json(200, &value))
    }

    fn take(&self, ask: &TakeAsk) -> Result<Answer, Fault> {
        let subject = self.shelf.subject(&ask.subject)?;
        ask.view.check(&subject)?;
        let filter = run::settled(&subject, &ask.filter, true)?;
        let made = || self.recent.run(&subject, &filter, &Patience::new(LONGEST, &|| false));
        let theme = if ask.dark { Theme::Dark } else { Theme::Auto };
        let figure = || Ok::<_, Fault>(takeaway::figure(&subject, &filter, &*made()?, &ask.view));
        Ok(match ask.what.as_str() {
            "texts" => {
                let (model, table) = (&ask.subject.name, &subject.table.name);
                let model = if model.is_empty() { "model.toml" } else { model };
                Answer::json(
                    200,
                    &json!({
                        "flags": filter.flags(), "command": takeaway::command(model, table, &filter),
                        "toml": takeaway::model_file(&subject, &filter),
                        "python": takeaway::python(model, &subject),
                    }),
                )
            }
            "csv" => Answer::new(200, "text/csv", takeaway::csv(&subject, &*made()?)?),
            "data" => Answer::new(200, "text/csv", subject.table.bytes.clone()),
            "svg" => Answer::new(200, "image/svg+xml", figure()?.svg(theme)),
            "png" => {
                let png = figure()?.png(theme, 2.0).map_err(|e| Fault::Request(e.to_string()))?;
                Answer::new(200, "image/png", png)
            }
            "page" => {
                Answer::new(200, "text/html", self.export(&ask.subject, &filter, &ask.state)?)
            }
            "save" => {
                let Some(path) = &self.save else {
                    let message = "start the program with --save FILE to save from the page";
                    return Err(Fault::Request(message.into()));
                };
                let text = takeaway::model_file(&subject, &filter);
                std::fs::write(path, text)
                    .map_err(|e| Fault::Request(format!("cannot write {}: {e}", path.display())))?;
                Answer::json(200, &json!({"saved": path.display().to_string()}))
            }
            other => return Err(Fault::Request(format!("there is no {other:?} to take away"))),
        })
    }

    /// One page with everything that is to be seen, as a file of its own. `state` is what the page restores itself from.
    pub fn export(
        &self,
        named: &Named,
        filter: &FilterSpec,
        state: &Value,
    ) -> Result<String, Fault> {
        let subject = self.shelf.subject(named)?;
        let (n, m) = (subject.spec.states.len(), subject.spec.observations.len());
        let all = |count: usize| (0..count.min(view::MAX_PANELS)).collect();
        let ask = |filter: &FilterSpec| RunAsk {
            from: From { page: "export".into(), ..From::default() },
            subject: named.clone(),
            filter: filter.clone(),
            view: View { states: all(n), observations: all(m), ..View::default() },
            bars: true,
            smooth: false,
            ahead: 0,
            chosen: None,
        };
        let packed = |filter: &FilterSpec| self.run(&ask(filter)).map(|a| base64(&a.body));
        let other: Option<FilterSpec> = state
            .get("b")
            .filter(|b| !b.is_null())
            .and_then(|b| serde_json::from_value(b.clone()).ok());
        let b = other.as_ref().map(packed).transpose()?;
        let texts = json!({
            "flags": filter.flags(),
            "command": takeaway::command(&named.name, &subject.table.name, filter),
            "toml": takeaway::model_file(&subject, filter),
            "python": takeaway::python(&named.name, &subject),
        });
        let frozen = json!({
            "describe": described(&subject, Some(filter))?, "a": packed(filter)?, "b": b, "texts": texts,
            "subject": {"model": named.model, "name": named.name, "table": named.table},
            "filter": run::settings(filter), "state": state, "version": env!("CARGO_PKG_VERSION"),
        });
        Ok(page::whole(&frozen))
    }
}

/// What a page must know of a model and its table.
fn described(subject: &Subject, asked: Option<&FilterSpec>) -> Result<Value, Fault> {
    let (spec, data) = (&subject.spec, &subject.data);
    let filter = spec.fitted(asked.unwrap_or(&spec.filter))?.essential();
    let Units { gradient, adaptive } = controls::units(subject);
    let last = data.len().saturating_sub(1);
    Ok(json!({
        "title": spec.name, "states": spec.states, "observations": spec.observations, "inputs": spec.inputs,
        "rows": data.len(), "times": [data.time(0), data.time(last)],
        "seconds_per_unit": data.origin.map(|_| spec.seconds_per_unit),
        "known": subject.known, "columns": subject.columns, "table": subject.table.name,
        "filter": run::settings(&filter), "methods": controls::methods(subject), "settings": controls::offered(),
        "units": {"gradient": gradient, "adaptive": adaptive},
        "linear": spec.compile().is_linear(),
        "row_times": (data.len() <= 20_000).then(|| (0..data.len()).map(|k| data.time(k)).collect::<Vec<_>>()),
    }))
}

//! What a page is told when something is wrong: what kind of thing, the message that the command line would print, and where.

use crate::http::Answer;
use optfilter::filter::FilterError;
use optfilter_model::Diagnostic;
use optfilter_run::{RunError, SpecError};
use serde_json::{Value, json};

/// Why a page did not get what it asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The request itself makes no sense.
    Request(String),
    /// The model file, with the place.
    Model(Box<Diagnostic>),
    /// The table.
    Data(String),
    /// A setting of the filter; the name of it, or nothing.
    Filter(&'static str, String),
    /// A newer request has taken its place.
    Stopped,
    /// It would take too long, or too much.
    Limit(String),
}

impl Fault {
    /// Whether it is only that something newer came.
    pub fn is_stopped(&self) -> bool {
        *self == Self::Stopped
    }

    /// For the page.
    pub fn value(&self) -> Value {
        match self {
            Self::Request(message) => json!({"kind": "request", "message": message}),
            Self::Model(d) => json!({
                "kind": "model", "message": d.message, "text": format!("error: {d}"),
                "line": d.line, "column": d.column, "width": d.width, "help": d.help,
            }),
            Self::Data(message) => json!({"kind": "data", "message": message}),
            Self::Filter(key, message) => json!({"kind": "filter", "key": key, "message": message}),
            Self::Stopped => json!({"kind": "stopped", "message": "a newer request came"}),
            Self::Limit(message) => json!({"kind": "limit", "message": message}),
        }
    }

    /// As an answer.
    pub fn answer(&self) -> Answer {
        // To say what is wrong with a model is what was asked for: browsers would report any other status as their own.
        Answer::json(200, &json!({"error": self.value()}))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(diagnostic) => diagnostic.fmt(f),
            Self::Stopped => f.write_str("a newer request came"),
            Self::Request(m) | Self::Data(m) | Self::Filter(_, m) | Self::Limit(m) => {
                f.write_str(m)
            }
        }
    }
}

impl std::error::Error for Fault {}

impl From<Diagnostic> for Fault {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Model(Box::new(diagnostic))
    }
}

impl From<SpecError> for Fault {
    fn from(error: SpecError) -> Self {
        Self::Filter(error.key, error.to_string().trim_start_matches(": ").to_owned())
    }
}

impl From<FilterError> for Fault {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::Empty { argument: "watch" } => Self::Stopped,
            error => Self::Filter("", error.to_string()),
        }
    }
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Spec(error) => error.into(),
            RunError::Filter(error) => error.into(),
        }
    }
}

//! How far a run is: a bar on a terminal, plain lines elsewhere.

use crate::failure::remark;
use indicatif::{ProgressBar, ProgressStyle};
use optfilter_paper::control::Event;
use optfilter_paper::yearbook::ChainProgress;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Ticks of the bar per unit of work.
const TICKS: f64 = 1000.0;

/// The bar, if there is a terminal, and when the last plain line was printed.
pub struct Bar {
    bar: Option<ProgressBar>,
    last: Mutex<Instant>,
}

impl Bar {
    /// One unit of work long, until a plan says otherwise.
    pub fn new(template: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(TICKS as u64);
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self { bar, last: Mutex::new(Instant::now()) }
    }

    /// Of toy and Lorenz systems: a plain line for each finished piece.
    pub fn event(&self, event: Event, stopping: bool) {
        match (&self.bar, event) {
            (Some(bar), Event::Plan { work }) => bar.set_length((work * TICKS) as u64),
            (Some(bar), Event::Begin { name }) => bar.set_message(name),
            (Some(bar), Event::Advance { work }) => {
                bar.inc((work * TICKS) as u64);
                if stopping {
                    bar.set_message("stopping");
                }
            }
            (Some(bar), Event::Note { text }) => bar.println(text),
            (Some(_), Event::End { .. }) => {}
            (None, Event::End { name, time: Some(time) }) => {
                remark(&format!("{name}: {:.1} s", time.as_secs_f64()));
            }
            (None, Event::End { name, time: None }) => remark(&format!("{name}: taken over")),
            (None, Event::Note { text }) => remark(&text),
            (None, _) => {}
        }
    }

    /// Of Yearbook, whose chains take long: a plain line every ten seconds.
    pub fn chains(&self, p: &ChainProgress) {
        let left = p.left.map_or_else(String::new, |t| format!(", about {} s left", t.as_secs()));
        let text = format!("yearbook: {} of {} chains{left}; {}", p.finished, p.units, p.doing);
        match &self.bar {
            Some(bar) => {
                bar.set_position((p.done * TICKS) as u64);
                bar.set_message(text);
            }
            None => {
                let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
                if last.elapsed() > Duration::from_secs(10) {
                    *last = Instant::now();
                    remark(&text);
                }
            }
        }
    }

    /// Of what has no plan: a plain line for each piece.
    pub fn doing(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => eprintln!("{text}"),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

//! The table of settings, and the page that is made of it.

use optfilter_run::{FilterSpec, Kind, Method, SETTINGS, Setting};
use std::path::Path;

/// A setting as a row of the page.
fn row(setting: &Setting) -> String {
    let code = |text: &str| format!("`{text}`");
    let values = match setting.kind {
        Kind::Number => setting.range.requirement.to_owned(),
        Kind::Whole => format!("whole, {}", setting.range.requirement),
        Kind::Switch => "`true` or `false`".to_owned(),
        Kind::Choice(names) => names.iter().map(|n| code(n)).collect::<Vec<_>>().join(", "),
        Kind::List => "a list of numbers".to_owned(),
        Kind::Table => "a list of lists of numbers".to_owned(),
    };
    let (name, help, readers) = (setting.name, setting.help, setting.readers());
    format!("| `{name}` | {help} | {values} | {} | {readers} |\n", setting.default)
}

/// `OPTFILTER_WRITE_DOCS=1 cargo test -p optfilter-suite --test engine settings` writes it.
#[test]
fn the_page_of_settings_is_that_of_the_table() {
    let mut page = "# Settings of filters\n\n\
        The keys of a model file's `[filter]` table. Flags of the command line (`--process-scale`), arguments of Python and fields of \
        `FilterSpec` in Rust have the same names, ranges and defaults. `optfilter schema` prints them for editors.\n\n\
        | setting | what it does | values | default | read by |\n|---|---|---|---|---|\n"
        .to_owned();
    page.extend(SETTINGS.iter().map(row));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    if std::env::var_os("OPTFILTER_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), page);
}

#[test]
fn what_is_filled_in_is_the_same_filter() {
    for method in Method::ALL {
        let plain = FilterSpec { method: Some(method), ..FilterSpec::default() };
        let filled = plain.filled();
        assert_eq!(filled.filled(), filled, "{method:?}");
        assert_eq!(plain.essential().filled(), filled, "{method:?}");
        assert!(filled.given().iter().all(|(s, _)| s.is_read_by(method)), "{method:?}");
        filled.validate().unwrap();
    }
}

/// Flags that are printed give the same filter over a file that says otherwise.
#[test]
fn printed_flags_say_what_was_given() {
    let file = [("alpha", "0.5"), ("threshold", "0.9"), ("gating", "flag"), ("gate", "0.9")];
    let cases = [
        ("ukf", [("alpha", "1"), ("gating", "reject"), ("seed", "5")]),
        ("pf", [("threshold", "0.5"), ("resampling", "systematic"), ("seed", "5")]),
        ("imap", [("constraint", "strong"), ("window", "3"), ("loss", "likelihood")]),
    ];
    for (method, settings) in cases {
        let (mut spec, mut below) = (FilterSpec::of(method).unwrap(), FilterSpec::default());
        settings.into_iter().for_each(|(name, value)| assert!(spec.set(name, value)));
        file.into_iter().for_each(|(name, value)| assert!(below.set(name, value)));
        let flags = spec.flags();
        let mut read = FilterSpec::default();
        for flag in flags.split("--").skip(1) {
            let (name, value) = flag.trim().split_once([' ', '=']).unwrap_or((flag.trim(), "true"));
            assert!(read.set(&name.replace('-', "_"), value), "{flags}");
        }
        for (name, value) in settings {
            let said = read.over(&below).given().into_iter().find(|(s, _)| s.name == name);
            assert_eq!(said.map(|(_, v)| v.trim_matches('"').to_owned()).as_deref(), Some(value));
        }
    }
}

/// Every default that is a number lies in its range, and every value can be said by a flag and comes back.
#[test]
fn values_are_read_as_they_are_written() {
    for setting in SETTINGS.iter().filter(|setting| setting.is_flag()) {
        let value = match setting.kind {
            Kind::Choice(names) => names[names.len() - 1].to_owned(),
            Kind::Switch => "true".into(),
            Kind::Whole => setting.default.parse::<u64>().map_or("3".into(), |v| v.to_string()),
            _ => setting.default.parse::<f64>().map_or("0.3".into(), |v| v.to_string()),
        };
        if let Ok(v) = value.parse::<f64>() {
            assert!(setting.range.holds(v), "{}", setting.name);
        }
        let mut spec = FilterSpec::default();
        assert!(spec.set(setting.name, &value), "{}", setting.name);
        let given = spec.given();
        assert_eq!(given.len(), 1);
        assert_eq!((given[0].0.name, given[0].1.trim_matches('"')), (setting.name, &*value));
        assert!(!spec.set(setting.name, "\u{221e}"));
        assert_eq!(spec.given().len(), 1, "what is not understood changes nothing");
    }
    assert!(!FilterSpec::default().set("learning_rate", "1"));
}

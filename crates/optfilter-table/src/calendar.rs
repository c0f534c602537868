//! Calendar times as seconds: `2026-11-15`, `2026-11-15 13:04`, `2026-11-15T13:04:05.250+02:00`, `...Z`,
//! `2026-11-15T14:04:05[Europe/Berlin]`.
//!
//! jiff reads and writes them. Two things that tables hold and jiff refuses or changes are said here: the end of a day
//! as `24:00`, and the second 60, which counts as the first of the next minute, as in POSIX.

use jiff::SignedDuration;
use jiff::civil::{DateTime, Time, date};
use jiff::fmt::temporal::Pieces;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Seconds since 1970-01-01 UTC of an ISO 8601 time; without an offset, UTC is meant.
pub fn parse_time(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.get(11..14) == Some("24:") {
        let start = format!("{}00:{}", text.get(..11)?, text.get(14..)?);
        let midnight = pieces(&start)?.time()? == Time::midnight();
        return midnight.then(|| Some(seconds(&start)? + 86_400.0))?;
    }
    let leap = f64::from(u8::from(text.contains(":60")));
    Some(seconds(text)? + leap)
}

/// The parts of a time. Digits beyond the nanosecond are dropped: a double has none of them.
fn pieces(text: &str) -> Option<Pieces<'static>> {
    let parse = |text: &str| Pieces::parse(text).ok().map(Pieces::into_owned);
    let plain = text.strip_suffix(" UTC").unwrap_or(text);
    parse(plain).or_else(|| {
        let (before, after) = plain.split_once(['.', ','])?;
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = after.strip_suffix(rest)?;
        parse(&format!("{before}.{}{rest}", digits.get(..9)?))
    })
}

fn seconds(text: &str) -> Option<f64> {
    let parts = pieces(text)?;
    let local = parts.date().to_datetime(parts.time().unwrap_or_default());
    if parts.time_zone_annotation().is_some() {
        // Only here can offset and zone contradict each other; jiff checks that they do not.
        let instant = text.parse::<jiff::Zoned>().ok()?.timestamp();
        return Some(instant.as_second() as f64 + f64::from(instant.subsec_nanosecond()) / 1e9);
    }
    let offset = parts.to_numeric_offset().map_or(0, |o| o.seconds());
    let since = local.duration_since(EPOCH);
    Some((since.as_secs() - i64::from(offset)) as f64 + f64::from(since.subsec_nanos()) / 1e9)
}

/// How the times of a table are written, where not as numbers of the model's unit or by ISO 8601.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct TimeStyle {
    /// A pattern in the manner of strftime, as in `%d.%m.%Y %H:%M`; without an offset in it, UTC is meant.
    pub pattern: Option<String>,
    /// Numbers count so many seconds each since 1970-01-01 UTC.
    pub epoch: Option<f64>,
}

impl TimeStyle {
    /// Units of numbers that count from 1970: names, and seconds of each.
    pub const EPOCHS: [(&'static str, f64); 4] =
        [("second", 1.0), ("millisecond", 1e-3), ("microsecond", 1e-6), ("nanosecond", 1e-9)];

    /// Whether a pattern can be one: what is written by it can be read by it.
    pub fn check_pattern(pattern: &str) -> Result<(), String> {
        let moment = date(2021, 12, 31).at(22, 45, 56, 0).to_zoned(jiff::tz::TimeZone::UTC);
        let moment = moment.map_err(|e| e.to_string())?;
        let text = jiff::fmt::strtime::format(pattern, &moment).map_err(|e| e.to_string())?;
        match seconds_by(pattern, &text) {
            Some(_) => Ok(()),
            None => Err("it leaves the date open".into()),
        }
    }

    /// Seconds since 1970 of a text.
    pub fn parse(&self, text: &str) -> Option<f64> {
        match &self.pattern {
            Some(pattern) => seconds_by(pattern, text.trim()),
            None => parse_time(text),
        }
    }

    /// Seconds since 1970 as such a table has them.
    pub fn write(&self, seconds: f64) -> String {
        if let Some(unit) = self.epoch {
            let count = seconds / unit;
            return if unit < 1.0 { format!("{count:.0}") } else { count.to_string() };
        }
        let zoned = civil(seconds).and_then(|at| at.to_zoned(jiff::tz::TimeZone::UTC).ok());
        let written = self.pattern.as_ref().zip(zoned);
        written
            .and_then(|(pattern, at)| jiff::fmt::strtime::format(pattern, &at).ok())
            .unwrap_or_else(|| format_time(seconds))
    }
}

/// Seconds since 1970-01-01 UTC of a text that is written by a pattern.
fn seconds_by(pattern: &str, text: &str) -> Option<f64> {
    let parts = jiff::fmt::strtime::parse(pattern, text).ok()?;
    let at = match parts.to_datetime() {
        Ok(at) => at,
        Err(_) => parts.to_date().ok()?.to_datetime(Time::midnight()),
    };
    let offset = parts.offset().map_or(0, |offset| offset.seconds());
    let since = at.duration_since(EPOCH);
    Some((since.as_secs() - i64::from(offset)) as f64 + f64::from(since.subsec_nanos()) / 1e9)
}

/// Seconds since 1970-01-01 UTC as ISO 8601, to the microsecond; times beyond the year 9999 become its end.
pub fn format_time(seconds: f64) -> String {
    let since = SignedDuration::from_micros((seconds * 1e6).round() as i64);
    let last = DateTime::constant(9999, 12, 31, 23, 59, 59, 999_999_000);
    let edge = if seconds < 0.0 { DateTime::MIN } else { last };
    format!("{}Z", EPOCH.checked_add(since).unwrap_or(edge))
}

/// The date and time of day of seconds since 1970-01-01 UTC, to the microsecond: a time that was counted in another unit
/// and back may be off by less.
fn civil(seconds: f64) -> Option<DateTime> {
    let micros = (seconds * 1e6).round();
    let since = (micros.abs() < 1e18).then(|| SignedDuration::from_micros(micros as i64))?;
    EPOCH.checked_add(since).ok()
}

/// Rows that follow the calendar: a number of months apart, at one day of the month and one time of day. A month that
/// lacks the day has its last one, so that ends of months are the days 31.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Monthly {
    /// Months between two rows.
    pub months: i32,
    /// The day of the month.
    day: i8,
}

impl Monthly {
    /// How times (seconds since 1970) follow the calendar, if they do and nine of ten steps are alike: a row that is
    /// missing does not make them irregular.
    pub fn of(times: impl Iterator<Item = f64>) -> Option<Self> {
        let rows: Vec<DateTime> = times.map(civil).collect::<Option<_>>()?;
        let (first, rest) = rows.split_first()?;
        let is_end = |row: &DateTime| row.day() == row.days_in_month();
        let latest = rows.iter().map(|row| row.day()).max()?;
        let day = if rows.iter().all(is_end) { 31 } else { latest };
        let fits = |row: &DateTime| {
            row.time() == first.time() && row.day() == day.min(row.days_in_month())
        };
        if rest.is_empty() || !rows.iter().all(fits) {
            return None;
        }
        let count = |row: &DateTime| 12 * i32::from(row.year()) + i32::from(row.month());
        let mut steps: Vec<i32> =
            rows.iter().zip(rest).map(|(before, after)| count(after) - count(before)).collect();
        steps.sort_unstable();
        let months = *steps.get(steps.len() / 2)?;
        let alike = steps.iter().filter(|step| **step == months).count();
        (months > 0 && 10 * alike >= 9 * steps.len()).then_some(Self { months, day })
    }

    /// The time so many rows after another (seconds since 1970), while the calendar lasts.
    pub fn after(&self, seconds: f64, rows: i32) -> Option<f64> {
        let months = jiff::Span::new().try_months(self.months.checked_mul(rows)?).ok()?;
        let then = civil(seconds)?.first_of_month().checked_add(months).ok()?;
        let day = self.day.min(then.days_in_month());
        let since = then.with().day(day).build().ok()?.duration_since(EPOCH);
        Some(since.as_secs() as f64 + f64::from(since.subsec_nanos()) / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_read_back_from_their_text() {
        for day in -200_000..200_000 {
            let seconds = f64::from(day) * 86_400.0 + f64::from(day % 86_400) + 0.25;
            assert_eq!(
                parse_time(&format_time(seconds)),
                Some(seconds),
                "{}",
                format_time(seconds)
            );
        }
        assert_eq!(format_time(1_794_747_845.5), "2026-11-15T13:04:05.5Z");
        assert_eq!(format_time(951_782_400.0), "2000-02-29T00:00:00Z");
    }

    fn monthly(texts: &[&str]) -> Option<Monthly> {
        Monthly::of(texts.iter().filter_map(|text| parse_time(text)))
    }

    /// The next rows of a table, as dates.
    fn next(texts: &[&str]) -> Option<Vec<String>> {
        let (pace, last) = (monthly(texts)?, parse_time(texts.last()?)?);
        let date = |k| Some(format_time(pace.after(last, k)?).get(..10)?.to_owned());
        (1..=3).map(date).collect()
    }

    #[test]
    fn rows_go_on_by_the_calendar() {
        let dates = |texts: [&str; 3]| Some(texts.map(str::to_owned).to_vec());
        let ends = dates(["2024-02-29", "2024-03-31", "2024-04-30"]);
        assert_eq!(next(&["2023-11-30", "2023-12-31", "2024-01-31"]), ends);
        // September and November have 30 days, and what ends there ends the month.
        assert_eq!(
            next(&["2023-09-30", "2023-11-30"]),
            dates(["2024-01-31", "2024-03-31", "2024-05-31"])
        );
        let quarters = dates(["2024-03-31", "2024-06-30", "2024-09-30"]);
        assert_eq!(next(&["2023-06-30", "2023-09-30", "2023-12-31"]), quarters);
        // The 30th of every month is not its end.
        let thirtieth = dates(["2024-02-29", "2024-03-30", "2024-04-30"]);
        assert_eq!(next(&["2023-11-30", "2023-12-30", "2024-01-30"]), thirtieth);
        assert_eq!(
            next(&["2023-01-30", "2023-02-28", "2023-03-30"]),
            dates(["2023-04-30", "2023-05-30", "2023-06-30"])
        );
        assert_eq!(
            next(&["2021-02-28", "2022-02-28", "2023-02-28"]),
            dates(["2024-02-29", "2025-02-28", "2026-02-28"])
        );
        assert_eq!(next(&["2023-01-31", "2023-02-27", "2023-03-31"]), None);
        assert_eq!(next(&["2023-01-31", "2023-02-28T12:00", "2023-03-31"]), None);
        assert_eq!(next(&["2023-01-31"]), None);
        // One month of twelve is missing.
        let rows = |skip: i32| -> Vec<f64> {
            let pace = Monthly { months: 1, day: 31 };
            (0..13).filter(|k| *k != skip).filter_map(|k| pace.after(0.0, k)).collect()
        };
        assert_eq!(Monthly::of(rows(5).into_iter()), Some(Monthly { months: 1, day: 31 }));
    }

    /// A midnight that was counted in weeks is that day's, not the end of the day before.
    #[test]
    fn dates_survive_another_unit() {
        let style = TimeStyle { pattern: Some("%d.%m.%Y".into()), epoch: None };
        for unit in [60.0, 3600.0, 86_400.0, 604_800.0, 31_557_600.0] {
            for day in 0..30_000 {
                let seconds = f64::from(day) * 86_400.0;
                let text = style.write(seconds / unit * unit);
                assert_eq!(style.parse(&text), Some(seconds), "{text} in units of {unit} s");
            }
        }
    }

    #[test]
    fn times_are_read_and_written_by_their_pattern() {
        // From `date -u -d ... +%s`.
        for (pattern, text, seconds) in [
            ("%d.%m.%Y", "15.11.2026", 1_794_700_800.0),
            ("%d.%m.%Y %H:%M", "15.11.2026 13:04", 1_794_747_840.0),
            ("%m/%d/%Y %I:%M:%S %p", "11/15/2026 01:04:05 PM", 1_794_747_845.0),
            ("%Y%m%dT%H%M%S%z", "20261115T150405+0200", 1_794_747_845.0),
            ("%b %d, %Y", "Nov 15, 2026", 1_794_700_800.0),
        ] {
            assert_eq!(TimeStyle::check_pattern(pattern), Ok(()), "{pattern}");
            let style = TimeStyle { pattern: Some(pattern.into()), epoch: None };
            assert_eq!(style.parse(text), Some(seconds), "{pattern}");
            assert_eq!(style.parse(&style.write(seconds)), Some(seconds), "{pattern}");
            assert_eq!(style.parse("2026-11-15T13:00Z"), None, "{pattern}");
        }
        assert!(TimeStyle::check_pattern("%H:%M").is_err());
        assert!(TimeStyle::check_pattern("%d.%m.%Q").is_err());
        let epoch = TimeStyle { pattern: None, epoch: Some(1e-3) };
        assert_eq!(epoch.write(1_794_747_845.25), "1794747845250");
    }

    #[test]
    fn known_instants() {
        // From `date -u -d ... +%s`.
        for (text, seconds) in [
            ("1970-01-01", 0.0),
            ("2000-02-29", 951_782_400.0),
            ("2026-11-15T13:04:05Z", 1_794_747_845.0),
            ("2026-11-15 15:04:05.5+02:00", 1_794_747_845.5),
            ("1958-03-29", -371_174_400.0),
            ("2026-11-15T08:34-0430", 1_794_747_840.0),
            ("2026-11-15T08:34:00,5-04:30", 1_794_747_840.5),
            ("2026-11-15 13:04:05 UTC", 1_794_747_845.0),
            ("2026-11-15T14:04:05+01:00[Europe/Berlin]", 1_794_747_845.0),
            ("2026-11-15T14:04:05[Europe/Berlin]", 1_794_747_845.0),
            // The end of a day, a leap second (as POSIX counts), more digits than a nanosecond has.
            ("2026-11-15T24:00", 1_794_787_200.0),
            ("2016-12-31T23:59:60Z", 1_483_228_800.0),
            ("2026-11-15T13:04:05.250000000000000Z", 1_794_747_845.25),
            // Dates that stand for never.
            ("9999-12-31", 253_402_214_400.0),
            ("9999-12-31T23:59:59Z", 253_402_300_799.0),
            ("0001-01-01", -62_135_596_800.0),
        ] {
            assert_eq!(parse_time(text), Some(seconds), "{text}");
        }
        for wrong in [
            "2026-13-01",
            "2026-02-29",
            "26-01-01",
            "2026-01-01T25:00",
            "2026-01-01x",
            "",
            "2026-01-01T",
            // One four-byte character where the offset should be.
            "2026-11-15 14:00:00-\u{1f553}",
            "2026-11-15 14:00:00\u{1f553}",
            "\u{1f553}026-11-15",
            "2026-11-15T13:00+26:00",
            "2026-11-15T13:60",
            "2026-11-15T24:01",
            "2026-11-15T13:00[Europe/Atlantis]",
            // Berlin was an hour ahead that day, not two.
            "2026-11-15T13:00+02:00[Europe/Berlin]",
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_no_calendar_reaches_ends_at_its_edge() {
        assert_eq!(format_time(1e300), "9999-12-31T23:59:59.999999Z");
        assert_eq!(format_time(f64::NEG_INFINITY), "-009999-01-01T00:00:00Z");
        assert_eq!(format_time(f64::NAN), "1970-01-01T00:00:00Z");
    }
}

//! Round instants: years, months, days, times of day.

const DAY: f64 = 86_400.0;

/// Distances between labels, in milliseconds (up to two weeks)...
const MILLIS: [u32; 31] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000,
    300000, 600000, 900000, 1800000, 3600000, 7200000, 10800000, 21600000, 43200000, 86400000,
    172800000, 432000000, 604800000, 1209600000,
];
/// ... and in months.
const MONTHS: [i64; 14] = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12_000];

/// Round instants from `low` to `high`, in seconds since 1970 UTC, with their texts: at most `most`. None if the range
/// is too short or too far away to be one of the calendar.
pub(crate) fn ticks(low: f64, high: f64, most: usize) -> Vec<(f64, String)> {
    let within = |t: &(f64, String)| t.0 >= low && t.0 <= high;
    if !(low.abs() < 2.5e11 && high.abs() < 2.5e11 && low < high) || high - low < 1e-3 {
        return Vec::new();
    }
    let enough = |step: f64| (high - low) / step <= most as f64;
    if let Some(step) = MILLIS.into_iter().map(|s| f64::from(s) / 1e3).find(|s| enough(*s)) {
        let mut day = String::new();
        // Weeks begin on Mondays, as 1970-01-05 was one.
        let begin = if step % (7.0 * DAY) == 0.0 { 4.0 * DAY } else { 0.0 };
        let first = ((low - begin) / step).ceil();
        return (0..=most)
            .map(|i| (first + i as f64) * step + begin)
            .map(|t| (t, label(t, step, &mut day)))
            .filter(within)
            .collect();
    }
    let month = DAY * 30.436_875;
    let step = MONTHS.into_iter().find(|m| enough(month * *m as f64)).unwrap_or(120_000);
    let (year, first, _) = date((low / DAY).floor() as i64);
    let begin = (12 * year + first - 1).div_euclid(step) * step;
    let month = |i: i64| {
        let (year, month) =
            ((begin + i * step).div_euclid(12), (begin + i * step).rem_euclid(12) + 1);
        let text = if step % 12 == 0 { format!("{year}") } else { format!("{year}-{month:02}") };
        (days(year, month) as f64 * DAY, text)
    };
    (0..=most as i64 + 2).map(month).filter(within).collect()
}

/// The time of day, and below it the day where that is another one than before; the day alone for steps of days.
fn label(t: f64, step: f64, before: &mut String) -> String {
    let millis = (t * 1e3).round() as i64;
    let (day, millis) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (y, m, d) = date(day);
    let day = format!("{y:04}-{m:02}-{d:02}");
    if step >= DAY {
        return day;
    }
    let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis % 60_000);
    let time = match step {
        _ if step >= 60.0 => format!("{hour:02}:{minute:02}"),
        _ if step >= 1.0 => format!("{hour:02}:{minute:02}:{:02}", second / 1000),
        _ => format!("{hour:02}:{minute:02}:{:02}.{:03}", second / 1000, second % 1000),
    };
    if *before == day {
        return time;
    }
    before.clone_from(&day);
    format!("{time}\n{day}")
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar (Hinnant's algorithm).
fn date(day: i64) -> (i64, i64, i64) {
    let z = day + 719_468;
    let (era, in_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let in_era_year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * in_era_year + in_era_year / 4 - in_era_year / 100);
    let shifted = (5 * in_year + 2) / 153; // months since March
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = in_era_year + 400 * era + i64::from(month <= 2);
    (year, month, in_year - (153 * shifted + 2) / 5 + 1)
}

/// Days from 1970-01-01 to the first of a month; the inverse of [`date`].
fn days(year: i64, month: i64) -> i64 {
    let y = year - i64::from(month <= 2);
    let (era, in_era) = (y.div_euclid(400), y.rem_euclid(400));
    let in_year = (153 * ((month + 9) % 12) + 2) / 5;
    era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f64, span: f64) -> Vec<String> {
        ticks(low, low + span, 7).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        // From Python's datetime.date.toordinal() - 719163.
        let known = [
            (0, (1970, 1, 1)),
            (19_782, (2024, 2, 29)),
            (-25_508, (1900, 3, 1)),
            (-719_162, (1, 1, 1)),
        ];
        for (day, expected) in known {
            assert_eq!(date(day), expected);
        }
        for first in (0..3000).map(|m| days(1800 + m / 12, m % 12 + 1)) {
            let (year, month, day) = date(first);
            assert_eq!((days(year, month), day), (first, 1));
        }
    }

    #[test]
    fn labels_are_round_dates() {
        let year = 365.2425 * DAY;
        let spring_1958 = (days(1958, 3) + 28) as f64 * DAY;
        assert_eq!(texts(spring_1958, 43.75 * year), ["1960", "1970", "1980", "1990", "2000"]);
        let november_14 = (days(2026, 11) + 13) as f64 * DAY;
        let half_days = [
            "00:00\n2026-11-14",
            "12:00",
            "00:00\n2026-11-15",
            "12:00",
            "00:00\n2026-11-16",
            "12:00",
            "00:00\n2026-11-17",
        ];
        assert_eq!(texts(november_14, 3.0 * DAY), half_days);
        let seconds =
            ["13:00:00\n2026-11-14", "13:00:10", "13:00:20", "13:00:30", "13:00:40", "13:00:50"];
        assert_eq!(texts(november_14 + 46_800.0, 50.0), seconds);
        assert_eq!(
            texts(november_14, 200.0 * DAY),
            ["2026-12", "2027-01", "2027-02", "2027-03", "2027-04", "2027-05", "2027-06"]
        );
        assert_eq!(texts(november_14, 40.0 * DAY)[0], "2026-11-16");
        assert!(texts(november_14, 0.1)[0].starts_with("00:00:00.000"));
    }

    #[test]
    fn ranges_outside_the_calendar_have_no_dates() {
        for (low, high) in [(0.0, 1e300), (f64::NAN, 1.0), (5.0, 5.0), (0.0, 1e-9), (-1e18, 0.0)] {
            assert!(ticks(low, high, 7).is_empty());
        }
        // Thousands of years still have a few.
        assert!(!ticks(-2e11, 2e11, 7).is_empty());
    }
}

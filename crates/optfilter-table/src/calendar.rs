//! Calendar times as seconds: `2026-11-15`, `2026-11-15 13:04`, `2026-11-15T13:04:05.250+02:00`, `...Z`.

/// Seconds since 1970-01-01 UTC of an ISO 8601 time; without an offset, UTC is meant.
pub fn parse_time(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.split('-');
    let year: i64 = digits(parts.next()?, 4)?;
    let month: i64 = digits(parts.next()?, 2)?;
    let day: i64 = digits(parts.next()?, 2)?;
    if parts.next().is_some()
        || !(1..=12).contains(&month)
        || !(1..=month_length(year, month)).contains(&day)
    {
        return None;
    }
    let days = days_from_civil(year, month, day) as f64;
    if rest.is_empty() {
        return Some(days * 86_400.0);
    }
    let clock = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, offset) = split_offset(clock)?;
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let second: f64 = match parts.next() {
        None => 0.0,
        Some(s) if s.starts_with(|c: char| c.is_ascii_digit()) => s.parse().ok()?,
        Some(_) => return None,
    };
    if parts.next().is_some() || hour > 24 || minute > 59 || second >= 61.0 {
        return None;
    }
    Some(days * 86_400.0 + (hour * 3600 + minute * 60) as f64 + second - offset)
}

/// Seconds since 1970-01-01 UTC as ISO 8601, to the microsecond.
pub fn format_time(seconds: f64) -> String {
    let micros = (seconds * 1e6).round() as i64;
    let (days, in_day) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, day) = civil_from_days(days);
    let (clock, fraction) = (in_day / 1_000_000, in_day % 1_000_000);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let fraction = match fraction {
        0 => String::new(),
        f => format!(".{f:06}").trim_end_matches('0').to_owned(),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// The clock without its offset from UTC, and the offset in seconds.
fn split_offset(clock: &str) -> Option<(&str, f64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0.0));
    }
    let Some(at) = clock.rfind(['+', '-']) else { return Some((clock, 0.0)) };
    let (clock, offset) = clock.split_at(at);
    let sign = if offset.starts_with('-') { -1.0 } else { 1.0 };
    let plain: String = offset[1..].chars().filter(|c| *c != ':').collect();
    let value = match plain.len() {
        2 => digits(&plain, 2)? * 3600,
        4 => digits(&plain[..2], 2)? * 3600 + digits(&plain[2..], 2)? * 60,
        _ => return None,
    };
    Some((clock, sign * value as f64))
}

fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 (Hinnant's algorithm: years start in March, so that leap days end them).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a day since 1970-01-01: the inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12 + 1);
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }
}

//! Times as they stand in files: seconds, RFC 3339, and `YYYY-MM-DD HH:MM:SS`. Without a zone, a date is UTC.

/// Seconds from so many on are Unix time (from September 2001); fewer count from the beginning of the trace.
pub const UNIX_FROM: f64 = 1e9;

/// Later times, beyond the year 9800, are mistakes: milliseconds, for example.
pub const UNIX_TO: f64 = 2.5e11;

/// A time in a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Time {
    /// Seconds since the beginning of the trace.
    Seconds(f64),
    /// Unix seconds.
    Unix(f64),
}

/// Reads a time in any of the forms.
pub fn parse(text: &str) -> Option<Time> {
    if let Ok(seconds) = text.parse::<f64>() {
        return match seconds {
            s if (UNIX_FROM..UNIX_TO).contains(&s) => Some(Time::Unix(s)),
            s if (0.0..UNIX_FROM).contains(&s) => Some(Time::Seconds(s)),
            _ => None,
        };
    }
    date(text).map(Time::Unix)
}

fn digits(text: &[u8], from: usize, count: usize) -> Option<i64> {
    let text = text.get(from..from + count)?;
    text.iter().try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

/// Unix seconds of `YYYY-MM-DD`, `T` or a blank, `HH:MM:SS`, perhaps a fraction, perhaps `Z` or `+HH:MM`.
fn date(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let at = |index: usize, wanted: &[u8]| bytes.get(index).is_some_and(|byte| wanted.contains(byte));
    let marks = at(4, b"-") && at(7, b"-") && at(10, b"T t") && at(13, b":") && at(16, b":");
    let (year, month, day) = (digits(bytes, 0, 4)?, digits(bytes, 5, 2)?, digits(bytes, 8, 2)?);
    let (hour, minute, second) = (digits(bytes, 11, 2)?, digits(bytes, 14, 2)?, digits(bytes, 17, 2)?);
    // A leap second is the first of the next minute.
    let fits = (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
    if !marks || !fits || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction, zone) = fraction_and_zone(bytes.get(19..)?)?;
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(seconds as f64 + fraction - zone)
}

fn fraction_and_zone(text: &[u8]) -> Option<(f64, f64)> {
    let mut rest = text;
    let mut fraction = 0.0;
    if let Some(after) = rest.strip_prefix(b".") {
        let count = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return None;
        }
        fraction = format!("0.{}", std::str::from_utf8(&after[..count]).ok()?).parse().ok()?;
        rest = &after[count..];
    }
    let zone = match rest {
        b"" | b"Z" | b"z" => 0.0,
        [sign @ (b'+' | b'-'), zone @ ..] if zone.len() == 5 && zone[2] == b':' => {
            let (hours, minutes) = (digits(zone, 0, 2)?, digits(zone, 3, 2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = (hours * 3600 + minutes * 60) as f64;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    Some((fraction, zone))
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the Gregorian calendar; years begin in March, so that a leap day is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// RFC 3339 in UTC, with milliseconds where they are not zero.
pub fn format(unix: f64) -> String {
    let milliseconds = (unix * 1000.0).round() as i64;
    let (seconds, fraction) = (milliseconds.div_euclid(1000), milliseconds.rem_euclid(1000));
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * of_year + 2) / 153;
    let (month, day) = (if march < 10 { march + 3 } else { march - 9 }, of_year - (153 * march + 2) / 5 + 1);
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:03}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        for (text, unix) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("1998-04-30 21:30:00", 893_971_800.0),
            ("2000-02-29T12:00:00Z", 951_825_600.0),
            ("2023-11-16 18:17:03.9799600", 1_700_158_623.979_96),
            ("2023-11-16T19:17:03.5+01:00", 1_700_158_623.5),
        ] {
            assert_eq!(date(text), Some(unix), "{text}");
        }
        assert_eq!(parse("90.5"), Some(Time::Seconds(90.5)));
        assert_eq!(parse("1700158623"), Some(Time::Unix(1_700_158_623.0)));
        for bad in [
            "",
            "-1",
            "NaN",
            "inf",
            "2023-02-29 00:00:00",
            "2023-13-01 00:00:00",
            "2023-01-01",
            "2023-01-01 24:00:00",
            "1e300",
            "2023-01-01T00:00:00+1",
            "2023-01-01T00:00:00.Z",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(milliseconds in -10_000_000_000_000_i64..100_000_000_000_000) {
            let unix = milliseconds as f64 / 1000.0;
            prop_assert_eq!(date(&format(unix)), Some(unix));
        }
    }
}

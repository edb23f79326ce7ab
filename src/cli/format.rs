//! Figures as `docker stats` prints them.
//!
//! Docker's rules, so that a figure reads the same in both tables: memory with base 1024 and four significant digits,
//! network and block I/O with base 1000 and three, percentages with two decimals, [`ABSENT`] for what could not be
//! read. It deliberately knows nothing of columns. Pure.

/// What stands for a figure that is absent, which is not zero.
pub const ABSENT: &str = "--";

/// A percentage: `75.20%`; 100 is one CPU.
pub fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

/// Bytes of memory: `352.1MiB`.
pub fn memory(bytes: f64) -> String {
    scaled(bytes, 1024.0, 4, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"])
}

/// Bytes sent, received, read or written: `13.3kB`.
pub fn io(bytes: f64) -> String {
    scaled(bytes, 1000.0, 3, ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"])
}

/// How long ago, in its largest unit that says enough: `12s`, `3m`, `2h`, `4d`.
pub fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0}s"),
        s if s < 2.0 * 3600.0 => format!("{:.0}m", (s / 60.0).floor()),
        s if s < 2.0 * 86400.0 => format!("{:.0}h", (s / 3600.0).floor()),
        s => format!("{:.0}d", (s / 86400.0).floor()),
    }
}

/// A text of the network as a terminal may show it: what is not a plain character one column wide (control characters,
/// reordering and zero-width ones, wide ones) stands as its code, `\u{1b}`.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let plain = match c {
            ' '..='~' => true,
            '\u{2581}'..='\u{2588}' => true, // bars
            '\u{a1}'..'\u{590}' | '\u{2010}'..'\u{2300}' => c.escape_debug().len() == 1,
            _ => false,
        };
        if plain { shown.push(c) } else { shown.extend(c.escape_unicode()) }
    }
    shown
}

/// A text of the network as another program may read it: what is a character stays, what a terminal obeys (control
/// characters, line breaks of any kind, reordering) stands as its code.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let obeyed = c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if obeyed { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

/// JSON on one line with nothing in it that a terminal obeys: such characters can only stand within its strings.
pub fn plain(document: &str) -> String {
    let mut line = String::with_capacity(document.len());
    for c in document.chars() {
        let obeyed = c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if obeyed { line += &format!("\\u{:04x}", u32::from(c)) } else { line.push(c) }
    }
    line
}

fn scaled(mut value: f64, base: f64, digits: usize, units: [&str; 9]) -> String {
    let mut unit = 0;
    while value >= base && unit < units.len() - 1 {
        value /= base;
        unit += 1;
    }
    format!("{}{}", significant(value, digits), units[unit])
}

/// C's `%.<digits>g`: that many significant digits without trailing zeros, with an exponent where it would need more.
fn significant(value: f64, digits: usize) -> String {
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e').and_then(|(m, e)| Some((m, e.parse::<i32>().ok()?)))
    else {
        return scientific; // not a number, or infinite
    };
    let last_place = digits as i32 - 1 - exponent;
    if exponent < -4 || last_place < 0 {
        format!("{}e{exponent:+03}", without_trailing_zeros(mantissa))
    } else {
        without_trailing_zeros(&format!("{value:.*}", last_place as usize)).to_owned()
    }
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    // docker/cli's formatter tests, by way of the facts.
    #[test]
    fn reads_as_in_dockers_own_tests() {
        assert_eq!(percent(5.5), "5.50%");
        assert_eq!(percent(10.2), "10.20%");
        assert_eq!((io(0.31), io(12.3)), ("0.31B".into(), "12.3B".into()));
        assert_eq!((io(0.1), io(2.3)), ("0.1B".into(), "2.3B".into()));
        assert_eq!((memory(24.0), memory(30.0)), ("24B".into(), "30B".into()));
    }

    // docker/for-linux#151: Δcpu 731 308 110 ns of Δsystem 3.89 s on 4 CPUs.
    #[test]
    fn rounds_percentages_to_two_decimals() {
        assert_eq!(percent(731_308_110.0 / 3.89e9 * 4.0 * 100.0), "75.20%");
        assert_eq!(percent(0.0), "0.00%");
        assert_eq!(percent(1826.94), "1826.94%");
    }

    #[test]
    fn memory_has_base_1024_and_four_significant_digits() {
        assert_eq!(memory(0.0), "0B");
        assert_eq!(memory(1023.0), "1023B");
        assert_eq!(memory(1024.0), "1KiB");
        assert_eq!(memory(2_466_251.0), "2.352MiB"); // 2.352 × 2²⁰ = 2 466 250.8
        assert_eq!(memory(1_030_225_920.0), "982.5MiB"); // 982.5 × 2²⁰
        assert_eq!(memory(3.42 * f64::from(1 << 30)), "3.42GiB");
        assert_eq!(memory(5.372 * 2_f64.powi(40)), "5.372TiB");
        assert_eq!(memory(1023.96 * 1024.0), "1024KiB"); // rounds up to the next unit without taking it, as docker's does
    }

    #[test]
    fn io_has_base_1000_and_three_significant_digits() {
        assert_eq!(io(0.0), "0B");
        assert_eq!(io(13_300.0), "13.3kB");
        assert_eq!(io(539_000.0), "539kB");
        assert_eq!(io(999_499.0), "999kB");
        assert_eq!(io(999_500.0), "1e+03kB");
        assert_eq!(io(999_999.0), "1e+03kB");
        assert_eq!(io(1_000_000.0), "1MB");
        assert_eq!(io(1.234e9), "1.23GB");
        assert_eq!(io(u64::MAX as f64), "18.4EB");
    }

    // What C's printf makes of "%.3g".
    #[test]
    fn very_small_and_very_large_numbers_take_an_exponent() {
        assert_eq!(significant(0.000_012_34, 3), "1.23e-05");
        assert_eq!(significant(0.000_123_4, 3), "0.000123");
        assert_eq!(significant(123_456.0, 3), "1.23e+05");
        assert_eq!(significant(100.0, 3), "100");
    }

    #[test]
    fn ages_keep_to_one_unit() {
        assert_eq!(
            [0.4, 12.0, 119.0, 120.0, 7199.0, 7200.0, 172_800.0].map(age),
            ["0s", "12s", "119s", "2m", "119m", "2h", "2d"]
        );
    }

    #[test]
    fn nothing_a_terminal_obeys_is_printable() {
        assert_eq!(printable("shop_web.1 (naïve – ≤ 2 s)…"), "shop_web.1 (naïve – ≤ 2 s)…");
        assert_eq!(printable("a\x1b[2Jb\n\u{9b}\u{7f}"), r"a\u{1b}[2Jb\u{a}\u{9b}\u{7f}");
        assert_eq!(visible("漢\u{202e}e\u{301}\u{2028}\n\u{9b}"), "漢\\u{202e}e\u{301}\\u{2028}\\u{a}\\u{9b}");
        assert_eq!(printable("\u{202e}x\u{200b}e\u{301}漢"), r"\u{202e}x\u{200b}e\u{301}\u{6f22}");
    }
}

//! Writing JSON: appends to a text, puts the commas and escapes what must be escaped.
//!
//! It deliberately checks no nesting: its user opens and closes what belongs together.

use crate::stat::Stat;

/// Appends JSON to a text; it puts the commas, its user the brackets.
pub(super) struct Writer {
    out: String,
    comma: bool,
}

impl Writer {
    pub(super) fn new() -> Writer {
        Writer { out: String::with_capacity(4096), comma: false }
    }
    pub(super) fn finish(mut self) -> String {
        self.out.push('\n');
        self.out
    }
    pub(super) fn open(&mut self, bracket: char) {
        self.separate();
        self.out.push(bracket);
        self.comma = false;
    }
    pub(super) fn close(&mut self, bracket: char) {
        self.out.push(bracket);
        self.comma = true;
    }
    /// A key that needs no escapes.
    pub(super) fn key(&mut self, name: &'static str) -> &mut Writer {
        self.separate();
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        self.comma = false;
        self
    }
    pub(super) fn label(&mut self, name: &str) -> &mut Writer {
        self.text(name);
        self.out.push(':');
        self.comma = false;
        self
    }
    pub(super) fn null(&mut self) {
        self.raw("null");
    }
    pub(super) fn bool(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }
    pub(super) fn number(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.raw(itoa::Buffer::new().format(value)),
            None => self.null(),
        }
    }
    /// An integer of 10^-digits as a decimal number.
    pub(super) fn decimal(&mut self, value: Option<u64>, digits: usize) {
        let Some(value) = value else { return self.null() };
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(value);
        let whole = text.len().saturating_sub(digits);
        self.raw(if whole == 0 { "0" } else { &text[..whole] });
        self.out.push('.');
        self.out.extend(std::iter::repeat_n('0', digits.saturating_sub(text.len())));
        self.out.push_str(&text[whole..]);
    }
    /// A stat under its name, in its base unit.
    pub(super) fn stat(&mut self, stat: Stat, value: Option<u64>) {
        self.key(stat.name());
        match stat.row().unit.per_base() {
            1 => self.number(value),
            per_base => self.decimal(value, per_base.ilog10() as usize),
        }
    }
    pub(super) fn text_or_null(&mut self, text: &str) {
        if text.is_empty() { self.null() } else { self.text(text) }
    }
    pub(super) fn texts<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        self.open('[');
        texts.for_each(|text| self.text(text));
        self.close(']');
    }
    pub(super) fn text(&mut self, text: &str) {
        self.separate();
        self.out.push('"');
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| matches!(byte, 0..0x20 | b'"' | b'\\' | 0x7f)) {
            self.out.push_str(&text[plain..at]);
            plain = at + 1;
            match byte {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                _ => {
                    const HEX: &[u8; 16] = b"0123456789abcdef";
                    self.out.push_str("\\u00");
                    self.out.push(HEX[usize::from(byte >> 4)].into());
                    self.out.push(HEX[usize::from(byte & 15)].into());
                }
            }
        }
        self.out.push_str(&text[plain..]);
        self.out.push('"');
    }

    fn raw(&mut self, text: &str) {
        self.separate();
        self.out.push_str(text);
    }
    fn separate(&mut self) {
        if self.comma {
            self.out.push(',');
        }
        self.comma = true;
    }
}

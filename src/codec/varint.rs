//! Varints (LEB128) and zigzag differences, without a branch on their length where that is as good as random.

use super::DecodeError;

/// Appends a varint (LEB128). Lengths are as good as random: up to 56 bits there is no branch on them.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    if value < 1 << 56 {
        let length = (70 - (value | 1).leading_zeros() as usize) / 7;
        let goes_on = CONTINUES & ((1 << (8 * (length - 1))) - 1);
        out.extend_from_slice(&(spread(value) | goes_on).to_le_bytes());
        out.truncate(out.len() - 8 + length);
        return;
    }
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The top bit of each byte.
const CONTINUES: u64 = 0x8080_8080_8080_8080;

/// 56 bits, seven to a byte.
fn spread(x: u64) -> u64 {
    let x = x & 0x0fff_ffff | (x & 0x00ff_ffff_f000_0000) << 4;
    let x = x & 0x0000_3fff_0000_3fff | (x & 0x0fff_c000_0fff_c000) << 2;
    x & 0x007f_007f_007f_007f | (x & 0x3f80_3f80_3f80_3f80) << 1
}

/// The reverse of [`spread`]; top bits are passed over.
fn gather(x: u64) -> u64 {
    let x = x & 0x007f_007f_007f_007f | (x & 0x7f00_7f00_7f00_7f00) >> 1;
    let x = x & 0x0000_3fff_0000_3fff | (x & 0x3fff_0000_3fff_0000) >> 2;
    x & 0x0fff_ffff | (x & 0x0fff_ffff_0000_0000) >> 4
}

/// Appends a wrapped difference, zigzag: small either way is short.
pub(super) fn put_signed(out: &mut Vec<u8>, difference: u64) {
    put(out, difference << 1 ^ ((difference as i64) >> 63) as u64);
}

/// What is left of a block.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*first)
    }
    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        if let Some(eight) = self.0.first_chunk() {
            let word = u64::from_le_bytes(*eight);
            let ends = !word & CONTINUES;
            if ends != 0 {
                // Everything up to the first byte that does not go on.
                self.0 = &self.0[ends.trailing_zeros() as usize / 8 + 1..];
                return Ok(gather(word & (ends ^ (ends - 1))));
            }
        }
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(DecodeError::TooLong);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }
    pub(super) fn signed(&mut self) -> Result<u64, DecodeError> {
        let zigzag = self.varint()?;
        Ok(zigzag >> 1 ^ (zigzag & 1).wrapping_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_leb128() {
        // Around every length: 2^(7n) − 1 fits in n bytes, 2^(7n) needs one more.
        let edges = (1..10).map(|n| (n, 1u64 << (7 * n)));
        let cases = edges.flat_map(|(n, edge)| [(edge - 1, n), (edge, n + 1)]).chain([(0, 1), (u64::MAX, 10)]);
        for (value, length) in cases {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let slow = (0..length).map(|at| (value >> (7 * at)) as u8 & 0x7f | u8::from(at + 1 < length) << 7);
            assert_eq!(bytes, slow.collect::<Vec<_>>(), "{value:#x}");
            assert_eq!(Reader(&bytes).varint(), Ok(value));
            // With more behind it, another way is taken.
            bytes.extend([0xff; 9]);
            let mut reader = Reader(&bytes);
            assert_eq!((reader.varint(), reader.0.len()), (Ok(value), 9));
        }
    }
}

//! Addresses as texts and as clients get them.

use std::fmt::Write;

use super::Address;

impl Address {
    /// Appends the address; its network's bits if `always` or if they are not all.
    pub fn write(self, always: bool, out: &mut String) {
        self.write_host(out);
        if always || self.bits != self.bits_max() {
            // Writing to a string cannot fail.
            let _ = write!(out, "/{}", self.bits);
        }
    }

    /// Appends the address alone.
    pub fn write_host(self, out: &mut String) {
        let bytes = self.value.to_be_bytes();
        if !self.is_v6 {
            let _ = write!(out, "{}.{}.{}.{}", bytes[0], bytes[1], bytes[2], bytes[3]);
            return;
        }
        let words: [u16; 8] = std::array::from_fn(|at| u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]));
        let zeros = longest_zeros(&words);
        let is_v4 = zeros.is_some_and(|(first, count)| {
            first == 0 && (count == 6 || count == 7 && words[7] != 1 || count == 5 && words[5] == 0xffff)
        });
        for (at, word) in words.iter().enumerate() {
            if let Some((first, count)) = zeros
                && (first..first + count).contains(&at)
            {
                if at == first {
                    out.push(':');
                }
                continue;
            }
            if at > 0 {
                out.push(':');
            }
            if at == 6 && is_v4 {
                let _ = write!(out, "{}.{}.{}.{}", bytes[12], bytes[13], bytes[14], bytes[15]);
                return;
            }
            let _ = write!(out, "{word:x}");
        }
        if zeros.is_some_and(|(first, count)| first + count == 8) {
            out.push(':');
        }
    }

    /// Appends a network without the octets that are all hosts': `10.1/16`.
    pub fn write_short(self, out: &mut String) {
        let start = out.len();
        if self.is_v6 {
            self.write_short_v6(out);
        } else {
            let bytes = self.network().value.to_be_bytes();
            let count = usize::from(self.bits.div_ceil(8)).max(1);
            for (at, byte) in bytes[..count].iter().enumerate() {
                let _ = write!(out, "{}{byte}", if at > 0 { "." } else { "" });
            }
        }
        debug_assert!(out.len() > start, "an address has digits");
        let _ = write!(out, "/{}", self.bits);
    }

    fn write_short_v6(self, out: &mut String) {
        if self.bits == 0 {
            out.push_str("::");
            return;
        }
        let bytes = self.network().value.to_be_bytes();
        let count = usize::from(self.bits.div_ceil(16)).max(2);
        let word = |at: usize| u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]);
        // Of several stretches of zeros the first of the longest; one that is not longer than those
        // before it is counted with the next one, as in PostgreSQL.
        let (mut first, mut length, mut here, mut run) = (0, 0, 0, 0);
        for at in 0..count {
            if word(at) == 0 {
                if run == 0 {
                    here = at;
                }
                run += 1;
            } else if run > length {
                (first, length, run) = (here, run, 0);
            }
        }
        if run > length {
            (first, length) = (here, run);
        }
        let is_v4 = length != count
            && first == 0
            && (length == 6
                || length == 5 && bytes[10] == 0xff && bytes[11] == 0xff
                || length == 7 && bytes[14] != 0 && bytes[15] != 1);
        let start = out.len();
        for at in 0..count {
            if length != 0 && (first..first + length).contains(&at) {
                if at == first {
                    out.push(':');
                }
                if at == count - 1 {
                    out.push(':');
                }
                continue;
            }
            if is_v4 && at > 5 {
                let _ = write!(out, "{}{}", if at == 6 { ':' } else { '.' }, bytes[2 * at]);
                // The last octet may be all hosts'.
                if at != 7 || self.bits > 120 {
                    let _ = write!(out, ".{}", bytes[2 * at + 1]);
                }
                continue;
            }
            if out.len() > start {
                out.push(':');
            }
            let _ = write!(out, "{:x}", word(at));
        }
    }

    /// Appends what clients get.
    pub fn write_binary(self, is_network: bool, out: &mut Vec<u8>) {
        let length = self.bytes();
        out.extend_from_slice(&[if self.is_v6 { 3 } else { 2 }, self.bits, u8::from(is_network), length as u8]);
        out.extend_from_slice(&self.value.to_be_bytes()[..length]);
    }
}

/// The longest stretch of at least two zeros, of several the first: where, and how many.
fn longest_zeros(words: &[u16; 8]) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize)> = None;
    let mut at = 0;
    while at < 8 {
        let count = words[at..].iter().take_while(|&&word| word == 0).count();
        if count >= 2 && best.is_none_or(|(_, most)| count > most) {
            best = Some((at, count));
        }
        at += count.max(1);
    }
    best
}

//! The bytes of an input, which are taken from its beginning, and random numbers.

/// The rest of an input. After its end, zeros are taken.
#[derive(Clone, Copy, Debug)]
pub struct Input<'i>(pub &'i [u8]);

impl<'i> Input<'i> {
    /// Takes the next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Takes the next two bytes as a number.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Takes the next eight bytes as a number.
    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// Takes the next `count` bytes, or all that are left.
    pub fn take(&mut self, count: usize) -> &'i [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Random numbers from a seed.
pub struct Random(u64);

impl Random {
    /// Makes the generator of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below the limit.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() >> 33).unwrap_or(0) % limit.max(1)
    }
}

//! The bytes that a fuzzer makes, taken from the front.

/// What is left of an input. Behind its end there are zeros.
#[derive(Clone, Copy, Debug)]
pub struct Input<'i>(pub &'i [u8]);

impl<'i> Input<'i> {
    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// The next two.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// The next eight.
    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// The next so many, or as many as there are.
    pub fn take(&mut self, count: usize) -> &'i [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Numbers from a seed.
pub struct Random(u64);

impl Random {
    /// Of that seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below the limit.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() >> 33).unwrap_or(0) % limit.max(1)
    }
}

//! Pseudorandom numbers. A seed gives the same numbers each time.

/// Marsaglia's xorshift; the seed must not be zero.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        let Random(state) = self;
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        let drawn = ((self.draw() >> 32) * u64::from(bound)) >> 32;
        u32::try_from(drawn).expect("it is below a number of 32 bits")
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_gives_the_same_numbers_each_time_and_numbers_are_below_their_bound() {
        let mut random = Random(1);
        assert_eq!(random.draw(), 1_082_269_761);
        assert!((0..1000).all(|_| random.below(7) < 7));
    }
}

//! Numbers that look random and follow from a seed (SplitMix64).
//!
//! Not for secrets.  The sequence of a seed never changes, so that an old failure can be replayed.

/// A source of numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number, any of 2^64.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number of `0..limit`.
    ///
    /// # Panics
    /// When `limit` is zero: there is no such number.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0);
        let wide = u128::from(self.next_u64()) * u128::from(limit);
        u64::try_from(wide >> 64).expect("the upper half of 128 bits has 64")
    }

    /// Returns an index of `0..limit`.
    ///
    /// # Panics
    /// When `limit` is zero.
    pub fn index(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("a length fits in 64 bits");
        usize::try_from(self.below(limit)).expect("the limit is a usize")
    }

    /// Returns true with probability `chances` / `of`.
    pub fn chance(&mut self, chances: u64, of: u64) -> bool {
        self.below(of) < chances
    }

    /// Returns true with probability one half.
    pub fn coin(&mut self) -> bool {
        self.next_u64() & (1 << 40) != 0
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.index(end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        let mut random = Random::new(1);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(first, [10451216379200822465, 13757245211066428519, 17911839290282890590]);
    }

    #[test]
    fn every_number_below_the_limit_comes_equally_often() {
        let mut random = Random::new(7);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[random.index(10)] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
        let coins = (0..10_000).filter(|_| random.coin()).count();
        assert!((4800..5200).contains(&coins), "{coins}");
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}

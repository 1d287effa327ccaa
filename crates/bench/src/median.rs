//! The median of repeated measurements.

/// Returns the middle sample, or the mean of the two in the middle, or `None` without samples.
pub fn median(samples: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut samples: Vec<f64> = samples.into_iter().collect();
    samples.sort_by(f64::total_cmp);
    let upper = *samples.get(samples.len() / 2)?;
    match samples.len() % 2 {
        0 => Some(f64::midpoint(samples[samples.len() / 2 - 1], upper)),
        _ => Some(upper),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn it_is_the_middle_one_or_halfway_between_two() {
        assert_eq!(median([8.0, 2.0, 1.0]), Some(2.0));
        assert_eq!(median([8.0, 2.0, 1.0, 4.0]), Some(3.0));
        assert_eq!(median([]), None);
    }
}

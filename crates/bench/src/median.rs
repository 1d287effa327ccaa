//! The median of repeated measurements.

/// Returns the middle sample, or the mean of the two middle samples; `None` if there are no samples.
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
    fn the_median_is_the_middle_sample_or_the_mean_of_the_two_middle_samples() {
        assert_eq!(median([8.0, 2.0, 1.0]), Some(2.0));
        assert_eq!(median([8.0, 2.0, 1.0, 4.0]), Some(3.0));
        assert_eq!(median([]), None);
    }
}

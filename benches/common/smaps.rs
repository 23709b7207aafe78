//! What the kernel says of a process's memory, mapping by mapping.

/// Kilobytes that a field of `smaps` says (`Pss:`), summed over the mappings whose first line `wanted` takes.
pub(crate) fn sum(smaps: &str, field: &str, wanted: impl Fn(&str) -> bool) -> u64 {
    let (mut total, mut counts) = (0, false);
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if first.contains('-') {
            counts = wanted(line);
        } else if first == field && counts {
            total += words.next().and_then(|word| word.parse::<u64>().ok()).expect("kilobytes");
        }
    }
    total
}

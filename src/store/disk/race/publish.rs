//! Two publish one key, a third looks it up.

use super::*;
use crate::store::disk::fs::sim::explore::Explorer;

fn two_publish(run: &Run) {
    let oracle = Oracle::default();
    for n in [1, 2] {
        let oracle = oracle.clone();
        run.process(move |fs| {
            let Ok(cache) = Cache::open(fs, &oracle) else { return };
            if cache.put(&key(0), &body(n), Replace::Damaged).is_ok() {
                oracle.published(cache.root.fs(), &key(0));
            }
            cache.get(&key(0));
        });
    }
    run.join();
    let cache = Cache::open(run.world().process(), &oracle).unwrap();
    cache.get(&key(0));
}

#[test]
fn sim_two_publish() {
    Explorer::new("two publish").setup(setup()).bounded(1, two_publish).holds();
    Explorer::new("two publish").setup(setup()).bounded(2, two_publish).holds();
    Explorer::new("two publish").setup(setup()).all(two_publish).holds();
}

//! What a power cut may leave: every unsynced change of a machine is kept, dropped or torn on its own.
//!
//! ```text
//!   durable image + [change, change, change]   ──►   image, image, image, …
//!                      kept    torn   dropped         each a machine after its next boot
//! ```
//!
//! This is harsher than real file systems, which keep some order: a new name may survive without the bytes
//! behind it, a later write without an earlier one, both names of a rename or neither. Where there are few
//! combinations all are tried; where there are many, the corners and a sample by seed.

use std::sync::Arc;

use super::machine::{Content, DataChange, Machine, mix};

const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// How each unsynced change fares, in the order in which [`Machine::images`] meets them: 0 is kept, 1 is
/// dropped, what lies above is torn in some way.
pub(crate) type Fate = Vec<usize>;

/// How many images of one power cut are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Images {
    /// If there are at most so many they are all looked at.
    pub(crate) all_below: usize,
    /// Otherwise everything kept, everything dropped, and so many by seed, in half of which little is lost;
    pub(crate) sample: usize,
    /// and those where all is kept, or all dropped, but one change, in each of its ways, for up to 64 of
    /// them.
    pub(crate) corners: bool,
    pub(crate) seed: u64,
    /// The power goes at so many steps, at even distances, and at so many of each recovery.
    pub(crate) cuts: (usize, usize),
}

impl Machine {
    /// The fates that a power cut at this moment may deal.
    pub(crate) fn fates(&self, images: Images) -> Vec<Fate> {
        let options: Vec<usize> = self.unsynced().map(|change| change.options()).collect();
        let product = options.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
        if product.is_some_and(|product| product <= images.all_below) {
            let mut fates = vec![vec![]];
            for n in options {
                fates = fates
                    .into_iter()
                    .flat_map(|fate: Fate| {
                        (0..n).map(move |choice| fate.iter().copied().chain([choice]).collect())
                    })
                    .collect();
            }
            return fates;
        }
        let length = options.len();
        let mut fates: Vec<Fate> = vec![vec![0; length], vec![1; length]];
        // Of many changes, so many at even distances.
        let stride = length.div_ceil(64).max(1);
        for one in (0..if images.corners { length } else { 0 }).step_by(stride) {
            for choice in 0..options[one] {
                for others in [0, 1] {
                    let mut fate = vec![others; length];
                    fate[one] = choice;
                    fates.push(fate);
                }
            }
        }
        let mut random = images.seed;
        for n in 0..images.sample {
            // Of a hundred words one or another is nearly always lost, and all is void: so every other time
            // nearly everything is kept.
            let most = if n % 2 == 0 { 1 } else { (length as u64).div_ceil(2).max(1) };
            let mut choose = |n: &usize| {
                let choice = (next(&mut random) % *n as u64) as usize;
                if next(&mut random).is_multiple_of(most) { choice } else { 0 }
            };
            fates.push(options.iter().map(&mut choose).collect());
        }
        fates.sort();
        fates.dedup();
        fates
    }

    /// The machine after its next boot, if its unsynced changes fared like this.
    pub(crate) fn image(&self, fate: &Fate) -> Machine {
        let mut machine = self.rebooted();
        let mut choices = fate.iter().copied();
        for node in machine.nodes.values_mut().map(Arc::make_mut) {
            match &mut node.content {
                Content::File { data, durable, pending } => {
                    let mut sparse = false;
                    for change in pending.drain(..) {
                        let choice = choices.next().expect("a fate per change");
                        sparse |= matches!(change, DataChange::Length(_)) && choice == 2;
                        change.apply_torn(Arc::make_mut(durable), choice);
                    }
                    data.clone_from(durable);
                    let length = if sparse { 0 } else { data.len() as u64 };
                    node.allocated = length.next_multiple_of(PAGE as u64);
                }
                Content::Directory { names, durable, pending } => {
                    for change in pending.drain(..) {
                        if choices.next().expect("a fate per change") == 0 {
                            match change.to {
                                Some(inode) => durable.insert(change.name, inode),
                                None => durable.remove(&change.name),
                            };
                        }
                    }
                    names.clone_from(durable);
                }
                Content::Symlink(_) | Content::Fifo => {}
            }
        }
        machine.count_links();
        machine
    }

    fn unsynced(&self) -> impl Iterator<Item = Change<'_>> {
        self.nodes.values().flat_map(|node| match &node.content {
            Content::File { pending, .. } => pending.iter().map(Change::Data).collect(),
            Content::Directory { pending, .. } => vec![Change::Name; pending.len()],
            Content::Symlink(_) | Content::Fifo => Vec::new(),
        })
    }
}

#[derive(Clone)]
enum Change<'a> {
    Name,
    Data(&'a DataChange),
}

impl Change<'_> {
    /// In how many ways it can fare.
    fn options(&self) -> usize {
        match self {
            Change::Name | Change::Data(DataChange::Word { .. }) => 2,
            // Kept, dropped, or kept without the blocks.
            Change::Data(DataChange::Length(_)) => 3,
            // Kept, dropped, the length alone; then torn between sectors, and between pages.
            Change::Data(DataChange::Write { bytes, .. }) => match bytes.len() {
                n if n <= SECTOR => 3,
                n if n <= PAGE => 6,
                _ => 9,
            },
        }
    }
}

impl DataChange {
    fn apply_torn(&self, data: &mut Vec<u8>, choice: usize) {
        let (offset, bytes) = match self {
            _ if choice == 1 => return,
            DataChange::Length(_) | DataChange::Word { .. } => return self.apply(data),
            DataChange::Write { offset, bytes } => (*offset, bytes),
        };
        DataChange::Length(offset + bytes.len()).apply(data);
        let unit = if choice < 6 { SECTOR } else { PAGE };
        let units = (offset + bytes.len()).div_ceil(unit);
        for (at, byte) in bytes.iter().enumerate() {
            let (place, first) = ((offset + at) / unit, offset / unit);
            let kept = match choice {
                0 => true,
                2 => false,
                3 | 6 => place < (first + units).div_ceil(2),
                4 | 7 => place >= (first + units).div_ceil(2),
                _ => place % 2 == 0,
            };
            if kept {
                data[offset + at] = *byte;
            }
        }
    }
}

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*random)
}

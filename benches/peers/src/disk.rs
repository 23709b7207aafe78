//! The figures of caches in a directory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Effort;
use crate::child::{Task, Team};
use crate::figure::{Figure, Figures, Target, median};
use crate::peer::Peer;
use crate::records::{PRESENT, RECORDS, Records, key, payload};

/// cacache has files per record, and takes minutes for more records than this. What it costs does not depend on how many
/// there are: where others hold more, it holds this many.
const MOST_OF_CACACHE: u64 = 10_000;

/// Directories that were built, to be used again.
struct Directories {
    root: TempDir,
}

impl Directories {
    /// The directory of a peer with these records, and how many there truly are.
    fn get(&self, peer: Peer, records: Records) -> (PathBuf, Records) {
        let most = if peer == Peer::Cacache { MOST_OF_CACACHE } else { u64::MAX };
        let records = Records { count: records.count.min(most), ..records };
        let name = format!("{}-{}-{}", peer.directory(), records.size, records.count);
        let path = self.root.path().join(&name);
        if !path.exists() {
            eprintln!("building {name}");
            std::fs::create_dir(&path).expect("the temporary directory is ours");
            let keys = (0..records.count).map(|n| key(PRESENT, n));
            let mut records = keys.map(|key| (key, payload(&key, records.size)));
            peer.open(&path).fill(&mut records);
        }
        (path, records)
    }

    fn empty(&self, peer: Peer) -> TempDir {
        tempfile::Builder::new()
            .prefix(peer.directory())
            .tempdir_in(self.root.path())
            .expect("the temporary directory is ours")
    }
}

/// Measures what is wanted.
pub fn measure(effort: &Effort, figures: &mut Figures) {
    let root = TempDir::with_prefix_in("cachelift-peers-", &effort.dir);
    let root = root.expect("the temporary directory can be written");
    let directories = Directories { root };
    let mut small = HashMap::new();
    for records in RECORDS {
        if effort.quick && records.count > 100_000 {
            continue;
        }
        for processes in [1, 2] {
            open(effort, &directories, records, processes, figures);
            get(effort, &directories, records, processes, figures, &mut small);
            absent(effort, &directories, records, processes, figures);
        }
    }
    for size in [200, 1 << 10, 16 << 10] {
        for processes in [1, 2] {
            put(effort, &directories, size, processes, figures);
        }
    }
}

fn open(
    effort: &Effort,
    directories: &Directories,
    records: Records,
    processes: usize,
    figures: &mut Figures,
) {
    let name = records.name("open", processes);
    if !effort.wants(&name) {
        return;
    }
    let peers = [Peer::Ours, Peer::Lmdb, Peer::Sqlite, Peer::Cacache];
    let places = peers.map(|peer| (peer, directories.get(peer, records)));
    let mut times = places.each_ref().map(|_| Vec::new());
    for round in 0..effort.rounds(15) {
        for ((peer, (dir, records)), times) in places.iter().zip(&mut times) {
            let mut team = Team::start(Task::Open, *peer, *records, dir, processes);
            times.push(mean(&team.round(round as u64)));
        }
    }
    let targets = [Target::AtLeast(1.0), Target::AtLeast(10.0), Target::AtLeast(5.0)];
    compare(&name, peers, times, targets, figures);
}

fn get(
    effort: &Effort,
    directories: &Directories,
    records: Records,
    processes: usize,
    figures: &mut Figures,
    small: &mut HashMap<usize, f64>,
) {
    let name = records.name("get", processes);
    if !effort.wants(&name) {
        return;
    }
    let peers = [
        Peer::OursDisk,
        Peer::Lmdb,
        Peer::LmdbVerified,
        Peer::LmdbOneTransaction,
        Peer::Sqlite,
        Peer::Cacache,
    ];
    let times = rounds(effort, directories, Task::Get, peers, records, processes);
    let ours = median(times[0].clone());
    let unverified = if records.size < 1 << 10 { Target::None } else { Target::AtLeast(0.5) };
    let (verified, ten) = (Target::Faster, Target::AtLeast(10.0));
    compare(&name, peers, times, [unverified, verified, Target::None, ten, ten], figures);
    if records.count == 1_000 {
        small.insert(processes, ours);
    } else if records.count == 1_000_000
        && let Some(small) = small.get(&processes)
    {
        let (peer, theirs, target) =
            ("cachelift, 1000 records".into(), *small, Target::AtLeast(0.5));
        figures.add(Figure { name, peer, ours, theirs, target });
    }
}

fn absent(
    effort: &Effort,
    directories: &Directories,
    records: Records,
    processes: usize,
    figures: &mut Figures,
) {
    let name = records.name("absent", processes);
    if !effort.wants(&name) {
        return;
    }
    let peers = [Peer::Ours, Peer::Lmdb, Peer::Sqlite, Peer::Cacache];
    let times = rounds(effort, directories, Task::Absent, peers, records, processes);
    compare(&name, peers, times, [Target::Faster, Target::None, Target::None], figures);
}

fn put(
    effort: &Effort,
    directories: &Directories,
    size: usize,
    processes: usize,
    figures: &mut Figures,
) {
    let name = format!("put/{}/{processes}p", crate::records::size(size));
    if !effort.wants(&name) {
        return;
    }
    let peers = [Peer::OursDisk, Peer::Lmdb, Peer::Cacache, Peer::Ours];
    let dirs = peers.map(|peer| directories.empty(peer));
    let records = Records { size, count: 0 };
    let mut teams: Vec<Team> = peers
        .iter()
        .zip(&dirs)
        .map(|(peer, dir)| Team::start(Task::Put, *peer, records, dir.path(), processes))
        .collect();
    let puts = if size > 1 << 10 { 500 } else { 2_000 };
    let puts = peers.map(|peer| if peer == Peer::Cacache { puts / 10 } else { puts });
    let mut times = peers.map(|_| Vec::new());
    for round in 0..effort.rounds(11) + 1 {
        for ((team, times), puts) in teams.iter_mut().zip(&mut times).zip(puts) {
            // The time until the last is done, over all that was done.
            let time = team.round(puts).into_iter().fold(0.0, f64::max);
            // The first round makes directories and files.
            if round > 0 {
                times.push(time / (puts * processes as u64) as f64);
            }
        }
    }
    let targets = match processes {
        1 => [Target::None; 3],
        _ => [Target::AtLeast(2.0), Target::AtLeast(20.0), Target::None],
    };
    compare(&name, peers, times, targets, figures);
}

/// The times of children that get for a while, the peers taking turns.
fn rounds<const N: usize>(
    effort: &Effort,
    directories: &Directories,
    task: Task,
    peers: [Peer; N],
    records: Records,
    processes: usize,
) -> [Vec<f64>; N] {
    let mut teams: Vec<Team> = Vec::new();
    for peer in peers {
        let (dir, records) = directories.get(peer, records);
        let start = |dir: &Path| Team::start(task, peer, records, dir, processes);
        teams.push(start(&dir));
    }
    let mut times = peers.map(|_| Vec::new());
    for _ in 0..effort.rounds(9) {
        for (team, times) in teams.iter_mut().zip(&mut times) {
            times.push(mean(&team.round(20)));
        }
    }
    times
}

/// Compares the first with each of the others.
fn compare<const N: usize>(
    name: &str,
    peers: [Peer; N],
    times: [Vec<f64>; N],
    targets: impl IntoIterator<Item = Target>,
    figures: &mut Figures,
) {
    let mut medians = times.into_iter().map(median);
    let ours = medians.next().expect("there is one");
    for ((peer, theirs), target) in peers[1..].iter().zip(medians).zip(targets) {
        let (name, peer) = (name.to_owned(), peer.title().to_owned());
        figures.add(Figure { name, peer, ours, theirs, target });
    }
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

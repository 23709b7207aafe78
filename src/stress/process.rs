//! What the kernel tells of processes that do not answer.

use std::fmt::Write;
use std::fs;

/// What each thread of a process is at: its state, and where in the kernel it waits.
pub(super) fn state_of(process: i32) -> String {
    let mut states = String::new();
    for task in tasks(process) {
        let dir = format!("/proc/{process}/task/{task}");
        let state = fs::read_to_string(format!("{dir}/stat")).ok().and_then(|stat| {
            // Behind the name, which may have anything in it.
            stat.rsplit_once(')')?.1.split_whitespace().next().map(str::to_owned)
        });
        let read = |name| fs::read_to_string(format!("{dir}/{name}")).unwrap_or_default();
        let (state, wchan) = (state.unwrap_or_else(|| "gone".into()), read("wchan"));
        let wchan = if wchan.trim_matches('0').is_empty() { "user space" } else { &wchan };
        let call = read("syscall");
        let call = call.split_whitespace().next().unwrap_or("?");
        let separator = if states.is_empty() { "" } else { "; " };
        let _ = write!(states, "{separator}task {task}: {state} in {wchan}, system call {call}");
    }
    if states.is_empty() { "gone".into() } else { states }
}

/// The processes whose parent this is.
pub(super) fn children_of(process: i32) -> Vec<i32> {
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        parent.is_some_and(|parent| parent.parse() == Ok(process))
    };
    numbers_in("/proc").into_iter().filter(is_child).collect()
}

fn tasks(process: i32) -> Vec<i32> {
    numbers_in(&format!("/proc/{process}/task"))
}

/// The names in a directory that are numbers.
fn numbers_in(dir: &str) -> Vec<i32> {
    let Ok(names) = fs::read_dir(dir) else { return Vec::new() };
    let mut numbers: Vec<i32> =
        names.flatten().filter_map(|name| name.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_waits_is_described() {
        let me = std::process::id() as i32;
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        assert!(children_of(me).contains(&pid));
        assert!(state_of(pid).contains(&format!("task {pid}: ")), "{}", state_of(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(state_of(pid), "gone");
        assert!(children_of(pid).is_empty());
    }
}

//! Directories that cannot be used, or not fully: the program runs right, the reason is told, and nothing
//! is changed that should not be.
//!
//! What needs root is done as root of a user namespace of its own, or as root itself; what root would not
//! notice is done as an ordinary user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::child::{self, Report};
use crate::modes::listing;

/// Runs the role on `dir` as it is, and checks that it ran right.
fn on(dir: &Path) -> Report {
    child::run(child::command("status").env("CACHELIFT_DIR", dir))
}

fn assert_memory_only(report: &Report, reason: &str) {
    assert_eq!((report["made"].as_str(), report["disk"].as_str()), ("20", "0"));
    assert!(report["status"].contains(reason), "{}", report["status"]);
}

#[test]
fn missing_is_made_private() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("a/b/cache");
    assert_eq!(on(&cache)["made"], "20");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&cache), 0o700);
    for (path, length, _) in listing(&cache) {
        let mode = mode(Path::new(&path));
        assert!(mode & 0o077 == 0, "{path} of {length} bytes has mode {mode:o}");
    }
    assert!(
        fs::read(cache.join("CACHEDIR.TAG"))
            .unwrap()
            .starts_with(b"Signature: 8a477f597d28d172789f06886806bc55")
    );
    assert_eq!(on(&cache)["disk"], "20");
}

#[test]
fn a_file_in_its_place_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    fs::write(&cache, "precious").unwrap();
    assert_memory_only(&on(&cache), "is a file");
    assert_eq!(fs::read(&cache).unwrap(), b"precious");
}

#[test]
fn a_symlink_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (real, cache) = (dir.path().join("real"), dir.path().join("cache"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &cache).unwrap();
    assert_memory_only(&on(&cache), "symbolic link");
    assert!(listing(&real).is_empty());
}

#[test]
fn world_writable_is_refused_and_not_mended() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, Permissions::from_mode(0o777)).unwrap();
    assert_memory_only(&on(&cache), "can be written by other users");
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o777);
    assert!(listing(&cache).is_empty());
}

#[test]
fn removed_while_in_use_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let store = cachelift::store::Store::open(cachelift::config::Config::default().dir(&cache));
    let get = |n: u64| {
        let (record, origin) =
            store.try_get_with(&child::key(&store, n), || Ok::<_, ()>(child::draft(n))).unwrap();
        assert_eq!(record.payload(), child::payload(n));
        origin
    };
    for n in 0..10 {
        get(n);
    }
    fs::remove_dir_all(&cache).unwrap();
    for n in 0..20 {
        get(n);
    }
    // What was made after the removal is there for the next process.
    let next = child::run(child::command("get-all").env("CACHELIFT_DIR", &cache));
    assert_eq!(next["disk"], "10", "{next:?}");
}

/// Runs `script` with `sh` as root of new user and mount namespaces; `$ROLE` runs the role `status`.
fn in_namespace(script: &str, cache: &Path) -> Vec<Report> {
    let role = child::command("status");
    let arguments: Vec<_> = role.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-euc", script])
        .env("CACHE", cache)
        .env("CACHELIFT_DIR", cache)
        .env("CACHELIFT_TEST_ROLE", "status")
        .env("ROLE", format!("{} {}", role.get_program().to_string_lossy(), arguments.join(" ")))
        .output()
        .expect("unshare of util-linux runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text.split("test result:")
        .filter(|part| part.contains("made="))
        .map(|part| {
            part.lines()
                .filter_map(|line| line.trim().split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect()
        })
        .collect()
}

#[test]
fn readable_but_unwritable_serves_hits() {
    let dir = tempfile::tempdir().unwrap();
    let reports = in_namespace(
        r#"mkdir -m 700 "$CACHE"; mount -t tmpfs -o mode=700 none "$CACHE"
           $ROLE
           mount -o remount,ro "$CACHE"
           $ROLE"#,
        &dir.path().join("cache"),
    );
    assert_eq!(reports[0]["made"], "20");
    assert_eq!((reports[1]["made"].as_str(), reports[1]["disk"].as_str()), ("0", "20"));
}

#[test]
fn noexec_serves_hits() {
    let dir = tempfile::tempdir().unwrap();
    let reports = in_namespace(
        r#"mkdir -m 700 "$CACHE"; mount -t tmpfs -o mode=700,noexec none "$CACHE"
           $ROLE
           $ROLE"#,
        &dir.path().join("cache"),
    );
    assert_eq!((reports[1]["made"].as_str(), reports[1]["disk"].as_str()), ("0", "20"));
}

#[test]
fn full_runs_right() {
    let dir = tempfile::tempdir().unwrap();
    let reports = in_namespace(
        r#"mkdir -m 700 "$CACHE"; mount -t tmpfs -o mode=700,size=64k none "$CACHE"
           head -c 65536 /dev/zero > "$CACHE/ballast" || true
           $ROLE
           rm "$CACHE/ballast"
           $ROLE"#,
        &dir.path().join("cache"),
    );
    assert_eq!(reports[0]["made"], "20");
    assert!(reports[0].keys().any(|name| name.starts_with("reason.")), "{:?}", reports[0]);
    assert_eq!(
        reports[1].get("made").map(String::as_str),
        Some("20"),
        "nothing was kept: {:?}",
        reports[1]
    );
}

#[test]
fn another_owner_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    fs::create_dir(&cache).unwrap();
    if rustix_is_root() {
        std::os::unix::fs::chown(&cache, Some(12345), Some(12345)).unwrap();
        assert_memory_only(&on(&cache), "belongs to");
    } else {
        // The root of the machine owns `/`, which is not ours to use.
        assert_memory_only(&on(Path::new("/usr")), "belongs to");
    }
    assert!(listing(&cache).is_empty());
}

fn rustix_is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| {
        use std::os::unix::fs::MetadataExt;
        meta.uid() == 0
    })
}

//! Other users. Exactly the users with access to the directory may use the environment, whichever user made its files.
//! A stranger can neither attach nor block other users. The tests need root's rights, to run processes as other users;
//! otherwise they are skipped with a message.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{chown, lchown, symlink, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use libtp::{Env, OpenedBy};

/// The environment's directory. Without this variable, the process is not a visitor.
const DIRECTORY: &str = "LIBTP_TEST_USER_DIRECTORY";
/// Ids of users and groups that do not exist.
const ALICE: u32 = 61_001;
const BOB: u32 = 61_002;
const MALLORY: u32 = 61_003;
const FRIENDS: u32 = 61_100;

/// A process of another user that opens the environment and stays until it gets the order to leave.
struct Visitor {
    child: Child,
    input: ChildStdin,
    output: std::io::Lines<BufReader<ChildStdout>>,
}

impl Visitor {
    fn start(place: &Place, user: u32, group: u32) -> Visitor {
        let mut command = Command::new(&place.program);
        command
            .args(["--exact", "users::entry", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, place.environment());
        command.uid(user).gid(group).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = loop {
            match command.spawn() {
                // Another test's child has inherited our descriptor, with which we wrote the program, and keeps the
                // program open for writing until the child's exec.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                child => break child.unwrap(),
            }
        };
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Visitor { child, input, output }
    }

    #[track_caller]
    fn answer(&mut self) -> String {
        let ours = |line: std::io::Result<String>| line.unwrap().strip_prefix("> ").map(str::to_owned);
        self.output.find_map(ours).expect("the visitor writes a line before it ends")
    }

    /// Lets the visitor leave.
    fn leave(mut self) {
        self.input.write_all(b"\n").unwrap();
        assert_eq!(self.answer(), "left");
        self.child.wait().unwrap();
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        // The process may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The entry of a visitor. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let say = |text: &str| {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("\n> {text}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
    };
    let visit = || -> libtp::Result<(Env, String)> {
        let env = Env::open_or_create(&directory)?;
        let visits = env.btree("visits")?;
        let user = rustix::process::geteuid().as_raw().to_be_bytes();
        env.run(|txn| visits.put(txn, &user, b"was here"))?;
        let region = env.stats()?.region;
        Ok((env, region))
    };
    match visit() {
        Ok((env, region)) => {
            say(&format!("{:?} {region}", env.opened().how));
            std::io::stdin().read_line(&mut String::new()).unwrap();
            drop(env);
            say("left");
        }
        Err(error) => say(&format!("refused: {error}").replace('\n', " ")),
    }
}

/// A directory that all users can reach. It has a copy of this program, a directory for shared memory with the rights
/// of `/dev/shm`, and the environment's directory.
struct Place {
    root: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    /// Makes the place; returns `None` if we cannot run processes as other users.
    fn new(owner: u32, group: u32, mode: u32) -> Option<Place> {
        if !rustix::process::geteuid().is_root() {
            let text = "SKIPPED users: only root can run processes as other users";
            assert!(std::env::var_os("CI").is_none(), "{text}");
            println!("figures: {text}");
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        set(root.path(), 0o755);
        let place = Place { program: root.path().join("program"), root };
        std::fs::copy(std::env::current_exe().unwrap(), &place.program).unwrap();
        set(&place.program, 0o755);
        std::fs::create_dir(place.memory()).unwrap();
        set(&place.memory(), 0o1777);
        std::fs::create_dir(place.environment()).unwrap();
        let settings = place.environment().join("libtp.toml");
        std::fs::write(&settings, format!("region_directory = {:?}\n", place.memory())).unwrap();
        chown(&settings, Some(owner), Some(group)).unwrap();
        set(&settings, 0o644);
        chown(place.environment(), Some(owner), Some(group)).unwrap();
        set(&place.environment(), mode);
        Some(place)
    }

    fn memory(&self) -> PathBuf {
        self.root.path().join("memory")
    }

    fn environment(&self) -> PathBuf {
        self.root.path().join("environment")
    }

    /// Returns the users that have opened the environment.
    fn visitors(&self) -> Vec<u32> {
        let env = Env::open_or_create(self.environment()).unwrap();
        let visits = env.btree("visits").unwrap();
        env.run(|txn| {
            let mut cursor = visits.cursor(txn);
            let mut users = Vec::new();
            while let Some((user, _)) = cursor.next()? {
                users.push(u32::from_be_bytes(user.try_into().unwrap()));
            }
            Ok(users)
        })
        .unwrap()
    }
}

#[test]
fn a_stranger_is_refused_with_the_reason() {
    for mode in [0o700, 0o755] {
        let Some(place) = Place::new(ALICE, ALICE, mode) else { return };
        let mut alice = Visitor::start(&place, ALICE, ALICE);
        let answer = alice.answer();
        assert!(answer.starts_with("Created"), "{answer}");
        let region = PathBuf::from(answer.split_once(' ').unwrap().1);
        let metadata = std::fs::metadata(&region).unwrap();
        assert_eq!((metadata.uid(), metadata.mode() & 0o777), (ALICE, 0o600));
        let refused = Visitor::start(&place, MALLORY, MALLORY).answer();
        assert!(refused.starts_with("refused") && refused.contains("ermission denied"), "{refused}");
        assert!(refused.contains(&place.environment().display().to_string()), "{refused}");
        alice.leave();
        assert_eq!(place.visitors(), [ALICE]);
    }
}

/// Runs a program as another user; returns whether it succeeded, and its error text.
fn as_mallory(program: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(program);
    let run = command.args(arguments).uid(MALLORY).gid(MALLORY).current_dir("/").output().unwrap();
    (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
}

#[test]
fn a_stranger_with_access_to_the_directory_can_neither_stop_nor_lock_anything() {
    let Some(place) = Place::new(ALICE, ALICE, 0o755) else { return };
    let mut alice = Visitor::start(&place, ALICE, ALICE);
    let region = alice.answer().split_once(' ').unwrap().1.to_owned();
    let pid = alice.child.id().to_string();
    for signal in ["-0", "-STOP", "-KILL"] {
        let (done, message) = as_mallory("/bin/kill", &[signal, &pid]);
        assert!(!done && message.contains("not permitted"), "{signal}: {message}");
    }
    let mut files = vec![region];
    for entry in std::fs::read_dir(place.environment()).unwrap() {
        files.push(entry.unwrap().path().display().to_string());
    }
    // `libtp.toml` is left out: the directory's owner made it, not the library.
    for file in files.iter().filter(|file| !file.ends_with("libtp.toml")) {
        let (done, message) = as_mallory("/usr/bin/flock", &["--nonblock", file, "true"]);
        assert!(!done && message.contains("ermission denied"), "{file}: {message}");
    }
    alice.leave();
    assert_eq!(place.visitors(), [ALICE]);
}

#[test]
fn users_of_the_directorys_group_share_the_environment_and_a_stranger_is_refused() {
    let Some(place) = Place::new(ALICE, FRIENDS, 0o770) else { return };
    // Bob is first, so he owns all files.
    let mut bob = Visitor::start(&place, BOB, FRIENDS);
    assert!(bob.answer().starts_with("Created"));
    let mut alice = Visitor::start(&place, ALICE, FRIENDS);
    let joined = alice.answer();
    assert!(joined.starts_with("Joined"), "{joined}");
    let refused = Visitor::start(&place, MALLORY, MALLORY).answer();
    assert!(refused.contains("ermission denied"), "{refused}");
    bob.leave();
    alice.leave();
    // Alice left last, but she could not remove Bob's region from a directory with the rights of `/dev/shm`. So the
    // region is still there, and undamaged.
    let mut alice = Visitor::start(&place, ALICE, FRIENDS);
    let answer = alice.answer();
    assert!(answer.starts_with("Repaired"), "{answer}");
    alice.leave();
    assert_eq!(place.visitors(), [ALICE, BOB]);
}

#[test]
fn files_that_root_makes_in_a_users_environment_belong_to_the_user() {
    let Some(place) = Place::new(ALICE, ALICE, 0o700) else { return };
    let mut root = Visitor::start(&place, 0, 0);
    assert!(root.answer().starts_with("Created"));
    let mut alice = Visitor::start(&place, ALICE, ALICE);
    let joined = alice.answer();
    assert!(joined.starts_with("Joined"), "{joined}");
    root.leave();
    alice.leave();
    for entry in std::fs::read_dir(place.environment()).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (ALICE, ALICE), "{}", entry.path().display());
    }
    assert_eq!(place.visitors(), [0, ALICE]);
}

#[test]
fn a_file_of_another_user_under_the_name_of_the_shared_memory_is_ignored_and_blocks_no_opening() {
    let Some(place) = Place::new(ALICE, ALICE, 0o700) else { return };
    let mut alice = Visitor::start(&place, ALICE, ALICE);
    let region = PathBuf::from(alice.answer().split_once(' ').unwrap().1);
    assert!(region.starts_with(place.memory()));
    // A user with read access could make this copy, which has the region's note of its owner.
    let perfect = std::fs::read(&region).unwrap();
    alice.leave();
    let secret = place.root.path().join("secret");
    std::fs::write(&secret, "not to be touched").unwrap();
    chown(&secret, Some(ALICE), Some(ALICE)).unwrap();
    for plant in ["a copy", "unreadable", "a link"] {
        let _ = std::fs::remove_file(&region);
        if plant == "a link" {
            symlink(&secret, &region).unwrap();
        } else {
            std::fs::write(&region, &perfect).unwrap();
            let mode = if plant == "a copy" { 0o666 } else { 0 };
            std::fs::set_permissions(&region, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        lchown(&region, Some(MALLORY), Some(MALLORY)).unwrap();
        let mut alice = Visitor::start(&place, ALICE, ALICE);
        let answer = alice.answer();
        assert!(answer.starts_with("Clean"), "{plant}: {answer}");
        let home = place.environment();
        assert!(answer.contains(&home.display().to_string()), "{plant}: {answer} should be in {}", home.display());
        // Alice's other processes find the same region.
        let mut again = Visitor::start(&place, ALICE, ALICE);
        let answer = again.answer();
        assert!(answer.starts_with("Joined"), "{plant}: {answer}");
        again.leave();
        alice.leave();
        let metadata = std::fs::symlink_metadata(&region).unwrap();
        assert_eq!(metadata.uid(), MALLORY, "{plant}: the owner of the file was changed");
        if plant != "a link" {
            assert!(std::fs::read(&region).unwrap() == perfect, "{plant}: the file was changed");
        }
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "not to be touched");
    }
    let how = Env::open_or_create(place.environment()).unwrap().opened().how;
    assert_eq!(how, OpenedBy::Clean);
}

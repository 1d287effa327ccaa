//! The benchmark's PostgreSQL server: made, started and stopped with the programs of the system's package.
//!
//! The server listens only on a Unix socket. It ends when this process dies (`setpriv --pdeathsig`), or at the latest
//! when it notices that its directory was removed. PostgreSQL refuses to run as root. If this process is root's, the
//! server runs as the package's user, which becomes the owner of the server's directories.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{geteuid, kill_process, Pid, Signal};

use crate::engine::Durability;
use crate::error::{Error, Result};

/// The name in reports.
pub(crate) const NAME: &str = "postgresql";
/// The directory of the programs in Debian's packages. It has a directory for each version.
const PACKAGES: &str = "/usr/lib/postgresql";
/// The user that the package creates.
const USER: &str = "postgres";
/// Longest time that a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the directory of the newest version's programs, or `None` if PostgreSQL is not installed.
pub(crate) fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(PACKAGES).ok()?.filter_map(|version| version.ok()?.file_name().into_string().ok());
    let newest = versions.filter_map(|version| version.parse::<u32>().ok()).max()?;
    let programs = Path::new(PACKAGES).join(newest.to_string()).join("bin");
    programs.join("initdb").exists().then_some(programs)
}

/// Returns PostgreSQL's version. Returns an empty text if PostgreSQL is not installed.
pub(crate) fn version() -> String {
    let Some(programs) = programs() else { return String::new() };
    let output = Command::new(programs.join("postgres")).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.split(' ').nth(2).unwrap_or_default().trim_end().to_owned()
}

/// A running server. Dropping the value stops the server.
pub(crate) struct Server {
    child: Child,
    /// The directory of the server's socket.
    pub(crate) socket: PathBuf,
}

impl Server {
    /// Starts a server on the bank in `directory`, and makes the bank if the directory is empty.
    ///
    /// # Errors
    /// `Settings` if PostgreSQL is not installed; `File` if a file cannot be made or a program cannot be started;
    /// `Engine` if PostgreSQL's programs fail.
    pub(crate) fn start(directory: &Path, durability: Durability) -> Result<Server> {
        let missing = || {
            let how = "apt-get install postgresql, or leave it out";
            Error::Settings(format!("{NAME} is not installed: no server in {PACKAGES}; {how}"))
        };
        let programs = programs().ok_or_else(missing)?;
        let (data, socket) = (directory.join("data"), socket_directory());
        let is_new = !data.exists();
        for made in [&data, &socket] {
            fs::create_dir_all(made).map_err(Error::file("make", made))?;
            fs::set_permissions(made, Permissions::from_mode(0o700)).map_err(Error::file("protect", made))?;
        }
        let server_user = ServerUser::find(directory, &[&data, &socket])?;
        if is_new {
            let mut made = server_user.command(&programs.join("initdb"));
            made.arg("-D").arg(&data).args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
            let made = made.output().map_err(Error::file("start", &programs.join("initdb")))?;
            refuse_failure(&made)?;
        }
        let said = directory.join("server.log");
        let log = File::create(&said).map_err(Error::file("make", &said))?;
        let mut server = server_user.command(&programs.join("postgres"));
        server
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&socket)
            .args(settings(durability))
            .stdout(log.try_clone().map_err(Error::file("open again", &said))?);
        let child = server.stderr(log).spawn().map_err(Error::file("start", &programs.join("postgres")))?;
        let mut server = Server { child, socket };
        server.wait_until_it_listens(&said)?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self, said: &Path) -> Result<()> {
        let begun = Instant::now();
        while postgres::Client::connect(&self.parameters(), postgres::NoTls).is_err() {
            let has_ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || begun.elapsed() > PATIENCE {
                let words = fs::read_to_string(said).unwrap_or_default();
                let last = words.lines().rev().take(3).collect::<Vec<_>>().join("; ");
                return Err(Error::engine(NAME, "starting its server")(format!("it does not answer: {last}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the parameters of a connection.
    pub(crate) fn parameters(&self) -> String {
        format!("host='{}' user={USER} dbname={USER}", self.socket.display())
    }

    /// Stops the server cleanly.
    ///
    /// # Errors
    /// `Engine` if the server cannot be waited for, or ends with an error.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.ask_to_stop();
        let ended = self.child.wait().map_err(Error::engine(NAME, "stopping its server"))?;
        match ended.success() {
            true => Ok(()),
            false => Err(Error::engine(NAME, "stopping its server")(format!("it ended with {ended}"))),
        }
    }

    /// Sends SIGINT, which means a fast shutdown: the server disconnects its clients and makes a checkpoint.
    fn ask_to_stop(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.ask_to_stop();
            let _ = self.child.wait();
        }
        let _ = fs::remove_dir_all(&self.socket);
    }
}

/// Returns the settings that the manual recommends for a machine that runs only the server: memory for the whole bank,
/// and checkpoints by the log's size instead of every five run_record.
fn settings(durability: Durability) -> impl Iterator<Item = OsString> {
    let is_synced = durability == Durability::Sync;
    let settings = [
        "listen_addresses=".to_owned(),
        "shared_buffers=512MB".to_owned(),
        "max_wal_size=8GB".to_owned(),
        "checkpoint_timeout=30min".to_owned(),
        "max_connections=200".to_owned(),
        "wal_sync_method=fdatasync".to_owned(),
        format!("fsync={}", if is_synced { "on" } else { "off" }),
        // The images of full pages protect against torn pages, which is useless without syncs.
        format!("full_page_writes={}", if is_synced { "on" } else { "off" }),
    ];
    settings.into_iter().flat_map(|setting| [OsString::from("-c"), OsString::from(setting)])
}

/// Returns a directory for the socket. The path of a socket has at most 107 bytes, so the path of the bank's directory
/// may be too long for the socket.
fn socket_directory() -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    // `Relaxed` is enough: the numbers only have to differ.
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("libtp-pg-{}-{number}", std::process::id()))
}

/// The ids of the user and group under which the server runs; `None` if they are those of this process.
struct ServerUser(Option<(u32, u32)>);

impl ServerUser {
    /// Finds the server's user, makes this user the owner of the directories `own`, and lets the user pass through the
    /// directories above them.
    fn find(directory: &Path, own: &[&PathBuf]) -> Result<ServerUser> {
        if !geteuid().is_root() {
            return Ok(ServerUser(None));
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let Some((user, group)) = users.lines().find_map(ids_of) else {
            return Err(Error::Settings(format!("{NAME} does not run as root, and the system has no user {USER}")));
        };
        for own in own {
            chown(own, Some(user), Some(group)).map_err(Error::file("change the owner of", own))?;
        }
        // Only the bank's directory and its parent belong to the benchmark.
        for passed in directory.ancestors().take(2) {
            let mode = fs::metadata(passed).map_err(Error::file("look at", passed))?.mode();
            fs::set_permissions(passed, Permissions::from_mode(mode | 0o011)).map_err(Error::file("open", passed))?;
        }
        Ok(ServerUser(Some((user, group))))
    }

    /// Returns the command that starts a program as the server's user. The program ends when this process dies.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        if let ServerUser(Some((user, group))) = self {
            command.args([format!("--reuid={user}"), format!("--regid={group}"), "--init-groups".to_owned()]);
        }
        command.args(["--pdeathsig", "INT"]).arg(program).current_dir("/");
        command
    }
}

/// Returns the ids of user and group from a line of /etc/passwd, if the line is that of the server's user.
fn ids_of(line: &str) -> Option<(u32, u32)> {
    let mut words = line.split(':');
    let is_his = words.next()? == USER;
    let (user, group) = (words.nth(1)?.parse().ok()?, words.next()?.parse().ok()?);
    is_his.then_some((user, group))
}

fn refuse_failure(output: &Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().rev().find(|line| !line.is_empty()).unwrap_or("it printed no message");
    Err(Error::engine(NAME, "making its bank")(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        assert_eq!(
            ids_of("postgres:x:109:117:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash"),
            Some((109, 117))
        );
        assert_eq!(ids_of("postgresql:x:109:117::/:/bin/sh"), None);
        assert_eq!(ids_of("postgres:x"), None);
    }
}

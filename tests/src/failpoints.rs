//! The failpoints: places where a test process dies. For each failpoint, a process must reach it and die there, and
//! the other processes must survive its death.
//!
//! A failpoint's name is the argument of its call (`rio::failpoint("log: ...")`); `cargo xtask failpoints` lists the
//! calls.

mod buffer;
mod library;
mod locks;
mod log;
mod memory;
mod records;
mod transactions;

/// How a process reaches a failpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A process works, opens or leaves while other processes work.
    Work,
    /// A process works in a new environment: its structures still grow, and many steps are done for the first time.
    Young,
    /// A process repairs a dead process. If a failpoint is given, the dead process died there.
    Repair(Option<&'static str>),
    /// No other process is attached: the process makes the environment, opens it after all processes died, or is the
    /// last to leave it.
    Alone,
    /// A process rebuilds the shared memory while other processes work in it.
    Rebuild,
    /// A transaction changes records and memory: played by the suite `joint`.
    Memory {
        /// The failpoint where another process died before, if this process must find what the dead process left.
        after: Option<&'static str>,
    },
    /// A process copies an environment at work, or restores a copy: played by the suite `backup`.
    Backup,
    /// A process loads a dump into a new environment: played by the suite `backup`.
    Load,
    /// A transaction changes plain files, or another process finishes it: played by the suite `files`.
    Files,
    /// A transaction drops and renames databases: played by the suite `backup`.
    Databases,
    /// A process answers commits from memory that outlives the system, or finds such commits in the memory: played by
    /// the suite `warm`.
    Warm,
}

/// A failpoint.
#[derive(Clone, Copy, Debug)]
pub struct Failpoint {
    /// Its name.
    pub name: &'static str,
    /// How a process reaches it.
    pub scene: Scene,
}

const fn work(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Work }
}

const fn warm(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Warm }
}

const fn backup(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Backup }
}

const fn load(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Load }
}

const fn files(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Files }
}

const fn databases(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Databases }
}

const fn young(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Young }
}

const fn memory(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Memory { after: None } }
}

/// Returns a failpoint of a process that finds a committed transaction whose segments have not committed.
const fn memory_left(name: &'static str) -> Failpoint {
    memory_after("joined: logged, segments not committed", name)
}

const fn memory_after(before: &'static str, name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Memory { after: Some(before) } }
}

const fn alone(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Alone }
}

const fn rebuild(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Rebuild }
}

const fn repair(name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Repair(None) }
}

const fn repair_after(before: &'static str, name: &'static str) -> Failpoint {
    Failpoint { name, scene: Scene::Repair(Some(before)) }
}

/// Returns all failpoints.
pub fn all() -> impl Iterator<Item = &'static Failpoint> {
    let lists = [
        memory::POINTS,
        log::POINTS,
        buffer::POINTS,
        locks::POINTS,
        transactions::POINTS,
        records::POINTS,
        library::POINTS,
    ];
    lists.into_iter().flatten()
}

/// Returns the names of the failpoints of a scene.
pub fn of(scene: Scene) -> impl Iterator<Item = &'static str> {
    all().filter(move |point| point.scene == scene).map(|point| point.name)
}

//! Late openers: another process makes the memory after this process looked for it and before this process has the
//! log's lock. Another test checks that the memory has no name in its directory while it is being filled.

use std::sync::{Arc, Mutex};

use libtp_io::{Directory, File, OpenMode, Result};
use libtp_sim::{DirectoryLayer, LayeredDirectory, SimDisk};

use crate::workload::{options, transact, word, Draw};

type What = Box<dyn FnMut(&str) + Send>;

/// A directory that calls `what` after each check for a name and before each opening.
struct Watched {
    inner: Arc<dyn Directory>,
    what: Mutex<What>,
}

impl Watched {
    fn new(inner: Arc<dyn Directory>, what: impl FnMut(&str) + Send + 'static) -> Arc<LayeredDirectory<Watched>> {
        Arc::new(LayeredDirectory(Watched { inner, what: Mutex::new(Box::new(what)) }))
    }
}

impl DirectoryLayer for Watched {
    fn below(&self) -> &dyn Directory {
        &*self.inner
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        (self.what.lock().unwrap())("open");
        self.inner.open(name, mode)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let is_there = self.inner.exists(name);
        (self.what.lock().unwrap())(name);
        is_there
    }
}

#[test]
fn a_late_opening_finds_the_memory_of_another_process() {
    let disk: Arc<dyn Directory> = Arc::new(SimDisk::new(1));
    let (other, mut is_first) = (Arc::clone(&disk), true);
    let watched = Watched::new(Arc::clone(&disk), move |name| {
        if name == "database" && std::mem::take(&mut is_first) {
            let mut memory = options(1).open_in(Arc::clone(&other)).unwrap();
            transact(&mut memory, &mut Draw(1), 1).unwrap();
        }
    });
    let memory = options(1).open_in(watched).unwrap();
    assert_eq!(word(memory.segment(), 0), 1, "the transaction was acknowledged");
    memory.close().unwrap();
    assert_eq!(word(options(1).open_in(disk).unwrap().segment(), 0), 1);
}

#[test]
fn the_memory_has_no_name_while_it_is_filled() {
    let disk: Arc<dyn Directory> = Arc::new(SimDisk::new(2));
    let place = tempfile::tempdir().unwrap();
    for number in 1..4 {
        let (path, looked) = (place.path().to_path_buf(), Arc::new(Mutex::new(0)));
        let looks = Arc::clone(&looked);
        let watched = Watched::new(Arc::clone(&disk), move |_| {
            let names: Vec<_> = std::fs::read_dir(&path).unwrap().collect();
            assert!(names.is_empty(), "a kill would leave {names:?}");
            *looks.lock().unwrap() += 1;
        });
        let mut memory = options(1).memory(place.path()).open_in(watched).unwrap();
        assert!(*looked.lock().unwrap() > 2, "the test looked for names during the filling");
        transact(&mut memory, &mut Draw(number), number).unwrap();
    }
}

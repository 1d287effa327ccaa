//! Opens databases by name, in the same way in all processes.

use std::sync::Arc;
use std::time::Duration;

use libtp_buffer::PoolSettings;
use libtp_lock::{OpenHere, Wait};
use libtp_record::{Access, Duplicates, KeyFormat, Method, OpenSettings, Order};
use libtp_txn::Managers;
use rio::planted;

use crate::ground::mutex::lock;
use crate::ground::settings::{wait_of, Granularity};
use crate::open::attach;
use crate::region::inner::Inner;
use crate::region::open_database::OpenDatabase;
use crate::{Error, Result, Txn};

/// The suffix of the name of a database that is to replace another database ([`Txn::rename_database`]). The database
/// `NAME.successor` is opened with the settings of `NAME`, unless it has settings of its own.
pub const SUCCESSOR: &str = ".successor";

/// The name of the library's own database of plain files in transactions (`files/row.rs`).
pub(crate) const PLAIN_FILES: &str = "plain-files";

/// The shortest limit on waiting for other sessions that open or make the same database.
const NAME_PATIENCE: Duration = Duration::from_secs(5);
/// The largest number of attempts to open a database that other sessions drop and make meanwhile.
const LOOKS_MAX: u32 = 1_000;

#[inline]
pub(crate) fn access<'a>(env: &'a Arc<Inner>, open: &'a OpenDatabase, txn: &'a Txn<'_>) -> Access<'a> {
    assert!(
        std::ptr::eq(Arc::as_ptr(env), Arc::as_ptr(txn.environment())),
        "a database is used with transactions of its own environment handle"
    );
    let seat = txn.seated();
    Access::of_session(&seat.generation.managers, &seat.session, open)
}

/// Opens a database. Creates a missing one if `making` gives its method and key format.
pub(crate) fn open(env: &Arc<Inner>, name: &str, making: Option<(Method, KeyFormat)>) -> Result<Arc<OpenDatabase>> {
    open_within(env, name, making, None)
}

/// Works as [`open`], and waits for other sessions at most for the time `limit` if it is given.
pub(crate) fn open_within(
    env: &Arc<Inner>,
    name: &str,
    making: Option<(Method, KeyFormat)>,
    limit: Option<Duration>,
) -> Result<Arc<OpenDatabase>> {
    env.check_process()?;
    let limit = limit.filter(|_| !planted("libtp: an opening ignores its time limit"));
    let of = |name: &str| env.settings.database.get(name);
    let own = of(name).or_else(|| of(name.strip_suffix(SUCCESSOR)?));
    // A transaction with plain files runs inner transactions on this database.
    let has_inner = name == PLAIN_FILES;
    // A read-only handle makes none of the program's databases.
    let making = making.filter(|_| has_inner || !env.is_read_only);
    let settings = OpenSettings {
        create: making.map(|making| making.0),
        key_format: making.map(|making| making.1).unwrap_or_default(),
        page_bytes: own.and_then(|own| own.page_bytes).map(|bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX)),
        own_pool: own
            .and_then(|own| own.own_pool)
            .map(|bytes| PoolSettings { budget_bytes: bytes.0, ..PoolSettings::default() }),
        wait: Some(limit.map_or_else(|| wait_for_name(env.wait), |limit| wait_of(Some(limit)))),
        making_limit: limit,
    };
    let mut looks = 0;
    loop {
        looks += 1;
        if let Some(open) = known(env, name) {
            return Ok(open);
        }
        let opened = env.with_session(|managers, txn| {
            let open = match libtp_record::open(managers, txn, env.platform.directory.as_ref(), name, &settings) {
                Err(libtp_record::Error::Lock(libtp_lock::Error::Timeout { .. }))
                    if limit.is_none() && OpenHere::any() =>
                {
                    let what = "a transaction that has not ended drops it, makes it, or takes its name; nothing was opened. End that transaction first, and then open the database";
                    return Err(Error::Database { name: name.into(), what: what.into() });
                }
                opened => opened?,
            };
            let open =
                open.ok_or_else(|| Error::NoDatabase { name: name.into(), environment: env.platform.path.clone() })?;
            let wish = own.and_then(|own| own.granularity).filter(|_| !has_inner);
            let granularity = agree_on_granularity(managers, &open, wish)?;
            let open = if has_inner { open.without_escalation() } else { open };
            // The database's pages may be larger than all pages for which the spare sessions were prepared.
            attach::warn_of_no_spares(managers.refill_spares());
            let is_dense = own.and_then(|own| own.dense).unwrap_or_default();
            let note = Arc::clone(lock(&env.index_notes).entry(open.id().raw()).or_default());
            let open = open.with_granularity(granularity).with_dense_leaves(is_dense).with_index_note(note);
            Ok((managers.log.incarnation(), open))
        });
        let (incarnation, open) = match opened {
            // Another session dropped the database after this call found it. The name is free now, or another database
            // has it.
            Err(Error::Dropped { .. }) if looks < LOOKS_MAX => continue,
            opened => opened.map_err(|error| error.of_name(name))?,
        };
        let mut databases = env.databases();
        // A new generation opens the databases of this list again. So a database enters the list only if the generation
        // in which it was opened has not ended: the log has the same incarnation, and no process has declared the
        // region broken. A process that begins a new generation opens only the files that it finds then.
        let managers = &env.newest().managers;
        if managers.log.incarnation() == incarnation && !managers.region.is_broken() {
            return Ok(Arc::clone(databases.entry(name.into()).or_insert_with(|| Arc::new(open))));
        }
    }
}

/// Returns how long an opening waits for the database's name. A session that opens or makes the database holds the name
/// only for a short time. So the opening waits at least for [`NAME_PATIENCE`], even if the lock timeout is shorter. A
/// transaction that drops or renames the database holds the name until it ends. If this thread has a transaction open,
/// that transaction may be the holder, so the opening waits only for [`NAME_PATIENCE`]. The wait always has a limit,
/// because the holder may be stopped.
fn wait_for_name(wait: Wait) -> Wait {
    match wait {
        _ if planted("libtp: the wait for the name of a database has no bound") => Wait::Forever,
        Wait::For(longest) if !OpenHere::any() => Wait::For(longest.max(NAME_PATIENCE)),
        _ => Wait::For(NAME_PATIENCE),
    }
}

/// Returns the open database of that name, unless it was dropped or renamed since.
pub(crate) fn known(env: &Inner, name: &str) -> Option<Arc<OpenDatabase>> {
    let open = env.databases().get(name).cloned()?;
    let generation = env.newest();
    // A region that was given up does not show whether the database exists; the next generation shows it.
    let Ok(info) = generation.guarded(|| Ok(generation.managers.buffers.file_by_id(open.id()))) else {
        return Some(open);
    };
    if info.as_ref().is_some_and(|info| info.name == name) {
        return Some(open);
    }
    let mut databases = env.databases();
    if databases.get(name).is_some_and(|now| Arc::ptr_eq(now, &open)) {
        databases.remove(name);
        match info {
            // The database was renamed. Handles to it stay valid, and the next generation opens it again. The entry
            // gets a name that no database can have.
            Some(_) => _ = databases.insert(format!("/{}", open.id()), open),
            None => _ = lock(&env.index_notes).remove(&open.id().raw()),
        }
    }
    None
}

/// Agrees with all attached processes on the unit of locking in a database. A page locker and a record locker would not
/// see each other's locks, so the first process that opens the database decides for all, as long as any process is
/// attached.
fn agree_on_granularity(
    managers: &Managers,
    open: &OpenDatabase,
    wish: Option<Granularity>,
) -> Result<libtp_record::Granularity> {
    let number = |granularity: Granularity| match granularity {
        Granularity::Record => 1,
        Granularity::Page => 2,
    };
    let agreed = managers.buffers.agree(open.id(), number(wish.unwrap_or_default())).map_err(Error::from)?;
    if wish.is_some_and(|wish| number(wish) != agreed) {
        let (theirs, ours) = if agreed == 2 { ("pages", "records") } else { ("records", "pages") };
        let what = format!(
            "the processes that have it open lock {theirs}, and this call asks for locks on {ours}; nothing was opened. Ask for locks on {theirs}, or close the environment in every process first"
        );
        return Err(Error::Database { name: open.name().into(), what });
    }
    Ok(if agreed == 2 { libtp_record::Granularity::Page } else { libtp_record::Granularity::Record })
}

/// Verifies a database. The keys on its pages are in byte order, whatever the order of the program's keys.
pub(crate) fn verify(env: &Arc<Inner>, name: &str, txn: &Txn<'_>) -> Result<libtp_record::Verified> {
    let open = open(env, name, None)?;
    txn.guarded(|| Ok(libtp_record::verify(&access(env, &open, txn))?))
}

/// Returns the error for a prefix in an order that does not keep keys with one prefix adjacent.
pub(crate) fn prefix_not_adjacent(name: &str, order: Option<&dyn Order>) -> Error {
    let order = order.map_or("", Order::name);
    let what = format!(
        "its keys are in the order `{order}`, in which keys with the same beginning need not be adjacent, so they cannot be read by a prefix; nothing was changed. Give a range of keys"
    );
    Error::Database { name: name.into(), what }
}

pub(crate) fn no_index_of(name: &str, database: &str) -> Error {
    Error::Database {
        name: name.into(),
        what: format!(
            "it is not an index of `{database}`; nothing was changed. Give the name of an index, and its database"
        ),
    }
}

pub(crate) fn wrong_key_format(name: &str, found: &KeyFormat, wanted: &KeyFormat) -> Error {
    let order = |key_format: &KeyFormat| match &key_format.order {
        None => "of their bytes".into(),
        Some(order) => format!("`{}`", order.as_str()),
    };
    let duplicates = |key_format: &KeyFormat| match key_format.duplicates {
        Duplicates::None => "one value a key",
        Duplicates::Sorted => "several values a key, sorted",
        Duplicates::AsTheyCame => "several values a key, in the order in which they came",
    };
    let what = if found.is_list != wanted.is_list {
        let kind = |key_format: &KeyFormat| if key_format.is_list { "list" } else { "btree" };
        format!(
            "it is a {0} database, not a {1} database; nothing was changed. Use it as a {0}, or use another database",
            kind(found),
            kind(wanted)
        )
    } else if found.index_of != wanted.index_of {
        match found.index_of {
            Some(_) => {
                "it is an index, which can be opened only through its database (`Db::index`); nothing was opened".into()
            }
            None => "it is a database, and not an index; nothing was opened. Give the index another name".into(),
        }
    } else if found.order != wanted.order {
        format!(
            "its keys are in the order {}, and this call gives the order {}; nothing was opened. Open it with the order with which it was made (`Env::btree_ordered`)",
            order(found),
            order(wanted)
        )
    } else {
        format!(
            "it has {}, and this call asks for {}; nothing was opened. Open it as it was made",
            duplicates(found),
            duplicates(wanted)
        )
    };
    Error::Database { name: name.into(), what }
}

/// Returns the names of the environment's databases, sorted.
pub(crate) fn names(env: &Inner) -> Result<Vec<String>> {
    env.check_process()?;
    let generation = env.newest();
    let entries = generation.guarded(|| Ok(generation.managers.buffers.registry().all()?))?;
    let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    Ok(names)
}

pub(crate) fn wrong_kind(name: &str, found: &str, wanted: &str) -> Error {
    Error::Database {
        name: name.into(),
        what: format!(
            "it is a {found} database, not a {wanted} database; nothing was changed. Open it as a {found} database"
        ),
    }
}

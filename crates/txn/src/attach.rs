//! The transaction manager's part of a new region, and the bundle of managers for a process that attaches.

use std::sync::{Arc, Mutex};

use libtp_log::Lsn;
use rio::{planted, Region, RootSlot};

use crate::application::Applications;
use crate::managers::record_table::RecordType;
use crate::managers::{Managers, Parts, Settings};
use crate::own_types::record_table;
use crate::shortcut_words::{LongShortcutSet, LongestShortcutSet, Shortcut, ShortcutEntries, ShortcutSet, Shortcuts};
use crate::slot::{Ended, TxnSlot};
use crate::spares::Spares;
use crate::table::{TxnHeader, TxnTable, Unresolved};
use crate::Result;

impl Managers {
    /// The layout of the structures that the transaction manager shares between processes.
    pub const LAYOUT: u64 = rio::layout![
        TxnHeader,
        TxnSlot,
        Ended,
        Unresolved,
        Shortcuts,
        ShortcutSet,
        LongShortcutSet,
        LongestShortcutSet,
        ShortcutEntries,
        Shortcut
    ];

    /// Returns the bytes of the region that the transaction manager needs at first.
    pub fn size(_settings: &Settings) -> u64 {
        (24 << 10) + size_of::<Shortcuts>() as u64
    }

    /// Makes the transaction table in a new region, for a log whose last checkpoint is at `checkpoint`. The next
    /// checkpoint is due at the usual distance from `checkpoint`, so that a restart never reads much more log than this
    /// distance, however often the system crashes.
    ///
    /// # Errors
    /// The region cannot grow.
    pub fn init(region: &Region, checkpoint: Lsn) -> Result<()> {
        let header = TxnTable::init(region)?;
        region.at(header).restart_lsn.init(checkpoint);
        Ok(())
    }

    /// Returns the highest commit record that the transactions of a region published; `None` if the region has no
    /// transaction table.
    pub fn last_commit(region: &Region) -> Option<Lsn> {
        let header = region.root::<TxnHeader>(RootSlot::Txn)?;
        Some(region.try_at(header)?.last_commit.load())
    }

    /// Bundles the managers with the transaction table; `types` are the access methods' record types.
    pub fn attach(parts: Parts, types: impl IntoIterator<Item = RecordType>, settings: Settings) -> Arc<Managers> {
        Managers::attach_with(parts, types, Applications::default(), settings)
    }

    /// Does as [`Managers::attach`], with log-record types of the application.
    pub fn attach_with(
        parts: Parts,
        types: impl IntoIterator<Item = RecordType>,
        applications: Applications,
        settings: Settings,
    ) -> Arc<Managers> {
        let Parts { region, processes, log, locks, buffers, control } = parts;
        let types = record_table(types, applications);
        let txns = TxnTable::attach(&region);
        let managers = Arc::new(Managers {
            region,
            processes,
            log,
            locks,
            buffers,
            types,
            settings,
            txns,
            control: Mutex::new(control),
            spares: Spares::default(),
        });
        managers.share_settings();
        managers.become_repairer();
        managers
    }

    /// Stores how much log this process asks to keep. All processes read this value, because any process may take the
    /// next checkpoint.
    fn share_settings(&self) {
        let (header, settings) = (&self.txns.header, &self.settings);
        if self.processes.is_observer() || planted("txn: the setting for kept log is not shared") {
            return;
        }
        header.keep_log.fetch_max(settings.keep_log_bytes);
        let (log, age) = settings.asked_for_snapshots;
        header.snapshot_log.fetch_max(log.unwrap_or(0));
        let micros = age.map_or(0, |age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        header.snapshot_age.fetch_max(micros);
    }
}

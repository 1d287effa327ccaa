//! Changes a part of a record in place, under one latch (../part.rs).

use rio::failpoint;

use crate::btree::encode::{self, Before};
use crate::locking::{Access, Purpose};
use crate::page::record_lsn::{pack_lsn, RecordFlags};
use crate::part::Part;
use crate::recno::log_records::UPDATE;
use crate::recno::redo::{self, Seat};
use crate::shortcuts::Name;
use crate::Result;

impl Access<'_> {
    /// Changes the part of a record that begins at `offset`. Returns the answer of `part`; `None` if there is no such
    /// record.
    ///
    /// # Errors
    /// [`Error::PartOutside`](crate::Error::PartOutside), and errors of locks, log and pages. Nothing was changed then.
    pub fn recno_change_part<P: Part>(&self, number: u64, offset: usize, part: P) -> Result<Option<P::Told>> {
        self.check_recno()?;
        let Some((page_number, slot)) = self.database.arithmetic().place(number) else { return Ok(None) };
        self.lock_number(number, page_number, Purpose::Write)?;
        if !self.has_page(page_number)? {
            return Ok(None);
        }
        self.reserve_record()?;
        let mut page = self.pages.exclusive(page_number, 0)?;
        let recno = self.recno_page(page_number, &page)?;
        let record = recno.slot(slot).filter(|record| record.is_record() && slot < recno.used());
        let (Some(record), Some(seat)) = (record, Seat::at(&recno, slot)) else { return Ok(None) };
        let old = part.of(self.database.name(), record.bytes, offset)?;
        let (new, answer) = part.change(old);
        let packed = self.pages.id(page_number).raw();
        let before = Before { stored: old, flags: record.flags, lsn: record.lsn };
        let changed = encode::part(packed, slot, &before, &[], offset, new.as_ref());
        if !changed.is_any() {
            return Ok(Some(answer));
        }
        let mut body = self.pages.change.txn.scratch();
        changed.write(&mut body);
        let edit = changed.edit();
        failpoint("recno: page latched to change a part");
        self.leave_shortcut(Name::Slot { page: packed, slot }, record.lsn, record.flags, record.bytes);
        self.pages.change.apply_by(UPDATE, &mut body, &mut page, |page, lsn| {
            redo::store(page, seat, pack_lsn(lsn, RecordFlags::NONE), edit.offset, edit.put)
        });
        failpoint("recno: part changed");
        Ok(Some(answer))
    }
}

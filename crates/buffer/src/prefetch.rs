//! Prefetch: reads, in one call, pages that will be needed soon.
//!
//! Paper: none. A scan states which pages come next. The pages that are not in memory are read together into private
//! memory, and then put into frames one by one. No latch is held while the disk reads.
//!
//! *Why the bytes are right.* The bytes read from the disk are stale if the page was in memory during the read, had
//! been changed there, and was written home (to its place in the data file) after the read. If the page is in memory
//! when its bytes should be put into a frame, the bytes are dropped. If the page was in memory and dirty during the
//! read and is not in memory any more, it was written home in between. `home_writes` is raised before the first page of
//! a batch is written home, and again after the last page. So the bytes are not stale if the count is even before the
//! read and still the same after the page has entered the table. From then on no other session can load or change the
//! page.

use libtp_process::Session;

use crate::content::Body;
use crate::files::OpenFile;
use crate::load::check_page;
use crate::pool::{Bound, FrameInHand, PoolPart};
use crate::{BufferManager, FileId, PageId, PageNo, Result};

/// The largest number of bytes that are read in one call.
const RUN_BYTES_MAX: u32 = 256 << 10;

impl BufferManager {
    /// Reads the pages that are not in memory among the `count` pages from `first` on. Stops when it would have to
    /// write a page to get a frame. Skips a damaged page: a session that needs the page gets the error. Returns the
    /// number of pages read. The caller holds no latch.
    ///
    /// # Errors
    /// [`Error::UnknownFile`](crate::Error::UnknownFile), [`Error::Io`](crate::Error::Io). The caller may ignore them.
    pub fn prefetch(&self, session: &Session, file: FileId, first: PageNo, count: u32) -> Result<usize> {
        let open = self.files.open_entered(session, file)?;
        let part = self.pools.part(session, open.info.pool, open.info.page_bytes)?;
        let run_max = RUN_BYTES_MAX / open.info.page_bytes;
        let end = first.raw().saturating_add(count);
        let (mut page, mut read) = (first.raw(), 0);
        while page < end {
            let missing = |page: &u32| !self.is_resident(PageId::new(file, PageNo::new(*page)));
            let Some(start) = (page..end).find(missing) else { break };
            let length = (start..end.min(start.saturating_add(run_max))).take_while(missing).count();
            let length = u32::try_from(length).expect("a run is at most 64 pages");
            let entered = self.read_run(session, &open, part, start, length)?;
            read += entered;
            if entered == 0 {
                break;
            }
            page = start.saturating_add(length.max(1));
        }
        Ok(read)
    }

    /// Reads `length` pages from `start` on, and puts as many of them into frames as possible.
    fn read_run(&self, session: &Session, file: &OpenFile, part: &PoolPart, start: u32, length: u32) -> Result<usize> {
        let before = self.header.home_writes.load();
        if before % 2 != 0 {
            return Ok(0);
        }
        let page_bytes = file.info.page_bytes as usize;
        let mut bytes = vec![0; page_bytes * length as usize];
        let first = PageId::new(file.info.id, PageNo::new(start));
        let read = file.file.read_at(&mut bytes, file.offset(first))?;
        if self.files.forget_foreign(file) {
            return Ok(0);
        }
        let log_end = self.log.tail();
        let mut entered = 0;
        // Pages beyond the end of the file are made when a session asks for them.
        for (number, page) in (start..).zip(bytes[..read].chunks_exact_mut(page_bytes)) {
            let id = PageId::new(file.info.id, PageNo::new(number));
            if check_page(file, id, page, &*self.log, log_end).is_err() {
                continue;
            }
            let Some(taken) = self.take_at_once(session, part) else { break };
            entered += usize::from(self.enter_read(session, part, taken, id, page, before));
        }
        self.table.grow(session);
        Ok(entered)
    }

    /// Takes a frame, if that needs no write and no wait.
    fn take_at_once<'s>(&'s self, session: &'s Session, part: &'s PoolPart) -> Option<FrameInHand<'s>> {
        if let Some(taken) = part.pop_free(session) {
            return Some(taken);
        }
        if part.grow(session, &self.table, Bound::Budget) > 0 {
            return part.pop_free(session);
        }
        self.evict_clean(session, part, &mut Vec::new())
    }

    /// Puts a page into a frame. Does nothing if the page is in memory, or if it may have been written home since the
    /// count was `before`. Returns whether the page was put into a frame.
    fn enter_read(
        &self,
        session: &Session,
        part: &PoolPart,
        mut taken: FrameInHand<'_>,
        id: PageId,
        page: &[u8],
        before: u64,
    ) -> bool {
        let Some(pin) = self.enter(session, id, &taken) else {
            part.push_free(session, taken);
            return false;
        };
        // Acquire: pairs with the store of the count before the first write home. The latch of the page table orders
        // the other accesses.
        if self.header.home_writes.load() != before {
            self.give_up(session, part, taken, pin);
            return false;
        }
        Body::taken(taken.slot).bytes_mut(&self.region, &mut taken.guard).copy_from_slice(page);
        part.slot.reads.fetch_add(1);
        self.settle(part, taken);
        drop(pin);
        true
    }
}

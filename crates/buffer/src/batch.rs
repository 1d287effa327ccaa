//! A batch of pages that will be written to the disk, in private memory: room for the table of the double-write file,
//! then the images one after the other.

use crate::PageId;

/// Bytes of a batch before its first image: the table.
pub(crate) const IMAGES_AT: usize = 4096;

/// A page in a batch: its name, and the place of its image in the batch's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) id: PageId,
    pub(crate) range: std::ops::Range<usize>,
}

/// A batch in private memory: room for the table, then the images in the order in which they were added.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) images: Vec<Image>,
}

impl Batch {
    /// Removes all pages and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.resize(IMAGES_AT, 0);
        self.images.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.images.len()
    }

    /// Adds a copy of a page.
    pub(crate) fn push(&mut self, id: PageId, page: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(page);
        self.images.push(Image { id, range: start..self.bytes.len() });
    }

    /// Keeps only the first `pages` pages.
    pub(crate) fn truncate(&mut self, pages: usize) {
        self.images.truncate(pages);
        self.bytes.truncate(self.images.last().map_or(IMAGES_AT, |image| image.range.end));
    }

    /// Keeps only the pages for which `is_kept` returns true, next to each other and in their order.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(PageId) -> bool) {
        let mut end = IMAGES_AT;
        for image in std::mem::take(&mut self.images).into_iter().filter(|image| is_kept(image.id)) {
            let range = end..end + image.range.len();
            self.bytes.copy_within(image.range, end);
            end = range.end;
            self.images.push(Image { id: image.id, range });
        }
        self.bytes.truncate(end);
    }

    pub(crate) fn images(&self) -> &[Image] {
        &self.images
    }

    /// Returns the bytes of an image, or of a run of images.
    pub(crate) fn page(&self, image: &Image) -> &[u8] {
        &self.bytes[image.range.clone()]
    }

    pub(crate) fn page_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[self.images[index].range.clone()]
    }

    /// Returns the images sorted by home. Images that are adjacent both in the batch and at home become one run.
    pub(crate) fn home_runs(&self) -> Vec<Image> {
        let mut images = self.images.clone();
        images.sort_unstable_by_key(|image| image.id);
        let mut runs: Vec<Image> = Vec::with_capacity(images.len());
        let mut last = PageId::NONE;
        for image in images {
            let is_next = image.id.file() == last.file() && image.id.raw() == last.raw() + 1;
            last = image.id;
            match runs.last_mut() {
                Some(run) if is_next && run.range.end == image.range.start => run.range.end = image.range.end,
                _ => runs.push(image),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, PageNo};

    #[test]
    fn retained_pages_are_adjacent() {
        let mut batch = Batch::default();
        batch.clear();
        for number in 1..=5_u8 {
            batch.push(PageId::new(FileId::new(7), PageNo::new(number.into())), &[number; 4096]);
        }
        batch.retain(|id| id.page().raw() % 2 == 1);
        let pages: Vec<(u32, u8)> =
            batch.images().iter().map(|image| (image.id.page().raw(), batch.page(image)[4095])).collect();
        assert_eq!(pages, [(1, 1), (3, 3), (5, 5)]);
        assert_eq!(batch.bytes.len(), IMAGES_AT + 3 * 4096);
        batch.retain(|_| false);
        assert_eq!((batch.len(), batch.bytes.len()), (0, IMAGES_AT));
    }

    #[test]
    fn adjacent_pages_are_written_home_together() {
        let mut batch = Batch::default();
        batch.clear();
        for (file, number) in [(7, 2), (7, 3), (7, 9), (8, 1), (7, 4), (7, 1)] {
            batch.push(PageId::new(FileId::new(file), PageNo::new(number)), &[0; 4096]);
        }
        let runs: Vec<(u32, usize)> =
            batch.home_runs().iter().map(|run| (run.id.page().raw(), batch.page(run).len() / 4096)).collect();
        // Page 4 follows page 3, but its image does not follow the image of page 3.
        assert_eq!(runs, [(1, 1), (2, 2), (4, 1), (9, 1), (1, 1)]);
    }
}

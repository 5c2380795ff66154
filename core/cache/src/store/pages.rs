//! Pages, and which of them have free blocks: by class, and by how full they are.
//!
//! Place in the flow: below `arena.rs`. A page has the links of its blocks in front, then the blocks. A page with free blocks is in one of eight lists
//! of its class; the first and the last that are not empty hold the emptiest and the fullest pages, to an eighth.

use prefetch_index::prefetch_index;

use super::block::{Block, BlockMut};
use super::shape::{BLOCK_BYTES, BLOCKS, CLASSES, LINKS_BYTES, PAGE_BYTES};
use crate::order::Links;

/// The end of a page's list of free blocks.
const NO_BLOCK: u16 = u16::MAX;
/// The end of a list of pages.
const NO_PAGE: u32 = u32::MAX;
/// Lists of a class.
const LEVELS: usize = 8;
/// Stands for the list of a page that is in none.
const NO_LEVEL: u8 = LEVELS as u8;

/// Bytes that a processor fetches at once.
const LINE_BYTES: usize = 64;
/// Lines of an item that are fetched before it is known that it is the right one.
const PREFETCHED_LINES: usize = 5;

/// By class: how much of a level a block is, in units of 2^-16.
const LEVEL_STEPS: [u32; CLASSES] = level_steps();

/// The memory of a page.
pub(crate) type PageBytes = Box<[u8; PAGE_BYTES]>;

/// A page and what is known of it.
#[derive(Debug)]
pub(crate) struct Page {
    /// `None`: given back.
    bytes: Option<PageBytes>,
    prev: u32,
    next: u32,
    /// Bytes of a block.
    block_bytes: u16,
    /// Bytes in front of the blocks.
    links_bytes: u16,
    /// Blocks that hold items.
    live: u16,
    /// The first free block, or `NO_BLOCK`.
    free: u16,
    /// The first block that was never taken.
    fresh: u16,
    class: u8,
    level: u8,
}

/// The pages with free blocks.
#[derive(Debug)]
pub(crate) struct PageLists {
    classes: Box<[ClassPages]>,
}

#[derive(Clone, Copy, Debug)]
struct ClassPages {
    heads: [u32; LEVELS],
    /// Bit by level: whether it has pages.
    levels: u8,
    free_blocks: usize,
}

impl Page {
    /// A page whose memory is given back.
    pub(crate) const ABSENT: Self = Self {
        bytes: None,
        prev: NO_PAGE,
        next: NO_PAGE,
        block_bytes: 0,
        links_bytes: 0,
        live: 0,
        free: NO_BLOCK,
        fresh: 0,
        class: 0,
        level: NO_LEVEL,
    };

    pub(crate) const fn new(class: usize, bytes: PageBytes) -> Self {
        let (class_number, block_bytes) = (class as u8, BLOCK_BYTES[class]);
        let links_bytes = BLOCKS[class] * LINKS_BYTES as u16;
        Self { bytes: Some(bytes), block_bytes, links_bytes, class: class_number, ..Self::ABSENT }
    }

    #[inline]
    fn bytes(&self) -> &PageBytes {
        self.bytes.as_ref().expect("a handle names a page that is there")
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut PageBytes {
        self.bytes.as_mut().expect("a handle names a page that is there")
    }

    /// The memory, for the time of a copy or for good.
    pub(crate) const fn take_bytes(&mut self) -> Option<PageBytes> {
        self.bytes.take()
    }

    pub(crate) fn put_bytes(&mut self, bytes: PageBytes) {
        self.bytes = Some(bytes);
    }

    pub(crate) fn set_bytes(&mut self, at: usize, bytes: &[u8]) {
        self.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Where a block starts in the page.
    #[inline]
    pub(crate) const fn start(&self, block: u32) -> usize {
        self.links_bytes as usize + block as usize * self.block_bytes as usize
    }

    #[inline]
    pub(crate) fn block(&self, block: u32) -> Block<'_> {
        Block(&self.bytes()[self.start(block)..])
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, block: u32) -> BlockMut<'_> {
        let start = self.start(block);
        BlockMut(&mut self.bytes_mut()[start..])
    }

    /// Whether a block that was taken before holds an item now.
    pub(crate) fn is_live(&self, block: u32) -> bool {
        block < self.fresh.into() && !self.block(block).is_free()
    }

    #[inline]
    pub(crate) fn links(&self, block: u32) -> Links {
        let links = &self.bytes()[block as usize * LINKS_BYTES..][..LINKS_BYTES];
        let link = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        Links { prev: link(&links[..4]), next: link(&links[4..]) }
    }

    #[inline]
    pub(crate) fn set_prev(&mut self, block: u32, link: u32) {
        let at = block as usize * LINKS_BYTES;
        self.bytes_mut()[at..at + 4].copy_from_slice(&link.to_le_bytes());
    }

    #[inline]
    pub(crate) fn set_next(&mut self, block: u32, link: u32) {
        let at = block as usize * LINKS_BYTES + 4;
        self.bytes_mut()[at..at + 4].copy_from_slice(&link.to_le_bytes());
    }

    /// Has the processor fetch all at once what a look-up that finds this block will read, of a large one the first part.
    #[inline]
    pub(crate) fn prefetch_item(&self, block: u32) {
        let Some(bytes) = &self.bytes else { return };
        let start = self.start(block);
        for line in 0..PREFETCHED_LINES.min(usize::from(self.block_bytes) / LINE_BYTES + 1) {
            prefetch_index(bytes.as_slice(), start + line * LINE_BYTES);
        }
    }

    /// Has the processor fetch the front of a block.
    #[inline]
    pub(crate) fn prefetch_header(&self, block: u32) {
        if let Some(bytes) = &self.bytes {
            prefetch_index(bytes.as_slice(), self.start(block));
        }
    }

    /// Has the processor fetch the links of a block.
    #[inline]
    pub(crate) fn prefetch_links(&self, block: u32) {
        if let Some(bytes) = &self.bytes {
            prefetch_index(bytes.as_slice(), block as usize * LINKS_BYTES);
        }
    }

    #[inline]
    pub(crate) const fn class(&self) -> usize {
        self.class as usize
    }

    pub(crate) const fn live(&self) -> usize {
        self.live as usize
    }

    pub(crate) fn fresh(&self) -> u32 {
        self.fresh.into()
    }

    pub(crate) const fn free_blocks(&self) -> usize {
        (BLOCKS[self.class()] - self.live) as usize
    }

    /// Takes a free block of a page that has one.
    #[inline]
    pub(crate) fn take_block(&mut self) -> u32 {
        self.live += 1;
        if self.free == NO_BLOCK {
            self.fresh += 1;
            return u32::from(self.fresh) - 1;
        }
        let block = u32::from(self.free);
        self.free = self.block(block).next_free();
        block
    }

    /// Takes a block back.
    #[inline]
    pub(crate) fn give_block(&mut self, block: u32) {
        self.live -= 1;
        let next_free = std::mem::replace(&mut self.free, block as u16);
        self.block_mut(block).set_free(next_free);
    }

    #[inline]
    const fn level_by_load(&self) -> u8 {
        let class = self.class();
        if self.live == BLOCKS[class] {
            NO_LEVEL
        } else {
            ((self.live as u32 * LEVEL_STEPS[class]) >> 16) as u8
        }
    }
}

impl PageLists {
    pub(crate) fn new() -> Self {
        let empty = ClassPages { heads: [NO_PAGE; LEVELS], levels: 0, free_blocks: 0 };
        Self { classes: vec![empty; CLASSES].into() }
    }

    /// A page with a free block of the class, about the fullest.
    #[inline]
    pub(crate) fn fullest(&self, class: usize) -> Option<u32> {
        let pages = &self.classes[class];
        let level = pages.levels.checked_ilog2()?;
        Some(pages.heads[level as usize])
    }

    /// A page with a free block of the class, about the emptiest.
    pub(crate) fn emptiest(&self, class: usize) -> Option<u32> {
        let pages = &self.classes[class];
        pages.heads.get(pages.levels.trailing_zeros() as usize).copied()
    }

    /// The free blocks of the class in the pages that are in these lists.
    pub(crate) fn free_blocks(&self, class: usize) -> usize {
        self.classes[class].free_blocks
    }

    /// Puts a page into the lists.
    pub(crate) fn offer(&mut self, pages: &mut [Page], number: u32) {
        let page = &pages[number as usize];
        self.classes[page.class()].free_blocks += page.free_blocks();
        self.relevel(pages, number);
    }

    /// Takes a page out of the lists.
    pub(crate) fn withdraw(&mut self, pages: &mut [Page], number: u32) {
        let page = &pages[number as usize];
        self.classes[page.class()].free_blocks -= page.free_blocks();
        self.unlink(pages, number);
        pages[number as usize].level = NO_LEVEL;
    }

    /// A block of the page was taken.
    #[inline]
    pub(crate) fn note_taken(&mut self, pages: &mut [Page], number: u32) {
        self.classes[pages[number as usize].class()].free_blocks -= 1;
        self.relevel(pages, number);
    }

    /// A block of the page was given back.
    #[inline]
    pub(crate) fn note_given(&mut self, pages: &mut [Page], number: u32) {
        self.classes[pages[number as usize].class()].free_blocks += 1;
        self.relevel(pages, number);
    }

    #[inline]
    fn relevel(&mut self, pages: &mut [Page], number: u32) {
        let page = &pages[number as usize];
        let level = page.level_by_load();
        if level != page.level {
            self.unlink(pages, number);
            self.link(pages, number, level);
        }
    }

    fn link(&mut self, pages: &mut [Page], number: u32, level: u8) {
        let class = pages[number as usize].class();
        pages[number as usize].level = level;
        let class_pages = &mut self.classes[class];
        let Some(head) = class_pages.heads.get_mut(usize::from(level)) else { return };
        class_pages.levels |= 1 << level;
        let second = std::mem::replace(head, number);
        let page = &mut pages[number as usize];
        (page.prev, page.next) = (NO_PAGE, second);
        if second != NO_PAGE {
            pages[second as usize].prev = number;
        }
    }

    fn unlink(&mut self, pages: &mut [Page], number: u32) {
        let &Page { prev, next, level, .. } = &pages[number as usize];
        if level == NO_LEVEL {
            return;
        }
        if next != NO_PAGE {
            pages[next as usize].prev = prev;
        }
        if prev != NO_PAGE {
            pages[prev as usize].next = next;
            return;
        }
        let class_pages = &mut self.classes[pages[number as usize].class()];
        class_pages.heads[usize::from(level)] = next;
        if next == NO_PAGE {
            class_pages.levels &= !(1 << level);
        }
    }
}

const fn level_steps() -> [u32; CLASSES] {
    let mut steps = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        steps[class] = (LEVELS as u32) << 16;
        steps[class] /= BLOCKS[class] as u32;
        class += 1;
    }
    steps
}

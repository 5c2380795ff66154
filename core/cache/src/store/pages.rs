//! Which pages have free blocks: by class, and by how full they are.
//!
//! Place in the flow: bookkeeping of `arena.rs`. A page with free blocks is in one of eight lists of its class; the first and the last that are
//! not empty hold the emptiest and the fullest pages, to an eighth.

use super::shape::{CLASSES, GRANULES, PAGE_GRANULES};

/// The end of a page's list of free blocks.
const NO_BLOCK: u16 = u16::MAX;
/// The end of a list of pages.
const NO_PAGE: u32 = u32::MAX;
/// Lists of a class.
const LEVELS: usize = 8;
/// Stands for the list of a page that is in none.
const NO_LEVEL: u8 = LEVELS as u8;

/// Blocks of a page, by class.
const BLOCKS: [u16; CLASSES] = blocks();
/// By class: how much of a level a block is, in units of 2^-16.
const LEVEL_STEPS: [u32; CLASSES] = level_steps();

/// What is known of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    prev: u32,
    next: u32,
    /// Blocks that hold items.
    live: u16,
    /// The first free block's granule, or `NO_BLOCK`.
    free: u16,
    /// The first granule that was never part of a block.
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
    pub(crate) const ABSENT: Self = Self {
        prev: NO_PAGE,
        next: NO_PAGE,
        live: 0,
        free: NO_BLOCK,
        fresh: 0,
        class: 0,
        level: NO_LEVEL,
    };

    pub(crate) const fn new(class: usize) -> Self {
        Self { class: class as u8, ..Self::ABSENT }
    }

    #[inline]
    pub(crate) const fn class(&self) -> usize {
        self.class as usize
    }

    pub(crate) const fn live(&self) -> usize {
        self.live as usize
    }

    pub(crate) const fn fresh(&self) -> usize {
        self.fresh as usize
    }

    pub(crate) const fn free_blocks(&self) -> usize {
        (BLOCKS[self.class()] - self.live) as usize
    }

    /// Takes a free block of a page that has one: its first granule. `next_free` reads what [`Self::give_block`] gave for a block.
    #[inline]
    pub(crate) fn take_block(&mut self, next_free: impl FnOnce(u16) -> u16) -> u16 {
        self.live += 1;
        if self.free == NO_BLOCK {
            let granule = self.fresh;
            self.fresh += GRANULES[self.class()];
            return granule;
        }
        let granule = self.free;
        self.free = next_free(granule);
        granule
    }

    /// Takes a block back. Gives what to keep in it: the free block behind it.
    #[inline]
    pub(crate) const fn give_block(&mut self, granule: u16) -> u16 {
        self.live -= 1;
        std::mem::replace(&mut self.free, granule)
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

const fn blocks() -> [u16; CLASSES] {
    let mut blocks = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        blocks[class] = (PAGE_GRANULES / GRANULES[class] as usize) as u16;
        class += 1;
    }
    blocks
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

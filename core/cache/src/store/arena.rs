//! Memory of a shard's items: pages of 64 KiB, each cut into blocks of one size.
//!
//! Place in the flow: a shard takes a block for each item; `compact.rs` empties pages whose blocks are needed in another size.
//!
//! A handle is the block's place: the page's number and the block's number in it. New blocks come from the fullest page of their
//! class, so that sparse pages become empty; an empty page goes back to the pool of all shards.

use super::WASTE_SHARE;
use super::block::{Block, BlockMut, state};
use super::pages::{Page, PageLists};
use super::pool::PagePool;
use super::shape::{BLOCK_BYTES, CLASSES, LINKS_BYTES, PAGE_BYTES};
use crate::order::{HANDLES_MAX, Links, Nodes, item};

/// Bits of a handle that number the block in its page.
const BLOCK_BITS: u32 = 12;

#[derive(Debug)]
pub(crate) struct Arena {
    /// By page number.
    pages: Vec<Page>,
    lists: PageLists,
    absent: Vec<u32>,
    pool: PagePool,
    /// Bytes of blocks that hold items, with their links.
    live_bytes: u64,
    /// Beyond what is in proportion, the bytes that may lie idle.
    waste_slack_bytes: u64,
    draining: Option<Draining>,
    /// After a search found nothing to drain: the waste from which the next one is worth its time.
    search_from_bytes: u64,
}

/// A page that is being emptied: no new block comes from it.
#[derive(Clone, Copy, Debug)]
struct Draining {
    page: u32,
    /// The first block that was not looked at.
    next: u32,
}

impl Arena {
    /// An empty arena of which `waste_slack_bytes` may lie idle beyond one in 32.
    pub(crate) fn new(pool: PagePool, waste_slack_bytes: u64) -> Self {
        Self {
            pages: Vec::new(),
            lists: PageLists::new(),
            absent: Vec::new(),
            pool,
            live_bytes: 0,
            waste_slack_bytes,
            draining: None,
            search_from_bytes: 0,
        }
    }

    #[inline]
    pub(crate) fn block(&self, handle: u32) -> Block<'_> {
        self.pages[page_of(handle)].block(block_of(handle))
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, handle: u32) -> BlockMut<'_> {
        self.pages[page_of(handle)].block_mut(block_of(handle))
    }

    /// The size class of a block.
    #[inline]
    pub(crate) fn class(&self, handle: u32) -> usize {
        self.pages[page_of(handle)].class()
    }

    /// A block whose content is left over from others: the caller writes its fields at once.
    pub(crate) fn allocate(&mut self, class: usize) -> u32 {
        let number = self.lists.fullest(class).unwrap_or_else(|| self.add_page(class));
        let block = self.pages[number as usize].take_block();
        self.live_bytes += taken_bytes(class);
        self.lists.note_taken(&mut self.pages, number);
        number << BLOCK_BITS | block
    }

    /// Gives a block back.
    pub(crate) fn free(&mut self, handle: u32) {
        let (place, number) = (page_of(handle), handle >> BLOCK_BITS);
        self.live_bytes -= taken_bytes(self.class(handle));
        self.pages[place].give_block(block_of(handle));
        let is_draining = self.draining.is_some_and(|draining| draining.page == number);
        if !is_draining {
            self.lists.note_given(&mut self.pages, number);
        }
        if self.pages[place].live() == 0 {
            if is_draining {
                self.draining = None;
            } else {
                self.lists.withdraw(&mut self.pages, number);
            }
            let bytes = self.pages[place].take_bytes().expect("an item was in it");
            self.absent.push(number);
            self.pool.give(bytes);
        }
    }

    fn add_page(&mut self, class: usize) -> u32 {
        let number = self.absent.pop().unwrap_or_else(|| {
            let number = self.pages.len() as u32;
            assert!(number < HANDLES_MAX >> BLOCK_BITS, "a shard has at most 64 GiB in blocks");
            self.pages.push(Page::ABSENT);
            number
        });
        self.pages[number as usize] = Page::new(class, self.pool.take());
        self.lists.offer(&mut self.pages, number);
        number
    }

    /// Copies bytes of one block into another, which may be in the same page. Places count from the blocks' first bytes.
    pub(crate) fn copy(&mut self, from: (u32, usize), to: (u32, usize), bytes: usize) {
        let (source_page, target_page) = (page_of(from.0), page_of(to.0));
        let source = self.pages[source_page].start(block_of(from.0)) + from.1;
        let target = self.pages[target_page].start(block_of(to.0)) + to.1;
        let mut page = self.pages[source_page].take_bytes().expect("an item is in it");
        if source_page == target_page {
            page.copy_within(source..source + bytes, target);
        } else {
            self.pages[target_page].set_bytes(target, &page[source..source + bytes]);
        }
        self.pages[source_page].put_bytes(page);
    }

    /// Copies a whole block, with its links, into another of the same class.
    pub(crate) fn copy_block(&mut self, from: u32, to: u32) {
        self.copy((from, 0), (to, 0), usize::from(BLOCK_BYTES[self.class(from)]));
        let Links { prev, next } = self.links(from);
        self.set_prev(to, prev);
        self.set_next(to, next);
    }

    /// Has the processor fetch the item, without waiting for it.
    #[inline]
    pub(crate) fn prefetch_item(&self, handle: u32) {
        self.pages[page_of(handle)].prefetch_item(block_of(handle));
    }

    /// Has the processor fetch the item's links, without waiting for them.
    #[inline]
    pub(crate) fn prefetch_links(&self, handle: u32) {
        self.pages[page_of(handle)].prefetch_links(block_of(handle));
    }

    /// Has the processor fetch the front of the item's block, without waiting for it.
    #[inline]
    pub(crate) fn prefetch_header(&self, handle: u32) {
        self.pages[page_of(handle)].prefetch_header(block_of(handle));
    }

    /// Has the processor fetch what moving the item in its list will write, without waiting for it.
    #[inline]
    pub(crate) fn prefetch_neighbours(&self, handle: u32) {
        let Links { prev, next } = self.links(handle);
        for neighbour in [prev, next].into_iter().filter_map(item) {
            self.prefetch_links(neighbour);
        }
    }

    /// Whether more bytes lie idle than may.
    #[inline]
    pub(crate) fn is_wasteful(&self) -> bool {
        self.waste_bytes() > self.page_bytes() / WASTE_SHARE + self.waste_slack_bytes
    }

    /// The next block to move out of the page that is being emptied; a page to empty is chosen first if there is none. `None` when emptying any page
    /// would take a new one.
    pub(crate) fn next_to_move(&mut self) -> Option<u32> {
        if self.draining.is_none() {
            self.start_draining();
        }
        let draining = self.draining.as_mut()?;
        let page = &self.pages[draining.page as usize];
        if self.lists.free_blocks(page.class()) == 0 {
            let number = draining.page;
            self.draining = None;
            self.lists.offer(&mut self.pages, number);
            return None;
        }
        loop {
            let block = draining.next;
            assert!(block < page.fresh(), "a page that is being emptied holds items");
            draining.next += 1;
            if page.is_live(block) {
                return Some(draining.page << BLOCK_BITS | block);
            }
        }
    }

    /// Chooses the emptiest page of the class with most free blocks, by their bytes, whose items fit into other pages.
    fn start_draining(&mut self) {
        if self.waste_bytes() < self.search_from_bytes {
            return;
        }
        let candidates = (0..CLASSES).filter_map(|class| {
            let number = self.lists.emptiest(class)?;
            let page = &self.pages[number as usize];
            let free = self.lists.free_blocks(class);
            let fits = free - page.free_blocks() >= page.live();
            fits.then_some((free as u64 * taken_bytes(class), number))
        });
        let Some((_, number)) = candidates.max() else {
            self.search_from_bytes = self.waste_bytes() + PAGE_BYTES as u64 / 4;
            return;
        };
        self.search_from_bytes = 0;
        self.lists.withdraw(&mut self.pages, number);
        self.draining = Some(Draining { page: number, next: 0 });
    }

    /// Has the next search for a page to empty happen.
    pub(crate) fn trim(&mut self) {
        self.search_from_bytes = 0;
    }

    /// Bytes of all pages.
    #[inline]
    pub(crate) fn page_bytes(&self) -> u64 {
        ((self.pages.len() - self.absent.len()) * PAGE_BYTES) as u64
    }

    /// Bytes of the blocks that hold items.
    #[inline]
    pub(crate) const fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    #[inline]
    fn waste_bytes(&self) -> u64 {
        self.page_bytes() - self.live_bytes()
    }

    /// The first block that holds an item, at `handle` or behind it, in the next `places` places, which it counts off.
    pub(crate) fn occupied_from(&self, handle: u32, places: &mut usize) -> Visit {
        let (mut number, mut block) = (page_of(handle), block_of(handle));
        while *places > 0 {
            *places -= 1;
            let Some(page) = self.pages.get(number) else { return Visit::End };
            if block >= page.fresh() || page.live() == 0 {
                (number, block) = (number + 1, 0);
                continue;
            }
            let at = (number as u32) << BLOCK_BITS | block;
            block += 1;
            if page.is_live(block - 1) {
                return Visit::Item { at, next: at + 1 };
            }
        }
        Visit::Paused((number as u32) << BLOCK_BITS | block)
    }
}

/// What a walk over the blocks meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    Item {
        at: u32,
        next: u32,
    },
    /// The places are used up; where to go on.
    Paused(u32),
    End,
}

/// What a block and its links take of a page.
#[inline]
const fn taken_bytes(class: usize) -> u64 {
    BLOCK_BYTES[class] as u64 + LINKS_BYTES as u64
}

#[inline]
const fn page_of(handle: u32) -> usize {
    (handle >> BLOCK_BITS) as usize
}

#[inline]
const fn block_of(handle: u32) -> u32 {
    handle & ((1 << BLOCK_BITS) - 1)
}

impl Nodes for Arena {
    #[inline]
    fn links(&self, handle: u32) -> Links {
        self.pages[page_of(handle)].links(block_of(handle))
    }

    #[inline]
    fn set_prev(&mut self, handle: u32, link: u32) {
        self.pages[page_of(handle)].set_prev(block_of(handle), link);
    }

    #[inline]
    fn set_next(&mut self, handle: u32, link: u32) {
        self.pages[page_of(handle)].set_next(block_of(handle), link);
    }

    #[inline]
    fn mark(&self, handle: u32) -> u8 {
        (self.block(handle).state() & state::MARK) >> state::MARK_SHIFT
    }

    #[inline]
    fn set_mark(&mut self, handle: u32, mark: u8) {
        let others = self.block(handle).state() & !state::MARK;
        self.block_mut(handle).set_state(others | mark << state::MARK_SHIFT);
    }

    fn fingerprint(&self, handle: u32) -> u32 {
        self.block(handle).hash()
    }
}

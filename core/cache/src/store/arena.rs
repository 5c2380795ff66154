//! Memory of a shard's items: pages of 64 KiB, each cut into blocks of one size.
//!
//! Place in the flow: a shard takes a block for each item; `compact.rs` empties pages whose blocks are needed in another size.
//!
//! A handle is the block's place: the page's number and the block's first granule of 16 bytes. New blocks come from the fullest page of their
//! class, so that sparse pages become empty; an empty page is given back to the allocator, but for one that waits as a spare.

use super::block::{Block, BlockMut, state};
use super::pages::{Page, PageLists};
use super::shape::{CLASSES, GRANULE_BYTES, GRANULES, PAGE_BYTES, PAGE_GRANULES};
use crate::order::{HANDLES_MAX, Links, Nodes};

const PAGE_SHIFT: u32 = PAGE_GRANULES.trailing_zeros();
/// Of the bytes of all pages, the part that may lie idle in any case: one in 24.
const WASTE_SHARE: u64 = 24;

type PageBytes = Box<[u8; PAGE_BYTES]>;

#[derive(Debug)]
pub(crate) struct Arena {
    /// By page number; `None`: given back.
    bytes: Vec<Option<PageBytes>>,
    pages: Vec<Page>,
    lists: PageLists,
    absent: Vec<u32>,
    spare: Option<PageBytes>,
    /// Granules of blocks that hold items.
    live_granules: u64,
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
    /// The first granule that was not looked at.
    next: usize,
}

impl Arena {
    /// An empty arena of which `waste_slack_bytes` may lie idle beyond one in 24.
    pub(crate) fn new(waste_slack_bytes: u64) -> Self {
        Self {
            bytes: Vec::new(),
            pages: Vec::new(),
            lists: PageLists::new(),
            absent: Vec::new(),
            spare: None,
            live_granules: 0,
            waste_slack_bytes,
            draining: None,
            search_from_bytes: 0,
        }
    }

    #[inline]
    pub(crate) fn block(&self, handle: u32) -> Block<'_> {
        let bytes = self.bytes[page_of(handle)].as_ref().expect(PRESENT);
        Block(&bytes[first_byte(handle)..])
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, handle: u32) -> BlockMut<'_> {
        let bytes = self.bytes[page_of(handle)].as_mut().expect(PRESENT);
        BlockMut(&mut bytes[first_byte(handle)..])
    }

    /// The size class of a block.
    #[inline]
    pub(crate) fn class(&self, handle: u32) -> usize {
        self.pages[page_of(handle)].class()
    }

    /// A block whose content is left over from others: the caller writes its fields at once.
    pub(crate) fn allocate(&mut self, class: usize) -> u32 {
        let number = self.lists.fullest(class).unwrap_or_else(|| self.add_page(class));
        let place = number as usize;
        let page = &mut self.pages[place];
        let bytes = self.bytes[place].as_ref().expect(PRESENT);
        let granule = page.take_block(|granule| {
            Block(&bytes[usize::from(granule) * GRANULE_BYTES..]).next_free()
        });
        self.live_granules += u64::from(GRANULES[class]);
        self.lists.note_taken(&mut self.pages, number);
        number << PAGE_SHIFT | u32::from(granule)
    }

    /// Gives a block back.
    pub(crate) fn free(&mut self, handle: u32) {
        let (place, number) = (page_of(handle), handle >> PAGE_SHIFT);
        let granule = handle as u16 & (PAGE_GRANULES - 1) as u16;
        self.live_granules -= u64::from(GRANULES[self.class(handle)]);
        let next_free = self.pages[place].give_block(granule);
        self.block_mut(handle).set_free(next_free);
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
            let bytes = self.bytes[place].take().expect(PRESENT);
            self.absent.push(number);
            self.spare.get_or_insert(bytes);
        }
    }

    fn add_page(&mut self, class: usize) -> u32 {
        let bytes = self.spare.take().unwrap_or_else(|| {
            let bytes = vec![0; PAGE_BYTES].into_boxed_slice();
            bytes.try_into().expect("as many bytes as a page has")
        });
        let number = self.absent.pop().unwrap_or_else(|| {
            let number = self.pages.len() as u32;
            assert!(number < HANDLES_MAX >> PAGE_SHIFT, "a shard has at most 64 GiB in blocks");
            self.pages.push(Page::ABSENT);
            self.bytes.push(None);
            number
        });
        self.bytes[number as usize] = Some(bytes);
        self.pages[number as usize] = Page::new(class);
        self.lists.offer(&mut self.pages, number);
        number
    }

    /// Copies bytes of one block into another, which may be in the same page. Places count from the blocks' first bytes.
    pub(crate) fn copy(&mut self, from: (u32, usize), to: (u32, usize), bytes: usize) {
        let (source, target) = (first_byte(from.0) + from.1, first_byte(to.0) + to.1);
        let (source_page, target_page) = (page_of(from.0), page_of(to.0));
        if source_page == target_page {
            let page = self.bytes[source_page].as_mut().expect(PRESENT);
            page.copy_within(source..source + bytes, target);
        } else {
            let page = self.bytes[source_page].take().expect(PRESENT);
            let other = self.bytes[target_page].as_mut().expect(PRESENT);
            other[target..target + bytes].copy_from_slice(&page[source..source + bytes]);
            self.bytes[source_page] = Some(page);
        }
    }

    /// Copies a whole block into another of the same class.
    pub(crate) fn copy_block(&mut self, from: u32, to: u32) {
        let bytes = usize::from(GRANULES[self.class(from)]) * GRANULE_BYTES;
        self.copy((from, 0), (to, 0), bytes);
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
        let bytes = self.bytes[draining.page as usize].as_ref().expect(PRESENT);
        loop {
            let granule = draining.next;
            assert!(granule < page.fresh(), "a page that is being emptied holds items");
            draining.next += usize::from(GRANULES[page.class()]);
            if !Block(&bytes[granule * GRANULE_BYTES..]).is_free() {
                return Some(draining.page << PAGE_SHIFT | granule as u32);
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
            fits.then_some((free * usize::from(GRANULES[class]), number))
        });
        let Some((_, number)) = candidates.max() else {
            self.search_from_bytes = self.waste_bytes() + PAGE_BYTES as u64 / 4;
            return;
        };
        self.search_from_bytes = 0;
        self.lists.withdraw(&mut self.pages, number);
        self.draining = Some(Draining { page: number, next: 0 });
    }

    /// Gives the spare page back, and has the next search for a page to empty happen.
    pub(crate) fn trim(&mut self) {
        self.spare = None;
        self.search_from_bytes = 0;
    }

    /// Bytes of all pages.
    #[inline]
    pub(crate) fn page_bytes(&self) -> u64 {
        let spare = usize::from(self.spare.is_some());
        ((self.pages.len() - self.absent.len() + spare) * PAGE_BYTES) as u64
    }

    /// Bytes of the blocks that hold items.
    #[inline]
    pub(crate) const fn live_bytes(&self) -> u64 {
        self.live_granules * GRANULE_BYTES as u64
    }

    #[inline]
    fn waste_bytes(&self) -> u64 {
        self.page_bytes() - self.live_bytes()
    }

    /// The first block that holds an item, at `handle` or behind it, in the next `places` places, which it counts off.
    pub(crate) fn occupied_from(&self, handle: u32, places: &mut usize) -> Visit {
        let (mut number, mut granule) = (page_of(handle), handle as usize % PAGE_GRANULES);
        while *places > 0 {
            *places -= 1;
            let Some(page) = self.pages.get(number) else { return Visit::End };
            let present = self.bytes[number].as_ref().filter(|_| granule < page.fresh());
            let Some(bytes) = present else {
                (number, granule) = (number + 1, 0);
                continue;
            };
            // The page may have been cut anew since the walk stopped in it.
            granule = granule.next_multiple_of(usize::from(GRANULES[page.class()]));
            if granule >= page.fresh() {
                continue;
            }
            let at = (number << PAGE_SHIFT | granule) as u32;
            let is_item = !Block(&bytes[granule * GRANULE_BYTES..]).is_free();
            granule += usize::from(GRANULES[page.class()]);
            if is_item {
                return Visit::Item { at, next: (number << PAGE_SHIFT | granule) as u32 };
            }
        }
        Visit::Paused((number << PAGE_SHIFT | granule) as u32)
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

const PRESENT: &str = "a handle names a page that is there";

#[inline]
const fn page_of(handle: u32) -> usize {
    (handle >> PAGE_SHIFT) as usize
}

#[inline]
const fn first_byte(handle: u32) -> usize {
    handle as usize % PAGE_GRANULES * GRANULE_BYTES
}

impl Nodes for Arena {
    #[inline]
    fn links(&self, handle: u32) -> Links {
        self.block(handle).links()
    }

    #[inline]
    fn set_prev(&mut self, handle: u32, link: u32) {
        self.block_mut(handle).set_prev(link);
    }

    #[inline]
    fn set_next(&mut self, handle: u32, link: u32) {
        self.block_mut(handle).set_next(link);
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

//! What an item takes: size classes of blocks, and the bytes that are booked for it.
//!
//! Place in the flow: the arena gives blocks of these sizes, the store books these bytes, and a simulator that weighs its items with them evicts
//! what a store would.
//!
//! A page holds blocks of one size and, apart from them, the links of their items, because links are read and written far more often than what is
//! between them. Blocks are multiples of 8 bytes: each multiple up to 256 bytes, above that as many of equal size as fill a page, down to 8 of
//! them (steps of 3 to 6 % up to 4 KiB, to 13 % up to 8 KiB). What rounding adds is booked with the item.

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 1 << 16;
/// Bytes of an item's links, at the front of its page.
pub(crate) const LINKS_BYTES: usize = 8;
/// What the size of a block is a multiple of.
const GRANULE_BYTES: usize = 8;

/// Bytes of every block's header: see `block.rs`.
pub(crate) const HEADER_BYTES: usize = 12;
/// What attributes add to it.
pub(crate) const ATTRIBUTE_BYTES: usize = 20;
/// Bytes behind the header of a block whose key and value are kept outside.
pub(crate) const OUTSIDE_BYTES: usize = 4;

/// Up to this number of granules there is a class for each.
const FINE_GRANULES: usize = 32;
/// The fewest blocks of a page.
const BLOCKS_MIN: usize = 8;
/// The blocks of a page in the largest of the fine classes.
const FINE_BLOCKS: usize = PAGE_BYTES / (FINE_GRANULES * GRANULE_BYTES + LINKS_BYTES);
/// The number of size classes.
pub(crate) const CLASSES: usize = FINE_GRANULES + coarse_classes();
/// Bytes of a block, by class.
pub(crate) const BLOCK_BYTES: [u16; CLASSES] = block_bytes();
/// Blocks of a page, by class.
pub(crate) const BLOCKS: [u16; CLASSES] = blocks();
const LARGEST_GRANULES: usize = (PAGE_BYTES / BLOCKS_MIN - LINKS_BYTES) / GRANULE_BYTES;
/// The class for a number of granules.
const CLASS_OF: [u8; LARGEST_GRANULES + 1] = classes_of();

/// An item's place in the index at the worst moment: a segment of eleven items, which has just got its second chunk of 64 bytes.
const INDEX_BYTES: u64 = 12;
/// For a key and a value outside: the handle and the reference count of their allocation, each with the allocator's header.
const HANDLE_BYTES: u64 = 32 + 32;
/// What an allocator rounds to, and its header.
const ALLOCATION_GRANULE_BYTES: u64 = 16;

/// How a store's items are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    header_bytes: u8,
}

impl Shape {
    pub(crate) const fn new(attributes: bool) -> Self {
        let bytes = if attributes { HEADER_BYTES + ATTRIBUTE_BYTES } else { HEADER_BYTES };
        Self { header_bytes: bytes as u8 }
    }

    pub(crate) const fn has_attributes(self) -> bool {
        self.header_bytes as usize > HEADER_BYTES
    }

    /// Where the key starts in a block.
    #[inline]
    pub(crate) const fn header_bytes(self) -> usize {
        self.header_bytes as usize
    }

    /// The class of the block for key and value of together `payload_bytes`; `None` when they are kept outside.
    #[inline]
    pub(crate) const fn class(self, payload_bytes: usize) -> Option<usize> {
        let granules = (self.header_bytes() + payload_bytes).div_ceil(GRANULE_BYTES);
        if granules > LARGEST_GRANULES { None } else { Some(CLASS_OF[granules] as usize) }
    }

    /// The class of the block of an item whose key and value are kept outside.
    pub(crate) const fn class_outside(self) -> usize {
        CLASS_OF[(self.header_bytes() + OUTSIDE_BYTES).div_ceil(GRANULE_BYTES)] as usize
    }

    /// What an item is booked with.
    pub(crate) const fn item_bytes(self, payload_bytes: usize) -> u64 {
        match self.class(payload_bytes) {
            Some(class) => weight(class),
            None => {
                let allocated = payload_bytes as u64 + ALLOCATION_GRANULE_BYTES / 2;
                let allocated = allocated.next_multiple_of(ALLOCATION_GRANULE_BYTES);
                weight(self.class_outside()) + allocated + HANDLE_BYTES
            }
        }
    }
}

/// What an item in a block of the class is booked with, as far as it is not outside.
#[inline]
pub(crate) const fn weight(class: usize) -> u64 {
    BLOCK_BYTES[class] as u64 + LINKS_BYTES as u64 + INDEX_BYTES
}

/// The number of blocks of the next larger class: one in 17 less.
const fn next_blocks(blocks: usize) -> usize {
    blocks - if blocks < 2 * 17 { 1 } else { blocks / 17 }
}

const fn coarse_classes() -> usize {
    let mut blocks = FINE_BLOCKS;
    let mut classes = 0;
    while blocks > BLOCKS_MIN {
        blocks = next_blocks(blocks);
        classes += 1;
    }
    classes
}

const fn block_bytes() -> [u16; CLASSES] {
    let mut bytes = [0; CLASSES];
    let mut class = 0;
    while class < FINE_GRANULES {
        bytes[class] = ((class + 1) * GRANULE_BYTES) as u16;
        class += 1;
    }
    let mut blocks = FINE_BLOCKS;
    while class < CLASSES {
        blocks = next_blocks(blocks);
        let granules = (PAGE_BYTES / blocks - LINKS_BYTES) / GRANULE_BYTES;
        bytes[class] = (granules * GRANULE_BYTES) as u16;
        class += 1;
    }
    bytes
}

const fn blocks() -> [u16; CLASSES] {
    let mut blocks = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        blocks[class] = (PAGE_BYTES / (BLOCK_BYTES[class] as usize + LINKS_BYTES)) as u16;
        class += 1;
    }
    blocks
}

const fn classes_of() -> [u8; LARGEST_GRANULES + 1] {
    let mut classes = [0; LARGEST_GRANULES + 1];
    let (mut class, mut granules) = (0, 0);
    while granules <= LARGEST_GRANULES {
        while (BLOCK_BYTES[class] as usize) < granules * GRANULE_BYTES {
            class += 1;
        }
        classes[granules] = class as u8;
        granules += 1;
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it_and_steps_are_small() {
        for (granules, &class) in CLASS_OF.iter().enumerate().skip(1) {
            let (class, bytes) = (usize::from(class), granules * GRANULE_BYTES);
            let block = usize::from(BLOCK_BYTES[class]);
            assert!(block >= bytes);
            assert!(class == 0 || usize::from(BLOCK_BYTES[class - 1]) < bytes);
            let waste = (block - bytes) as f64 / block as f64;
            let bound = match bytes {
                0..=256 => 0.0,
                257..=4_096 => 0.063,
                _ => 0.13,
            };
            assert!(waste <= bound, "{bytes} bytes in a block of {block}");
        }
        assert_eq!(usize::from(BLOCK_BYTES[CLASSES - 1]), LARGEST_GRANULES * GRANULE_BYTES);
    }

    #[test]
    fn what_is_booked_covers_the_block_and_never_falls_with_the_size() {
        for shape in [Shape::new(false), Shape::new(true)] {
            let mut before = 0;
            for payload in 0..20_000 {
                let booked = shape.item_bytes(payload);
                assert!(booked >= before, "{payload} bytes");
                assert!(booked >= (shape.header_bytes() + payload) as u64 + INDEX_BYTES);
                before = booked;
            }
        }
        assert_eq!(Shape::new(false).item_bytes(16 + 200), 232 + 8 + 12);
        assert_eq!(Shape::new(true).item_bytes(16 + 200), 248 + 8 + 12);
    }
}

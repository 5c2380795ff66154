//! A hash table of handles whose look-up waits for one line of memory.
//!
//! Place in the flow: a segment of the index. Who looks an item up waits for its place in the table before it can ask for the item, so this table has all
//! it needs of an item in one line, where tables with tags apart from what they tag have it in two.
//!
//! A chunk is a line of twelve handles, a tag of eight bits for each (0: the place is free), and a count of the items that would have come into this
//! chunk but found it full: they are in the next chunk with a free place. A search therefore ends at the first chunk without such items, and a
//! removal leaves nothing behind. (Chunks of this kind are those of F14: Bronson and Shi, "Open-sourcing F14", 2019. There the next chunk is a second
//! hash's, and chunks double; here they grow by a quarter, which keeps them full, and a chunk is chosen by multiplication.)

/// Handles in a chunk.
const PLACES: usize = 12;
/// Of them, on average, those that are taken before the table grows.
const FULL: usize = 10;
/// A table grows by this part of itself.
const GROWTH_PART: usize = 4;
/// A table that could hold so many times its items gives memory back.
const SPARSE: usize = 4;

/// A line of memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk {
    /// 0: free.
    tags: [u8; PLACES],
    /// Items in later chunks that began their search for a place here or passed this chunk.
    passed: u32,
    handles: [u32; PLACES],
}

const _: () = assert!(size_of::<Chunk>() == 64);

/// Handles by hash.
#[derive(Debug, Default)]
pub(crate) struct Table {
    chunks: Box<[Chunk]>,
    items: usize,
}

/// Where in a table a search begins and what it looks for.
#[derive(Clone, Copy)]
struct Wanted {
    chunk: usize,
    tag: u8,
}

/// Where a handle is.
#[derive(Clone, Copy)]
struct Place {
    chunk: usize,
    place: usize,
}

impl Chunk {
    const EMPTY: Self = Self { tags: [0; PLACES], passed: 0, handles: [0; PLACES] };

    /// The places with this tag.
    #[inline]
    fn places(&self, tag: u8) -> Places {
        const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        /// The highest bit of each byte that is equal to the tag, exactly: no carry goes from one byte to the next.
        #[inline]
        const fn equal(tags: u64, tag: u8) -> u64 {
            let differing = tags ^ u64::from_le_bytes([tag; 8]);
            !(((differing & LOW_BITS) + LOW_BITS) | differing | LOW_BITS)
        }
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.tags;
        let first = equal(u64::from_le_bytes([a, b, c, d, e, f, g, h]), tag);
        let others = equal(u64::from_le_bytes([i, j, k, l, 0, 0, 0, 0]), tag) & 0xffff_ffff;
        Places(first >> 7 | others >> 6)
    }
}

/// Some of a chunk's places: bit 8 n is place n, bit 8 n + 1 place 8 + n.
struct Places(u64);

impl Iterator for Places {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit / 8 + bit % 8 * 8)
    }
}

impl Table {
    /// The handle with this hash for which `is_it` is true.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let place = self.place_of(hash, is_it)?;
        Some(self.chunks[place.chunk].handles[place.place])
    }

    #[inline]
    fn place_of(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<Place> {
        let Wanted { mut chunk, tag } = self.wanted(hash);
        for _ in 0..self.chunks.len() {
            let searched = &self.chunks[chunk];
            let mut places = searched.places(tag);
            if let Some(place) = places.find(|&place| is_it(searched.handles[place])) {
                return Some(Place { chunk, place });
            }
            if searched.passed == 0 {
                return None;
            }
            chunk = self.next(chunk);
        }
        None
    }

    /// Adds a handle that is not there. `hash_of` gives the hash of those that are.
    pub(crate) fn insert(&mut self, hash: u64, handle: u32, hash_of: impl Fn(u32) -> u64) {
        if self.items == self.chunks.len() * FULL {
            let more = (self.chunks.len() / GROWTH_PART).max(1);
            self.rebuild(self.chunks.len() + more, hash_of);
        }
        self.put(hash, handle);
    }

    /// Adds a handle to a table that has free places.
    fn put(&mut self, hash: u64, handle: u32) {
        let Wanted { mut chunk, tag } = self.wanted(hash);
        loop {
            let next = self.next(chunk);
            let tried = &mut self.chunks[chunk];
            if let Some(place) = tried.places(0).next() {
                (tried.tags[place], tried.handles[place]) = (tag, handle);
                break;
            }
            tried.passed += 1;
            chunk = next;
        }
        self.items += 1;
    }

    /// Removes a handle; false when it is not there. `hash_of` gives the hash of the others.
    pub(crate) fn remove(&mut self, hash: u64, handle: u32, hash_of: impl Fn(u32) -> u64) -> bool {
        let Some(found) = self.place_of(hash, |other| other == handle) else { return false };
        let mut chunk = self.wanted(hash).chunk;
        while chunk != found.chunk {
            self.chunks[chunk].passed -= 1;
            chunk = self.next(chunk);
        }
        self.chunks[chunk].tags[found.place] = 0;
        self.items -= 1;
        if self.chunks.len() * FULL > SPARSE * (self.items + 1) {
            let chunks = (2 * self.items).div_ceil(FULL);
            if chunks < self.chunks.len() {
                self.rebuild(chunks, hash_of);
            }
        }
        true
    }

    /// Puts another handle in the place of one; false when that is not there.
    pub(crate) fn renumber(&mut self, hash: u64, from: u32, to: u32) -> bool {
        let Some(found) = self.place_of(hash, |other| other == from) else { return false };
        self.chunks[found.chunk].handles[found.place] = to;
        true
    }

    /// Memory of the chunks.
    pub(crate) const fn bytes(&self) -> usize {
        size_of_val(&*self.chunks)
    }

    fn rebuild(&mut self, chunks: usize, hash_of: impl Fn(u32) -> u64) {
        let empty = vec![Chunk::EMPTY; chunks].into();
        let old = std::mem::replace(self, Self { chunks: empty, items: 0 });
        for Chunk { tags, handles, .. } in old.chunks {
            // All hashes of a chunk first: none of them waits for another's memory.
            let mut hashes = [0; PLACES];
            for place in (0..PLACES).filter(|&place| tags[place] != 0) {
                hashes[place] = hash_of(handles[place]);
            }
            for place in (0..PLACES).filter(|&place| tags[place] != 0) {
                self.put(hashes[place], handles[place]);
            }
        }
    }

    /// The chunk by the hash's upper half, the tag by its lowest bits.
    #[inline]
    const fn wanted(&self, hash: u64) -> Wanted {
        let chunk = ((hash >> 32) * self.chunks.len() as u64) >> 32;
        let tag = hash as u8;
        Wanted { chunk: chunk as usize, tag: if tag == 0 { 1 } else { tag } }
    }

    #[inline]
    const fn next(&self, chunk: usize) -> usize {
        if chunk + 1 == self.chunks.len() { 0 } else { chunk + 1 }
    }
}

#[cfg(test)]
mod tests;

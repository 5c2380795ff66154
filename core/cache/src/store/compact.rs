//! Emptying sparse pages, so that memory freed in one block size serves another.
//!
//! Place in the flow: after operations that freed or took blocks, while the shard is still locked. A few blocks a time: what an insert evicts
//! it may also have to move.

use super::items::Items;

impl Items {
    /// Moves at most `moves_max` items out of sparse pages while more bytes lie idle than may. Gives the number of moves.
    pub(crate) fn tidy(&mut self, moves_max: usize) -> usize {
        let mut moves = 0;
        while moves < moves_max && self.arena.is_wasteful() && self.move_one() {
            moves += 1;
        }
        moves
    }

    /// Moves at most `moves_max` items out of sparse pages; fewer when no page can be emptied any more.
    pub(crate) fn squeeze(&mut self, moves_max: usize) -> usize {
        (0..moves_max).take_while(|_| self.move_one()).count()
    }

    /// Moves an item to another block of the same size; false when that would not help to empty a page.
    fn move_one(&mut self) -> bool {
        self.settle_uses();
        let Self { arena, queues, index, .. } = self;
        let Some(from) = arena.next_to_move() else { return false };
        let class = arena.class(from);
        let to = arena.allocate(class);
        arena.copy_block(from, to);
        index.renumber(arena.block(to).hash(), from, to);
        let list = self.layout.list_of(arena.block(to).partition());
        queues.renumber(arena, list, (from, to));
        arena.free(from);
        true
    }
}

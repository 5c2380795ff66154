//! The ledger's order, whichever its rule.

use super::{Eviction, LoggedOrder, QueuedOrder};
use crate::accounts::Layout;

/// LRU has a structure of its own. The ledger asks which it is once an operation.
#[derive(Clone, Debug)]
pub(crate) enum AnyOrder {
    Logged(LoggedOrder),
    Queued(QueuedOrder),
}

impl AnyOrder {
    /// An empty order; of LRU with memory for the handles `0..items`.
    pub(crate) fn new(layout: Layout, eviction: Eviction, items: usize) -> Self {
        match eviction {
            Eviction::Lru => Self::Logged(LoggedOrder::new(layout, items)),
            _ => Self::Queued(QueuedOrder::new(layout, eviction)),
        }
    }
}

/// An expression in which the name is the order that it is.
macro_rules! with_order {
    ($any:expr, $order:ident => $result:expr) => {
        match $any {
            $crate::order::AnyOrder::Logged($order) => $result,
            $crate::order::AnyOrder::Queued($order) => $result,
        }
    };
}

pub(crate) use with_order;

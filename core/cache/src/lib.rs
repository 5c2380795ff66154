//! Partitioned cache with limits that change at run time.

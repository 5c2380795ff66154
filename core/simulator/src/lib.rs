//! The multi-tier system in virtual time.

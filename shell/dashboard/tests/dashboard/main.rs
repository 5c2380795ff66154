//! The dashboard from outside: its API over real connections, and its page in a real browser.

mod api;
mod browser;
mod document;
mod page;
mod synthetic;

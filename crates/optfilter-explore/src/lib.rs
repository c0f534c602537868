//! A live page for any state-space model and table: move a slider, see the filter.
//!
//! The learning rate and the number of steps of an optimizer *are* the prior of a Bayesian filter, and that is easiest to see by
//! moving them. A [`Server`] serves one page on the loopback address of this machine; the page shows what the one engine
//! (`optfilter-run`, by models of `optfilter-model`) makes of a table, and computes nothing itself.
//!
//! ```
//! use optfilter_explore::{Api, Server};
//!
//! let server = Server::start(Api::default(), 0, false)?;
//! assert!(server.address().starts_with("http://127.0.0.1:"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | `http`, `guard`, `door`, `seats`, `server` | who may ask, how much, how long; an answer to anything |
//! | `api`, `limits` | the questions, and how much one may ask for |
//! | [`subject`], `table`, `gallery` | a model as text, a table by name; series to begin with |
//! | `run`, `scores`, `view`, `pack` | a filter over a table; how it did; what is drawn of it; numbers on their way |
//! | `step` | one step of an optimizer, opened up |
//! | `search` | maps of scores and the leader-board, told as they come |
//! | `controls` | which settings make sense, and in which units |
//! | `takeaway`, `page` | flags, files, pictures, one self-contained page |
//!
//! Requests carry all they need, so pages do not disturb one another; a newer request of a page ends its older ones.

mod api;
mod controls;
mod desk;
mod door;
mod fault;
mod gallery;
pub mod guard;
pub mod http;
mod limits;
mod pack;
mod page;
mod run;
mod scores;
mod search;
mod seats;
mod server;
mod step;
pub mod subject;
mod table;
mod takeaway;
mod text;
mod view;

pub use api::{Api, Opening};
pub use fault::Fault;
pub use gallery::simulated_table;
pub use server::Server;
pub use subject::{Named, Shelf};
pub use table::Table;

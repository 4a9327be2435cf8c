//! Several processes on one database: the first that opens it owns it, and the others are its guests.
//!
//! The owner holds the lock of the directory and listens on a socket in it. Whoever finds the lock
//! taken connects there; a session of the owner then runs the guest's statements. The two are the
//! same library of the same version, so the protocol is small, and no one else's: a request, its
//! reply. Decisions and figures are in `docs/design/0019-several-processes.md`.
//!
//! ```text
//! hello   := "colibri sql\n" | version: u16 length, text | wish: u8 (session, cancel) | user or number, secret
//! welcome := "colibri sql\n" | version: u16 length, text | answer: u8 | number: i32, secret: u64, owner: u32, or a text
//! then, from the guest and from the owner in turn:
//! frame   := bytes behind this: u32 | kind: u8 | body
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `address` | the socket's file: made, reached, taken away |
//! | `frame` | bytes of numbers, texts and values; whole frames from a socket |
//! | `hello` | who is there, and of which version: never changes |
//! | `request`, `reply` | what a guest asks, and what it is told |
//! | `door` | the owner's thread that lets guests in, and notices when they go |
//! | `host` | the owner's thread for a guest: its session |
//! | `guest` | a connection of a guest |
//! | `line` | a guest's end of the socket: who reads, who is woken |
//! | `inherited` | descriptors that a child of `fork` has of its parent |
//!
//! Invariants: a request is answered once, and a guest has at most one under way. What a session of
//! a guest has open is rolled back when its socket closes, whoever closed it: a process that is killed
//! leaves nothing behind. Nothing here wakes up unless a guest does something.

mod address;
mod door;
mod frame;
mod guest;
mod hello;
mod host;
mod inherited;
mod line;
mod reply;
mod request;

pub(super) use address::Entrance;
pub(super) use door::Door;
pub(super) use guest::{Entered, Guest, Place, Run, enter};
pub(super) use inherited::close_in_child;
pub(super) use reply::Reply;
pub(super) use request::Request;

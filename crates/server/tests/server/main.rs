//! A server as a process of its own, and clients that talk to it: by bytes, and by the libraries
//! that people use.
//!
//! | file | holds |
//! | --- | --- |
//! | `support` | starting servers; a client that sends given messages, byte by byte |
//! | `statements` | simple and extended queries, portals, COPY |
//! | `copy_files` | COPY from and to files of the server's machine |
//! | `pipelines` | what leaves the server when; portals, texts of several statements, databases that are dropped, advisory locks |
//! | `portals` | portals by name: changing the row that one is on, failed blocks, effects and warnings |
//! | `limits` | timeouts, cancellations, numbers of connections, slow readers, priorities |
//! | `login` | roles, passwords, TLS |
//! | `notifications` | LISTEN and NOTIFY |
//! | `settings` | settings stored for roles and databases, reports of settings to clients |
//! | `databases` | several databases, start and end of the server |
//! | `branches` | databases after the model of others; those that go with their last connection |
//! | `encodings` | clients whose texts are not UTF-8 |
//! | `disturbance` | long statements beside other clients, on one CPU |
//! | `hostile` | bytes that are no protocol, clients that vanish |
//! | `crash` | kill -9 under load |
//! | `quiet` | what the server costs while nothing is asked of it |
//! | `repeat` | transactions that conflict and run again unseen |
//! | `activation` | sockets that systemd has opened; the end without clients |
//! | `web` | metrics and the dashboard |
//! | `clients` | psql, pgbench, psycopg, psycopg2, asyncpg, pgcli, node-postgres, postgres.js, pgx, lib/pq, pgjdbc; frameworks of tests with fresh databases |

#![allow(clippy::unwrap_used, reason = "tests")]

mod activation;
mod branches;
mod clients;
mod copy_files;
mod crash;
mod databases;
mod disturbance;
mod encodings;
mod hostile;
mod limits;
mod login;
mod notifications;
mod pipelines;
mod portals;
mod quiet;
mod repeat;
mod settings;
mod statements;
mod support;
mod web;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Not a test: the process that tests start.
#[test]
#[ignore = "the server that other tests start"]
fn server_process() {
    support::be_the_server();
}

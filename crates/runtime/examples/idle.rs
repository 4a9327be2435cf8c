//! A server that nobody asks for anything: a thousand timers that are far away, a hundred
//! connections on which nothing is said, and a reader of metrics that stays connected after it has
//! read once. Measure it:
//!
//! ```sh
//! cargo build --release -p colibri-runtime --example idle
//! colibri bench idle --seconds 60 -- target/release/examples/idle
//! ```

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use colibri_runtime::net::TcpListener;
use colibri_runtime::{Handle, Pool, Runtime, sleep, spawn, stopping};

const TIMERS: u64 = 1_000;
const CONNECTIONS: usize = 100;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::new()?;
    for n in 0..TIMERS {
        drop(runtime.spawn(Pool::User, async move { sleep(Duration::from_secs(86_400 + n)).await }));
    }
    let address = runtime.block_on(runtime.spawn(Pool::System, listen()))??;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(std::net::TcpStream::connect(address)?);
    }
    let mut reader = std::net::TcpStream::connect(address)?;
    reader.write_all(b"metrics\n")?;
    let mut text = vec![0; 65_536];
    let read = reader.read(&mut text)?;
    println!("{}", String::from_utf8_lossy(&text[..read]));
    // Until somebody ends it.
    runtime.block_on(stopping());
    Ok(())
}

async fn listen() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    let address = listener.local_addr()?;
    drop(spawn(Pool::System, async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(spawn(Pool::User, async move {
                let mut request = [0; 64];
                while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                    let text = Handle::current().counters().to_prometheus();
                    if stream.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
            }));
        }
    }));
    Ok(address)
}

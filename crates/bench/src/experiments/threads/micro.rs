//! What a runtime itself costs: tasks that do nothing, tasks that talk to each other, and sockets,
//! beside tokio.
//!
//! | name | what is timed |
//! | --- | --- |
//! | spawn | a task spawns a thousand empty ones and waits for each; per task |
//! | ping-pong | two tasks with a mailbox of one message each; per round trip |
//! | echo | 64 bytes to a task behind a TCP connection on loopback and back, in the same runtime; per round trip |
//!
//! One thread stands beside tokio's current-thread runtime, more beside its multi-thread runtime.

use std::future::Future;
use std::time::Instant;

use clap::ValueEnum;
use colibri_runtime::net::{TcpListener, TcpStream};
use colibri_runtime::{Builder, Pool, WhenFull, mailbox, spawn};

use crate::measure::{Error, Result};

const SPAWNED_AT_ONCE: u64 = 1_000;
const ECHO_BYTES: usize = 64;
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Micro {
    /// A task spawns empty ones and waits for them.
    Spawn,
    /// Two tasks send each other messages.
    PingPong,
    /// Bytes to a socket and back.
    Echo,
}

impl Micro {
    pub(super) const ALL: [Self; 3] = [Self::Spawn, Self::PingPong, Self::Echo];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Spawn => "spawn",
            Self::PingPong => "ping-pong",
            Self::Echo => "echo",
        }
    }

    /// The number of repetitions: `n` for the fastest kind, fewer for slower ones.
    fn times(self, n: u64) -> u64 {
        match self {
            Self::Spawn => n.next_multiple_of(SPAWNED_AT_ONCE),
            Self::PingPong => n / 2,
            Self::Echo => n / 40,
        }
        .max(1)
    }

    /// Nanoseconds for one, on the runtime with shared threads.
    pub(super) fn colibri(self, threads: usize, n: u64) -> Result<f64> {
        let times = self.times(n);
        // The calling thread is one of them, as with tokio's current-thread runtime.
        let outcome = Builder::new().threads(threads).run(Pool::User, async move {
            match self {
                Self::Spawn => timed(times, colibri_spawn(times)).await,
                Self::PingPong => timed(times, colibri_ping_pong(times)).await,
                Self::Echo => timed(times, colibri_echo(times)).await,
            }
        });
        outcome.and_then(|outcome| outcome).map_err(failed)
    }

    /// The same on tokio.
    #[cfg(feature = "rivals")]
    pub(super) fn tokio(self, threads: usize, n: u64) -> Result<f64> {
        use tokio::runtime::Builder;
        let mut builder = match threads {
            1 => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(threads).enable_all().build().map_err(failed)?;
        let times = self.times(n);
        let outcome = runtime.block_on(runtime.spawn(async move {
            match self {
                Self::Spawn => timed(times, tokio_rival::spawn(times)).await,
                Self::PingPong => timed(times, tokio_rival::ping_pong(times)).await,
                Self::Echo => timed(times, tokio_rival::echo(times)).await,
            }
        }));
        outcome.map_err(std::io::Error::from).and_then(|outcome| outcome).map_err(failed)
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("cannot run", std::path::Path::new("a runtime"), error)
}

/// Nanoseconds for one of `times`.
async fn timed(times: u64, work: impl Future<Output = std::io::Result<()>>) -> std::io::Result<f64> {
    let begun = Instant::now();
    work.await?;
    Ok(begun.elapsed().as_nanos() as f64 / times as f64)
}

async fn colibri_spawn(times: u64) -> std::io::Result<()> {
    let mut tasks = Vec::with_capacity(SPAWNED_AT_ONCE as usize);
    for _ in 0..times / SPAWNED_AT_ONCE {
        tasks.extend((0..SPAWNED_AT_ONCE).map(|_| spawn(Pool::User, async {})));
        for task in tasks.drain(..) {
            task.await.map_err(std::io::Error::other)?;
        }
    }
    Ok(())
}

async fn colibri_ping_pong(times: u64) -> std::io::Result<()> {
    let (ping, mut pinged) = mailbox(1, WhenFull::Wait);
    let (pong, mut ponged) = mailbox(1, WhenFull::Wait);
    let other = spawn(Pool::User, async move {
        while let Some(message) = pinged.recv().await {
            let _ = pong.send(message).await;
        }
    });
    for n in 0..times {
        ping.send(n).await.map_err(std::io::Error::other)?;
        ponged.recv().await;
    }
    drop(ping);
    other.await.map_err(std::io::Error::other)
}

async fn colibri_echo(times: u64) -> std::io::Result<()> {
    let listener = TcpListener::bind(LOOPBACK.into())?;
    let address = listener.local_addr()?;
    let server = spawn(Pool::User, async move {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut buffer = [0; 4_096];
        loop {
            match stream.read(&mut buffer).await? {
                0 => return std::io::Result::Ok(()),
                read => stream.write_all(&buffer[..read]).await?,
            }
        }
    });
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = [7; ECHO_BYTES];
    for _ in 0..times {
        stream.write_all(&buffer).await?;
        stream.read_exact(&mut buffer).await?;
    }
    drop(stream);
    server.await.map_err(std::io::Error::other)?
}

#[cfg(feature = "rivals")]
mod tokio_rival {
    use std::io;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    use super::{ECHO_BYTES, LOOPBACK, SPAWNED_AT_ONCE};

    pub(super) async fn spawn(times: u64) -> io::Result<()> {
        let mut tasks = Vec::with_capacity(SPAWNED_AT_ONCE as usize);
        for _ in 0..times / SPAWNED_AT_ONCE {
            tasks.extend((0..SPAWNED_AT_ONCE).map(|_| tokio::spawn(async {})));
            for task in tasks.drain(..) {
                task.await?;
            }
        }
        Ok(())
    }

    pub(super) async fn ping_pong(times: u64) -> io::Result<()> {
        let (ping, mut pinged) = mpsc::channel(1);
        let (pong, mut ponged) = mpsc::channel(1);
        let other = tokio::spawn(async move {
            while let Some(message) = pinged.recv().await {
                let _ = pong.send(message).await;
            }
        });
        for n in 0..times {
            ping.send(n).await.map_err(io::Error::other)?;
            ponged.recv().await;
        }
        drop(ping);
        other.await.map_err(io::Error::other)
    }

    pub(super) async fn echo(times: u64) -> io::Result<()> {
        let listener = TcpListener::bind(std::net::SocketAddr::from(LOOPBACK)).await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let mut buffer = [0; 4_096];
            loop {
                match stream.read(&mut buffer).await? {
                    0 => return io::Result::Ok(()),
                    read => stream.write_all(&buffer[..read]).await?,
                }
            }
        });
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut buffer = [7; ECHO_BYTES];
        for _ in 0..times {
            stream.write_all(&buffer).await?;
            stream.read_exact(&mut buffer).await?;
        }
        drop(stream);
        server.await?
    }
}

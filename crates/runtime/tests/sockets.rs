//! Sockets: bytes arrive, in order and all of them; ends and failures are noticed.

#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use colibri_runtime::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use colibri_runtime::{Builder, Pool, Runtime, sleep, spawn, timeout};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

fn runtime(threads: usize) -> Runtime {
    Builder::new().threads(threads).build().unwrap()
}

#[test]
fn echoes_of_many_connections_come_back() {
    for threads in [1, 2] {
        let runtime = runtime(threads);
        runtime.block_on(async {
            let listener = TcpListener::bind(LOOPBACK.into()).unwrap();
            let address = listener.local_addr().unwrap();
            drop(spawn(Pool::System, async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    drop(spawn(Pool::User, async move {
                        let mut buffer = [0; 1_000];
                        loop {
                            match stream.read(&mut buffer).await.unwrap() {
                                0 => break,
                                read => stream.write_all(&buffer[..read]).await.unwrap(),
                            }
                        }
                    }));
                }
            }));
            let clients: Vec<_> = (0..50_u8)
                .map(|client| {
                    spawn(Pool::User, async move {
                        let stream = TcpStream::connect(address).await.unwrap();
                        stream.set_nodelay(true).unwrap();
                        for round in 0..100 {
                            let sent = vec![client ^ round; 1 + usize::from(round) * 37];
                            stream.write_all(&sent).await.unwrap();
                            let mut back = vec![0; sent.len()];
                            stream.read_exact(&mut back).await.unwrap();
                            assert_eq!(back, sent);
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
        });
    }
}

#[test]
fn more_than_a_socket_holds_waits_for_the_reader() {
    let runtime = runtime(2);
    let sent: Arc<Vec<u8>> = Arc::new((0..5_000_000_u32).map(|n| (n ^ n >> 11) as u8).collect());
    runtime.block_on(async {
        let (a, b) = UnixStream::pair().unwrap();
        let bytes = Arc::clone(&sent);
        let writer = spawn(Pool::User, async move { a.write_all(&bytes).await.unwrap() });
        let mut received = Vec::new();
        let mut buffer = vec![0; 70_000];
        loop {
            match b.read(&mut buffer).await.unwrap() {
                0 => break,
                read => received.extend_from_slice(&buffer[..read]),
            }
        }
        assert!(received == *sent);
        writer.await.unwrap();

        // In parts.
        let (a, b) = UnixStream::pair().unwrap();
        let bytes = Arc::clone(&sent);
        let writer = spawn(Pool::User, async move {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (first, second) = rest[..rest.len().min(100_000)].split_at(rest.len().min(100_000) / 3);
                let wrote = a.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]).await.unwrap();
                rest = &rest[wrote..];
            }
        });
        let mut received = Vec::new();
        let (mut first, mut second) = ([0; 1_000], [0; 50_000]);
        loop {
            let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
            let read = b.read_vectored(&mut buffers).await.unwrap();
            if read == 0 {
                break;
            }
            received.extend_from_slice(&first[..read.min(1_000)]);
            received.extend_from_slice(&second[..read.saturating_sub(1_000)]);
        }
        assert!(received == *sent);
        writer.await.unwrap();
    });
}

#[test]
fn an_end_that_comes_with_the_last_bytes_is_noticed() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let listener = TcpListener::bind(LOOPBACK.into()).unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, from) = listener.accept().await.unwrap();
        assert_eq!(from, peer.local_addr().unwrap());
        peer.write_all(b"last words").unwrap();
        drop(peer);
        // Bytes and end are one event; the bytes do not fill the buffer.
        sleep(Duration::from_millis(20)).await;
        let mut buffer = [0; 100];
        assert_eq!(stream.read(&mut buffer).await.unwrap(), 10);
        let end = timeout(Duration::from_secs(20), stream.read(&mut buffer)).await.expect("it does not wait");
        assert_eq!(end.unwrap(), 0);
        assert_eq!(stream.read_exact(&mut buffer).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn who_does_not_listen_refuses_and_who_has_gone_is_noticed_by_writers() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let address: SocketAddr = {
            let listener = TcpListener::bind(LOOPBACK.into()).unwrap();
            listener.local_addr().unwrap()
        };
        assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let (a, b) = UnixStream::pair().unwrap();
        drop(b);
        assert_eq!(a.write_all(b"hello").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(TcpListener::bind(([192, 0, 2, 1], 80).into()).is_err());
    });
    assert_eq!(runtime.counters().sockets, 0);
}

#[test]
fn a_socket_closed_by_one_task_while_another_waits_for_it_wakes_nobody_wrongly() {
    let runtime = runtime(2);
    runtime.block_on(async {
        for _ in 0..200 {
            let (a, b) = UnixStream::pair().unwrap();
            let reader = spawn(Pool::User, async move { a.read(&mut [0; 10]).await });
            let writer = spawn(Pool::System, async move { drop(b) });
            writer.await.unwrap();
            assert_eq!(reader.await.unwrap().unwrap(), 0);
        }
        // And one that is cancelled where it waits takes its socket along.
        let (a, b) = UnixStream::pair().unwrap();
        let reader = spawn(Pool::User, async move { a.read(&mut [0; 10]).await });
        sleep(Duration::from_millis(5)).await;
        reader.cancel();
        assert_eq!(b.read(&mut [0; 10]).await.unwrap(), 0);
    });
}

/// Bug: a busy thread looked for events after its last task, on its way to sleep, and kept the task
/// that one of them woke where only it looks. Consequence: it slept with a task in its hand. Fix:
/// what comes while no task runs goes where everybody looks.
#[test]
fn an_event_found_on_the_way_to_sleep_is_not_slept_through() {
    let runtime = runtime(1);
    let (mut peer, ours) = std::os::unix::net::UnixStream::pair().unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let echo = runtime.block_on(async { UnixStream::from_std(ours).unwrap() });
    drop(runtime.spawn(Pool::User, async move {
        let mut byte = [0];
        while echo.read(&mut byte).await.unwrap() > 0 {
            echo.write_all(&byte).await.unwrap();
        }
    }));
    for n in 0..500_u32 {
        let (begun, has_begun) = std::sync::mpsc::channel();
        drop(runtime.spawn(Pool::User, async move {
            // After many short tasks the clock is read rarely, and not between the long one and
            // sleep.
            for _ in 0..50 {
                colibri_runtime::budget::yield_now().await;
            }
            begun.send(()).unwrap();
            let until = std::time::Instant::now() + Duration::from_micros(150);
            while std::time::Instant::now() < until {}
        }));
        has_begun.recv().unwrap();
        peer.write_all(&[n as u8]).unwrap();
        let mut byte = [0];
        peer.read_exact(&mut byte).expect("the byte comes back");
        assert_eq!(byte, [n as u8]);
    }
}

#[test]
fn who_is_asked_again_at_once_watches_and_sleeps_afterwards() {
    for threads in [1, 2] {
        let runtime = runtime(threads);
        let (mut peer, ours) = std::os::unix::net::UnixStream::pair().unwrap();
        let echo = runtime.block_on(async { UnixStream::from_std(ours).unwrap() });
        drop(runtime.spawn(Pool::User, async move {
            let mut byte = [0];
            while echo.read(&mut byte).await.unwrap() > 0 {
                echo.write_all(&byte).await.unwrap();
            }
        }));
        let begun = Instant::now();
        let mut rounds = 0_u32;
        let mut ask = || {
            peer.write_all(&[rounds as u8]).unwrap();
            let mut byte = [0];
            peer.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [rounds as u8]);
            rounds += 1;
        };
        // One thread may be on the client's CPU, or have but a part of one: it does not watch.
        if threads == 1 {
            (0..2_000).for_each(|_| ask());
            assert_eq!(runtime.counters().watched, 0);
            continue;
        }
        // Where other programs want all CPUs, it may take a while until it is worth it.
        while runtime.counters().watched < 100 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it always sleeps");
            ask();
        }
        // The last watch is in vain, and after a slow question there is none.
        std::thread::sleep(Duration::from_millis(20));
        ask();
        std::thread::sleep(Duration::from_millis(20));
        let watched = runtime.counters().watched;
        for _ in 0..20 {
            ask();
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(runtime.counters().watched, watched, "it watched for what came long after");
    }
}

/// Bug: a write of all the buffers that the kernel looks at counted as less than what was asked
/// for. Consequence: the next one waited for room that was there. Fix: no more than those count.
#[test]
fn more_buffers_than_the_kernel_takes_are_written_in_parts() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let (a, b) = UnixStream::pair().unwrap();
        let bytes: Vec<[u8; 1]> = (0..3_000_u32).map(|n| [n as u8]).collect();
        let sent = bytes.clone();
        let writer = spawn(Pool::User, async move {
            let mut rest = &sent[..];
            while !rest.is_empty() {
                let buffers: Vec<_> = rest.iter().map(|byte| IoSlice::new(byte)).collect();
                rest = &rest[a.write_vectored(&buffers).await.unwrap()..];
            }
        });
        let mut received = vec![[0]; 3_000];
        let mut filled = 0;
        while filled < received.len() {
            let mut buffers: Vec<_> = received[filled..].iter_mut().map(|byte| IoSliceMut::new(byte)).collect();
            let read = timeout(Duration::from_secs(20), b.read_vectored(&mut buffers)).await.expect("bytes are there");
            filled += read.unwrap();
        }
        assert_eq!(received, bytes);
        writer.await.unwrap();
    });
}

/// Bug: the address of a connection was asked for after it was accepted, and one that has been
/// reset has none. Consequence: a client could end a server's accept loop. Fix: the next connection
/// is accepted.
#[test]
fn a_connection_reset_before_it_is_accepted_does_not_end_accepting() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let listener = TcpListener::bind(LOOPBACK.into()).unwrap();
        let address = listener.local_addr().unwrap();
        let gone = std::net::TcpStream::connect(address).unwrap();
        rustix::net::sockopt::set_socket_linger(&gone, Some(Duration::ZERO)).unwrap();
        drop(gone);
        let client = std::net::TcpStream::connect(address).unwrap();
        let (_stream, from) = listener.accept().await.unwrap();
        assert_eq!(from, client.local_addr().unwrap());
    });
}

#[test]
fn readers_and_writers_of_one_socket_share_it() {
    let runtime = runtime(2);
    runtime.block_on(async {
        let (a, b) = UnixStream::pair().unwrap();
        let a = Arc::new(a);
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let a = Arc::clone(&a);
                spawn(Pool::User, async move {
                    let mut sum = 0;
                    loop {
                        match a.read(&mut [0; 3]).await.unwrap() {
                            0 => return sum,
                            read => sum += read,
                        }
                    }
                })
            })
            .collect();
        for _ in 0..1_000 {
            b.write_all(b"bytes").await.unwrap();
            if fastrand_bit() {
                colibri_runtime::budget::yield_now().await;
            }
        }
        b.shutdown(Shutdown::Write).unwrap();
        let mut sum = 0;
        for reader in readers {
            sum += reader.await.unwrap();
        }
        assert_eq!(sum, 5_000);
    });
}

/// Bug: a read that gave less than it had room for counted as one that left nothing. Consequence:
/// what came together with an urgent byte, and behind it, was not seen until more came. Fix: once
/// there was an urgent byte, only a read that gives nothing counts.
#[test]
fn bytes_behind_an_urgent_one_are_read_at_once() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let listener = TcpListener::bind(LOOPBACK.into()).unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        check_urgent(peer.as_fd(), async |buffer| stream.read(buffer).await).await;

        let (_stream, peer) = std::os::unix::net::UnixStream::pair().unwrap();
        if rustix::net::send(&peer, b"!", SendFlags::OOB) == Err(rustix::io::Errno::OPNOTSUPP) {
            println!("NOT TESTED here: Unix sockets, for which this kernel has no urgent bytes");
            return;
        }
        let (stream, peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let stream = UnixStream::from_std(stream).unwrap();
        check_urgent(peer.as_fd(), async |buffer| stream.read(buffer).await).await;
    });
}

async fn check_urgent(peer: BorrowedFd<'_>, mut read: impl AsyncFnMut(&mut [u8]) -> std::io::Result<usize>) {
    for _ in 0..3 {
        sleep(Duration::from_millis(10)).await;
        // Of those that are urgent the last is.
        let parts = [(b"abc", SendFlags::empty()), (b"de!", SendFlags::OOB), (b"fgh", SendFlags::empty())];
        for (bytes, flags) in parts {
            assert_eq!(rustix::net::send(peer, bytes, flags), Ok(3));
        }
        // The events come and go.
        sleep(Duration::from_millis(10)).await;
        let mut seen = Vec::new();
        while seen.len() < 8 {
            let mut buffer = [0; 100];
            let read = timeout(Duration::from_secs(20), read(&mut buffer)).await.expect("bytes are there");
            seen.extend_from_slice(&buffer[..read.unwrap()]);
        }
        assert_eq!(seen, b"abcdefgh");
    }
}

/// Bug: as with urgent bytes: a read of a Unix socket ends behind bytes with which descriptors
/// came. Fix: such a read says so.
#[test]
fn bytes_behind_a_descriptor_are_read_at_once() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let (stream, peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let stream = UnixStream::from_std(stream).unwrap();
        let (mut sent, gone) = std::io::pipe().unwrap();
        for _ in 0..3 {
            sleep(Duration::from_millis(10)).await;
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut descriptors = SendAncillaryBuffer::new(&mut space);
            let fds = [gone.as_fd()];
            assert!(descriptors.push(SendAncillaryMessage::ScmRights(&fds)));
            sendmsg(&peer, &[IoSlice::new(b"abc")], &mut descriptors, SendFlags::empty()).unwrap();
            (&peer).write_all(b"def").unwrap();
            // The events come and go.
            sleep(Duration::from_millis(10)).await;
            let mut first = [0; 100];
            assert_eq!(timeout(Duration::from_secs(20), stream.read(&mut first)).await.unwrap().unwrap(), 3);
            let mut second = [0; 100];
            let mut buffers = [IoSliceMut::new(&mut second)];
            let read = timeout(Duration::from_secs(20), stream.read_vectored(&mut buffers)).await;
            assert_eq!(read.expect("bytes are there").unwrap(), 3);
            assert_eq!((&first[..3], &second[..3]), (&b"abc"[..], &b"def"[..]));
        }
        // What came is closed: the pipe has no writer left.
        drop(gone);
        assert_eq!(sent.read(&mut [0]).unwrap(), 0);
    });
}

/// Bug: what waited for a socket and was dropped left its waker there until the next event.
/// Consequence: memory of tasks that are over, and wake-ups of tasks that wait for something else.
/// Fix: it takes its waker along, and nobody else's.
#[test]
fn who_gives_up_waiting_for_a_socket_leaves_no_waker() {
    struct Counted(AtomicUsize);
    impl std::task::Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let runtime = runtime(1);
    let waker = Arc::new(Counted(AtomicUsize::new(0)));
    let task_waker = std::task::Waker::from(Arc::clone(&waker));
    let mut cx = std::task::Context::from_waker(&task_waker);
    let held = || Arc::strong_count(&waker);
    let (listener, stream, peer) = runtime.block_on(async {
        let (stream, peer) = UnixStream::pair().unwrap();
        (TcpListener::bind(LOOPBACK.into()).unwrap(), stream, peer)
    });
    let full = vec![1; 10_000_000];
    for _ in 0..3 {
        let (mut one, mut two, mut three) = ([0; 10], [0; 10], [0; 10]);
        let mut accept = Box::pin(listener.accept());
        let mut first = Box::pin(stream.read(&mut one));
        let mut second = Box::pin(stream.read(&mut two));
        let mut third = Box::pin(stream.read_exact(&mut three));
        let mut write = Box::pin(stream.write_all(&full));
        // Polled more than once, too.
        for _ in 0..3 {
            assert!(accept.as_mut().poll(&mut cx).is_pending());
            assert!(first.as_mut().poll(&mut cx).is_pending());
            assert!(second.as_mut().poll(&mut cx).is_pending());
            assert!(third.as_mut().poll(&mut cx).is_pending());
            assert!(write.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(held(), 2 + 5);
        drop((accept, second, third, write));
        assert_eq!(held(), 2 + 1);
        // The one that is left is woken.
        let before = waker.0.load(Ordering::SeqCst);
        runtime.block_on(peer.write_all(b"x")).unwrap();
        assert_eq!(runtime.block_on(first).unwrap(), 1);
        assert!(waker.0.load(Ordering::SeqCst) - before <= 1);
        // Whoever wakes may be at it still.
        let until = Instant::now() + Duration::from_secs(20);
        while held() > 2 {
            assert!(Instant::now() < until, "a waker is left");
        }
    }
}

fn fastrand_bit() -> bool {
    rand::random()
}

#[test]
fn sockets_of_the_file_system_and_of_the_standard_library_work() {
    let runtime = runtime(1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    runtime.block_on(async {
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(&*path));
        let server = spawn(Pool::User, async move {
            let stream = listener.accept().await.unwrap();
            stream.write_all(b"hello").await.unwrap();
        });
        let stream = UnixStream::connect(&path).unwrap();
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).await.unwrap();
        assert_eq!(&hello, b"hello");
        server.await.unwrap();
        assert!(UnixStream::connect(dir.path().join("nobody")).is_err());

        let listener = std::net::TcpListener::bind(SocketAddr::from(LOOPBACK)).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let stream = TcpStream::from_std(std::net::TcpStream::connect(address).unwrap()).unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        assert_eq!((stream.peer_addr().unwrap(), peer.local_addr().unwrap()), (address, address));
        stream.write_all(b"hello").await.unwrap();
        peer.read_exact(&mut hello).await.unwrap();
    });
}

#[test]
fn a_peer_that_blocks_is_served_beside_others() {
    // A client of the standard library, on a thread of its own.
    let runtime = runtime(1);
    let address = runtime.block_on(async {
        let listener = TcpListener::bind(LOOPBACK.into()).unwrap();
        let address = listener.local_addr().unwrap();
        drop(spawn(Pool::User, async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                drop(spawn(Pool::User, async move {
                    let mut byte = [0];
                    while stream.read(&mut byte).await.unwrap() > 0 {
                        stream.write_all(&byte).await.unwrap();
                    }
                }));
            }
        }));
        address
    });
    let clients: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                for n in 0..500_u32 {
                    stream.write_all(&[n as u8]).unwrap();
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    assert_eq!(byte, [n as u8]);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

/// What `f` gives, if it comes to its end.
fn in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (told, tell) = mpsc::channel();
    std::thread::spawn(move || told.send(f()));
    tell.recv_timeout(Duration::from_secs(20)).expect("it does not wait for ever")
}

/// Bug: nobody was left to hear of sockets. Consequence: who waited for one outside of the
/// runtime's tasks when it shut down, or later, waited for ever. Fix: that fails.
#[test]
fn waiting_for_a_socket_fails_after_the_end() {
    let runtime = Builder::new().threads(1).build().unwrap();
    let handle = runtime.handle().clone();
    let (stream, peer) = runtime.block_on(async { UnixStream::pair().unwrap() });
    let reader = handle.clone();
    let (begun, has_begun) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        reader.block_on(async {
            begun.send(()).unwrap();
            (stream.read(&mut [0; 8]).await, stream)
        })
    });
    has_begun.recv().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    drop(runtime);
    let (read, stream) = in_time(move || reader.join().unwrap());
    assert!(read.unwrap_err().to_string().contains("has shut down"));
    in_time(move || {
        handle.block_on(async {
            // What need not wait is done.
            peer.write_all(b"bytes").await.unwrap();
            assert!(stream.read(&mut [0; 8]).await.unwrap_err().to_string().contains("has shut down"));
            assert_eq!(peer.write_all(&vec![0; 10_000_000]).await.unwrap_err().kind(), std::io::ErrorKind::Other);
            let (late, peer) = UnixStream::pair().unwrap();
            peer.write_all(b"bytes").await.unwrap();
            let mut bytes = [0; 8];
            assert_eq!(late.read(&mut bytes).await.unwrap(), 5);
            assert!(late.read(&mut bytes).await.is_err());
        });
    });
}

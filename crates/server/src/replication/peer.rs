//! What nodes ask each other, on the port that clients use.
//!
//! ```text
//! asks    ─► [TLS]  length, "COLI", nonce (32), what (1), name          in place of a client's start packet
//! answers ◄─ 'R' nonce (32) proof (32)                                   or 'E' and why not
//! asks    ─► proof (32)
//! answers ◄─ 'O', then pieces: length (4), bytes; a length of zero; a code (32) for all bytes
//! ```
//! With the request for a session come pieces behind the proof, too, and the answer is no pieces:
//! see [`super::relay`].
//!
//! The proofs and the code are HMAC-SHA-256 by the cluster's secret, of both nonces, the request and
//! the certificate that the connection was encrypted with. The secret itself is never sent.
//!
//! Invariants:
//! 1. Nothing of a database is sent to anybody who has not proved to know the secret.
//! 2. Who asks takes nothing for whole that has no right code behind it. So somebody in between can
//!    end a copy, and not change it. Without TLS they can read it.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use ring::hmac;

use crate::auth::scram;
use crate::tls;

/// Stands in the place of the protocol's version: "COLI".
pub(crate) const CODE: i32 = 0x434F_4C49;
/// PostgreSQL's request for TLS.
const SSL: i32 = 80_877_103;
pub(crate) const NONCE_BYTES: usize = 32;
pub(crate) const PROOF_BYTES: usize = 32;
const NAME_BYTES_MAX: usize = 255;
/// The longest piece of an answer, in bytes.
pub(crate) const PIECE_BYTES_MAX: usize = 1 << 18;
/// How long a connection may take to be made, and how long nothing may come.
const CONNECT_MAX: Duration = Duration::from_secs(3);
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// The same for what is answered at once: an administrator waits for it.
const SHORT_SILENCE_MAX: Duration = Duration::from_secs(3);

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum What {
    /// A copy of a database, by its number.
    Copy = b'C',
    /// Where the node's databases stand, as JSON.
    Standing = b'S',
    /// A session, which a client of the asking node has: see [`super::relay`].
    Session = b'F',
    /// The cancellation of what such a session does, by its number and key.
    Cancel = b'K',
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) nonce: [u8; NONCE_BYTES],
    pub(crate) what: What,
    pub(crate) name: String,
}

impl Request {
    /// Reads what stands behind the code in the packet.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (nonce, rest) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let (&what, name) = rest.split_first()?;
        let known = [What::Copy, What::Standing, What::Session, What::Cancel];
        let what = known.into_iter().find(|&known| known as u8 == what)?;
        let name = std::str::from_utf8(name).ok().filter(|name| name.len() <= NAME_BYTES_MAX)?;
        Some(Self { nonce: *nonce, what, name: name.to_owned() })
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut packet = (8 + NONCE_BYTES as i32 + 1 + self.name.len() as i32).to_be_bytes().to_vec();
        packet.extend_from_slice(&CODE.to_be_bytes());
        packet.extend_from_slice(&self.nonce);
        packet.push(self.what as u8);
        packet.extend_from_slice(self.name.as_bytes());
        packet
    }
}

/// What proofs are made of: the request, the other nonce, and the certificate of the connection.
pub(crate) struct Transcript {
    key: hmac::Key,
    about: Vec<u8>,
}

impl Transcript {
    pub(crate) fn new(secret: &[u8; 32], request: &Request, nonce: &[u8; NONCE_BYTES], binding: Option<&[u8]>) -> Self {
        let mut about = request.write();
        about.extend_from_slice(nonce);
        about.extend_from_slice(binding.unwrap_or_default());
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), about }
    }

    fn with(&self, role: &[u8]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(role);
        context.update(&self.about);
        context
    }

    /// The proof of who answers.
    pub(crate) fn answerer(&self) -> [u8; PROOF_BYTES] {
        bytes_of(self.with(b"answers ").sign())
    }

    /// The proof of who asks.
    pub(crate) fn asker(&self) -> [u8; PROOF_BYTES] {
        bytes_of(self.with(b"asks    ").sign())
    }

    /// The code of what is sent with a request, behind the proof.
    pub(crate) fn code_of_request(&self) -> Code {
        Code(self.with(b"request "))
    }

    /// The code of what is answered, which is added piece by piece.
    pub(crate) fn code(&self) -> Code {
        Code(self.with(b"contents"))
    }
}

fn bytes_of(tag: hmac::Tag) -> [u8; PROOF_BYTES] {
    let mut bytes = [0; PROOF_BYTES];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

/// Compares proofs in a time that does not depend on them.
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    use subtle::ConstantTimeEq as _;
    one.ct_eq(other).into()
}

/// The code of an answer.
pub(crate) struct Code(hmac::Context);

impl Code {
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn end(self) -> [u8; PROOF_BYTES] {
        bytes_of(self.0.sign())
    }
}

/// A connection, and the digest of the certificate that it is encrypted with.
type Connected = (Box<dyn Wire>, Option<Vec<u8>>);

trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// An answer as it comes. Reading it ends with an error unless all of it has come unchanged.
pub(crate) struct Answer {
    wire: Box<dyn Wire>,
    code: Option<Code>,
    left: usize,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Asks a node.
///
/// # Errors
/// If it cannot be reached, does not know the secret, or refuses.
pub(crate) fn ask(address: &str, secret: &[u8; 32], what: What, name: &str) -> io::Result<Answer> {
    let silence_max = if what == What::Standing { SHORT_SILENCE_MAX } else { SILENCE_MAX };
    let (mut wire, binding) = connect(address, silence_max)?;
    let nonce = scram::random().map_err(|error| io::Error::other(error.to_string()))?;
    let request = Request { nonce, what, name: name.to_owned() };
    wire.write_all(&request.write())?;
    wire.flush()?;
    expect(&mut wire, b'R')?;
    let (mut theirs, mut proof) = ([0; NONCE_BYTES], [0; PROOF_BYTES]);
    wire.read_exact(&mut theirs)?;
    wire.read_exact(&mut proof)?;
    let transcript = Transcript::new(secret, &request, &theirs, binding.as_deref());
    if !is_same(&proof, &transcript.answerer()) {
        return Err(wrong("it does not know the secret of this cluster"));
    }
    wire.write_all(&transcript.asker())?;
    wire.flush()?;
    expect(&mut wire, b'O')?;
    Ok(Answer { wire, code: Some(transcript.code()), left: 0 })
}

/// A connection, encrypted if the node has a certificate. Who the node is does not come from the
/// certificate: its digest is part of what both sides prove.
fn connect(address: &str, silence_max: Duration) -> io::Result<Connected> {
    let addresses = address.to_socket_addrs()?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Err(error) => last = error,
            Ok(mut stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(silence_max))?;
                stream.set_write_timeout(Some(silence_max))?;
                stream.write_all(&8_i32.to_be_bytes())?;
                stream.write_all(&SSL.to_be_bytes())?;
                let mut answer = [0];
                stream.read_exact(&mut answer)?;
                return match &answer {
                    b"S" => {
                        let (stream, binding) = tls::connect(stream)?;
                        Ok((Box::new(stream), binding))
                    }
                    b"N" => Ok((Box::new(stream), None)),
                    _ => Err(wrong("it is no server of Colibri")),
                };
            }
        }
    }
    Err(last)
}

/// Reads the first byte of a message, or why there is none.
fn expect(wire: &mut impl Read, kind: u8) -> io::Result<()> {
    let mut found = [0];
    wire.read_exact(&mut found)?;
    if found[0] == kind {
        return Ok(());
    }
    if found[0] != b'E' {
        return Err(wrong("it is no server of Colibri, or one of another version"));
    }
    let mut why = Vec::new();
    wire.take(1024).read_to_end(&mut why)?;
    // A server that does not know the request answers as it does to clients.
    let why = String::from_utf8_lossy(&why);
    let shown: String = why.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
    Err(io::Error::other(format!("it refuses: {}", shown.trim_ascii())))
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(code) = &mut self.code else { return Ok(0) };
        if self.left == 0 {
            let mut length = [0; 4];
            self.wire.read_exact(&mut length)?;
            self.left = u32::from_be_bytes(length) as usize;
            if self.left > PIECE_BYTES_MAX {
                return Err(wrong("a piece of the answer is too long"));
            }
            if self.left == 0 {
                let mut theirs = [0; PROOF_BYTES];
                self.wire.read_exact(&mut theirs)?;
                let code = self.code.take().map(Code::end).unwrap_or_default();
                return if is_same(&code, &theirs) { Ok(0) } else { Err(wrong("the answer was changed on its way")) };
            }
        }
        let length = self.left.min(buffer.len());
        self.wire.read_exact(&mut buffer[..length])?;
        code.add(&buffer[..length]);
        self.left -= length;
        Ok(length)
    }
}

impl Answer {
    /// Reads what is left, which has to be nothing, and the code behind it.
    ///
    /// # Errors
    /// If there is more, or the code is wrong.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        match self.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(wrong("there is more than was expected")),
        }
    }
}

/// An answer that several readers share: the one who takes the copy, and the one who checks its
/// end.
pub(crate) struct SharedAnswer(pub(crate) Arc<parking_lot::Mutex<Answer>>);

impl Read for SharedAnswer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.lock().read(buffer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::net::TcpListener;

    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn request() -> Request {
        Request { nonce: [1; NONCE_BYTES], what: What::Copy, name: "5".to_owned() }
    }

    #[test]
    fn a_request_comes_back_and_each_cut_is_noticed_or_another_name() {
        let packet = request().write();
        assert_eq!(packet.len(), i32::from_be_bytes(packet[..4].try_into().unwrap()) as usize);
        assert_eq!(Request::read(&packet[8..]), Some(request()));
        assert_eq!(Request::read(&packet[8..8 + NONCE_BYTES]), None);
        let mut unknown = packet;
        unknown[8 + NONCE_BYTES] = b'?';
        assert_eq!(Request::read(&unknown[8..]), None);
    }

    #[test]
    fn proofs_differ_by_secret_role_nonce_request_and_certificate() {
        let nonce = [2; NONCE_BYTES];
        let base = Transcript::new(&SECRET, &request(), &nonce, None);
        let other = Request { name: "6".to_owned(), ..request() };
        let all = [
            base.asker(),
            base.answerer(),
            base.code().end(),
            Transcript::new(&[8; 32], &request(), &nonce, None).asker(),
            Transcript::new(&SECRET, &request(), &[3; NONCE_BYTES], None).asker(),
            Transcript::new(&SECRET, &other, &nonce, None).asker(),
            Transcript::new(&SECRET, &request(), &nonce, Some(b"certificate")).asker(),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one), "{at}");
        }
    }

    /// Answers one request, and spoils a byte of the contents or knows another secret.
    fn serve(listener: TcpListener, secret: [u8; 32], contents: &'static [u8], spoilt: bool) {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut ssl = [0; 8];
            stream.read_exact(&mut ssl).unwrap();
            stream.write_all(b"N").unwrap();
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut packet = vec![0; i32::from_be_bytes(length) as usize - 4];
            stream.read_exact(&mut packet).unwrap();
            let request = Request::read(&packet[4..]).unwrap();
            let nonce = [9; NONCE_BYTES];
            let transcript = Transcript::new(&secret, &request, &nonce, None);
            stream.write_all(&[&b"R"[..], &nonce, &transcript.answerer()].concat()).unwrap();
            let mut proof = [0; PROOF_BYTES];
            if stream.read_exact(&mut proof).is_err() {
                return;
            }
            assert_eq!(proof, transcript.asker());
            let mut code = transcript.code();
            code.add(contents);
            let mut sent = contents.to_vec();
            sent[0] ^= u8::from(spoilt);
            let length = (contents.len() as u32).to_be_bytes();
            stream.write_all(&[&b"O"[..], &length, &sent, &[0; 4], &code.end()].concat()).unwrap();
        });
    }

    #[test]
    fn an_answer_is_taken_only_if_it_came_unchanged_from_who_knows_the_secret() {
        let taken = |secret, spoilt| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            serve(listener, secret, b"contents", spoilt);
            let mut all = Vec::new();
            ask(&address, &SECRET, What::Copy, "5")?.read_to_end(&mut all).map(|_| all)
        };
        assert_eq!(taken(SECRET, false).unwrap(), b"contents");
        assert!(taken(SECRET, true).is_err());
        assert!(taken([8; 32], false).is_err());
    }
}

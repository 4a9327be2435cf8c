//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side, with and without binding to the TLS
//! connection.
//!
//! ```text
//! client: n,,n=,r=NONCE                       server: r=NONCE+OURS,s=SALT,i=ITERATIONS
//! client: c=biws,r=NONCE+OURS,p=PROOF         server: v=SIGNATURE
//! ```
//!
//! The name in the client's first message is not used: PostgreSQL's clients leave it empty, as the
//! start of the session has named the role.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use colibri_sql::{Error, SqlState};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use subtle::ConstantTimeEq;

use crate::protocol::violation;

/// Without and with binding to TLS.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
pub(crate) const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
/// PostgreSQL's default.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4_096).expect("it is not zero");

/// As many as are tried in a statement: some 10 ms.
const ITERATIONS_TRIED_MAX: u32 = 50_000;

type Key = [u8; KEY_BYTES];

/// What a password is checked with. It does not give the password away, nor does it log in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

fn sign(key: &[u8], text: &[u8]) -> Key {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    tag.as_ref().try_into().expect("the length of SHA-256")
}

fn hash(bytes: &[u8]) -> Key {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().expect("the length of SHA-256")
}

/// Random bytes.
///
/// # Errors
/// If the system gives none.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(Error::internal("the system gives no random numbers")),
    }
}

impl Verifier {
    fn derive(password: &str, salt: &[u8], iterations: NonZeroU32) -> Self {
        // What SASLprep does not allow is taken as it is, as PostgreSQL and its clients do.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let mut salted = Key::default();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, prepared.as_bytes(), &mut salted);
        let stored_key = hash(&sign(&salted, b"Client Key"));
        Self { iterations, salt: salt.to_vec(), stored_key, server_key: sign(&salted, b"Server Key") }
    }

    /// For a new password.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(crate) fn new(password: &str) -> Result<Self, Error> {
        Ok(Self::derive(password, &random::<SALT_BYTES>()?, ITERATIONS))
    }

    /// As PostgreSQL keeps it: `SCRAM-SHA-256$4096:SALT$STORED:SERVER`.
    pub(crate) fn to_text(&self) -> String {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        format!("{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }

    /// Reads what [`Verifier::to_text`] gives, and PostgreSQL.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text| BASE64.decode(text).ok()?.try_into().ok();
        Some(Self {
            iterations: iterations.parse().ok()?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }

    /// Whether it is that of the empty password. One with more iterations than can be tried without
    /// keeping others waiting is taken for another's.
    pub(crate) fn is_of_nothing(&self) -> bool {
        self.iterations.get() <= ITERATIONS_TRIED_MAX && Self::derive("", &self.salt, self.iterations) == *self
    }

    /// What stands for the verifier of a name that has none: the same whenever it is asked for, so
    /// that it tells nothing.
    fn mock(secret: &[u8], user: &str) -> Self {
        let salt = sign(secret, user.as_bytes())[..SALT_BYTES].to_vec();
        Self { iterations: ITERATIONS, salt, stored_key: Key::default(), server_key: Key::default() }
    }
}

/// How a login is bound to the TLS connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Binding<'a> {
    /// There is no TLS, or the certificate has no digest to bind to.
    None,
    /// The digest of the certificate.
    EndPoint(&'a [u8]),
}

/// An exchange between the client's first message and its last.
pub(crate) struct Exchange {
    verifier: Verifier,
    /// Whether there is such a password at all.
    is_real: bool,
    /// The header of the client's first message, with what it binds to.
    header: Vec<u8>,
    /// Client's first message without header, and the server's.
    transcript: String,
    nonce: String,
}

/// What a client's message may not contain goes no further.
fn malformed(detail: &str) -> Error {
    violation("malformed SCRAM message").detail(detail)
}

fn attribute<'a>(parts: &mut std::str::Split<'a, char>, name: char) -> Result<&'a str, Error> {
    let part = parts.next().unwrap_or_default();
    match part.strip_prefix(name).and_then(|part| part.strip_prefix('=')) {
        Some(value) => Ok(value),
        None => Err(malformed(&format!("Expected attribute \"{name}\"."))),
    }
}

impl Exchange {
    /// Reads the client's first message; gives what to answer. `verifier` is the role's, if there
    /// is a role, and it has one.
    ///
    /// # Errors
    /// 08P01 if the message is malformed, 28000 if it says that this server cannot bind, though it
    /// has said that it can.
    pub(crate) fn begin(
        verifier: Option<&str>,
        secret: &[u8],
        user: &str,
        mechanism: &str,
        binding: Binding<'_>,
        first: &[u8],
    ) -> Result<(Self, String), Error> {
        let first = std::str::from_utf8(first).map_err(|_| malformed("The message is not UTF-8."))?;
        let mut header_parts = first.splitn(3, ',');
        let (flag, authzid, bare) = match (header_parts.next(), header_parts.next(), header_parts.next()) {
            (Some(flag), Some(authzid), Some(bare)) => (flag, authzid, bare),
            _ => return Err(malformed("The message ends early.")),
        };
        if !authzid.is_empty() {
            let message = "client uses authorization identity, but it is not supported";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let mut header = first.as_bytes()[..first.len() - bare.len()].to_vec();
        match (flag, binding) {
            ("n", _) if mechanism == MECHANISM => {}
            ("y", Binding::None) if mechanism == MECHANISM => {}
            ("y", Binding::EndPoint(_)) => {
                // An attacker in between has removed the offer.
                let message = "SCRAM channel binding negotiation error";
                return Err(Error::new(SqlState("28000"), message)
                    .detail("The client supports SCRAM channel binding but thinks the server does not."));
            }
            ("p=tls-server-end-point", Binding::EndPoint(end_point)) if mechanism == MECHANISM_PLUS => {
                header.extend_from_slice(end_point);
            }
            _ => return Err(malformed("The channel binding does not fit the mechanism.")),
        }
        if bare.starts_with("m=") {
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, "client requires an unsupported SCRAM extension"));
        }
        let mut parts = bare.split(',');
        attribute(&mut parts, 'n')?;
        let theirs = attribute(&mut parts, 'r')?;
        if theirs.is_empty() || !theirs.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(malformed("The nonce has characters that cannot be printed."));
        }
        let real = verifier.and_then(Verifier::parse);
        let is_real = real.is_some();
        let verifier = real.unwrap_or_else(|| Verifier::mock(secret, user));
        let nonce = format!("{theirs}{}", BASE64.encode(random::<NONCE_BYTES>()?));
        let answer = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let transcript = format!("{bare},{answer}");
        Ok((Self { verifier, is_real, header, transcript, nonce }, answer))
    }

    /// Reads the client's last message; gives what to answer, or `None` if the password is wrong.
    ///
    /// # Errors
    /// 08P01 if the message is malformed.
    pub(crate) fn finish(self, last: &[u8]) -> Result<Option<String>, Error> {
        let last = std::str::from_utf8(last).map_err(|_| malformed("The message is not UTF-8."))?;
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or_else(|| malformed("Expected attribute \"p\"."))?;
        let mut parts = without_proof.split(',');
        let header = BASE64.decode(attribute(&mut parts, 'c')?).map_err(|_| malformed("\"c\" is not base64."))?;
        let nonce = attribute(&mut parts, 'r')?;
        let proof: Key = BASE64
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or_else(|| malformed("The proof is malformed."))?;
        if nonce != self.nonce {
            return Err(violation("invalid SCRAM response").detail("Nonce does not match."));
        }
        let transcript = format!("{},{without_proof}", self.transcript);
        let signature = sign(&self.verifier.stored_key, transcript.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        let is_right = hash(&client_key).ct_eq(&self.verifier.stored_key) & header.ct_eq(&self.header);
        if !(bool::from(is_right) && self.is_real) {
            return Ok(None);
        }
        let server = sign(&self.verifier.server_key, transcript.as_bytes());
        Ok(Some(format!("v={}", BASE64.encode(server))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// A client, as the RFC has it.
    fn prove(password: &str, header: &[u8], bare: &str, answer: &str) -> String {
        let field = |name: &str| answer.split(',').find_map(|part| part.strip_prefix(name)).unwrap();
        let salt = BASE64.decode(field("s=")).unwrap();
        let iterations: NonZeroU32 = field("i=").parse().unwrap();
        let mut salted = Key::default();
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        let without_proof = format!("c={},r={}", BASE64.encode(header), field("r="));
        let signature = sign(&hash(&client_key), format!("{bare},{answer},{without_proof}").as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, mask)| key ^ mask).collect();
        format!("{without_proof},p={}", BASE64.encode(proof))
    }

    fn log_in(verifier: Option<&str>, password: &str) -> Option<String> {
        let bare = "n=,r=abc";
        let first = format!("n,,{bare}");
        let begun = Exchange::begin(verifier, b"secret", "me", MECHANISM, Binding::None, first.as_bytes());
        let (exchange, answer) = begun.unwrap();
        exchange.finish(prove(password, b"n,,", bare, &answer).as_bytes()).unwrap()
    }

    #[test]
    fn the_exchange_of_the_rfc_is_understood() {
        // RFC 7677, section 3.
        let verifier = Verifier::derive("pencil", &BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap(), ITERATIONS);
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let exchange = Exchange {
            verifier,
            is_real: true,
            header: b"n,,".to_vec(),
            transcript: format!("n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"),
            nonce: nonce.to_owned(),
        };
        let last = format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let answer = exchange.finish(last.as_bytes()).unwrap();
        assert_eq!(answer.unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn the_right_password_logs_in_and_no_other() {
        let verifier = Verifier::new("café\u{a0}1").unwrap().to_text();
        assert!(verifier.starts_with("SCRAM-SHA-256$4096:"));
        assert_eq!(Verifier::parse(&verifier).unwrap().to_text(), verifier);
        // SASLprep makes a space of the one that does not break.
        assert!(log_in(Some(&verifier), "café 1").is_some());
        for wrong in ["", "cafe 1", "café 2"] {
            assert!(log_in(Some(&verifier), wrong).is_none());
        }
    }

    #[test]
    fn a_name_without_a_password_looks_like_any_other() {
        let salt_of = |user: &str| {
            let first = Exchange::begin(None, b"secret", user, MECHANISM, Binding::None, b"n,,n=,r=abc");
            first.unwrap().1.split(',').nth(1).unwrap().to_owned()
        };
        assert_eq!(salt_of("nobody"), salt_of("nobody"));
        assert_ne!(salt_of("nobody"), salt_of("somebody"));
        assert!(log_in(None, "x").is_none());
        assert!(log_in(Some("md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), "x").is_none());
    }

    #[test]
    fn a_binding_that_was_taken_out_on_the_way_is_noticed() {
        let verifier = Verifier::new("x").unwrap().to_text();
        let begin = |mechanism, binding, first: &str| {
            Exchange::begin(Some(&verifier), b"secret", "me", mechanism, binding, first.as_bytes())
        };
        let end_point = Binding::EndPoint(b"digest");
        assert_eq!(begin(MECHANISM, end_point, "y,,n=,r=a").err().unwrap().state().0, "28000");
        assert!(begin(MECHANISM, Binding::None, "y,,n=,r=a").is_ok());
        assert!(begin(MECHANISM, end_point, "p=tls-server-end-point,,n=,r=a").is_err());
        assert!(begin(MECHANISM_PLUS, Binding::None, "p=tls-server-end-point,,n=,r=a").is_err());
        let (bare, header) = ("n=,r=a", "p=tls-server-end-point,,");
        for (bound_to, is_right) in [(&b"digest"[..], true), (b"another", false)] {
            let (exchange, answer) = begin(MECHANISM_PLUS, end_point, &format!("{header}{bare}")).unwrap();
            let last = prove("x", &[header.as_bytes(), bound_to].concat(), bare, &answer);
            assert_eq!(exchange.finish(last.as_bytes()).unwrap().is_some(), is_right);
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let verifier = Verifier::new("x").unwrap().to_text();
        for _ in 0..5_000 {
            let mut text = |alphabet: &[u8]| -> Vec<u8> {
                (0..random.usize(..30)).map(|_| *random.choice(alphabet).unwrap()).collect()
            };
            let (first, last) = (text(b"ny,,,=rabc\xff"), text(b"c=biws,,rp=+/\xff"));
            let begin =
                |first: &[u8]| Exchange::begin(Some(&verifier), b"secret", "me", MECHANISM, Binding::None, first);
            _ = begin(&first);
            assert!(!matches!(begin(b"n,,n=,r=a").unwrap().0.finish(&last), Ok(Some(_))));
        }
    }
}

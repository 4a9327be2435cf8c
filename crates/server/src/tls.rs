//! TLS, by rustls: certificates, and a connection's two directions.
//!
//! Not here: sockets. Bytes come in and go out through buffers of [`crate::link::Link`].

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use colibri_sql::cluster::Encryption;
use ring::digest;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, Connection, ProtocolVersion, ServerConfig, ServerConnection};

/// The protocol's name where TLS comes first, without being asked for.
const ALPN: &[u8] = b"postgresql";

/// A certificate and its key, ready for connections.
#[derive(Debug)]
pub(crate) struct Certificate {
    config: Arc<ServerConfig>,
    /// The channel binding data of SCRAM: a digest of the certificate, if one is defined for its
    /// signature algorithm.
    binding: Option<Vec<u8>>,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the {what} {path}: {source}")]
    Unreadable {
        /// What it should hold.
        what: &'static str,
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file is there and holds nothing of the kind.
    #[error("{path} holds no {what} in PEM: {reason}")]
    NotPem {
        /// What it should hold.
        what: &'static str,
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key do not belong together, or are of a kind that is not supported.
    #[error("the certificate cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

impl TlsError {
    fn of_file(what: &'static str, path: &Path, error: pem::Error) -> Self {
        let path = path.display().to_string();
        let reason = match error {
            pem::Error::Io(source) => return Self::Unreadable { what, path, source },
            pem::Error::NoItemsFound => "there is none in it".to_owned(),
            pem::Error::MissingSectionEnd { .. } => "it breaks off".to_owned(),
            error => error.to_string(),
        };
        Self::NotPem { what, path, reason }
    }
}

impl Certificate {
    /// Reads a certificate, those of its issuers behind it, and its key, from PEM files.
    ///
    /// # Errors
    /// If the files cannot be read, or do not fit.
    pub(crate) fn load(certificates: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| TlsError::of_file("certificate", certificates, error))?;
        let first =
            chain.first().ok_or_else(|| TlsError::of_file("certificate", certificates, pem::Error::NoItemsFound))?;
        let binding = end_point(first);
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::of_file("private key", key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A session that is resumed saves a handshake, and costs memory for each that might be.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), binding })
    }
}

/// `tls-server-end-point` of RFC 5929: the certificate's digest, by the algorithm with which it is
/// signed.
fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    // Object identifiers in DER. The one in the signed part comes first, and names the same
    // algorithm as the one behind it.
    const SHA256: [&[u8]; 2] =
        [b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"];
    const SHA384: [&[u8]; 2] =
        [b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x03"];
    const SHA512: [&[u8]; 2] =
        [b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x04"];
    let der: &[u8] = certificate;
    let has = |ids: [&[u8]; 2]| ids.iter().any(|id| der.windows(id.len()).any(|window| window == *id));
    let algorithm = match (has(SHA256), has(SHA384), has(SHA512)) {
        (true, false, false) => &digest::SHA256,
        (false, true, false) => &digest::SHA384,
        (false, false, true) => &digest::SHA512,
        _ => return None,
    };
    Some(digest::digest(algorithm, der).as_ref().to_vec())
}

/// An encrypted connection.
pub(crate) struct Tls {
    connection: Connection,
    /// This server's, for a connection that was made to it.
    certificate: Option<Arc<Certificate>>,
    /// Encrypted bytes that are not sent yet.
    pub(crate) sealed: Vec<u8>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("sealed", &self.sealed.len()).finish_non_exhaustive()
    }
}

impl Tls {
    pub(crate) fn new(certificate: Arc<Certificate>) -> Result<Self, TlsError> {
        let mut connection = ServerConnection::new(Arc::clone(&certificate.config))?;
        // The caller bounds the bytes to be encrypted.
        connection.set_buffer_limit(None);
        Ok(Self { connection: connection.into(), certificate: Some(certificate), sealed: Vec::new() })
    }

    /// A connection that this server makes to another node of the cluster: see [`connect`].
    ///
    /// # Errors
    /// If there is no encryption that can be used.
    pub(crate) fn to_node() -> io::Result<Self> {
        let mut connection = to_any_certificate()?;
        connection.set_buffer_limit(None);
        Ok(Self { connection: connection.into(), certificate: None, sealed: Vec::new() })
    }

    /// The channel binding data of SCRAM.
    pub(crate) fn binding(&self) -> Option<&[u8]> {
        self.certificate.as_ref()?.binding.as_deref()
    }

    /// The same of the other node's certificate, once it has shown that.
    pub(crate) fn binding_of_node(&self) -> Option<Vec<u8>> {
        end_point(self.connection.peer_certificates()?.first()?)
    }

    /// What the two sides have agreed on, once they have.
    pub(crate) fn encryption(&self) -> Option<Encryption> {
        let version = match self.connection.protocol_version()? {
            ProtocolVersion::TLSv1_3 => "TLSv1.3",
            ProtocolVersion::TLSv1_2 => "TLSv1.2",
            _ => return None,
        };
        let suite = format!("{:?}", self.connection.negotiated_cipher_suite()?.suite());
        let bits = if suite.contains("AES_128") { 128 } else { 256 };
        let cipher = match suite.strip_prefix("TLS13_") {
            Some(name) => format!("TLS_{name}"),
            // Older ones have other names there: ECDHE-RSA-AES256-GCM-SHA384.
            None => {
                let name = suite.trim_start_matches("TLS_").replace("_WITH_", "_").replace("AES_", "AES");
                name.replace('_', "-").replace("-POLY1305-SHA256", "-POLY1305")
            }
        };
        Some(Encryption { version, cipher: cipher.into(), bits })
    }

    /// Takes received bytes, and passes on the decrypted ones. Gives whether there were any, and
    /// whether they were the last.
    pub(crate) fn receive(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8])) -> io::Result<(bool, bool)> {
        let (mut is_news, mut is_over) = (false, false);
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes)?;
            let state = match self.connection.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The client gets an alert with the reason, if it still reads.
                    _ = self.connection.write_tls(&mut self.sealed);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            };
            is_over |= state.peer_has_closed();
            let mut left = state.plaintext_bytes_to_read();
            let mut plain = [0; 4096];
            while left > 0 {
                let read = self.connection.reader().read(&mut plain[..left.min(4096)])?;
                take(&plain[..read]);
                (left, is_news) = (left - read, true);
            }
            if is_over {
                break;
            }
        }
        Ok((is_news, is_over))
    }

    /// Encrypts `plain`, which is empty then.
    pub(crate) fn seal(&mut self, plain: &mut Vec<u8>) -> io::Result<()> {
        if !plain.is_empty() {
            self.connection.writer().write_all(plain)?;
            plain.clear();
        }
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.sealed)?;
        }
        Ok(())
    }

    pub(crate) fn say_goodbye(&mut self) {
        self.connection.send_close_notify();
    }
}

/// A connection to another node of the cluster, or to an object store.
pub(crate) type ClientStream = rustls::StreamOwned<rustls::ClientConnection, std::net::TcpStream>;

/// Encrypts a connection to another node of the cluster. Any certificate is taken: whom it belongs
/// to is proved by what its digest, which is given as well, is part of.
///
/// # Errors
/// If both cannot agree.
pub(crate) fn connect(mut stream: std::net::TcpStream) -> io::Result<(ClientStream, Option<Vec<u8>>)> {
    let mut connection = to_any_certificate()?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    let binding = connection.peer_certificates().and_then(|chain| end_point(chain.first()?));
    Ok((rustls::StreamOwned::new(connection, stream), binding))
}

/// Where distributions keep the certificates of those whom they trust.
const ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The list of those whose word is taken for the names of servers: `$SSL_CERT_FILE`, or the system's.
pub(crate) fn trusted() -> Option<PathBuf> {
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    given.or_else(|| ROOTS.iter().map(PathBuf::from).find(|file| file.exists()))
}

/// Encrypts a connection to a server of the world, whose certificate has to be for its name, and by
/// somebody in a list (PEM).
///
/// # Errors
/// If the list cannot be read, or the certificate is not valid, or both cannot agree.
pub(crate) fn connect_to(mut stream: std::net::TcpStream, host: &str, trusted: &Path) -> io::Result<ClientStream> {
    let mut connection = to_trusted(trusted, host)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(rustls::StreamOwned::new(connection, stream))
}

fn to_trusted(file: &Path, host: &str) -> io::Result<ClientConnection> {
    let unreadable = |error: pem::Error| io::Error::other(format!("{}: {error}", file.display()));
    let mut roots = rustls::RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(unreadable)?;
    // A list may have some that are too old to be understood.
    roots.add_parsable_certificates(certificates.flatten());
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)
}

fn to_any_certificate() -> io::Result<ClientConnection> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyCertificate(provider.clone()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let name = rustls::pki_types::ServerName::try_from("colibri").map_err(io::Error::other)?;
    ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)
}

/// Checks that the other side has the certificate's key, and nothing about the certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &rustls::pki_types::ServerName<'_>,
        _ocsp_response: &[u8],
        _now: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate_names_the_file_and_what_it_should_hold() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (one, other) = (made(), made());
        fs::write(path("one.crt"), one.cert.pem()).unwrap();
        fs::write(path("one.key"), one.signing_key.serialize_pem()).unwrap();
        fs::write(path("other.key"), other.signing_key.serialize_pem()).unwrap();
        fs::write(path("half.crt"), &one.cert.pem()[..100]).unwrap();
        let said = |certificate: &str, key: &str| {
            let error = Certificate::load(&path(certificate), &path(key)).unwrap_err().to_string();
            error.replace(&format!("{}/", dir.path().display()), "")
        };
        let missing = "No such file or directory (os error 2)";
        assert_eq!(said("no.crt", "one.key"), format!("cannot read the certificate no.crt: {missing}"));
        assert_eq!(said("one.crt", "no.key"), format!("cannot read the private key no.key: {missing}"));
        assert_eq!(said("one.key", "one.key"), "one.key holds no certificate in PEM: there is none in it");
        assert_eq!(said("one.crt", "one.crt"), "one.crt holds no private key in PEM: there is none in it");
        assert_eq!(said("half.crt", "one.key"), "half.crt holds no certificate in PEM: it breaks off");
        assert!(said("one.crt", "other.key").starts_with("the certificate cannot be used: "));
        Certificate::load(&path("one.crt"), &path("one.key")).unwrap();
    }
}

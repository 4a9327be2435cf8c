//! A server of this build as a process, and a client that knows simple queries.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod postgres;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server, which is killed when it is dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Served {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_with(dir, &[])
    }

    /// Starts it with further options.
    pub(crate) fn start_with(dir: &Path, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_colibri"))
            .arg("serve")
            .arg(dir)
            .args(["--listen", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let address = loop {
            let line = lines.next().unwrap_or_else(|| panic!("it did not start: {said:?}")).unwrap();
            if let Some((_, rest)) = line.split_once(" listen=") {
                break rest.split(' ').next().unwrap().trim_matches('"').parse().unwrap();
            }
            said.push(line);
        };
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    pub(crate) fn connect(&self, user: &str) -> Client {
        self.connect_to(user, "postgres")
    }

    pub(crate) fn connect_to(&self, user: &str, database: &str) -> Client {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let parameters = format!("user\0{user}\0database\0{database}\0\0");
        let mut packet = (parameters.len() as i32 + 8).to_be_bytes().to_vec();
        packet.extend_from_slice(&(3_i32 << 16).to_be_bytes());
        packet.extend_from_slice(parameters.as_bytes());
        stream.write_all(&packet).unwrap();
        let mut client = Client { stream };
        client.answer().unwrap();
        client
    }

    /// Ends it, as an administrator would.
    pub(crate) fn end(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

pub(crate) struct Client {
    stream: TcpStream,
}

impl Client {
    /// Runs a text; the first columns of its rows, or the code of its error.
    pub(crate) fn run(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let mut message = vec![b'Q'];
        message.extend_from_slice(&(sql.len() as i32 + 5).to_be_bytes());
        message.extend_from_slice(sql.as_bytes());
        message.push(0);
        self.stream.write_all(&message).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Result<Vec<String>, String> {
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let mut header = [0; 5];
            self.stream.read_exact(&mut header).unwrap();
            let mut body = vec![0; i32::from_be_bytes(header[1..].try_into().unwrap()) as usize - 4];
            self.stream.read_exact(&mut body).unwrap();
            match header[0] {
                b'D' => {
                    let length = i32::from_be_bytes(body[2..6].try_into().unwrap());
                    let value = &body[6..6 + usize::try_from(length).unwrap_or(0)];
                    rows.push(String::from_utf8_lossy(value).into_owned());
                }
                b'E' => {
                    let fields = body.split(|&byte| byte == 0);
                    let code = fields.filter_map(|field| field.strip_prefix(b"C")).next().unwrap_or_default();
                    error = Some(String::from_utf8_lossy(code).into_owned());
                }
                b'Z' => return error.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }
}

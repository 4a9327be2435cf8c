//! Clients whose texts are not UTF-8.

use super::support::{Message, Server, Told, Wire};

fn start() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    (dir, server)
}

fn client(server: &Server, encoding: &str) -> Wire {
    let options = [("user", "postgres"), ("database", "postgres"), ("client_encoding", encoding)];
    Wire::connect(server.address, &options).unwrap()
}

/// The messages up to ReadyForQuery that a text in whatever bytes gives.
fn told(wire: &mut Wire, text: &[u8]) -> Vec<Message> {
    wire.put(b'Q', &[text, b"\0"].concat()).flush();
    until_ready(wire)
}

fn until_ready(wire: &mut Wire) -> Vec<Message> {
    let mut messages = Vec::new();
    while messages.last().is_none_or(|message: &Message| message.kind != b'Z') {
        messages.push(wire.receive().unwrap());
    }
    messages
}

/// The first value of the rows among messages, and its length in front of it.
fn value(messages: &[Message]) -> &[u8] {
    let row = messages.iter().find(|message| message.kind == b'D').unwrap_or_else(|| panic!("{messages:?}"));
    &row.body[6..]
}

fn holds(message: &Message, bytes: &[u8]) -> bool {
    message.body.windows(bytes.len()).any(|part| part == bytes)
}

#[test]
fn texts_come_and_go_in_the_encoding_that_the_client_has_chosen() {
    let (_dir, server) = start();
    let mut cyrillic = client(&server, "windows-1251");
    assert_eq!(cyrillic.parameters["client_encoding"], "WIN1251");
    // A table, a column and a row in Cyrillic letters.
    told(&mut cyrillic, b"CREATE TABLE \xf2 (\xea text)");
    told(&mut cyrillic, b"INSERT INTO \xf2 VALUES ('\xef\xf0\xe8\xe2\xe5\xf2')");
    let read = told(&mut cyrillic, b"SELECT \xea FROM \xf2");
    assert!(holds(&read[0], b"\xea\0"), "{read:?}");
    assert_eq!(value(&read), b"\xef\xf0\xe8\xe2\xe5\xf2");
    // The same for others.
    let mut usual = server.connect();
    assert_eq!(usual.value("SELECT \u{43a} FROM \u{442}"), "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}");
    let mut koi = client(&server, "koi8r");
    assert_eq!(value(&told(&mut koi, b"SELECT \xcb FROM \xd4")), b"\xd0\xd2\xc9\xd7\xc5\xd4");
    // In the middle of a session and of a text.
    let switched = told(&mut usual, b"SET client_encoding = 'utf8'; SET client_encoding = 'alt'; TABLE \xd1\x82");
    assert_eq!(value(&switched), b"\xaf\xe0\xa8\xa2\xa5\xe2");
    assert!(switched.iter().any(|message| message.kind == b'S' && holds(message, b"client_encoding\0WIN866\0")));
    // Some have bytes of ASCII within their characters: 0x5c is none of a backslash here.
    let mut japanese = client(&server, "SJIS");
    assert_eq!(value(&told(&mut japanese, b"SELECT '\x95\x5c', octet_length('\x95\x5c')")), b"\x95\x5c\0\0\0\x013");
    for missing in ["JOHAB", "EUC_TW", "nothing"] {
        let refused = usual.query(&format!("SET client_encoding = '{missing}'")).unwrap_err();
        assert_eq!(refused.code(), "22023", "{missing}");
    }
}

#[test]
fn parameters_and_results_are_converted_in_both_formats() {
    let (_dir, server) = start();
    let mut wire = client(&server, "LATIN1");
    let formats: [&[u8]; 2] = [b"\0\x01\0\0", b"\0\x01\0\x01"];
    for format in formats {
        wire.put(b'P', b"\xe9\0SELECT $1::text || '\xfc', $2::bytea, '\xe8' AS \xe9\0\0\0");
        let mut bind = b"\xf3\0\xe9\0".to_vec();
        bind.extend_from_slice(format);
        bind.extend_from_slice(b"\0\x02\0\0\0\x01\xe9");
        // Bytes in text form are hexadecimal; in binary they are themselves.
        let bytes: &[u8] = if format[3] == 0 { b"\0\0\0\x04\\xe9" } else { b"\0\0\0\x01\xe9" };
        bind.extend_from_slice(bytes);
        bind.extend_from_slice(format);
        wire.put(b'B', &bind).put(b'D', b"P\xf3\0").put(b'E', b"\xf3\0\0\0\0\0");
        wire.put(b'C', b"S\xe9\0").sync().flush();
        let messages = until_ready(&mut wire);
        let description = messages.iter().find(|message| message.kind == b'T').unwrap();
        assert!(holds(description, b"\xe9\0"), "{messages:?}");
        let mut expected = b"\xe9\xfc".to_vec();
        expected.extend_from_slice(bytes);
        expected.extend_from_slice(b"\0\0\0\x01\xe8");
        assert_eq!(value(&messages), expected, "{format:?}");
    }
    // A list of texts in binary form.
    wire.put(b'P', b"\0SELECT array['\xe9', NULL, 'a']\0\0\0").put(b'B', b"\0\0\0\0\0\0\0\x01\0\x01");
    wire.execute("", 0).sync().flush();
    let list = b"\0\0\0\x01\0\0\0\x01\0\0\0\x19\0\0\0\x03\0\0\0\x01\0\0\0\x01\xe9\xff\xff\xff\xff\0\0\0\x01a";
    assert_eq!(value(&until_ready(&mut wire)), list);
}

#[test]
fn what_cannot_be_told_or_understood_is_an_error_that_changes_nothing() {
    let (_dir, server) = start();
    let mut usual = server.connect();
    usual.run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    usual.run(
        "INSERT INTO t SELECT g, CASE g WHEN 500 THEN '\u{20ac}' ELSE '\u{e9}' END FROM generate_series(1, 1000) g",
    );
    let mut wire = client(&server, "LATIN1");
    let refused = wire.query("SELECT b FROM t ORDER BY a").unwrap_err();
    assert_eq!(refused.code(), "22P05");
    // Nobody who is told that it failed has made the change.
    for text in ["UPDATE t SET b = b || '!' WHERE a = 500 RETURNING b", "DELETE FROM t WHERE a = 500 RETURNING b"] {
        assert_eq!(wire.query(text).unwrap_err().code(), "22P05", "{text}");
        assert_eq!(wire.prepared(text, &[]).unwrap_err().code(), "22P05", "{text}");
    }
    assert_eq!(usual.value("SELECT b FROM t WHERE a = 500"), "\u{20ac}");
    // In a block it fails, from a cursor as well.
    wire.run("BEGIN");
    wire.run("DECLARE c CURSOR FOR SELECT b FROM t WHERE a = 500");
    assert_eq!(wire.query("FETCH c").unwrap_err().code(), "22P05");
    assert_eq!(wire.query("SELECT 1").unwrap_err().code(), "25P02");
    wire.run("ROLLBACK");
    assert_eq!(wire.value("SELECT count(b) FROM t"), "1000");
    // An error arrives all the same.
    let lossy =
        told(&mut wire, b"DO $$ BEGIN RAISE EXCEPTION '%', (SELECT b FROM t WHERE a = 500) || chr(233); END $$");
    let error: &Message = lossy.iter().find(|message| message.kind == b'E').unwrap();
    assert!(holds(error, b"M?\xe9\0"), "{error:?}");
    // What is no text in the client's encoding.
    let mut japanese = client(&server, "EUC_JP");
    let wrong = told(&mut japanese, b"SELECT '\xff\xff'");
    assert!(holds(&wrong[0], b"C22021\0"), "{wrong:?}");
    assert_eq!(japanese.value("SELECT 1"), "1");
    let undefined = told(&mut client(&server, "WIN1252"), b"SELECT '\x81'");
    assert!(holds(&undefined[0], b"C22P05\0"), "{undefined:?}");
}

#[test]
fn copy_reads_and_writes_the_clients_encoding_or_another() {
    let (_dir, server) = start();
    let mut wire = client(&server, "LATIN1");
    wire.run("CREATE TABLE t (b text, c text[])");
    let put = |wire: &mut Wire, text: &str, data: &[&[u8]]| -> Result<(), Told> {
        wire.put(b'Q', format!("{text}\0").as_bytes()).flush();
        assert_eq!(wire.receive().unwrap().kind, b'G');
        for piece in data {
            wire.put(b'd', piece);
        }
        wire.put(b'c', b"").flush().answer().map(drop)
    };
    let got = |wire: &mut Wire, text: &str| -> Vec<u8> {
        told(wire, text.as_bytes()).into_iter().filter(|it| it.kind == b'd').flat_map(|it| it.body).collect()
    };
    put(&mut wire, "COPY t FROM STDIN", &[b"\xe9\t{\xfc}\n"]).unwrap();
    assert_eq!(got(&mut wire, "COPY t TO STDOUT"), b"\xe9\t{\xfc}\n");
    assert_eq!(
        got(&mut wire, "COPY t TO STDOUT (FORMAT csv, HEADER, ENCODING 'utf-8')"),
        "b,c\n\u{e9},{\u{fc}}\n".as_bytes()
    );
    // A character spread over two messages, and one that ends with the delimiter.
    put(&mut wire, "COPY t FROM STDIN (ENCODING 'sjis', DELIMITER '|')", &[b"\x95", b"\x5c\x83\x7c|{a}", b"\n"])
        .unwrap();
    let japanese = "SELECT octet_length(b) FROM t WHERE c = '{a}'";
    assert_eq!(wire.value(japanese), "6");
    // Binary, there and back.
    let binary = got(&mut wire, "COPY (SELECT * FROM t WHERE c <> '{a}') TO STDOUT (FORMAT binary)");
    assert!(binary.windows(5).any(|part| part == b"\0\0\0\x01\xe9"), "{binary:?}");
    put(&mut wire, "COPY t FROM STDIN (FORMAT binary)", &[&binary]).unwrap();
    assert_eq!(wire.value("SELECT count(*) FROM t WHERE b = chr(233) AND c[1] = chr(252)"), "2");
    assert_eq!(wire.query("COPY t TO STDOUT").unwrap_err().code(), "22P05");
    for (options, data, code) in [
        ("ENCODING 'sjis'", &b"a\t{}\n\x95"[..], "22021"),
        ("ENCODING 'win1252'", b"\x81\t{}\n", "22P05"),
        ("ENCODING 'utf8'", b"\xe9\t{}\n", "22021"),
    ] {
        let refused = put(&mut wire, &format!("COPY t FROM STDIN ({options})"), &[data]).unwrap_err();
        assert_eq!(refused.code(), code, "{options}");
    }
    assert_eq!(wire.query("COPY t FROM STDIN (ENCODING 'nothing')").unwrap_err().code(), "22023");
    assert_eq!(wire.query("COPY t FROM STDIN (ENCODING 'johab')").unwrap_err().code(), "0A000");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "3");
}

#[test]
fn notifications_and_notices_are_converted() {
    let (_dir, server) = start();
    let mut wire = client(&server, "LATIN1");
    wire.run("LISTEN n");
    let notified = told(&mut wire, b"NOTIFY n, '\xe9'; DO $$ BEGIN RAISE NOTICE '\xfc'; END $$");
    let find = |kind| notified.iter().find(|message| message.kind == kind);
    assert!(find(b'N').is_some_and(|notice| holds(notice, b"M\xfc\0")), "{notified:?}");
    let notification = find(b'A').cloned().unwrap_or_else(|| wire.receive().unwrap());
    assert!(holds(&notification, b"n\0\xe9\0"), "{notification:?}");
}

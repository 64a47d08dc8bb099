//! Passwords, roles, TLS, limits, the end of a server, and strangers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::tests::{Client, Running, body, shown};

/// A directory that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("isles-serve-{name}-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Logs in by SCRAM; returns the SQLSTATE of a refusal.
fn log_in(server: &Running, user: &str, password: &str) -> Result<Client, String> {
    let mut client = Client::connect(server);
    client.send_startup(&[("user", user), ("database", "isles")]);
    let refused = |message: Option<(u8, Vec<u8>)>| {
        Err(message.map_or_else(|| "gone".to_owned(), |message| shown(&[message]).join("")))
    };
    let first = client.receive();
    let Some((b'R', question)) = &first else { return refused(first) };
    if question[..4] != 10_i32.to_be_bytes() {
        client.until_ready();
        return Ok(client);
    }
    let bare = "n=,r=clientnonce";
    let initial = format!("n,,{bare}");
    let length = (initial.len() as i32).to_be_bytes();
    client.send(b'p', &body(&[b"SCRAM-SHA-256\0", &length, initial.as_bytes()]));
    let next = client.receive();
    let Some((b'R', next)) = &next else { return refused(next) };
    let server_first = String::from_utf8_lossy(&next[4..]).into_owned();
    let part = |name: &str| {
        server_first.split(',').find_map(|part| part.strip_prefix(name)).unwrap_or_default().to_owned()
    };
    let without = format!("c=biws,r={}", part("r="));
    let all = format!("{bare},{server_first},{without}");
    let rounds = part("i=").parse().expect("a number");
    let proof = sql::verifier::proof_of(password, &part("s="), rounds, &all).expect("a proof");
    client.send(b'p', format!("{without},p={proof}").as_bytes());
    let last = client.receive();
    let Some((b'R', _)) = &last else { return refused(last) };
    client.until_ready();
    Ok(client)
}

#[test]
fn passwords_and_privileges() {
    let folder = Folder::new("passwords");
    let password = folder.file("password", "first secret\n");
    let path = folder.0.join("data").display().to_string();
    let flags = ["--path", &path, "--require-password", "--password-file", &password];
    let server = Running::with(&flags);
    assert_eq!(log_in(&server, "isles", "another").err().as_deref(), Some("! 28P01"));
    assert_eq!(log_in(&server, "nobody", "first secret").err().as_deref(), Some("! 28P01"));
    let mut first = log_in(&server, "isles", "first secret").expect("the first role");
    assert_eq!(first.query("create user ada password 'of ada'"), ["CREATE ROLE", "ready I"]);
    assert_eq!(first.query("create role readers"), ["CREATE ROLE", "ready I"]);
    assert_eq!(first.query("create role ada"), ["! 42710", "ready I"]);
    first.query("create table t (id int primary key, v int); insert into t values (1, 1)");
    first.query("create table u (id int primary key); create view w as select id from u");
    let mut ada = log_in(&server, "ada", "of ada").expect("a role");
    assert_eq!(log_in(&server, "readers", "x").err().as_deref(), Some("! 28P01"));
    for text in [
        "select * from t",
        "insert into t values (2, 2)",
        "delete from t",
        "create table x (id int)",
        "select * from w",
        "create role eve superuser",
        "alter role isles password 'x'",
        "truncate t",
        "copy t from stdin",
        "copy t to stdout",
        "drop table t",
        "select id from u where exists (select 1 from t)",
    ] {
        assert_eq!(ada.query(text), ["! 42501", "ready I"], "{text}");
    }
    assert_eq!(first.query("grant select, insert on t to ada"), ["GRANT", "ready I"]);
    assert_eq!(first.query("grant select on w to public"), ["GRANT", "ready I"]);
    assert_eq!(ada.query("select v from t"), ["1", "SELECT 1", "ready I"]);
    assert_eq!(ada.query("select count(*) from w"), ["0", "SELECT 1", "ready I"]);
    assert_eq!(ada.query("select * from u"), ["! 42501", "ready I"]);
    assert_eq!(ada.query("insert into t values (2, 2)"), ["INSERT 0 1", "ready I"]);
    assert_eq!(ada.query("update t set v = 3"), ["! 42501", "ready I"]);
    assert_eq!(
        ada.query("insert into t values (2, 2) on conflict (id) do update set v = 9"),
        ["! 42501", "ready I"]
    );
    assert_eq!(
        first.query("select relacl from pg_class where relname = 't'"),
        ["{isles=arwdDxt/isles,ada=ar/isles}", "SELECT 1", "ready I"]
    );
    assert_eq!(
        first.query("select rolname, rolsuper, rolcanlogin from pg_roles order by 1"),
        ["ada|f|t", "isles|t|t", "readers|f|f", "SELECT 3", "ready I"]
    );
    assert_eq!(ada.query("select count(*) from pg_authid"), ["0", "SELECT 1", "ready I"]);
    assert_eq!(first.query("select count(rolpassword) from pg_authid"), ["2", "SELECT 1", "ready I"]);
    assert_eq!(ada.query("alter role ada password 'new'"), ["ALTER ROLE", "ready I"]);
    assert_eq!(first.query("drop role ada"), ["! 2BP01", "ready I"]);
    assert_eq!(first.query("revoke all on all tables in schema public from ada"), ["REVOKE", "ready I"]);
    assert_eq!(ada.query("select v from t"), ["! 42501", "ready I"]);
    drop((first, ada, server));
    // A new start finds roles and their new passwords.
    let server = Running::with(&flags);
    assert_eq!(log_in(&server, "ada", "of ada").err().as_deref(), Some("! 28P01"));
    let mut ada = log_in(&server, "ada", "new").expect("a role");
    assert_eq!(ada.query("select * from t"), ["! 42501", "ready I"]);
    let mut first = log_in(&server, "isles", "first secret").expect("the first role");
    // One who manages roles drops no superuser, however the name is written.
    first.query("create role boss superuser; alter role ada createrole");
    for name in ["boss", "BOSS", "\"boss\"", "readers, Boss"] {
        assert_eq!(ada.query(&format!("drop role {name}")), ["! 42501", "ready I"], "{name}");
    }
    assert_eq!(first.query("drop role ada, readers"), ["DROP ROLE", "ready I"]);
    assert_eq!(ada.query("select 1"), ["1", "SELECT 1", "ready I"]);
    assert_eq!(first.query("alter role isles nosuperuser"), ["! 2BP01", "ready I"]);
}

/// Many wrong passwords at a time: who is in works on, and who knows a password comes in.
#[test]
fn wrong_passwords_cost_others_nothing() {
    let folder = Folder::new("wrong");
    let password = folder.file("password", "right\n");
    let server = Running::with(&["--require-password", "--password-file", &password, "--connections", "4"]);
    let mut inside = log_in(&server, "isles", "right").expect("it is right");
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                for _ in 0..4 {
                    assert_eq!(log_in(&server, "isles", "wrong").err().as_deref(), Some("! 28P01"));
                }
            });
        }
        for _ in 0..50 {
            assert_eq!(inside.query("select 1"), ["1", "SELECT 1", "ready I"]);
            assert!(log_in(&server, "isles", "right").is_ok());
        }
    });
    // Strangers who say nothing are ended when others come.
    let silent: Vec<_> = (0..crate::registry::STRANGERS_MAX + 8).map(|_| Client::connect(&server)).collect();
    assert!(log_in(&server, "isles", "right").is_ok());
    drop(silent);
}

#[test]
fn tls() {
    let folder = Folder::new("tls");
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let certificate = folder.file("server.crt", &made.cert.pem());
    let key = folder.file("server.key", &made.signing_key.serialize_pem());
    let server = Running::with(&["--certificate", &certificate, "--key", &key]);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(rustls::DEFAULT_VERSIONS)
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from("localhost").expect("a name");
    let connection = rustls::ClientConnection::new(Arc::new(config), name).expect("a connection");
    let mut plain = Client::connect(&server);
    plain
        .stream
        .write_all(&[&8_i32.to_be_bytes()[..], &80_877_103_i32.to_be_bytes()].concat())
        .expect("sent");
    let mut answer = [0];
    plain.stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, *b"S");
    let mut stream = rustls::StreamOwned::new(connection, plain.stream);
    let startup = b"\0\x03\0\0user\0ada\0database\0isles\0\0";
    let query = b"select repeat('x', 100000)\0";
    let message = |kind: &[u8], body: &[u8]| [kind, &(body.len() as u32 + 4).to_be_bytes(), body].concat();
    stream.write_all(&message(b"", startup)).expect("sent");
    stream.write_all(&message(b"Q", query)).expect("sent");
    stream.write_all(&message(b"X", b"")).expect("sent");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("the server ends TLS properly");
    assert!(all.windows(9).any(|part| part == b"SELECT 1\0"));
    assert!(all.iter().filter(|byte| **byte == b'x').count() >= 100_000);
    // Without TLS it goes on as before, and other bytes than TLS end their connection alone.
    assert_eq!(server.client().query("select 1"), ["1", "SELECT 1", "ready I"]);
    let mut other = Client::connect(&server);
    other
        .stream
        .write_all(&[&8_i32.to_be_bytes()[..], &80_877_103_i32.to_be_bytes(), &[7; 300]].concat())
        .expect("sent");
    _ = other.stream.read_to_end(&mut Vec::new());
    assert_eq!(server.client().query("select 1"), ["1", "SELECT 1", "ready I"]);
}

#[test]
fn a_wrong_certificate_does_not_start_a_server() {
    let folder = Folder::new("certificate");
    let file = folder.file("server.crt", "no certificate");
    for flags in
        [&["--certificate", &file, "--key", &file][..], &["--certificate", &file], &["--require-tls"]]
    {
        let words = ["isles-serve", "--listen", "127.0.0.1:0"].iter().chain(flags);
        let arguments = <crate::arguments::Arguments as clap::Parser>::parse_from(words);
        assert!(crate::server::Server::start(&arguments).is_err(), "{flags:?}");
    }
}

#[test]
fn times_that_are_over() {
    let server = Running::with(&["--set", "statement_timeout=200"]);
    let mut client = server.client();
    let long = "select count(*) from generate_series(1, 1000000000) as g";
    assert_eq!(client.query("show statement_timeout"), ["200ms", "SHOW", "ready I"]);
    assert_eq!(client.query(long), ["! 57014", "ready I"]);
    assert_eq!(client.query("begin"), ["BEGIN", "ready T"]);
    assert_eq!(client.query(long), ["! 57014", "ready E"]);
    assert_eq!(client.query("rollback"), ["ROLLBACK", "ready I"]);
    client.parse("", long);
    client.bind("", "", &[]);
    client.execute("", 0);
    assert_eq!(client.sync(), ["! 57014", "ready I"]);
    assert_eq!(client.query("set statement_timeout = 'often'"), ["! 22023", "ready I"]);
    assert_eq!(
        client.query("set statement_timeout = 0; set idle_session_timeout = '1h'"),
        ["SET", "SET", "ready I"]
    );
    assert_eq!(
        client.query("set idle_in_transaction_session_timeout = 100; begin"),
        ["SET", "BEGIN", "ready T"]
    );
    assert_eq!(client.receive().map(|message| shown(&[message])), Some(vec!["! 25P03".to_owned()]));
    assert!(client.receive().is_none());
    let mut client = server.client();
    assert_eq!(client.query("set idle_session_timeout = 100"), ["SET", "ready I"]);
    assert_eq!(client.receive().map(|message| shown(&[message])), Some(vec!["! 57P05".to_owned()]));
}

#[test]
fn the_end_lets_transactions_end() {
    let server = Running::with(&["--connections", "2"]);
    let (mut idle, mut in_block) = (server.client(), server.client());
    let mut third = Client::connect(&server);
    third.send_startup(&[("user", "ada")]);
    assert_eq!(third.receive().map(|message| shown(&[message])), Some(vec!["! 53300".to_owned()]));
    idle.query("create table e (id int primary key)");
    assert_eq!(in_block.query("begin; insert into e values (1)"), ["BEGIN", "INSERT 0 1", "ready T"]);
    server.ends.store(true, Ordering::Release);
    assert_eq!(idle.receive().map(|message| shown(&[message])), Some(vec!["! 57P01".to_owned()]));
    assert!(idle.receive().is_none());
    assert_eq!(in_block.query("insert into e values (2)"), ["INSERT 0 1", "ready T"]);
    assert_eq!(in_block.query("commit"), ["COMMIT", "ready I"]);
    assert_eq!(in_block.receive().map(|message| shown(&[message])), Some(vec!["! 57P01".to_owned()]));
}

#[test]
fn the_end_does_not_wait_for_ever() {
    let server = Running::with(&["--drain", "0"]);
    let mut client = server.client();
    assert_eq!(client.query("begin; select 1"), ["BEGIN", "1", "SELECT 1", "ready T"]);
    server.ends.store(true, Ordering::Release);
    assert_eq!(client.receive().map(|message| shown(&[message])), Some(vec!["! 57P01".to_owned()]));
}

#[test]
fn figures_over_http() {
    let server = Running::with(&["--metrics", "127.0.0.1:0"]);
    let ask = |text: &str| {
        let mut stream = TcpStream::connect(server.metrics.expect("an address")).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a bound");
        stream.write_all(text.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let mut client = server.client();
    client.query("select 1");
    client.query("select 1/0");
    let figures = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    for line in [
        "HTTP/1.1 200 OK",
        "isles_sessions 1",
        "isles_statements_total 2",
        "isles_statement_errors_total 1",
        "isles_connections_total 1",
    ] {
        assert!(figures.lines().any(|own| own == line), "{line}: {figures}");
    }
    assert!(ask("GET /health HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nok\n"));
    assert!(ask("GET /other HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405"));
    // Questions without an end cost others nothing.
    let silent: Vec<_> = (0..3).map(|_| TcpStream::connect(server.metrics.expect("an address"))).collect();
    assert!(ask("GET /health HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
    drop(silent);
}

#[test]
fn copies_in_binary_form() {
    let server = Running::with(&[]);
    let mut client = server.client();
    client.query("create table b (id int primary key, v text)");
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    data.extend([0, 2, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 3]);
    data.extend(b"sev");
    data.extend([0, 2, 0, 0, 0, 4, 0, 0, 0, 8, 0xff, 0xff, 0xff, 0xff]);
    let end = [0xff, 0xff];
    let copy = |client: &mut Client, data: &[u8], piece: usize| {
        client.send(b'Q', b"copy b from stdin with (format binary)\0");
        assert_eq!(client.receive(), Some((b'G', vec![1, 0, 2, 0, 1, 0, 1])));
        data.chunks(piece).for_each(|piece| client.send(b'd', piece));
        client.send(b'c', &[]);
        shown(&client.until_ready())
    };
    let all = [&data[..], &end].concat();
    assert_eq!(copy(&mut client, &all, 3), ["COPY 2", "ready I"]);
    assert_eq!(client.query("select * from b order by id"), ["7|sev", "8|null", "SELECT 2", "ready I"]);
    client.send(b'Q', b"copy (select * from b order by id) to stdout (format 'binary')\0");
    let messages = client.until_ready();
    let sent: Vec<u8> =
        messages.iter().filter(|(kind, _)| *kind == b'd').flat_map(|(_, body)| body.clone()).collect();
    assert_eq!(sent, all);
    client.query("delete from b");
    for (wrong, code) in [
        (&b"7\tseven\n"[..], "! 22P04"),
        (&data[..data.len() - 2], "! 22P04"),
        (&[&data[..19], &[0, 1]].concat()[..], "! 22P04"),
        (&[&data[..19], &[0, 2, 0, 0, 0, 2, 0, 7, 0xff, 0xff, 0xff, 0xff]].concat()[..], "! 22P03"),
    ] {
        assert_eq!(copy(&mut client, wrong, 1000), [code, "ready I"], "{wrong:?}");
    }
    assert_eq!(client.query("select count(*) from b"), ["0", "SELECT 1", "ready I"]);
    for (text, code) in [
        ("(format nothing)", "! 22023"),
        ("(format csv, format csv)", "! 42601"),
        ("(format binary, null 'x')", "! 42601"),
        ("(quote 'x')", "! 0A000"),
        ("(format csv, force_quote *)", "! 0A000"),
        ("(delimiter 'a')", "! 22023"),
    ] {
        assert_eq!(client.query(&format!("copy b from stdin with {text}")), [code, "ready I"], "{text}");
    }
    client.query("insert into b values (1, 'x,y'), (2, null), (3, '')");
    assert_eq!(
        client.query("copy b to stdout with (format csv, header on, force_quote (v), null 'nil')"),
        ["data id,v", "data 1,\"x,y\"", "data 2,nil", "data 3,\"\"", "COPY 3", "ready I"]
    );
    client.query("truncate b");
    client.send(b'Q', b"copy b from stdin with (format csv, force_not_null (v), header true)\0");
    assert_eq!(client.receive().map(|message| message.0), Some(b'G'));
    client.send(b'd', b"id,v\n1,\n2,\"x\ny\"\n");
    client.send(b'c', &[]);
    assert_eq!(shown(&client.until_ready()), ["COPY 2", "ready I"]);
    assert_eq!(client.query("select id, v from b order by id"), ["1|", "2|x\ny", "SELECT 2", "ready I"]);
}

/// Random bytes and random messages of every kind, from strangers and within sessions, with and
/// without a COPY under way: each ends its own connection at most.
#[test]
fn random_messages_end_their_connection_alone() {
    let server = Running::with(&["--drain", "1"]);
    let mut client = server.client();
    client.query("create table r (id int primary key, v text)");
    let mut state = 5_u64;
    let mut next = move |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let texts = [
        "select 1",
        "begin",
        "copy r from stdin",
        "copy r from stdin (format binary)",
        "copy r to stdout",
        "insert into r values (1, 'x')",
        "select * from r where id = $1",
        "",
        ";",
        "rollback",
    ];
    let mut ended = 0;
    for round in 0..150 {
        let mut stranger = if round % 8 == 0 { Client::connect(&server) } else { server.client() };
        let mut bytes = Vec::new();
        for _ in 0..next(30) {
            let kind = b"QPBDECSHdcfpXF\0Q"[next(16) as usize];
            let mut message = Vec::new();
            if next(3) > 0 {
                let text = texts[next(texts.len() as u64) as usize].as_bytes();
                message.extend([&[0][..usize::from(kind != b'Q')], text, &[0]].concat());
            }
            (0..next(12)).for_each(|_| message.push(if next(3) == 0 { next(256) as u8 } else { 0 }));
            let length = if next(12) == 0 { next(1 << 31) as u32 } else { message.len() as u32 + 4 };
            bytes.extend([&[kind][..], &length.to_be_bytes(), &message].concat());
        }
        // The server may have ended the connection already.
        _ = stranger.stream.write_all(&bytes);
        _ = stranger.stream.shutdown(std::net::Shutdown::Write);
        _ = stranger.stream.read_to_end(&mut Vec::new());
        ended += 1;
    }
    assert_eq!(
        (ended, client.query("select 1")),
        (150, vec!["1".to_owned(), "SELECT 1".to_owned(), "ready I".to_owned()])
    );
}

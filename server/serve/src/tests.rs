//! A server in this process, and exchanges of messages as clients make them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Parser;

use crate::arguments::Arguments;
use crate::server::Server;

/// A server that ends with the test.
pub struct Running {
    pub address: std::net::SocketAddr,
    pub ends: Arc<AtomicBool>,
    pub metrics: Option<std::net::SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(path: Option<&Path>) -> Running {
        let path = path.map(|path| path.display().to_string());
        let flags: Vec<_> = path.iter().flat_map(|path| ["--path", path]).collect();
        Running::with(&flags)
    }

    /// Starts a server with these flags.
    pub fn with(flags: &[&str]) -> Running {
        let mut words = vec!["isles-serve", "--listen", "127.0.0.1:0"];
        words.extend(flags);
        let server = Server::start(&Arguments::parse_from(words)).expect("it starts");
        let (address, ends, metrics) = (server.address(), server.ends(), server.metrics_address());
        let thread = std::thread::spawn(move || server.serve());
        Running { address, ends, metrics, thread: Some(thread) }
    }

    pub fn client(&self) -> Client {
        let mut client = Client::connect(self);
        client.send_startup(&[("user", "ada"), ("database", "isles")]);
        let first = client.until_ready();
        assert_eq!(first.first().map(|message| message.0), Some(b'R'), "{first:?}");
        client
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join);
    }
}

/// A message: its type and its body.
pub type Message = (u8, Vec<u8>);

pub struct Client {
    pub stream: TcpStream,
}

/// A body of a message.
pub fn body(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

impl Client {
    pub fn connect(server: &Running) -> Client {
        let stream = TcpStream::connect(server.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a bound");
        Client { stream }
    }

    pub fn send_startup(&mut self, parameters: &[(&str, &str)]) {
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        for (name, value) in parameters {
            body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
        }
        body.push(0);
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.stream.write_all(&[&length, &body[..]].concat()).expect("it is sent");
    }

    pub fn send(&mut self, kind: u8, body: &[u8]) {
        let length = (body.len() as u32 + 4).to_be_bytes();
        self.stream.write_all(&[&[kind], &length[..], body].concat()).expect("it is sent");
    }

    pub fn receive(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    pub fn until_ready(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let message = self.receive().expect("the server answers");
            let is_last = message.0 == b'Z';
            messages.push(message);
            if is_last {
                return messages;
            }
        }
    }

    /// Runs statements; returns rows with `|` between their values, errors as `! SQLSTATE`, and
    /// tags.
    pub fn query(&mut self, text: &str) -> Vec<String> {
        self.send(b'Q', &body(&[text.as_bytes(), b"\0"]));
        shown(&self.until_ready())
    }

    pub fn parse(&mut self, name: &str, text: &str) {
        self.send(b'P', &body(&[name.as_bytes(), b"\0", text.as_bytes(), b"\0", &[0, 0]]));
    }

    /// Binds texts to the parameters of a statement.
    pub fn bind(&mut self, portal: &str, statement: &str, values: &[Option<&str>]) {
        let mut message = body(&[portal.as_bytes(), b"\0", statement.as_bytes(), b"\0", &[0, 0]]);
        message.extend((values.len() as u16).to_be_bytes());
        for value in values {
            match value {
                None => message.extend((-1_i32).to_be_bytes()),
                Some(text) => {
                    message.extend((text.len() as i32).to_be_bytes());
                    message.extend(text.as_bytes());
                }
            }
        }
        message.extend([0, 0]);
        self.send(b'B', &message);
    }

    pub fn execute(&mut self, portal: &str, limit: u32) {
        self.send(b'E', &body(&[portal.as_bytes(), b"\0", &limit.to_be_bytes()]));
    }

    pub fn sync(&mut self) -> Vec<String> {
        self.send(b'S', &[]);
        shown(&self.until_ready())
    }
}

pub fn text_at(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn row_of(body: &[u8]) -> String {
    let count = u16::from_be_bytes([body[0], body[1]]);
    let (mut rest, mut values) = (&body[2..], Vec::new());
    for _ in 0..count {
        let length = i32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
        rest = &rest[4..];
        let bytes = usize::try_from(length).unwrap_or(0);
        values.push(if length < 0 {
            "null".to_owned()
        } else {
            String::from_utf8_lossy(&rest[..bytes]).into_owned()
        });
        rest = &rest[bytes..];
    }
    values.join("|")
}

/// Shows answers, without descriptions of columns and without notices.
pub fn shown(messages: &[Message]) -> Vec<String> {
    let show = |(kind, body): &Message| {
        Some(match kind {
            b'D' => row_of(body),
            b'C' => text_at(body),
            b'E' => {
                let code = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&b'C'));
                format!("! {}", text_at(&code.unwrap_or_default()[1..]))
            }
            b's' => "suspended".to_owned(),
            b'I' => "empty".to_owned(),
            b'G' => "copy in".to_owned(),
            b'd' => format!("data {}", text_at(body).trim_end()),
            b'Z' => format!("ready {}", char::from(body[0])),
            _ => return None,
        })
    };
    messages.iter().filter_map(show).collect()
}

#[test]
fn statements_of_the_first_path() {
    let server = Running::start(None);
    let mut client = server.client();
    let answers =
        client.query("create table t (id int primary key, name text, price numeric(8,2) default 1.50)");
    assert_eq!(answers, ["CREATE TABLE", "ready I"]);
    let answers = client.query("insert into t (id, name) values (1, 'one'), (2, null) returning *");
    assert_eq!(answers, ["1|one|1.50", "2|null|1.50", "INSERT 0 2", "ready I"]);
    assert_eq!(
        client.query("select name, price * 2 from t where id = 1"),
        ["one|3.00", "SELECT 1", "ready I"]
    );
    assert_eq!(client.query("update t set name = 'two' where id = 2"), ["UPDATE 1", "ready I"]);
    assert_eq!(client.query("insert into t values (1, 'again')"), ["! 23505", "ready I"]);
    assert_eq!(client.query("select nothing from t"), ["! 42703", "ready I"]);
    assert_eq!(client.query("select * frm t"), ["! 42601", "ready I"]);
    assert_eq!(client.query(""), ["empty", "ready I"]);
    // A block that fails accepts its end only.
    assert_eq!(client.query("begin; delete from t where id = 1"), ["BEGIN", "DELETE 1", "ready T"]);
    assert_eq!(client.query("select 1/0"), ["! 22012", "ready E"]);
    assert_eq!(client.query("select 1"), ["! 25P02", "ready E"]);
    assert_eq!(client.query("commit"), ["ROLLBACK", "ready I"]);
    assert_eq!(client.query("select count(*) from t"), ["2", "SELECT 1", "ready I"]);
    // Several statements of a text are one transaction.
    assert_eq!(client.query("delete from t; select 1/0"), ["DELETE 2", "! 22012", "ready I"]);
    assert_eq!(client.query("select id from t order by id desc"), ["2", "1", "SELECT 2", "ready I"]);
    let answers = client.query(
        "begin; savepoint a; insert into t values (3); rollback to a; insert into t values (4); commit",
    );
    assert_eq!(answers.last().map(String::as_str), Some("ready I"), "{answers:?}");
    assert_eq!(client.query("select max(id) from t"), ["4", "SELECT 1", "ready I"]);
    assert_eq!(client.query("drop table t"), ["DROP TABLE", "ready I"]);
    assert_eq!(client.query("select * from t"), ["! 42P01", "ready I"]);
}

#[test]
fn the_extended_protocol() {
    let server = Running::start(None);
    let mut client = server.client();
    client.query("create table n (id int primary key, v bigint)");
    // Many executions before one Sync are one transaction.
    client.parse("ins", "insert into n values ($1, $2)");
    for id in 1..=5 {
        client.bind("", "ins", &[Some(&id.to_string()), Some("7")]);
        client.execute("", 0);
    }
    assert_eq!(
        client.sync(),
        ["INSERT 0 1", "INSERT 0 1", "INSERT 0 1", "INSERT 0 1", "INSERT 0 1", "ready I"]
    );
    client.bind("", "ins", &[Some("6"), None]);
    client.execute("", 0);
    client.bind("", "ins", &[Some("1"), None]);
    client.execute("", 0);
    client.bind("", "ins", &[Some("8"), None]);
    assert_eq!(client.sync(), ["INSERT 0 1", "! 23505", "ready I"]);
    // A portal with a limit of rows, within a block across Syncs.
    client.query("begin");
    client.parse("", "select id from n where id >= $1 order by id");
    client.bind("p", "", &[Some("2")]);
    client.execute("p", 2);
    assert_eq!(client.sync(), ["2", "3", "suspended", "ready T"]);
    client.execute("p", 2);
    client.execute("p", 2);
    assert_eq!(client.sync(), ["4", "5", "suspended", "SELECT 0", "ready T"]);
    assert_eq!(client.query("commit"), ["COMMIT", "ready I"]);
    client.execute("p", 0);
    assert_eq!(client.sync(), ["! 34000", "ready I"]);
    // Binary parameters and results.
    client.parse("b", "select v from n where id = $1");
    client.send(b'B', &body(&[b"\0b\0", &[0, 1, 0, 1, 0, 1, 0, 0, 0, 4, 0, 0, 0, 3, 0, 1, 0, 1]]));
    client.execute("", 0);
    client.send(b'S', &[]);
    let messages = client.until_ready();
    let row = messages.iter().find(|(kind, _)| *kind == b'D').expect("a row");
    assert_eq!(row.1, [0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7]);
}

#[test]
fn copies() {
    let server = Running::start(None);
    let mut client = server.client();
    client.query("create table c (a int, b text)");
    client.send(b'Q', b"copy c from stdin\0");
    assert_eq!(client.receive().map(|message| message.0), Some(b'G'));
    // A row in two messages.
    client.send(b'd', b"1\tone\n2\t");
    client.send(b'd', b"\\N\n3\ta\\tb\n");
    client.send(b'c', &[]);
    assert_eq!(shown(&client.until_ready()), ["COPY 3", "ready I"]);
    assert_eq!(
        client.query("copy (select * from c order by a) to stdout with (format csv, header)"),
        ["data a,b", "data 1,one", "data 2,", "data 3,a\tb", "COPY 3", "ready I"]
    );
    client.send(b'Q', b"copy c from stdin\0");
    assert_eq!(client.receive().map(|message| message.0), Some(b'G'));
    client.send(b'd', b"4\tfour\nno number\tfive\n");
    client.send(b'c', &[]);
    assert_eq!(shown(&client.until_ready()), ["! 22P02", "ready I"]);
    assert_eq!(client.query("select count(*), count(b) from c"), ["3|2", "SELECT 1", "ready I"]);
    // A key that comes later.
    assert_eq!(client.query("alter table c add primary key (a)"), ["ALTER TABLE", "ready I"]);
    assert_eq!(client.query("insert into c values (3, 'x')"), ["! 23505", "ready I"]);
    assert_eq!(client.query("select b from c where a = 3"), ["a\tb", "SELECT 1", "ready I"]);
}

#[test]
fn a_directory_is_found_again() {
    let path = std::env::temp_dir().join(format!("isles-serve-{}", std::process::id()));
    _ = std::fs::remove_dir_all(&path);
    {
        let server = Running::start(Some(&path));
        let mut client = server.client();
        client.query("create table d (id serial primary key, born date default current_date, v varchar(5))");
        client.query("create view w as select v from d where id > 1");
        assert_eq!(client.query("insert into d (v) values ('a'), ('b')"), ["INSERT 0 2", "ready I"]);
        assert_eq!(client.query("insert into d (v) values ('too long')"), ["! 22001", "ready I"]);
    }
    let server = Running::start(Some(&path));
    let mut client = server.client();
    assert_eq!(client.query("select v from d order by id"), ["a", "b", "SELECT 2", "ready I"]);
    assert_eq!(client.query("select * from w"), ["b", "SELECT 1", "ready I"]);
    assert_eq!(
        client.query("insert into d (v) values ('c') returning id > 2, born = current_date"),
        ["t|t", "INSERT 0 1", "ready I"]
    );
    drop((client, server));
    _ = std::fs::remove_dir_all(&path);
}

/// Rows that all transactions update: they wait for each other, and none fails.
#[test]
fn transactions_wait_for_a_hot_row() {
    let server = Running::start(None);
    let mut client = server.client();
    client.query("create table h (id int primary key, v int); insert into h values (1, 0), (2, 0)");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..25 {
                    assert_eq!(client.query("begin"), ["BEGIN", "ready T"]);
                    assert_eq!(client.query("update h set v = v + 1 where id = 1"), ["UPDATE 1", "ready T"]);
                    assert_eq!(client.query("update h set v = v + 1 where id = 2"), ["UPDATE 1", "ready T"]);
                    assert_eq!(client.query("end"), ["COMMIT", "ready I"]);
                    assert_eq!(client.query("update h set v = v + 1 where id = 2"), ["UPDATE 1", "ready I"]);
                }
            });
        }
    });
    assert_eq!(client.query("select v from h order by id"), ["100", "200", "SELECT 2", "ready I"]);
}

#[test]
fn bytes_that_are_no_protocol_end_their_connection_alone() {
    let server = Running::start(None);
    let mut state = 3_u64;
    for round in 0..60 {
        let mut stranger = if round % 2 == 0 { Client::connect(&server) } else { server.client() };
        let mut bytes = Vec::new();
        for _ in 0..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.push(if state >> 62 == 0 {
                (state >> 40) as u8
            } else {
                *b"QPBDE\0\0\x08".get((state >> 61) as usize).unwrap_or(&0)
            });
        }
        // The server may have ended the connection already.
        _ = stranger.stream.write_all(&bytes);
        _ = stranger.stream.shutdown(std::net::Shutdown::Write);
        _ = stranger.stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(server.client().query("select 1"), ["1", "SELECT 1", "ready I"]);
}

//! Connections that send slowly, wrongly, too little, too much, or do not read: the server goes on answering the others.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::commands::Draws;
use crate::servers::{Connection, Server};

/// The server answers, on a new connection.
fn check_answers(server: &Server) {
    let mut connection = server.connect();
    assert_eq!(connection.ask(b"set a:check 0 0 2\r\nok\r\n"), r"STORED\r\n");
    connection.send(b"get a:check\r\n");
    assert_eq!(connection.receive_until(b"END\r\n").0, b"VALUE a:check 0 2\r\nok\r\nEND\r\n");
}

#[test]
fn slow_connections_hold_up_nobody_and_are_served_in_the_end() {
    let server = Server::robinhood(&[]);
    let command = b"set a:slow 0 0 11\r\nhello world\r\n";
    let mut slow: Vec<Connection> = (0..command.len()).map(|_| server.connect()).collect();
    for (connection, until) in slow.iter_mut().zip(0..) {
        for byte in &command[..until] {
            connection.send(&[*byte]);
        }
    }
    for _ in 0..20 {
        check_answers(&server);
    }
    for (connection, from) in slow.iter_mut().zip(0..) {
        assert_eq!(connection.ask(&command[from..]), r"STORED\r\n", "cut at {from}");
    }
}

#[test]
fn a_thousand_connections_of_garbage_leave_the_server_answering() {
    let server = Server::robinhood(&[]);
    let mut draws = Draws::new(1);
    let beginnings: &[&[u8]] = &[
        b"",
        b"\x80",
        b"get ",
        b"set a:1 0 0 100000\r\n",
        b"set a:1 0 0 2147483645\r\n",
        b"ms a:1 9999999 b\r\n",
        b"mg ",
        b"gat -1 ",
        b"\r\n\r\n",
        b"stats ",
        b"PUT / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02",
    ];
    for number in 0..1_000 {
        let mut stream = TcpStream::connect(server.address).expect("the server listens");
        let mut garbage = beginnings[draws.below(beginnings.len())].to_vec();
        let length = draws.below(3_000);
        garbage.extend((0..length).map(|_| u8::try_from(draws.below(256)).expect("a byte")));
        // The server may have closed already.
        _ = stream.write_all(&garbage);
        match draws.below(3) {
            // Whatever it answers, it notices the end.
            0 => {
                _ = stream.shutdown(Shutdown::Write);
                _ = stream.read_to_end(&mut Vec::new());
            }
            // Closed with answers unread: a reset.
            1 => {
                _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
                _ = stream.read(&mut [0; 10]);
            }
            _ => drop(stream),
        }
        if number % 100 == 99 {
            check_answers(&server);
        }
    }
}

#[test]
fn a_value_that_never_comes_is_not_stored() {
    let server = Server::robinhood(&[]);
    for command in [&b"set a:cut 0 0 10\r\n01234"[..], b"ms a:cut 10\r\n0123456789\r"] {
        let mut connection = server.connect();
        connection.send(command);
        connection.stream.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(connection.receive_until(b"\n"), (Vec::new(), false));
    }
    assert_eq!(server.connect().ask(b"get a:cut\r\n"), r"END\r\n");
}

#[test]
fn a_value_that_is_too_large_is_thrown_away_and_the_old_one_with_it() {
    let server = Server::robinhood(&[]);
    let mut connection = server.connect();
    for command in ["set a:large 0 0 50000000", "ms a:large 50000000"] {
        assert_eq!(connection.ask(b"set a:large 0 0 1\r\nx\r\n"), r"STORED\r\n");
        connection.send(format!("{command}\r\n").as_bytes());
        let piece = vec![b'v'; 1_000_000];
        for _ in 0..50 {
            connection.send(&piece);
        }
        let answer = connection.ask(b"\r\n");
        assert_eq!(answer, r"SERVER_ERROR object too large for cache\r\n");
        assert_eq!(connection.ask(b"get a:large\r\n"), r"END\r\n");
    }
}

#[test]
fn a_line_without_an_end_closes_the_connection() {
    let server = Server::robinhood(&[]);
    for beginning in [&b"get "[..], b"set ", b"\r\nx"] {
        let mut stream = TcpStream::connect(server.address).expect("the server listens");
        _ = stream.write_all(beginning);
        let line = vec![b'k'; 100_000];
        // 100 MB, of which the server takes what fits a line.
        let refused = (0..1_000).find_map(|_| stream.write_all(&line).err());
        assert!(refused.is_some(), "{}: the server reads on", beginning.escape_ascii());
    }
    check_answers(&server);
}

#[test]
fn a_client_that_does_not_read_takes_no_memory_and_holds_up_nobody() {
    let server = Server::robinhood(&[]);
    let value_bytes = 900_000;
    let mut client = server.connect();
    client.send(format!("set c:large 0 0 {value_bytes}\r\n").as_bytes());
    client.send(&vec![b'v'; value_bytes]);
    assert_eq!(client.ask(b"\r\n"), r"STORED\r\n");
    let mut greedy: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
    let rounds = 200;
    for connection in &mut greedy {
        connection.send(&b"get c:large\r\n".repeat(rounds));
    }
    for _ in 0..20 {
        check_answers(&server);
    }
    if let Some(bytes) = server.memory_bytes() {
        assert!(bytes < 300 << 20, "{bytes} bytes for 4 clients that ask for 180 MB each");
    }
    let mut all = Vec::new();
    let mut connection = greedy.pop().expect("there are four");
    connection.send(b"quit\r\n");
    connection.stream.read_to_end(&mut all).expect("the answers");
    assert_eq!(all.len(), rounds * (value_bytes + b"VALUE c:large 0 900000\r\n\r\nEND\r\n".len()));
}

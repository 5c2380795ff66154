use super::*;

const BODY_BYTES_MAX: usize = 1 << 20;

fn complete(bytes: &[u8]) -> Response<'_> {
    let (response, used) = parse(bytes, BODY_BYTES_MAX).unwrap().expect("complete");
    assert_eq!(used, bytes.len(), "{}", bytes.escape_ascii());
    response
}

fn text(body: Body<'_>) -> String {
    let bytes: Vec<u8> = body.parts().flatten().copied().collect();
    assert_eq!((bytes.len(), bytes.is_empty()), (body.len(), body.is_empty()));
    String::from_utf8(bytes).unwrap()
}

fn written(method: Method, body: &[u8]) -> String {
    let (path, host) = (Path::new("/a?b=c").unwrap(), Host::new("localhost:80").unwrap());
    let mut out = Vec::new();
    Request { method, path, host, body }.write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn requests_have_host_and_length() {
    let get = written(Method::Get, b"");
    assert_eq!(get, "GET /a?b=c HTTP/1.1\r\nhost: localhost:80\r\n\r\n");
    let put = written(Method::Put, b"body");
    assert_eq!(put, "PUT /a?b=c HTTP/1.1\r\nhost: localhost:80\r\ncontent-length: 4\r\n\r\nbody");
    assert!(written(Method::Post, b"").ends_with("content-length: 0\r\n\r\n"));
}

#[test]
fn a_path_or_host_that_would_break_the_head_is_refused() {
    for text in ["/a b", "/a\r\nx: y", "/é", "/\u{7f}"] {
        let error = Path::new(text).unwrap_err();
        assert!(matches!(error, RequestError::HttpByte { part: "path", .. }), "{error}");
        assert!(error.to_string().contains("percent-encode"), "{error}");
    }
    assert!(matches!(Path::new("a"), Err(RequestError::PathStart { .. })));
    assert!(matches!(Path::new(""), Err(RequestError::HttpLength { .. })));
    let long = "/".repeat(TARGET_BYTES_MAX + 1);
    assert!(Path::new(&long[1..]).is_ok());
    assert!(matches!(Path::new(&long), Err(RequestError::HttpLength { .. })));
    assert!(matches!(Host::new("a b"), Err(RequestError::HttpByte { part: "host", .. })));
    assert!(Host::new("[::1]:80").is_ok());
}

#[test]
fn a_body_has_its_stated_length() {
    let response = complete(b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((response.status, response.closes), (200, false));
    assert_eq!(text(response.body), "hello");
    let twice = b"HTTP/1.1 404 \r\ncontent-length: 0\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(text(complete(twice).body), "");
}

#[test]
fn chunks_are_joined_and_extensions_and_trailers_skipped() {
    let response = complete(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\nA;x=\"y\"\r\n, chunked!\r\n000\r\nt: 1\r\n\r\n",
    );
    assert_eq!(response.body.parts().collect::<Vec<_>>(), [&b"hello"[..], b", chunked!"]);
    assert_eq!(text(response.body), "hello, chunked!");
    assert_eq!(
        text(complete(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n").body),
        ""
    );
}

#[test]
fn responses_without_a_body_end_with_their_head_and_informational_ones_are_skipped() {
    assert_eq!(complete(b"HTTP/1.1 204 No Content\r\n\r\n").status, 204);
    assert_eq!(complete(b"HTTP/1.1 304 x\r\ncontent-length: 10\r\n\r\n").body.len(), 0);
    let after = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nlink: y\r\n\r\nHTTP/1.1 201 x\r\ncontent-length: 1\r\n\r\nz";
    let response = complete(after);
    assert_eq!((response.status, text(response.body).as_str()), (201, "z"));
}

#[test]
fn the_end_of_the_connection_is_seen() {
    let closes = |version: &str, header: &str| {
        let bytes = format!("HTTP/{version} 204 x\r\n{header}\r\n");
        complete(bytes.as_bytes()).closes
    };
    assert!(closes("1.1", "Connection: Close\r\n"));
    assert!(closes("1.1", "connection: x, close\r\n"));
    assert!(closes("1.0", ""));
    assert!(!closes("1.0", "connection: Keep-Alive\r\n"));
    assert!(!closes("1.1", "connection: closed\r\n"));
}

#[test]
fn what_is_no_response_or_has_no_end_is_an_error() {
    for bytes in [
        &b"ERROR\r\n"[..],
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 099 x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 101 x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello!\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n;\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n00000000000000001\r\n",
    ] {
        let outcome = parse(bytes, BODY_BYTES_MAX);
        let malformed = matches!(outcome, Err(ProtocolError::Malformed { .. }));
        assert!(malformed, "{}: {outcome:?}", bytes.escape_ascii());
    }
}

#[test]
fn heads_and_bodies_above_a_bound_are_refused_before_they_are_complete() {
    let head = |count: usize| format!("HTTP/1.1 204 x\r\n{}\r\n", "a: b\r\n".repeat(count));
    assert!(parse(head(HEADERS_MAX).as_bytes(), 0).unwrap().is_some());
    let error = parse(head(HEADERS_MAX + 1).as_bytes(), 0).unwrap_err().to_string();
    assert!(error.contains("65 headers, above the limit of 64"), "{error}");

    let endless = format!("HTTP/1.1 204 x\r\na: {}", "b".repeat(HEAD_BYTES_MAX)).into_bytes();
    assert_eq!(parse(&endless[..HEAD_BYTES_MAX - 1], 0), Ok(None));
    let error = parse(&endless[..HEAD_BYTES_MAX], 0).unwrap_err();
    assert!(matches!(error, ProtocolError::TooLong { .. }), "{error}");
    let informed = "HTTP/1.1 100 x\r\n\r\n".repeat(HEAD_BYTES_MAX / 18 + 1);
    assert!(matches!(parse(informed.as_bytes(), 0), Err(ProtocolError::TooLong { .. })));

    let stated = b"HTTP/1.1 200 x\r\ncontent-length: 11\r\n\r\n";
    assert_eq!(parse(stated, 11), Ok(None));
    assert!(matches!(parse(stated, 10), Err(ProtocolError::TooLarge { limit: 10, .. })));
    let chunks = b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n6\r\n012345\r\n5\r\n";
    assert_eq!(parse(chunks, 11), Ok(None));
    assert!(matches!(parse(chunks, 10), Err(ProtocolError::TooLarge { .. })));
    let trailers = |count: usize| {
        let trailers = "t: 1\r\n".repeat(count);
        format!("HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n{trailers}\r\n")
    };
    assert!(parse(trailers(64).as_bytes(), 0).unwrap().is_some());
    assert!(matches!(parse(trailers(65).as_bytes(), 0), Err(ProtocolError::TooLarge { .. })));
}

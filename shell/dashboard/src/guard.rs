//! Who may ask: programs and pages of this machine, and no page of somebody else in this machine's browser.
//!
//! Place in the flow: before every route. A name that is made to point here (DNS rebinding) is seen by its `Host`; a foreign page
//! that sends a command is seen by its `Origin` or `Sec-Fetch-Site`, which browsers set and pages cannot change. A program that is
//! no browser sends neither, and is on this machine already.

use axum::extract::Request;
use axum::http::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::requests::Refusal;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// On every answer: the page loads nothing from elsewhere and runs no code that is not in its files, nobody frames it, nothing is
/// kept.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// The check as a layer around all routes.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let mut response = match check(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn check(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let forbidden = |reason: &str| Refusal::new(StatusCode::FORBIDDEN, reason);
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(Ok(host)), None) = (hosts.next().map(HeaderValue::to_str), hosts.next()) else {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "one Host header is needed"));
    };
    if !is_loopback(host) {
        return Err(forbidden(
            "ask for 127.0.0.1 or localhost: other names may be somebody else's",
        ));
    }
    if method == Method::GET || method == Method::HEAD {
        return Ok(());
    }
    let is_own = headers.get(ORIGIN).is_none_or(|origin| {
        origin.to_str().is_ok_and(|origin| origin.strip_prefix("http://") == Some(host))
    });
    let is_own_site =
        headers.get(FETCH_SITE).is_none_or(|site| site == "same-origin" || site == "none");
    if is_own && is_own_site {
        Ok(())
    } else {
        Err(forbidden(
            "commands come from the page itself or from a program, not from another page",
        ))
    }
}

/// Whether a `Host` names this machine, with any port: a tunnel ends at a port of its own.
fn is_loopback(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => (name, port),
            None => return false,
        },
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    is_port && (matches!(name, "127.0.0.1" | "::1") || name.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(method: &Method, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        check(method, &map).map_or_else(|refusal| refusal.status().as_u16(), |()| 200)
    }

    #[test]
    fn only_names_of_this_machine_are_served() {
        for host in ["127.0.0.1:7070", "localhost", "LocalHost:8080", "[::1]:7070", "127.0.0.1"] {
            assert_eq!(status(&Method::GET, &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7070",
            "127.0.0.1.evil.example",
            "localhost.evil.example:7070",
            "localhost:7070.evil.example",
            "127.0.0.1:x",
            "[::1",
            "",
        ] {
            assert_eq!(status(&Method::GET, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(status(&Method::GET, &[]), 400);
        assert_eq!(status(&Method::GET, &[("host", "localhost"), ("host", "localhost")]), 400);
    }

    #[test]
    fn commands_of_other_pages_are_refused() {
        let host = ("host", "127.0.0.1:7070");
        let post =
            |headers: &[(&'static str, &str)]| status(&Method::POST, &[&[host], headers].concat());
        assert_eq!(post(&[]), 200, "a program");
        assert_eq!(post(&[("origin", "http://127.0.0.1:7070")]), 200);
        let own = [("origin", "http://127.0.0.1:7070"), ("sec-fetch-site", "same-origin")];
        assert_eq!(post(&own), 200);
        for origin in ["http://evil.example", "http://127.0.0.1:9", "http://localhost:7070", "null"]
        {
            assert_eq!(post(&[("origin", origin)]), 403, "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(post(&[("sec-fetch-site", site)]), 403, "{site}");
        }
    }
}

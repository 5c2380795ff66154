//! The files of the page, compiled in.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Path, type and content.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("../page/index.html")),
    ("/style.css", CSS, include_str!("../page/style.css")),
    ("/icon.svg", SVG, include_str!("../page/icon.svg")),
    ("/main.js", JS, include_str!("../page/main.js")),
    ("/store.js", JS, include_str!("../page/store.js")),
    ("/dom.js", JS, include_str!("../page/dom.js")),
    ("/format.js", JS, include_str!("../page/format.js")),
    ("/colours.js", JS, include_str!("../page/colours.js")),
    ("/chart.js", JS, include_str!("../page/chart.js")),
    ("/charts.js", JS, include_str!("../page/charts.js")),
    ("/headline.js", JS, include_str!("../page/headline.js")),
    ("/backends.js", JS, include_str!("../page/backends.js")),
    ("/decisions.js", JS, include_str!("../page/decisions.js")),
    ("/controls.js", JS, include_str!("../page/controls.js")),
];

/// A route for each file.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, &(path, kind, content)| {
        router.route(path, get(move || async move { ([(CONTENT_TYPE, kind)], content) }))
    })
}

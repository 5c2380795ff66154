"""The pages of examples/aggregation-service without our client: asks the same backends over HTTP, and reports."""
import sys, time, urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from reports import Reports

ROBINHOOD, PORT = sys.argv[1], int(sys.argv[2])
REPORTS, POOL = Reports(ROBINHOOD), ThreadPoolExecutor(32)


def ask(backend, product):
    """The answer of a backend, and how long it took in milliseconds."""
    start = time.monotonic()
    with urllib.request.urlopen(f"{ROBINHOOD}/backends/{backend}/{product}", timeout=2) as answer:
        return answer.read(), (time.monotonic() - start) * 1e3


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        start, product = time.monotonic(), self.path.rpartition("/")[2]
        names = ["catalogue", "ratings", "recommender"]  # by name: of equals the first blocks
        answers = dict(zip(names, POOL.map(lambda name: ask(name, product), names)))
        text = "".join(f"{name}: {len(answer)} bytes\n" for name, (answer, _) in answers.items()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        slowest = max(names, key=lambda name: answers[name][1])
        REPORTS.add((time.monotonic() - start) * 1e3, slowest)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", PORT), Page)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

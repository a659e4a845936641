#!/usr/bin/env python3
"""Checks the runner itself against a server made of fixed answers: does it notice what it must notice?

  selftest.py                 runs the checks
  selftest.py --serve CONFIG  is that server (started by the runner, as --cmd)
"""
import contextlib
import io
import pathlib
import sys
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import yaml

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent))
sys.dont_write_bytecode = True
import cases as C          # noqa: E402
import conform             # noqa: E402
import differences as D    # noqa: E402
import golden as G         # noqa: E402


# -- the server ------------------------------------------------------------------------------------------------------

class Fixed(BaseHTTPRequestHandler):
    """Knows two plain answers, and a watch that shows every PUT."""
    protocol_version = "HTTP/1.1"
    puts = threading.Condition()
    count = 0

    def log_message(self, *a):
        pass

    def answer(self, status, body, headers=()):
        self.send_response_only(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with Fixed.puts:
            Fixed.count += 1
            Fixed.puts.notify_all()
        self.answer(204, b"")

    def do_GET(self):
        if self.path.startswith("/watch"):
            return self.watch()
        if len(self.path) > 4000:
            return self.answer(414, b"")
        known = {"/admin/ping": (200, b"pong"), "/names": (200, b'["b","a"]\n'), "/refused": (400, b"Invalid path: missing")}
        status, body = known.get(self.path, (404, b""))
        self.answer(status, body, [("Content-Type", "application/json")] if body[:1] == b"[" else ())

    def watch(self):
        self.send_response_only(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        seen = Fixed.count
        while True:
            with Fixed.puts:
                if not Fixed.puts.wait_for(lambda: Fixed.count > seen, 5):
                    return
                seen = Fixed.count
            self.wfile.write(b"6\r\n{\"n\"}\n\r\n")     # no JSON: such lines compare as text


def serve(config):
    doc = yaml.safe_load(pathlib.Path(config).read_text(encoding="utf-8"))
    ports = [doc["admin"]["port"]] + [i["port"] for i in doc["interfaces"]]
    servers = [ThreadingHTTPServer(("127.0.0.1", p), Fixed) for p in ports]
    for s in servers[1:]:
        threading.Thread(target=s.serve_forever, daemon=True).start()
    servers[0].serve_forever()


# -- golden ----------------------------------------------------------------------------------------------------------

def entry(name, target, status_line, headers, **response):
    return {"name": name, "port": 4180, "request": f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n",
            "response": {"status_line": status_line, "headers": headers, **response}}


NAMES = entry("names", "/names", "HTTP/1.1 200 OK", [["Content-Type", "application/json"], ["Content-Length", "10"]], body='["a","b"]\n')
REFUSED = entry("refused", "/refused", "HTTP/1.1 500 Internal Server Error", [["Connection", "close"]], body="")
CONSUL = entry("consul", "/api/1/addr/default?path=/%23/io.l5d.consul/dc1/Web", "HTTP/1.1 200 OK", [], body="")
WATCH = entry("watch", "/watch", "HTTP/1.1 200 OK", [["Transfer-Encoding", "chunked"]],
              chunks=[{"at_ms": 50, "event": "PUT w1 /a=>/b"}, {"at_ms": 60, "chunk": "error"}, {"at_ms": 61, "end": True}])
CUT = {**entry("long", "/x", "HTTP/1.0 414 Request-URI Too Long", [["Content-Length", "0"]], body=""),
       "request": "GET /long?aaa...<5000 bytes in all>"}
CONFIG = """
admin: {ip: 127.0.0.1, port: 9991}
namers:
- {kind: io.l5d.consul, host: 127.0.0.1, port: 8500}
interfaces:
- {kind: io.l5d.thriftNameInterpreter}
- {kind: io.l5d.httpController}
"""
REFUSED_IS_400 = {"id": "g/refused", "decision": "a reason", "expect": {"status": 400, "body": {"contains": "missing"}, "headers": {"Connection": None}}}
WATCH_GOES_ON = {"id": "g/watch", "decision": "a reason", "expect": {"lines": [{"event": "PUT w1 /a=>/b"}, {"line": '{"n"}'}, {"open": True}]}}


def run(what, files, *options):
    """-> (exit status, result by id, what was printed)"""
    with tempfile.TemporaryDirectory() as tmp:
        paths = []
        for name, doc in files.items():
            paths.append(str(pathlib.Path(tmp, name + ".yaml")))
            pathlib.Path(paths[-1]).write_text(yaml.safe_dump(doc), encoding="utf-8")
        out = pathlib.Path(tmp, "out.json")
        argv = ["conform.py", what, "--cmd", f"{sys.executable} {HERE} --serve {{config}}", "--json", str(out), *options]
        argv = [str(pathlib.Path(tmp, a[1:])) if a.startswith("@") else a for a in argv]
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", argv + [p for p in paths if not p.endswith("/list.yaml")]), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = conform.main()
        rows = yaml.safe_load(out.read_text(encoding="utf-8"))["cases"] if out.exists() else []
        return status, {r["id"]: r for r in rows}, printed.getvalue()


def golden(entries, listed=(), *options):
    files = {"g": {"namerd_config": CONFIG, "fs_disco": {}, "entries": entries}, "list": list(listed)}
    return run("golden", files, "--differences", "@list.yaml", "--no-thrift", "--without", "io.l5d.consul", *options)


class Golden(unittest.TestCase):
    def test_an_equal_answer_passes_whatever_the_order_of_a_set(self):
        status, rows, _ = golden([NAMES])
        self.assertEqual((0, "passed"), (status, rows["g/names"]["result"]))

    def test_another_status_fails(self):
        status, rows, _ = golden([REFUSED])
        self.assertEqual((1, "failed", "status"), (status, rows["g/refused"]["result"], rows["g/refused"]["what"]))

    def test_a_listed_difference_passes(self):
        status, rows, printed = golden([NAMES, REFUSED], [REFUSED_IS_400])
        self.assertEqual((0, "passed"), (status, rows["g/refused"]["result"]))
        self.assertEqual("2 passed, 0 failed, 0 skipped", printed.strip().splitlines()[-1])

    def test_a_listed_difference_with_another_text_fails(self):
        row = {**REFUSED_IS_400, "expect": {"status": 400, "body": {"matches": "Invalid path:"}}}
        self.assertEqual("body", golden([REFUSED], [row])[1]["g/refused"]["what"])

    def test_a_listed_difference_that_is_none_fails(self):
        row = {**REFUSED_IS_400, "id": "g/names", "expect": {"status": 200}}
        self.assertEqual("the listed difference", golden([NAMES], [row])[1]["g/names"]["what"])

    def test_a_listed_entry_that_does_not_exist_is_refused(self):
        status, _, printed = golden([NAMES], [{**REFUSED_IS_400, "id": "g/nope"}])
        self.assertEqual(2, status)
        self.assertIn("g/nope", printed)

    def test_a_listed_entry_of_another_file_is_left_alone(self):
        self.assertEqual(0, golden([NAMES], [{**REFUSED_IS_400, "id": "other/nope"}])[0])

    def test_a_stream_that_goes_on_where_the_recorded_one_ended(self):
        self.assertEqual("failed", golden([WATCH])[1]["g/watch"]["result"])
        self.assertEqual("passed", golden([WATCH], [WATCH_GOES_ON])[1]["g/watch"]["result"])

    def test_a_stream_that_says_more_than_listed_fails(self):
        row = {**WATCH_GOES_ON, "expect": {"lines": [{"event": "PUT w1 /a=>/b"}, {"open": True}]}}
        self.assertEqual("failed", golden([WATCH], [row])[1]["g/watch"]["result"])

    def test_listing_the_recorded_lines_is_no_difference(self):
        row = {**WATCH_GOES_ON, "expect": {"lines": [{"event": "PUT w1 /a=>/b"}, {"line": "error"}, {"end": True}]}}
        watch = {**WATCH, "response": {**WATCH["response"], "chunks": [*WATCH["response"]["chunks"]]}}
        watch["response"]["chunks"][1] = {"at_ms": 60, "chunk": "error\n"}
        self.assertEqual("the listed difference", golden([watch], [row])[1]["g/watch"]["what"])

    def test_what_needs_a_kind_that_is_not_built_is_skipped(self):
        status, rows, _ = golden([NAMES, CONSUL])
        self.assertEqual((0, "skipped"), (status, rows["g/consul"]["result"]))

    def test_an_entry_that_is_not_built_must_fail(self):
        status, rows, _ = golden([REFUSED], (), "--without", "g/refused")
        self.assertEqual((0, "skipped"), (status, rows["g/refused"]["result"]))
        self.assertEqual(1, golden([NAMES], (), "--without", "g/names")[0])
        self.assertEqual(2, golden([NAMES], (), "--without", "g/nope")[0])

    def test_a_request_cut_in_the_recording_is_sent_at_its_length(self):
        self.assertEqual(5000, len(G.whole_request(CUT["request"])))
        self.assertTrue(G.whole_request("GET / HTTP/1.1\r\nX-Long: bb...<100 bytes in all>").endswith("b\r\n\r\n"))
        self.assertEqual("passed", golden([CUT])[1]["g/long"]["result"])


# -- cases -----------------------------------------------------------------------------------------------------------

def fixture(ctx, c):
    """An area of one's own: the server says `is`, the case expects something."""
    C.expect(c.get("expect", c.get("error")), c["input"]["is"])


def run_cases(rows, listed=()):
    with mock.patch.dict(C.AREAS, {"self": ("", fixture)}):
        return run("cases", {"c": rows, "list": list(listed)}, "--differences", "@list.yaml")


def case(is_, expect):
    return {"id": "self-1", "area": "self", "input": {"is": is_}, "expect": expect}


class Cases(unittest.TestCase):
    def listed(self, expect):
        return [{"id": "self-1", "decision": "a reason", "expect": expect}]

    def test_a_case_passes_or_fails(self):
        self.assertEqual(0, run_cases([case(1, 1)])[0])
        self.assertEqual(1, run_cases([case(2, 1)])[0])

    def test_a_listed_case_must_differ_and_be_what_the_list_says(self):
        self.assertEqual(0, run_cases([case(2, 1)], self.listed(2))[0])
        self.assertEqual(1, run_cases([case(3, 1)], self.listed(2))[0])
        self.assertEqual(1, run_cases([case(1, 1)], self.listed(1))[0])

    def test_a_listed_case_that_does_not_exist_is_refused(self):
        self.assertEqual(2, run_cases([{**case(1, 1), "id": "self-2"}], self.listed(2))[0])

    def test_an_area_without_a_runner_fails(self):
        self.assertEqual(1, run_cases([{**case(1, 1), "area": "new"}])[0])

    def test_the_kinds_of_a_case_follow_from_its_states(self):
        states = {"dtab": "/svc => /#/d/a | /#/d/b", "path": "/svc", "after": ["a=neg", "b=leaf", "a=pending"]}
        self.assertIn("io.l5d.consul", C.kinds_of({"area": "bind.transition", "input": states}))
        states = {**states, "after": ["a=neg", "b=leaf", "a=fail"]}
        self.assertEqual(set(), C.kinds_of({"area": "bind.transition", "input": states}))


class Lists(unittest.TestCase):
    def test_a_list_that_is_no_list_of_differences_is_refused(self):
        for rows in ([{"id": "a", "expect": {}}], [REFUSED_IS_400, REFUSED_IS_400], [{**REFUSED_IS_400, "decision": " "}]):
            with self.assertRaises(D.Wrong):
                D.Differences(rows)
        for expect in ({"body": ""}, {"status": 200, "bode": ""}):
            with self.assertRaises(D.Wrong):
                D.check_answer(expect, G.Answer("HTTP/1.1 200 OK", []))

    def test_the_projects_own_list_fits_its_recordings(self):
        listed = D.Differences.load(HERE.parent / "differences.yaml")
        known = {f"{f.stem}/{e['name']}" for f in (HERE.parent.parent / "data/golden/http").glob("*.yaml")
                 for e in yaml.safe_load(f.read_text(encoding="utf-8"))["entries"] if "request" in e}
        self.assertGreater(len(known), 300)
        self.assertEqual([], listed.unknown(known, lambda i: "/" in i))
        self.assertTrue(D.not_built(HERE.parent / "not-built.txt").isdisjoint({"io.l5d.fs", "io.l5d.httpController"}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        unittest.main()

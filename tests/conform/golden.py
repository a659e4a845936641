"""Replays recorded HTTP request/response pairs (tests/data/golden/http/*.yaml).

A fresh server per file, configured as the file says: ports are moved to free ones, DISCO becomes a folder with the
files of `fs_disco`, the Consul namer gets a stand-in with the recorder's one service. Entries are replayed in order,
because later ones see what earlier ones stored.

Strict: status code, every recorded header, body. JSON bodies compare structurally (address sets and lists of names
unordered), other bodies as text, compressed ones after decompression, and what follows on the connection; streams line by
line, with the recorded edits made between the lines. Scored separately: header spelling, extra headers, closing of the
connection, and the bodies of the admin server (they hold numbers, times and HTML).
"""
import json
import os
import pathlib
import re
import time
import zlib

import yaml

import http1
from cases import canon, cut_text
from differences import Differs, Wrong, check, check_answer
from fakes import Fake
from server import Server, StartFailed, free_ports

CONSUL_WEB = [{"Node": "n1", "Address": ip, "ServiceID": "s", "ServiceName": "s", "ServiceTags": [], "ServiceAddress": "", "ServicePort": 8080,
               "ServiceMeta": sm, "NodeMeta": nm} for ip, nm, sm in (("10.0.0.9", {"nodeName": "node-7"}, {"tier": "gold"}), ("10.0.0.10", {}, {}))]

# what the recorder did at an event of a stream, and before an entry: {put: NS, dtab} | {delete: NS} | {write: FILE, text} | {remove: FILE}
STEPS = yaml.safe_load((pathlib.Path(__file__).resolve().parent.parent / "data/golden/http-events.yaml").read_text(encoding="utf-8"))
# which requests need a kind (for --without)
NEEDED_BY = {
    "io.l5d.consul": r"io\.l5d\.consul|/con/",
    "io.l5d.port": r"ported|/pt/",
    "io.l5d.prometheus": r"/admin/metrics/prometheus",
    "io.l5d.influxdb": r"/admin/metrics/influxdb",
}


def without(conf, kinds):
    """The configuration without the blocks of these kinds; a namer goes with its transformer."""
    def lacks(block):
        return block["kind"] in kinds or any(lacks(t) for t in block.get("transformers", ()))
    for key in ("namers", "interfaces", "telemetry"):
        conf[key] = [b for b in conf.get(key, ()) if not lacks(b)]
        if not conf[key] and key != "interfaces":
            del conf[key]
    return conf


class Replay:
    def __init__(self, doc, args, tmp, stem):
        self.doc, self.fake = doc, Fake()
        self.fake.consul_raw = {"web": CONSUL_WEB}
        self.disco = os.path.join(tmp, "disco-" + stem)
        os.makedirs(self.disco, exist_ok=True)
        for name, text in doc.get("fs_disco", {}).items():
            self.write(name, text)
        conf = without(yaml.safe_load(doc["namerd_config"].replace("DISCO", self.disco)), args.without)
        p = dict(zip((4180, 4100, 4321), free_ports(3)))
        default = {"io.l5d.httpController": 4180, "io.l5d.thriftNameInterpreter": 4100, "io.l5d.mesh": 4321}
        for i in conf["interfaces"]:
            i.setdefault("ip", "127.0.0.1")
            i["port"] = p[i.get("port", default[i["kind"]])]
        for n in conf.get("namers", ()):
            if n.get("port") == 8500:
                n["port"] = self.fake.port
        conf.pop("admin")
        try:
            self.srv = Server(args.cmd, conf, {}, tmp, thrift=False, http_port=p[4180])
        except BaseException:
            self.fake.stop()
            raise
        self.ports = {4180: p[4180], 9991: self.srv.admin_port}
        if any("/alts" in str(e.get("request")) or "alts" in str(e.get("response")) for e in doc["entries"]):
            self.srv.put_ok("alts", doc["dtabs"]["alts"])
        if any(n["kind"] == "io.l5d.consul" for n in conf.get("namers", ())):
            # the recorder bound this name before it delegated it: delegate gives up after 2 s
            self.srv.api("bind", "default", "/#/io.l5d.consul/dc1/Web", timeout=30)
        time.sleep(0.3)

    def stop(self):
        self.srv.stop()
        self.fake.stop()

    def write(self, name, text):
        full = os.path.join(self.disco, name)
        if os.path.exists(full):
            with open(full, "r+", encoding="utf-8") as f:      # one write, in place
                f.write(text)
                f.truncate()
            return
        spare = self.disco + ".tmp"
        with open(spare, "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(spare, full)

    def act(self, a):
        if "put" in a:
            self.srv.put_ok(a["put"], a["dtab"])
        elif "delete" in a:
            self.srv.http("DELETE", "/api/1/dtabs/" + a["delete"])
        elif "write" in a:
            self.write(a["write"], a["text"])
        else:
            os.remove(os.path.join(self.disco, a["remove"]))

    def event(self, entry, note):
        a = STEPS["events"].get(entry, {}).get(note)
        if a is None:
            m = re.fullmatch(r"DELETE (\w+)", note)
            a = {"delete": m.group(1)} if m else None
        if a is None:
            m = re.fullmatch(r"PUT (\w+) (/.*)", note)
            a = {"put": m.group(1), "dtab": m.group(2)} if m else None
        if a is None:
            raise LookupError(f"tests/data/golden/http-events.yaml does not say what '{note}' of {entry} did")
        self.act(a)


class Answer:
    """What came back for one request."""

    def __init__(self, status_line, headers, body=b"", extra=b"", closed=False):
        self.status_line, self.headers, self.body, self.extra, self.closed = status_line, headers, body, extra, closed

    @property
    def status(self):
        return self.status_line.split()[1] if self.status_line else None

    def header(self, name):
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)


def whole_request(text):
    """A request that the recording cut short, padded with its last character to its real length."""
    m = re.fullmatch(r"(.*?)(?:\.\.\.|…)<(\d+) bytes in all>", text, re.DOTALL)
    if not m:
        return text
    head, size = m.group(1), int(m.group(2))
    tail = "\r\n\r\n" if "\r\n" in head else " HTTP/1.1\r\nHost: x\r\n\r\n"
    return head + head[-1] * (size - len(head) - len(tail)) + tail


def data(x):
    if isinstance(x, dict):
        digits = re.match("[0-9a-f]*", x["hex"]).group(0)           # long ones are cut short in the recording
        return bytes.fromhex(digits[:len(digits) // 2 * 2])
    return whole_request(x or "").encode("utf-8")


def norm(raw):
    """bytes -> something comparable"""
    try:
        v = json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
    v = canon(v)
    if isinstance(v, list) and all(isinstance(x, str) for x in v):
        v = {"unordered": sorted(v)}
    return v


def compare_head(want, answer, soft, free_length=False):
    check("status", want["status_line"].split()[1], answer.status)
    soft("HTTP version of the answer", want["status_line"].split()[0], answer.status_line.split()[0])
    for k, v in want["headers"]:
        if free_length and k.lower() == "content-length":
            continue
        check(f"header {k}", v, answer.header(k))
        soft("header spelling", True, any(x == k for x, _ in answer.headers))
    soft("no further headers", [], sorted({k.lower() for k, _ in answer.headers} - {k.lower() for k, _ in want["headers"]}))


def compare(want, answer, admin, soft):
    """A recorded answer against the one received; raises Differs."""
    if want["status_line"] is None:
        return check("no answer", None, answer.status_line)
    w, g = data(want.get("body")), answer.body
    encoded = any(k.lower() == "content-encoding" for k, _ in want["headers"])
    # The length is that of the recorded text: it says nothing where JSON is compared by structure.
    compare_head(want, answer, soft, encoded or admin or (w != g and isinstance(norm(g), (dict, list))))
    if encoded:
        w, g = zlib.decompress(w, 47), zlib.decompress(g, 47)
    if admin:
        soft("admin bodies", norm(w) if "body_length" not in want else "…", norm(g) if "body_length" not in want else "…")
    else:
        check("body", norm(w), norm(g))
        soft("body, byte for byte", w.decode("utf-8", "replace"), g.decode("utf-8", "replace"))
    check("bytes after the answer", data(want.get("extra_bytes")).decode("utf-8", "replace"), answer.extra.decode("utf-8", "replace"))
    if "connection_closed_by_server" in want:
        soft("connection closed by the server", want["connection_closed_by_server"], answer.closed)


def one(rp, e, out, expect=None):
    soft = lambda kind, w, g: out["soft"].append(dict(kind=kind, ok=w == g, **({} if w == g else {"expected": w, "got": g})))
    for a in STEPS["before"].get(e["name"], ()):
        rp.act(a)
        time.sleep(0.5 if "write" in a else 0)
    want, admin = e["response"], e["port"] == 9991
    s = http1.Stream.raw(rp.ports[e["port"]], data(e["request"]), timeout=8)
    try:
        answer = Answer(s.status_line, s.header_list)
        if "chunks" in want:
            steps = want["chunks"]
            if expect is not None:
                steps = steps_of(expect)
                if shown(steps) == shown(want["chunks"]):
                    raise Differs("the listed difference", "other lines than the recorded ones", "the same lines")
            compare_head(want, answer, soft)
            return lines(rp, e, s, steps, answer.header("content-encoding") is not None)
        answer.body = s.body(8)
        s.linger(1.5 if "extra_bytes" in want or want.get("connection_closed_by_server") else 0.05)
        answer.extra, answer.closed = s.buf, s.closed
        if expect is None:
            return compare(want, answer, admin, soft)
        try:
            compare(want, answer, admin, lambda *a: None)
        except Differs:
            return check_answer(expect, answer)
        raise Differs("the listed difference", "another answer than the recorded one", f"the recorded one: {answer.status_line}")
    finally:
        s.close()


def steps_of(expect):
    """The `lines` of a difference as steps of a stream: {line: text}, {event: text}, {open: true}, {end: true}."""
    if set(expect) != {"lines"}:
        raise Wrong(f"differences: a stream has only lines; this one has {sorted(expect)}")
    steps = []
    for x in expect["lines"]:
        if "line" in x:
            steps.append({"chunk": x["line"] + "\n"})
        elif "open" in x:
            steps.append({"note": "stream still open"})
        elif set(x) in ({"event"}, {"end"}):
            steps.append(x)
        else:
            raise Wrong(f"differences: a step is line, event, open or end, not {x!r}")
    return steps


def shown(steps):
    """What a client sees of these steps."""
    return [x.get("event") or ("end" if x.get("end") else norm(data(x["chunk"]))) for x in steps if "note" not in x]


def lines(rp, e, s, items, encoded):
    dw, dg = zlib.decompressobj(47), zlib.decompressobj(47)
    last, ended = 0, False
    for i, item in enumerate(items):
        if "event" in item:
            gap = max(0.05, min(2.0, (item["at_ms"] - last) / 1000)) if "at_ms" in item else 0.4
            last = item.get("at_ms", 0)
            if not ended:
                check(f"silence before '{item['event']}'", None, text(s.chunk(gap)))
            rp.event(e["name"], item["event"])
        elif "chunk" in item:
            last = item.get("at_ms", 0)
            got = s.chunk(5)
            w = data(item["chunk"])
            if got and encoded:
                w, got = dw.decompress(w), dg.decompress(got)
            check(f"line {i}", norm(w), norm(got) if got else text(got))
        elif item.get("end"):
            ended = True
            check("end of the stream", "", text(s.chunk(3)))
        elif not ended and "open" in item.get("note", ""):
            check("the stream stays open and silent", None, text(s.chunk(0.4)))


def text(b):
    return None if b is None else b.decode("utf-8", "replace")


def run(args, tmp):
    results, known, stems = [], set(), set()
    for f in args.files:
        stem = pathlib.Path(f).stem
        doc = yaml.safe_load(pathlib.Path(f).read_text(encoding="utf-8"))
        stems.add(stem)
        entries = [e for e in doc.get("entries", []) if "request" in e]
        known.update(f"{stem}/{e['name']}" for e in entries)
        if args.id:
            entries = [e for e in entries if f"{stem}/{e['name']}" in args.id]
        if not entries:
            results.append({"id": stem, "area": f"golden {stem}", "result": "skipped", "reason": "no request/response pairs in it", "soft": []})
            continue
        for r in of_file(doc, entries, stem, args, tmp):
            results.append(r)
            if r["result"] == "failed":
                print(f"FAIL {r['id']}: {r['what']}: expected {cut_text(r['expected'])} got {cut_text(r['got'])}", flush=True)
    belongs = lambda i: "/" in i and i.split("/", 1)[0] in stems
    stale = args.differences.unknown(known, belongs) + sorted(i for i in args.without if belongs(i) and i not in known)
    if stale:
        raise Wrong(f"differences, not built: no such entries: {', '.join(stale)}")
    return results


def of_file(doc, entries, stem, args, tmp):
    try:
        rp = Replay(doc, args, tmp, stem)
    except (StartFailed, OSError, http1.NoAnswer, AssertionError) as x:
        output = getattr(x, "output", "")[-500:]
        yield {"id": stem, "area": f"golden {stem}", "result": "failed", "soft": [], "what": "start of the server", "expected": "ready", "got": f"{x} {output}"}
        return
    try:
        for e in entries:
            yield replayed(rp, e, stem, args)
    finally:
        rp.stop()


def replayed(rp, e, stem, args):
    out = of_entry(rp, e, stem, args)
    if out["id"] in args.without:
        if out["result"] == "passed":
            out.update(result="failed", what="the list of what is not built", expected="an entry that fails", got="it passes: remove its line")
        elif out["result"] == "failed":
            out.update(result="skipped", reason="not built")
    return out


def of_entry(rp, e, stem, args):
    out = {"id": f"{stem}/{e['name']}", "area": f"golden {stem}", "result": "passed", "soft": [], "what": ""}
    lacking = sorted(k for k in args.without if k in NEEDED_BY and re.search(NEEDED_BY[k], str(e["request"])))
    if lacking:
        out.update(result="skipped", reason="not built: " + " ".join(lacking))
        return out
    tries = 25 if stem == "resolve" and "union" in e["name"] else 1     # a branch is drawn at random
    for _ in range(tries):
        out["soft"] = []
        try:
            one(rp, e, out, args.differences.get(out["id"]))
            out["result"] = "passed"
            break
        except Differs as d:
            out.update(result="failed", what=d.args[0], expected=d.args[1], got=d.args[2])
        except (OSError, http1.NoAnswer, LookupError, ValueError, zlib.error, AssertionError) as x:
            out.update(result="failed", what="talking to the server", expected="an answer", got=f"{type(x).__name__}: {x}")
    return out

"""One function per case area. Each raises Fail or Skip, or returns; soft scores go through ctx.soft()."""
import json
import os
import re
import time
from decimal import Decimal

import http1
import names
import thriftc
from server import Server, StartFailed

NOP = "/\\x2f=>~"
BAD_HOST = "192.0.2.1"          # specificHost that never matches: gives a bound name whose address is Neg
PENDING_WAIT = 1.2              # how long silence must last to count as pending
QUIET_WAIT = 0.6                # how long silence must last to count as "no emission"
FAILED_WAIT = 0.3               # the same where the answer of a plain request has shown the failure already


class Fail(Exception):
    def __init__(self, expected, got, what=""):
        super().__init__(what)
        self.expected, self.got, self.what = expected, got, what


class Skip(Exception):
    pass


def expect(expected, got, what=""):
    if expected != got:
        raise Fail(expected, got, what)


# ---------------------------------------------------------------------------------------------
# The fixture namer /#/t of the case file, built from what any namerd has:
#   a plain element      -> a file of an io.l5d.fs namer with prefix /t
#   neg, absent          -> no such file
#   empty, failtree      -> /$/nil, /$/fail
#   boom                 -> /$/boom, an unknown class, whose failure text is "boom" in bind
#                           and "Unknown namer: boom for path: P" in delegate
#   pending              -> a Consul namer whose Consul never answers
#   addrneg              -> an fs namer /n with a specificHost transformer that matches nothing
#   alt                  -> the dentry /#/t/alt => /x1 | /x2
# Inputs and expectations are rewritten with the same mapping.
_ELEM = "(?![0-9A-Za-z_:.#$%\\\\-])"
_SUBS = [(re.compile("/#/t/" + k + _ELEM), v) for k, v in (
    ("boom", "/$/boom"), ("empty", "/$/nil"), ("failtree", "/$/fail"),
    ("pending", "/#/pend/dc1/pending"), ("addrneg", "/#/n/addrneg"))]
_ALT = re.compile("/#/t/alt" + _ELEM)
ALT_DENTRY = "/#/t/alt => /x1 | /x2"
NEG_ID = "/%/io.l5d.specificHost/#/n/addrneg"


def sub(text):
    for rx, to in _SUBS:
        text = rx.sub(lambda m, to=to: to, text)
    return text


def adapt(x, key=None):
    """Rewrites an expected JSON or thrift tree for the mapping above."""
    if isinstance(x, list):
        return [adapt(v) for v in x]
    if isinstance(x, str):
        if key == "id" and x == "/#/t/addrneg":
            return NEG_ID
        x = x.replace("boundLeaf(/#/t/addrneg,", f"boundLeaf({NEG_ID},")
        return sub(x)
    if not isinstance(x, dict):
        return x
    out = {k: adapt(v, k) for k, v in x.items()}
    if out.get("type") == "exception" and out.get("message") == "boom":
        out["message"] = f"Unknown namer: boom for path: {out['path']}"
    if out.get("type") == "fail" and out.get("path") == "!" and out.get("dentry", {}).get("dst") == "/$/fail":
        out["path"] = "/$/fail"
    if out.get("contents") == "error=boom":
        out["contents"] = f"error=Unknown namer: boom for path: {out['path']}"
    d = out.get("dentry")
    if isinstance(d, dict) and d.get("dst") == "/#/t/alt" and out.get("path") != "/#/t/alt":
        out["dentry"] = {"prefix": "/#/t/alt", "dst": "/x1 | /x2"}
    if isinstance(d, str) and d.endswith("=>/#/t/alt") and out.get("path") != "/#/t/alt":
        out["dentry"] = "/#/t/alt=>/x1 | /x2"
    return out


def canon(x):
    """JSON for structural comparison: address sets are unordered, numbers are floats."""
    if isinstance(x, list):
        return [canon(v) for v in x]
    if isinstance(x, bool) or x is None or isinstance(x, str):
        return x
    if isinstance(x, (int, float)):
        return float(x)
    out = {k: canon(v) for k, v in x.items()}
    if isinstance(out.get("addrs"), list):
        out["addrs"] = sorted(out["addrs"], key=lambda a: json.dumps(a, sort_keys=True))
    return out


def cut_text(x, n=600):
    x = x if isinstance(x, str) else json.dumps(x, ensure_ascii=False, default=str)
    return x if len(x) <= n else x[:n] + f"… ({len(x)} characters)"


def compact(x):
    return json.dumps(x, separators=(",", ":"), ensure_ascii=False)


def parse_json(r, what):
    try:
        return json.loads(r.body)
    except ValueError:
        raise Fail("JSON", f"{r.status} {r.text!r}", what) from None


class Ctx:
    def __init__(self, cmd, tmp, fake, silent, starts=True, thrift=True, without=(), log=lambda *a: None):
        self.without = set(without)
        self.cmd, self.tmp, self.fake, self.silent = cmd, tmp, fake, silent
        self.starts, self.use_thrift, self.log = starts, thrift, log
        self.server, self.server_name, self.softs = None, None, []
        self.warm, self.cases = [], []
        self.dead = {}             # server name -> why it cannot be started at all
        self.refused = {}          # server name -> namer prefixes the server does not start with

    # -- servers -------------------------------------------------------------------------------
    def get(self, name):
        if self.server_name == name and self.server and self.server.proc.poll() is None:
            return self.server
        self.drop()
        if name in self.dead:
            raise self.dead[name]
        config, env, warm = CONFIGS[name](self)
        namers = [n for n in config["namers"] if not self.lacking(n)]
        try:
            self.server = self._start_excluding(name, namers, env)
        except StartFailed as e:
            self.dead[name] = e
            raise
        self.server_name = name
        for p in warm:
            try:
                self.warm.append(self.server.watch("bind", "warm", p))
            except (OSError, http1.NoAnswer):
                pass
        if warm:
            time.sleep(0.5)
        return self.server

    def _start_excluding(self, name, namers, env):
        try:
            return Server(self.cmd, {"namers": namers}, env, self.tmp, thrift=self.use_thrift)
        except StartFailed as e:
            if len(namers) < 2:
                raise
            self._bisect_end = time.monotonic() + 120
            self.log(f"# server '{name}' does not start with all {len(namers)} namers: {e}; looking for the culprit\n# " + e.output.strip().replace("\n", "\n# ")[:600])
        bad = self._bisect(namers, env)
        self.refused.setdefault(name, set()).update(n["prefix"] for n in bad)
        return Server(self.cmd, {"namers": [n for n in namers if n not in bad]}, env, self.tmp, thrift=self.use_thrift)

    def _bisect(self, namers, env):
        if time.monotonic() > self._bisect_end:
            return namers           # time is up: leave all of them out
        try:
            Server(self.cmd, {"namers": namers}, env, self.tmp, thrift=self.use_thrift).stop()
            return []
        except StartFailed:
            if len(namers) == 1:
                return namers
        half = len(namers) // 2
        return self._bisect(namers[:half], env) + self._bisect(namers[half:], env)

    def lacking(self, n):
        return self.without.intersection([n["kind"]] + [t["kind"] for t in n.get("transformers", ())])

    def not_refused(self, name, prefix):
        if prefix in self.refused.get(name, ()):
            raise Fail("the server starts", "it does not start with this namer configured")

    def drop(self):
        for w in self.warm:
            w.close()
        self.warm = []
        if self.server:
            self.server.stop()
            self.server, self.server_name = None, None

    def soft(self, kind, expected, got):
        self.softs.append((kind, expected == got, expected, got))

    def soft_in(self, kind, expected, got):
        self.softs.append((kind, expected in (got or ""), expected, got))

    def dir(self, name, files):
        root = os.path.join(self.tmp, name)
        for f, content in files.items():
            full = os.path.join(root, f)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as h:
                h.write(content)
        os.makedirs(root, exist_ok=True)
        return root

    def thrift(self):
        if not self.server.thrift:
            raise Skip("needs the thrift interface")
        return self.server.thrift

    def of(self, *areas):
        return [c for c in self.cases if c["area"] in areas]


# ---------------------------------------------------------------------------------------------
# server configurations

THRIFT = "io.l5d.thriftNameInterpreter"


def kinds_of(c):
    """The kinds a case needs beyond fs and the HTTP controller (for --without)."""
    inp, area = c["input"], c["area"]
    kinds = set()
    if area in ("rewrite.lookup", "pathmatcher.extract", "pathmatcher.substitute", "bind.weights"):
        kinds.add("io.l5d.rewrite")
    if area in ("bind", "delegate") and "addrneg" in json.dumps(inp):
        kinds.add("io.l5d.specificHost")
    if "/#/pend/" in states_used(c):
        kinds.add("io.l5d.consul")
    return kinds | own_kinds(inp, area)


def states_used(c):
    """The dtabs a case runs with, as one text."""
    if c["area"] == "bind.transition":
        n = len(c["input"]["after"])
        return transition_dtab(c, n - 1) + transition_dtab(c, n)
    if c["area"] in ("bind.union_sequence", "bind.failover_sequence"):
        return sequence_dtab(c)
    return sub(json.dumps(c["input"])) if c["area"] in ("bind", "delegate") else ""


def own_kinds(inp, area):
    if area == "transformer.localnode" or area == "transformer.daemonset":
        return {"io.l5d.k8s." + area.split(".")[1]} | ({"io.l5d.k8s"} if inp["mode"].startswith("hostNetwork") else set())
    if area == "transformer.namer":
        return {t["kind"] for t in inp["transformers"]} | ({"io.l5d.rewrite"} if inp["path"] == "/alt" else set())
    if area == "transformer.namer_delegate":
        return {inp["namer_transformer"].split()[0]}
    if isinstance(inp, dict) and "kind" in inp:
        return {inp["kind"]}
    return set()


def config_main(ctx):
    elems = {"a", "b", "bb", "ccc", "web", "ok", "q", "rr", "same", "x", "z", "woop", "poop", "local", "a.b"}
    for c in ctx.cases:
        if c["area"] in ("bind", "delegate", "delegate.tree", "depth", "bind.dtab_change"):
            elems.update(re.findall(r"/#/t/([0-9A-Za-z_.-]+)", json.dumps(c)))
    elems -= {"neg", "empty", "failtree", "pending", "boom", "addrneg", "alt"}
    t = ctx.dir("t", {e: f"127.0.0.1 {9000 + len(e)}\n" for e in elems})
    d = ctx.dir("d", {e: f"127.0.0.1 {9000 + len(e)}\n" for e in ("a", "b")})
    n = ctx.dir("n", {"addrneg": "127.0.0.1 9007\n"})
    m = ctx.dir("m", {"foo": "127.0.0.1 1\n", "bar": "127.0.0.1 1\n"})
    return {"namers": [
        {"kind": "io.l5d.fs", "prefix": "/t", "rootDir": t},
        {"kind": "io.l5d.fs", "prefix": "/d", "rootDir": d},
        {"kind": "io.l5d.fs", "prefix": "/n", "rootDir": n, "transformers": [{"kind": "io.l5d.specificHost", "host": BAD_HOST}]},
        {"kind": "io.l5d.fs", "prefix": "/io.l5d.namer", "rootDir": m},
        {"kind": "io.l5d.consul", "prefix": "/pend", "host": "127.0.0.1", "port": ctx.silent.port},
        {"kind": "io.l5d.rewrite", "prefix": "/cfrw", "pattern": "/", "name": "/rewritten/by/test/namer"},
    ]}, {}, ["/#/t/web", "/#/d/a", "/#/n/addrneg", "/#/io.l5d.namer/foo"]


def rewrite_cases(ctx):
    out = {}
    for i, c in enumerate(ctx.of("rewrite.lookup", "pathmatcher.extract", "pathmatcher.substitute")):
        inp = c["input"]
        if c["area"] == "pathmatcher.extract":
            name = "/ok" + "".join("/{%s}" % k for k in (c["expect"] or {}))
        else:
            name = inp["name"]
        out[c["id"]] = {"kind": "io.l5d.rewrite", "prefix": f"/rw{i}", "pattern": inp["pattern"], "name": name}
    return out


def config_rw(ctx):
    return {"namers": [n for cid, n in rewrite_cases(ctx).items() if "Dangling" not in by_id(ctx, cid).get("error", "")]}, {}, []


def by_id(ctx, cid):
    return next(c for c in ctx.cases if c["id"] == cid)


def _endpoint(text):
    """'1.1.1.1:4141@node' -> (ip, port, node)"""
    text = text.replace(" (no nodeName)", "")
    hp, _, node = text.partition("@")
    ip, _, port = hp.rpartition(":")
    return ip, int(port), node or None


def config_xf(ctx):
    web = ctx.dir("xf", {"web": "127.0.0.1 9003\n", "addrneg": "127.0.0.1 9007\n"})
    namers = []
    seen = {}
    for c in ctx.of("transformer.namer", "transformer.namer_delegate"):
        ts = transformers_of(c)
        key = compact(ts)
        if key not in seen:
            seen[key] = len(seen)
            namers.append({"kind": "io.l5d.fs", "prefix": f"/x{seen[key]}", "rootDir": web, "transformers": ts})
            namers.append({"kind": "io.l5d.rewrite", "prefix": f"/y{seen[key]}", "pattern": "/", "name": "/x1", "transformers": ts})
    ctx.xf_index = seen
    for i, c in enumerate(ctx.of("config.transformer_prefix")):
        inp = c["input"]
        if "error" in c or "env" in inp:
            continue
        if inp["kind"] == "io.l5d.k8s.daemonset":
            ctx.fake.endpoints(inp["namespace"], inp["service"], [("127.0.0.1", 4141, None)])
            inp = dict(inp, k8sHost="127.0.0.1", k8sPort=ctx.fake.port)
        namers.append({"kind": "io.l5d.fs", "prefix": f"/cx{i}", "rootDir": web, "transformers": [inp]})
    for i, c in enumerate(ctx.of("transformer.localnode")):
        inp, host = c["input"], c["input"]["mode"] == "hostNetwork"
        namers.append(source_namer(ctx, f"ln{i}", inp["addrs"], host, [dict({"kind": "io.l5d.k8s.localnode"}, **({"hostNetwork": True} if host else {}))]))
    for i, c in enumerate(ctx.of("transformer.daemonset")):
        inp, host = c["input"], c["input"]["mode"].startswith("hostNetwork")
        ctx.fake.endpoints("cf", f"gw{i}", [_endpoint(g) for g in inp["gateways"]])
        t = {"kind": "io.l5d.k8s.daemonset", "k8sHost": "127.0.0.1", "k8sPort": ctx.fake.port, "namespace": "cf", "service": f"gw{i}", "port": "http"}
        if host:
            t["hostNetwork"] = True
        namers.append(source_namer(ctx, f"ds{i}", inp["addrs"], host, [t]))
    return {"namers": namers}, {"POD_IP": "1.1.1.1", "NODE_NAME": "7.7.7.7"}, [f"/#/x{i}/web" for i in seen.values()]


def source_namer(ctx, name, addrs, nodes, transformers):
    """A namer at /#/<name> that gives the addresses: files, or Kubernetes endpoints when node names are needed."""
    eps = [_endpoint(a) for a in addrs]
    if nodes:
        ctx.fake.endpoints("cf", name, eps)
        return {"kind": "io.l5d.k8s", "prefix": "/" + name, "host": "127.0.0.1", "port": ctx.fake.port, "transformers": transformers}
    root = ctx.dir("src-" + name, {"web": "".join(f"{ip} {port}\n" for ip, port, _ in eps)})
    return {"kind": "io.l5d.fs", "prefix": "/" + name, "rootDir": root, "transformers": transformers}


def transformers_of(c):
    if c["area"] == "transformer.namer":
        return c["input"]["transformers"]
    kind, arg = c["input"]["namer_transformer"].split()
    return [{"kind": kind, {"io.l5d.port": "port"}.get(kind, "host"): int(arg) if arg.isdigit() else arg}]


def config_xfenv(ctx):
    web = ctx.dir("xf", {"web": "127.0.0.1 9003\n"})
    namers, env = [], {"POD_IP": "10.1.2.3", "NODE_NAME": "n1"}
    for i, c in enumerate(ctx.of("config.transformer_prefix")):
        if "error" not in c and "env" in c["input"]:
            env.update(c["input"]["env"])
            namers.append({"kind": "io.l5d.fs", "prefix": f"/cx{i}", "rootDir": web,
                           "transformers": [{k: v for k, v in c["input"].items() if k != "env"}]})
    return {"namers": namers}, env, []


def config_root(ctx):
    files, port = {}, 9100
    for c in ctx.of("strip_transformer_prefix", "thrift.addr"):
        target = c["expect"] if isinstance(c["expect"], str) else re.sub("^.*?/#/", "/#/", c["input"]["id"])
        if target.startswith("/#/"):
            port += 1
            files[target[3:]] = f"127.0.0.1 {port}\n"
    files["x"] = "127.0.0.1 9100\n"
    return {"namers": [{"kind": "io.l5d.fs", "prefix": "/", "rootDir": ctx.dir("root", files)}]}, {}, ["/#/x"]


def config_be(ctx):
    files, namers, seen = {}, [], {}
    host = {"host": "127.0.0.1", "port": ctx.fake.port}
    ctx.fake.consul.update(web=[("127.0.0.1", 9001)])
    labels = {"version": "v1"}
    ctx.fake.endpoints("ns", "web", [("127.0.0.1", 9002, None)], labels=labels)
    ctx.fake.endpoints("ns", "sessions", [("127.0.0.1", 9003, None)])
    ctx.fake.k8s["pythonsky", "services", "l5d"] = {
        "kind": "Service", "apiVersion": "v1", "metadata": {"name": "l5d", "namespace": "pythonsky", "resourceVersion": "5"},
        "spec": {"ports": [{"name": "external", "port": 4140, "targetPort": "external", "protocol": "TCP"}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "127.0.0.1"}]}}}
    ctx.be_prefix = {}
    for c in ctx.of("namer.bound_id"):
        inp = c["input"]
        kind = inp["kind"]
        conf, pfx = {"kind": kind}, inp.get("prefix", "/" + kind)
        if kind == "io.l5d.fs":
            files.update(inp["files"])
        elif kind == "io.l5d.consul":
            conf.update(host)
            if inp.get("includeTag"):
                conf["includeTag"], pfx = True, "/cftag"
        elif kind in ("io.l5d.k8s", "io.l5d.k8s.ns", "io.l5d.k8s.external"):
            conf.update(host)
            if "labelSelector" in inp:
                conf["labelSelector"], pfx = inp["labelSelector"], "/cflabel"
        elif kind == "io.l5d.marathon":
            key = compact(inp["apps"])
            pfx = "/cfm%d" % seen.setdefault(key, len(seen))
            ctx.fake.marathon[pfx[1:]] = {a: [("127.0.0.1", 9004)] for a in inp["apps"]}
            conf.update(host, uriPrefix=pfx)
        else:
            continue
        conf["prefix"] = pfx
        ctx.be_prefix[c["id"]] = pfx
        if conf not in namers and kind != "io.l5d.fs":
            namers.append(conf)
    if files:
        namers.append({"kind": "io.l5d.fs", "prefix": "/io.l5d.fs", "rootDir": ctx.dir("be", files)})
    # default prefixes are left to the server
    for n in namers:
        if n["prefix"] == "/" + n["kind"]:
            n["experimental"] = True
    return {"namers": [dict(n, experimental=True) for n in namers]}, {"POD_NAMESPACE": "ns"}, []


CONFIGS = {"main": config_main, "rw": config_rw, "xf": config_xf, "xfenv": config_xfenv, "root": config_root, "be": config_be}


# ---------------------------------------------------------------------------------------------
# parsing and printing

def path_parse(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    if "error" in c:
        r = s.api("bind", "nons", inp)
        expect(400, r.status, "status of bind?path=")
        ctx.soft("message", f"Invalid path: {inp} / {c['error']}", r.text)
        return
    e = c["expect"]
    r = s.api("delegate", "nons", inp)
    expect(200, r.status, "status of delegate?path=")
    ns = s.ns()
    s.put_ok(ns, "/cf=>" + inp)
    expect([{"prefix": "/cf", "dst": e["show"]}], parse_json(s.get_json(ns), "GET dtab"), "as a destination")
    if s.thrift:
        tree = thriftc.delegate_tree(s.thrift.delegate(ns, "", ("leaf", [b"cf"])))
        expect("delegate=0", tree["root"]["contents"], "thrift delegate root")
        got = names.read_path(tree["nodes"]["0"]["path"])
        expect(e["elems_hex"], [x.hex() for x in got], "elements")
        expect(e["show"], tree["nodes"]["0"]["path"], "elements, shown")


def path_utf8_elem(ctx, c):
    ctx.get("main")
    t = ctx.thrift()
    tree = ("leaf", [b"$", b"no.such.Cf", c["input"].encode()])
    if "error" in c:
        try:
            got = thriftc.delegate_tree(t.delegate("nons", "", tree))
        except thriftc.ThriftError as e:
            ctx.soft_in("message", c["error"], e.message)
            return
        except OSError:
            return
        raise Fail("a failure", got, "empty element over thrift")
    got = thriftc.delegate_tree(t.delegate("nons", "", tree))["root"]["contents"]
    expect("error=Unknown namer: no.such.Cf for path: /$/no.such.Cf" + c["expect"]["show"], got)


def path_eq(ctx, c):
    s, ns = ctx.get("main"), None
    a, b = c["input"]
    ns = s.ns()
    s.put_ok(ns, a + " => /cfhit")
    got = parse_json(s.api("delegate", ns, b), "delegate")
    expect(c["expect"], "/cfhit" in compact(got), "one path as prefix, the other looked up")


def dentry_parse(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    ns = s.ns()
    thrift_ok = None
    if s.thrift:
        try:
            s.thrift.delegate(ns, "", ("leaf", [b"x"]), dentry=inp)
            thrift_ok = True
        except thriftc.ThriftError:
            thrift_ok = False
        ctx.soft("dentry in a thrift request is checked", "error" not in c, thrift_ok)
    if "error" in c:
        try:
            names.read_dtab(inp)
        except names.BadName as e:
            own = str(e)
        else:
            raise Skip("a dtab of this text is legal, only the single dentry is not; not visible over HTTP")
        r = s.put(ns, inp)
        expect(400, r.status, "status of PUT")
        if own == c["error"]:
            ctx.soft("message", c["error"], r.text)
        return
    e = c["expect"]
    r = s.put(ns, inp)
    expect(204, r.status, f"status of PUT ({r.text})")
    expect([{"prefix": e["prefix"], "dst": names.show_tree(names.from_case(e["dst"]))}], parse_json(s.get_json(ns), "GET"), "JSON")
    expect(e["show"] + "\n", s.get_text(ns).text, "text")


def prefix_parse(ctx, c):
    s = ctx.get("main")
    ns = s.ns()
    r = s.put(ns, c["input"] + " => /x")
    if "error" in c:
        expect(400, r.status, "status of PUT")
        return
    expect(204, r.status, f"status of PUT ({r.text})")
    got = parse_json(s.get_json(ns), "GET")[0]["prefix"]
    expect(c["expect"]["show"], got)
    expect(c["expect"]["size"], len([x for x in got.split("/") if x]), "elements")


def dentry_nop(ctx, c):
    ctx.get("main")
    expect(c["expect"], thriftc.delegate_tree(ctx.thrift().delegate("nons", "", ("leaf", [b"zz"])))["root"]["dentry"])


def nametree_parse(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    if ";" in re.sub(r"\s#[^\n]*", "", inp):
        raise Skip("has a ';', which a dtab takes as a separator")
    ns = s.ns()
    r = s.put(ns, "/cf=>" + inp)
    if "error" in c:
        expect(400, r.status, "status of PUT")
        ctx.soft("message", c["error"].replace("found at '", "found at '/cf=>", 1), r.text)
        return
    expect(204, r.status, f"status of PUT ({r.text})")
    e = c["expect"]
    expect("/cf=>" + e["show"] + "\n", s.get_text(ns).text, "text")
    expect([{"prefix": "/cf", "dst": e["show"]}], parse_json(s.get_json(ns), "GET"), "JSON")
    want = names.weights(names.from_case(e["tree"]))
    if want and all(w < 1e300 for w in want):
        d = s.api("delegate", ns, "/cf")
        if d.status == 200:
            expect(want, json_weights(json.loads(d.body)), "weights in delegate")


def json_weights(n):
    if "alt" in n:
        return [w for x in n["alt"] for w in json_weights(x)]
    if "union" in n:
        return [w for x in n["union"] for w in [float(x["weight"])] + json_weights(x["tree"])]
    if "delegate" in n:
        return json_weights(n["delegate"])
    return []


def weight_show(ctx, c):
    s = ctx.get("main")
    ns = s.ns()
    w = format(Decimal(repr(float(c["input"]))), "f")
    s.put_ok(ns, f"/cf => {w} * /a & ~")
    expect("/cf=>" + c["expect"] + "\n", s.get_text(ns).text)


def nametree_eval(ctx, c):
    s = ctx.get("main")
    ports = {}
    text = re.sub(r"/\w+", lambda m: "/$/inet/127.1/%d" % ports.setdefault(m.group(0), 7000 + len(ports)), c["input"])
    ns = s.ns()
    s.put_ok(ns, "/cf => " + text)
    got = parse_json(s.api("bind", ns, "/cf"), "bind")
    back = {f"/$/inet/127.1/{p}": name for name, p in ports.items()}
    ids = json_eval(got)
    expect(c["expect"], None if ids is None else sorted(back.get(i, i) for i in ids), "leaves of the bound tree, evaluated")


def json_eval(n):
    kind = n["type"]
    if kind == "leaf":
        return {n["bound"].get("id")}
    if kind == "empty":
        return set()
    if kind in ("neg", "fail"):
        return None
    sets = [json_eval(x["tree"]) for x in n["union"]]
    sets = [x for x in sets if x is not None]
    return set().union(*sets) if sets else None


def dtab_parse(ctx, c):
    s = ctx.get("main")
    ns = s.ns()
    r = s.put(ns, c["input"])
    if "error" in c:
        expect(400, r.status, "status of PUT")
        ctx.soft("message", c["error"], r.text)
        expect(400, s.put(ns, c["input"], "text/plain; charset=UTF-8").status, "status of PUT as text/plain")
        return
    e = c["expect"]
    expect(204, r.status, f"status of PUT ({r.text})")
    expect(e["show"] + "\n", s.get_text(ns).text, "text")
    got = parse_json(s.get_json(ns), "GET")
    expect(e["length"], len(got), "entries")
    ns2 = s.ns()
    expect(204, s.put(ns2, got, "application/json").status, "status of PUT of the JSON form")
    expect(e["show"] + "\n", s.get_text(ns2).text, "text after PUT as JSON")


def dtab_concat(ctx, c):
    s = ctx.get("main")
    a, b = c["input"]
    one, two = s.ns(), s.ns()
    s.put_ok(one, a)
    s.put_ok(two, c["expect"])
    for pfx, _ in names.read_dtab(c["expect"]):
        p = names.show_path(pfx)
        x, y = s.api("delegate", one, p, b), s.api("delegate", two, p)
        expect(canon(parse_json(y, "delegate")), canon(parse_json(x, "delegate")), f"delegate {p}, second dtab as parameter")


def dtab_lookup(ctx, c):
    s = ctx.get("main")
    dtab, path = c["input"]["dtab"], c["input"]["path"]
    want = names.from_case(c["expect"]["tree"])
    ns = s.ns()
    s.put_ok(ns, dtab)
    r = s.api("delegate", ns, path)
    if r.status == 500 and want[0] == "leaf" and want[1]:
        # the rewritten path loops: stop it with a later entry that cannot match the path itself
        s.put_ok(ns, dtab.rstrip("; \n") + ";/" + names.show_elem(want[1][0]) + " => !")
        r = s.api("delegate", ns, path)
    node = parse_json(r, "delegate")
    shown = "~" if path == "/" else names.show_path(names.read_path(path))
    if want[0] == "neg" and node == {"type": "neg", "path": shown}:
        return
    if node["type"] == "delegate":
        expect(names.show_path(names.read_path(path)), node["path"])
        same_step(want, node["delegate"])
    else:
        expect(names.show_path(names.read_path(path)), node.get("path"))
        same_step(want, node)


def same_step(want, node):
    kind = want[0]
    if kind == "leaf":
        p = names.show_path(want[1])
        expect("~" if p == "/" and node["type"] == "neg" else p, node.get("path"), "path of the looked-up leaf")
    elif kind in ("neg", "fail", "empty"):
        expect((kind, {"neg": "~", "fail": "!"}.get(kind, node.get("path"))), (node["type"], node.get("path")))
    elif kind == "alt":
        expect("alt", node["type"])
        flat = flatten(want)
        expect(len(flat), len(node["alt"]), "branches")
        for w, n in zip(flat, node["alt"]):
            same_step(w, n)
    else:
        expect("union", node["type"])
        expect([w for w, _ in want[1]], [float(x["weight"]) for x in node["union"]], "weights")
        for (_, w), n in zip(want[1], node["union"]):
            same_step(w, n["tree"])


def flatten(t):
    return [y for b in t[1] for y in (flatten(b) if b[0] == "alt" else [b])]


# ---------------------------------------------------------------------------------------------
# namers

def namer_system(ctx, c):
    s = ctx.get("main")
    lookup_result(ctx, s, c["input"], c)


def lookup_result(ctx, s, path, c, json_path=None):
    """c has expect: {path} | neg | empty | fail | {bound}, or error; path is looked up with an empty dtab."""
    ns = "nons"
    if "error" in c:
        expect_bind_error(ctx, s, ns, path, "", c["error"])
        return
    e = c["expect"]
    if isinstance(e, dict) and "path" in e:
        want = e["path"]
        if want.startswith("/$/"):
            b = thriftc.bound_tree(ctx.thrift().bind(ns, "", path))
            expect({"leaf": {"id": want, "residual": "/"}}, b["root"], "thrift bind of the rewritten path")
            return
        got = parse_json(s.api("delegate", ns, path), "delegate")
        expect({"type": "neg", "path": "~" if want == "/" else want}, got, "delegate shows the rewritten path")
        return
    got = parse_json(s.api("bind", ns, path), "bind")
    if isinstance(e, dict):
        b = e["bound"]
        want = {"type": "leaf", "bound": {"addr": b.get("addr"), "id": b["id"], "path": b["residual"]}}
        bound = got.get("bound", {})
        addr = bound.get("addr", {})
        if "addr" not in b:
            want["bound"]["addr"] = addr
        elif b["addr"].get("cause") and addr.get("type") == "failed":
            ctx.soft("cause of a failed address", b["addr"]["cause"], addr.get("cause"))
            want["bound"]["addr"] = addr
        if b["id"] is None:
            del want["bound"]["id"]
        expect(canon(want), canon(got), "bind")
        if s.thrift:
            root = thriftc.bound_tree(s.thrift.bind(ns, "", path))["root"]
            expect({"leaf": {"id": b["id"], "residual": b["residual"]}} if b["id"] else "neg", root, "thrift bind")
        return
    expect({"type": e}, got, "bind")
    if e == "neg" and s is ctx.server:
        shown = names.show_path(names.read_path(path))
        node = parse_json(s.api("delegate", ns, path), "delegate")
        expect({"type": "neg", "path": "~" if shown == "/" else shown}, node, "delegate")


def inet_resolve(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    host, colon, port = inp.rpartition(":")
    if not colon:
        raise Skip("no way to send a host text without a port")
    esc = "".join("\\x%02x" % b for b in host.encode())
    if re.fullmatch(r"[-+]?\d+", port):
        path = f"/$/inet/{esc}/{port}" if host else f"/$/inet/{port}"
    elif re.fullmatch(r"[0-9A-Za-z_.-]+", port) and re.fullmatch(r"[0-9A-Za-z_.-]+", host):
        path = f"/$/io.buoyant.rinet/{port}/{host}"
    else:
        raise Skip("no path gives the resolver this text")
    got = parse_json(s.api("bind", "nons", path), "bind")
    addr = got.get("bound", {}).get("addr", got)
    want = c["expect"]
    if "cause" in want and addr.get("type") == "failed":
        ctx.soft("cause of a failed address", want["cause"], addr.get("cause"))
        return
    expect(canon(want), canon(addr), path)


def rewrite_lookup(ctx, c):
    n = rewrite_cases(ctx)[c["id"]]
    if "Dangling" in c.get("error", ""):
        return start_fails(ctx, {"namers": [n]}, {}, c["error"].split("\n")[0])
    s = ctx.get("rw")
    ctx.not_refused("rw", n["prefix"])
    p = c["input"]["path"]
    lookup_result(ctx, s, "/#" + n["prefix"] + ("" if p == "/" else p), c)


def pathmatcher_extract(ctx, c):
    n = rewrite_cases(ctx)[c["id"]]
    s = ctx.get("rw")
    ctx.not_refused("rw", n["prefix"])
    e = c["expect"]
    out = {"expect": "neg" if e is None else {"path": "/ok" + "".join("/" + v for v in e.values())}}
    lookup_result(ctx, s, "/#" + n["prefix"] + c["input"]["path"], out)


def pathmatcher_substitute(ctx, c):
    n = rewrite_cases(ctx)[c["id"]]
    s = ctx.get("rw")
    ctx.not_refused("rw", n["prefix"])
    lookup_result(ctx, s, "/#" + n["prefix"] + c["input"]["path"], {"expect": "neg" if c["expect"] is None else {"path": c["expect"]}})


def strip_prefix(ctx, c):
    s = ctx.get("root")
    got = parse_json(s.api("addr", "nons", c["input"]), "addr")
    want = parse_json(s.api("addr", "nons", c["expect"]), "addr") if c["expect"] != "/" else {"type": "neg"}
    if c["expect"].startswith(("/#", "/$")):
        expect("bound", want["type"], "the stripped id itself must resolve")
    expect(canon(want), canon(got), f"addr, compared with addr of {c['expect']}")
    if s.thrift:
        t = thriftc.addr_value(s.thrift.addr("nons", c["input"]))
        expect([(a["ip"], a["port"]) for a in want.get("addrs", [])], [(a["ip"], a["port"]) for a in t.get("addrs", [])], "thrift addr")


def namer_bound_id(ctx, c):
    kind = c["input"]["kind"]
    if kind.startswith("/$/"):
        s = ctx.get("main")
        e = c["expect"]
        if isinstance(e, dict):
            e = {"bound": dict(e["bound"], addr={"type": "bound", "addrs": [], "meta": {}})}
        return lookup_result(ctx, s, c["input"]["path"], {"expect": e})
    if kind in ("io.l5d.serversets", "io.l5d.zkLeader", "io.l5d.dnssrv", "io.l5d.rancher"):
        raise Skip({"io.l5d.dnssrv": "needs a DNS server", "io.l5d.rancher": "its host name is fixed"}.get(kind, "needs ZooKeeper"))
    s = ctx.get("be")
    pfx = ctx.be_prefix[c["id"]]
    ctx.not_refused("be", pfx)
    old = "/#" + c["input"].get("prefix", "/" + kind)
    swap = lambda p: "/#" + pfx + p[len(old):]
    e = c["expect"]
    if isinstance(e, dict):
        e = {"bound": {"id": swap(e["bound"]["id"]), "residual": e["bound"]["residual"]}}
    lookup_result(ctx, s, swap(c["input"]["path"]), {"expect": e})


def transformer_namer(ctx, c):
    s = ctx.get("xf")
    i = ctx.xf_index[compact(transformers_of(c))]
    x = c["input"]["path"]
    kinds = [t["kind"] for t in c["input"]["transformers"]]
    fixed = kinds[-1] in ("io.l5d.const", "io.l5d.replace") or "io.l5d.const" in kinds
    if x == "/alt":
        ctx.not_refused("xf", f"/y{i}")
        return lookup_result(ctx, s, f"/#/y{i}", {"expect": {"path": "/x1"}})
    ctx.not_refused("xf", f"/x{i}")
    if x in ("/empty", "/failtree"):
        raise Skip("no namer of namerd gives such a tree")
    if x == "/addrneg" and not fixed:
        raise Skip("no namer of namerd gives a bound name whose address is Neg without a transformer of its own")
    e = json.loads(json.dumps(c["expect"]).replace("/#/t/", f"/#/x{i}/"))
    lookup_result(ctx, s, f"/#/x{i}{x}", {"expect": e})


def transformer_namer_delegate(ctx, c):
    s = ctx.get("xf")
    i = ctx.xf_index[compact(transformers_of(c))]
    ns = s.ns()
    s.put_ok(ns, c["input"]["ns_dtab"].replace("/#/t", f"/#/x{i}"))
    want = json.loads(c["expect"]["http_json"].replace("/#/t", f"/#/x{i}"))
    expect(canon(want), canon(parse_json(s.api("delegate", ns, c["input"]["path"]), "delegate")))


def transformer_addr(area, short):
    def run(ctx, c):
        s = ctx.get("xf")
        i = [x["id"] for x in ctx.of(area)].index(c["id"])
        ctx.not_refused("xf", f"/{short}{i}")
        nodes = c["input"]["mode"].startswith("hostNetwork")
        got = parse_json(s.api("bind", "nons", f"/#/{short}{i}/cf/http/{short}{i}" if nodes else f"/#/{short}{i}/web"), "bind")
        expect(canon(c["expect"]), canon(got.get("bound", {}).get("addr", got)), "address of the bound name")
    return run


# ---------------------------------------------------------------------------------------------
# bind and delegate

def expect_bind_error(ctx, s, ns, path, local, message):
    r = s.api("bind", ns, path, local)
    expect(500, r.status, f"status of bind ({r.text})")
    ctx.soft_in("message", message, r.text)
    with s.watch("bind", ns, path, local) as w:
        # namerd sends the message as a line and ends the stream, which freezes the name in a Linkerd for good
        expect(200, w.status, "status of the watch")
        expect(None, w.line(FAILED_WAIT), "a failed evaluation leaves the watch open and silent")
    if s.thrift:
        try:
            got = thriftc.bound_tree(s.thrift.bind(ns, local, path))
        except thriftc.ThriftError as e:
            ctx.soft("thrift failure is declared", "declared", e.kind)
            ctx.soft_in("message", message, e.message)
        else:
            raise Fail("BindFailure", got, "thrift bind")


def expect_pending(s, ns, path, local):
    with s.watch("bind", ns, path, local) as w:
        expect(200, w.status, "status of the watch")
        got = w.line(PENDING_WAIT)
        expect(None, got, "silence on the watch")


def thrift_pending(s, call, what):
    t = thriftc.Namer(s.thrift_port)
    try:
        got = call(t)
    except thriftc.Timeout:
        return
    except thriftc.ThriftError as e:
        got = str(e)
    finally:
        t.close()
    raise Fail("no answer", got, what)


def case_ns(s, ns_dtab, text_of_case):
    extra = [ALT_DENTRY] if _ALT.search(text_of_case) else []
    ns = s.ns()
    if ns_dtab or extra:
        s.put_ok(ns, ";".join(extra + ([ns_dtab] if ns_dtab else [])))
    return ns


def bind(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    local, path = sub(inp["local_dtab"]), sub(inp["path"])
    ns = case_ns(s, sub(inp["ns_dtab"]), json.dumps(inp))
    if "error" in c:
        return expect_bind_error(ctx, s, ns, path, local, c["error"])
    e = c["expect"]
    if e == "pending":
        expect_pending(s, ns, path, local)
        if s.thrift:
            thrift_pending(s, lambda t: thriftc.bound_tree(t.bind(ns, local, path, timeout=0.7)), "thrift bind")
        return
    want = adapt(json.loads(e["http_json"]))
    r = s.api("bind", ns, path, local)
    expect(200, r.status, f"status of bind ({r.text})")
    expect(canon(want), canon(parse_json(r, "bind")), "bind")
    ctx.soft("JSON text", compact(want) + "\n", r.text)
    with s.watch("bind", ns, path, local) as w:
        line = w.line(5)
        try:
            got = canon(json.loads(line or "null"))
        except ValueError:
            got = line
        expect(canon(want), got, "first line of the watch")
    if s.thrift and "thrift_error" in e:
        try:
            got = thriftc.bound_tree(s.thrift.bind(ns, local, path))
        except thriftc.ThriftError as x:
            ctx.soft("thrift failure is declared", "declared", x.kind)
            return ctx.soft_in("message", e["thrift_error"], x.message)
        raise Fail("BindFailure", got, "thrift bind")
    if s.thrift and "thrift" in e:
        expect(norm_bound(adapt(e["thrift"])), norm_bound(thriftc.bound_tree(s.thrift.bind(ns, local, path))), "thrift bind")


def norm_bound(t):
    def node(n):
        if isinstance(n, dict) and "weighted" in n:
            return {"weighted": [[float(w), int(i)] for w, i in n["weighted"]]}
        return n
    return {"root": node(t["root"]), "nodes": {str(int(float(k))): node(v) for k, v in t["nodes"].items()}}


def delegate(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    local, path = sub(inp["local_dtab"]), sub(inp["path"])
    ns = case_ns(s, sub(inp["ns_dtab"]), json.dumps(inp))
    tree = ("leaf", names.read_path(path))
    if "error" in c:
        r = s.api("delegate", ns, path, local)
        expect(500, r.status, f"status of delegate ({r.text})")
        if s.thrift:
            try:
                got = thriftc.delegate_tree(s.thrift.delegate(ns, local, tree))
            except thriftc.ThriftError as e:
                ctx.soft("thrift failure is declared", "declared", e.kind)
                ctx.soft_in("message", c["error"], e.message)
            else:
                raise Fail("DelegationFailure", got, "thrift delegate")
        return
    e = c["expect"]
    if e == "pending":
        r = s.api("delegate", ns, path, local)
        expect(503, r.status, f"status of delegate ({r.text})")
        ctx.soft_in("message", "Request timed out.", r.text)
        if s.thrift:
            thrift_pending(s, lambda t: thriftc.delegate_tree(t.delegate(ns, local, tree, timeout=0.7)), "thrift delegate")
        return
    want = adapt(json.loads(e["http_json"]))
    r = s.api("delegate", ns, path, local)
    expect(200, r.status, f"status of delegate ({r.text})")
    expect(canon(want), canon(parse_json(r, "delegate")), "delegate")
    ctx.soft("JSON text", compact(want), r.text)
    if s.thrift and "thrift" in e:
        expect(adapt(e["thrift"]), thriftc.delegate_tree(s.thrift.delegate(ns, local, tree)), "thrift delegate")


def delegate_tree(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    t = ctx.thrift()
    ns = case_ns(s, inp["ns_dtab"], json.dumps(inp))
    expect(c["expect"]["thrift"], thriftc.delegate_tree(t.delegate(ns, inp["local_dtab"], names.read_tree(inp["tree"]))), "thrift delegate")


def depth(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    if "max_depth" in inp:
        raise Skip("a limit other than 100 is a flag of the process")
    k = inp["rewrites"]
    dtab = [f"/p{i}=>/p{i + 1}" for i in range(k)] + ([f"/p{k}=>/#/t/web"] if inp["then"] == "namer" else [])
    ns = s.ns()
    s.put_ok(ns, ";".join(dtab))
    e = c["expect"]
    if e["bind"] == "neg":
        expect({"type": "neg"}, parse_json(s.api("bind", ns, "/p0"), "bind"), "bind")
    elif isinstance(e["bind"], dict):
        got = parse_json(s.api("bind", ns, "/p0"), "bind")
        expect((e["bind"]["leaf"]["id"], e["bind"]["leaf"]["residual"]), (got.get("bound", {}).get("id"), got.get("bound", {}).get("path")), "bind")
    else:
        expect_bind_error(ctx, s, ns, "/p0", "", e["bind"])
    r = s.api("delegate", ns, "/p0")
    expect(200 if e["delegate"] == "ok" else 500, r.status, "status of delegate")
    if e["delegate"] != "ok" and s.thrift:
        try:
            s.thrift.delegate(ns, "", ("leaf", [b"p0"]))
        except thriftc.ThriftError as x:
            ctx.soft_in("message", e["delegate"], x.message)
        else:
            raise Fail("DelegationFailure", "a tree", "thrift delegate")


# -- changes seen by a watch ----------------------------------------------------------------------

STATE = {"neg": "~ | ~", "empty": "$", "fail": "!", "pending": "/#/pend/dc1/x"}


def state_dentry(path, state):
    """The dentry that puts path into a state; a leaf needs none. '~ | ~' because a lone '~' falls through to the namers."""
    if state == "leaf":
        return None
    m = re.fullmatch(r"failed\((\w+)\)", state)
    return f"{path} => " + (f"/$/{m.group(1)}" if m else STATE[state])


def shape(n):
    """Bind JSON -> the notation of the case file."""
    if not isinstance(n, dict):
        return n
    if n["type"] == "leaf":
        return {"leaf": {"id": n["bound"].get("id"), "residual": n["bound"]["path"]}}
    if n["type"] == "union":
        return {"union": [{"weight": float(x["weight"]), "tree": shape(x["tree"])} for x in n["union"]]}
    return n["type"]


def line_state(line):
    if line in (None, ""):
        return line
    try:
        return shape(json.loads(line))
    except ValueError:
        return {"failed": line.rstrip("\n")}


def transition_dtab(c, upto):
    states = {"a": "pending", "b": "pending"}
    for step in c["input"]["after"][:upto]:
        k, v = step.split("=", 1)
        states[k] = v
    return ";".join([c["input"]["dtab"]] + [d for k, v in states.items() for d in [state_dentry(f"/#/d/{k}", v)] if d])


def bind_transition(ctx, c):
    s, path = ctx.get("main"), c["input"]["path"]
    n = len(c["input"]["after"])
    ns = s.ns()

    # A name of its own: rosterd passes over a branch that has been pending for 2 s, whoever asked for it.
    def dtab(upto):
        return transition_dtab(c, upto).replace(STATE["pending"], "/#/pend/dc1/" + ns)

    s.put_ok(ns, dtab(n - 1))
    want = c["expect"]
    with s.watch("bind", ns, path) as w:
        before = line_state(w.line(0.8))
        s.put_ok(ns, dtab(n))
        got = line_state(w.line(QUIET_WAIT if want in ([], ["pending"]) else 3))
        expect(None if want in ([], ["pending"]) else want[-1], got, f"line after the last step (before it: {before})")
        if want not in ([], ["pending"]):
            expect(True, w.line(0.15) in (None, ""), "only one line")


def bind_dtab_change(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    seq = [x.replace("/#inet/", "/$/inet/") for x in inp["ns_dtab_sequence"]]
    if any(x.startswith("<store") for x in seq):
        raise Skip("the in-memory store cannot be made to fail or to be pending")
    local, path = inp.get("local_dtab", ""), inp["path"]
    want = json.loads(json.dumps(c["expect"]).replace("/#inet/", "/$/inet/"))
    ns = s.ns()
    with s.watch("bind", ns, path, local) as w:
        last = line_state(w.line(3))            # the missing namespace counts as empty
        expect("neg", last, "missing namespace")
        lines = [last]
        for d in seq:
            s.put_ok(ns, d)
            x = line_state(w.line(QUIET_WAIT))
            if x is not None:
                lines.append(x)
    final = shape(parse_json(s.api("bind", ns, path, local), "bind"))
    expect(want[-1], final, "bind after the last edit")
    # namerd compares ids and weights alone and holds a changed residual back
    expect(True, all(a != b for a, b in zip(lines, lines[1:])), f"a line only when ids, residuals or weights change: {lines}")
    expect(want[-1], lines[-1], "last line of the watch")


def bound_eq(ctx, c):
    known = {
        "leaf(/#/t/web, residual /a) vs leaf(/#/t/web, residual /b)": ("/svc => /#/t/web/a", "/svc => /#/t/web/b"),
        "leaf(/#/t/web) vs leaf(/#/t/web2)": ("/svc => /#/t/web", "/svc => /#/t/ok"),
        "union(0.5*x) vs union(0.6*x)": ("/svc => 0.5 * /#/t/a & /#/t/bb", "/svc => 0.6 * /#/t/a & /#/t/bb"),
        "Name.Bound(a1,id1) vs Name.Bound(a1,id2)": ("/svc => /$/inet/127.0.0.1/1", "/svc => /$/inet/127.1/1"),
    }
    if c["input"] not in known:
        raise Skip("the two values cannot both be made from outside")
    s = ctx.get("main")
    ns = s.ns()
    s.put_ok(ns, known[c["input"]][0])
    with s.watch("bind", ns, "/svc") as w:
        expect(True, bool(w.line(3)), "first line")
        s.put_ok(ns, known[c["input"]][1])
        expect(c["expect"], w.line(QUIET_WAIT) is None, "silence of the watch means equal")


def bind_sequence(ctx, c):
    """bind.union_sequence and bind.failover_sequence: the state after the last step."""
    s = ctx.get("main")
    ns = s.ns()
    s.put_ok(ns, sequence_dtab(c))
    e = c["expect"]
    if e == "pending":
        return expect_pending(s, ns, "/cf", "")
    if "failed" in e:
        return expect_bind_error(ctx, s, ns, "/cf", "", e["failed"])
    got = parse_json(s.api("bind", ns, "/cf"), "bind")
    ids = json_eval(got)
    ports = None if ids is None else sorted(int(i.rsplit("/", 1)[1]) for i in ids)
    expect(e["eval_ports"], ports, "ports of the evaluated tree")
    if ports and "weight_meta" in e:
        expect({e["weight_meta"]}, {x for _, x in leaves(got)}, "namer_nametree_weight of the leaves")


def sequence_dtab(c):
    tree, states = c["input"]["tree"], {}
    for step in c["input"]["after"]:
        if step in ("both pending", "all pending"):
            for p in re.findall(r"/test/\d", tree) + ["/test/2"]:
                states[p] = STATE["pending"]
            continue
        for part in step.split(", "):
            p, v = part.split(" := ")
            v = v.replace(" (itself pending)", "")
            states[p] = {"failed": "/$/TestException", "neg": "~", "empty": "$"}.get(v, v)
    return ";".join([f"/cf => {tree}"] + [f"{p} => {v}" for p, v in states.items()])


def leaves(n):
    if n["type"] == "leaf":
        a = n["bound"]["addr"]
        return [(a["addrs"][0]["port"], a.get("meta", {}).get("namer_nametree_weight"))]
    if n["type"] == "union":
        return [y for x in n["union"] for y in leaves(x["tree"])]
    return []


def bind_weights(ctx, c):
    s = ctx.get("main")
    ns = s.ns()
    s.put_ok(ns, c["input"]["dtab"].replace("/$/rw", "/#/cfrw"))
    got = parse_json(s.api("bind", ns, c["input"]["path"]), "bind")
    expect([(x["port"], x["weight_meta"]) for x in c["expect"]], leaves(got))


# -- http.* ------------------------------------------------------------------------------------------

def http_bind(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    if "meta" in inp.get("bound_tree", "") and "with address meta" in inp["bound_tree"]:
        raise Skip("the fixture's metadata comes from no namer that can be run here")
    ns = s.ns()
    if "bound_tree" in inp:
        s.put_ok(ns, "/foo => " + names.leaf_text(inp["bound_tree"]))
    else:
        s.put_ok(ns, "/bar => /#/io.l5d.namer/bar")
    u = inp["uri"].replace("/default?", f"/{ns}?")
    head, _, dt = u.partition("&dtab=")
    r = s.http("GET", head + (f"&dtab={http1.q(dt)}" if dt else ""))
    same_body(ctx, c["expect"], r)


def same_body(ctx, e, r):
    expect(e["status"], r.status, f"status ({r.text})")
    try:
        want = json.loads(e["body"])
    except ValueError:
        ctx.soft("message", e["body"], r.text)
        return
    expect(canon(want), canon(parse_json(r, "body")), "body")
    ctx.soft("JSON text", e["body"], r.text)


def http_bind_watch(ctx, c):
    s = ctx.get("main")
    ns = s.ns()
    dst = []
    for st in c["input"]["states"]:
        m = re.fullmatch(r'failed\("(\w+)"\)', st)
        dst.append(f"/$/{m.group(1)}" if m else names.leaf_text(st) or "~")
    s.put_ok(ns, "/foo => " + dst[0])
    with s.watch("bind", ns, "/foo") as w:
        for i, chunk in enumerate(c["expect"]["chunks"]):
            if i:
                s.put_ok(ns, "/foo => " + dst[i])
            got = w.chunk(3)
            expect(chunk, None if got is None else got.decode(), f"chunk {i}")
        if c["expect"].get("then") == "end of stream":
            expect(b"", w.chunk(3), "end of the stream")
        else:
            expect(None, w.chunk(0.2), "the stream stays open")


def http_invalid_path(ctx, c):
    s = ctx.get("main")
    same_body(ctx, c["expect"], s.http("GET", c["input"]["uri"]))


def http_addr(ctx, c):
    s = ctx.get("main")
    same_body(ctx, c["expect"], s.http("GET", c["input"]["uri"]))


def http_addr_watch(ctx, c):
    s = ctx.get("main")
    root = os.path.join(ctx.tmp, "m")
    spare = os.path.join(ctx.tmp, "spare")

    def put(state):
        target = os.path.join(root, "seq")
        if state == "tree neg":
            os.remove(target)
            return
        text = "".join(x.replace(":", " ") + "\n" for x in state.split(" ")[1].split(","))
        if os.path.exists(target):
            # in place and in one write: namerd does not notice a file renamed over another one
            with open(target, "r+", encoding="utf-8") as f:
                f.write(text)
                f.truncate()
            return
        with open(spare, "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(spare, target)

    states = c["input"]["states"]
    put(states[0])
    end = time.monotonic() + 8
    while s.api("addr", "nons", "/#/io.l5d.namer/seq").text.startswith('{"type":"neg"') and time.monotonic() < end:
        time.sleep(0.1)
    with s.watch("addr", "nons", "/#/io.l5d.namer/seq") as w:
        for i, chunk in enumerate(c["expect"]["chunks"]):
            if i:
                put(states[i])
            got = w.line(12)
            expect(canon(json.loads(chunk)), canon(json.loads(got)) if got else got, f"line {i}")


def http_dtab_json(ctx, c):
    s = ctx.get("main")
    ns = s.ns()
    r = s.put(ns, json.loads(c["input"]["json"]), "application/json")
    expect(204, r.status, "PUT as JSON")
    expect(c["expect"]["roundtrip"] + "\n", s.get_json(ns).text, "JSON")
    expect(c["expect"]["dtab"] + "\n", s.get_text(ns).text, "text")


def http_delegate_error(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    if "interpreter" in inp:
        raise Skip("namerd has no interpreter that cannot delegate")
    r = s.http("GET", f"/api/1/delegate?path={http1.q(inp['path'])}&dtab={http1.q(inp.get('dtab', ''))}")
    expect(c["expect"]["status"], r.status, f"status ({r.text})")
    body = c["expect"]["body"]
    if "dtab" not in inp:
        # the path parameter is read by the router first, in front of the namespace-less handler
        ctx.soft_in("message", body.split(": ", 1)[1], r.text)
    else:
        ctx.soft("message", body, r.text)


def http_delegate_full(ctx, c):
    s, inp = ctx.get("main"), c["input"]
    rename = lambda t: t.replace("/#/error", "/$/error")
    want = rename(c["expect"]).replace("error naming /$/error/humbug", "Unknown namer: error for path: /$/error/humbug")
    dtab = rename(inp["dtab"])
    r = s.http("GET", f"/api/1/delegate?path={http1.q(inp['path'])}&dtab={http1.q(dtab)}")
    expect(200, r.status, f"status ({r.text})")
    expect(canon(json.loads(want)), canon(parse_json(r, "delegate")), "without a namespace")
    ctx.soft("JSON text", want, r.text)
    ns = s.ns()
    s.put_ok(ns, dtab)
    expect(canon(json.loads(want)), canon(parse_json(s.api("delegate", ns, inp["path"]), "delegate")), "with a namespace")


def thrift_dtab(ctx, c):
    s = ctx.get("main")
    t = ctx.thrift()
    ns = s.ns()
    s.put_ok(ns, c["input"]["ns_dtab"])
    expect(c["expect"]["dtab"], thriftc.text(t.dtab(ns)[2]))


def thrift_addr(ctx, c):
    ctx.get("root")
    t = ctx.thrift()
    want = thriftc.addr_value(t.addr("nons", re.sub("^.*?/#/", "/#/", c["input"]["id"])))
    expect("bound", want["type"], "the id itself must resolve")
    expect(want, thriftc.addr_value(t.addr("nons", c["input"]["id"])))


# -- config.* ------------------------------------------------------------------------------------------

def start_fails(ctx, config, env, message):
    if not ctx.starts:
        raise Skip("needs a start of its own (--no-starts)")
    ctx.drop()
    try:
        srv = Server(ctx.cmd, config, env, ctx.tmp, thrift=ctx.use_thrift)
    except StartFailed as e:
        ctx.soft_in("start-up message", message, e.output[-20000:])
        if e.output and "not ready" in str(e):
            raise Fail("the process ends with an error", str(e)) from None
        return
    srv.stop()
    raise Fail(f"start-up failure: {message}", "the server starts")


def starts(ctx, config, env):
    if not ctx.starts:
        raise Skip("needs a start of its own (--no-starts)")
    ctx.drop()
    try:
        Server(ctx.cmd, config, env, ctx.tmp, thrift=ctx.use_thrift).stop()
    except StartFailed as e:
        raise Fail("the server starts", f"{e}: {e.output[-300:]}") from None


def fs(ctx, prefix=None, **more):
    out = {"kind": "io.l5d.fs", "rootDir": ctx.dir("xf", {"web": "127.0.0.1 9003\n"})}
    if prefix is not None:
        out["prefix"] = prefix
    out.update(more)
    return out


def config_namer_prefix(ctx, c):
    n = dict(c["input"])
    kind = n["kind"]
    if kind == "io.l5d.fs":
        n["rootDir"] = ctx.dir("xf", {"web": "127.0.0.1 9003\n"})
    if kind in ("io.l5d.serversets", "io.l5d.zkLeader"):
        n["zkAddrs"] = [{"host": "127.0.0.1", "port": ctx.silent.port}]
    if kind in ("io.l5d.k8s.external", "io.l5d.dnssrv", "io.l5d.rancher", "io.l5d.marathon"):
        n["experimental"] = True
    env = {"POD_NAMESPACE": "ns"}
    if "error" in c:
        return start_fails(ctx, {"namers": [n]}, env, c["error"])
    pfx = c["expect"]
    # a second namer with the expected prefix must collide with it, one with another prefix must not
    starts(ctx, {"namers": [n, fs(ctx, "/cf-control")]}, env)
    start_fails(ctx, {"namers": [n, fs(ctx, pfx[2:])]}, env, f"Namers must not have overlapping prefixes: {pfx} & {pfx}")


def config_namers_conflict(ctx, c):
    conf = {"namers": [fs(ctx, p) for p in c["input"]]}
    if "error" in c:
        return start_fails(ctx, conf, {}, c["error"])
    starts(ctx, conf, {})


def config_transformer_prefix(ctx, c):
    inp = c["input"]
    if "error" in c:
        t = {k: v for k, v in inp.items() if k != "env"}
        return start_fails(ctx, {"namers": [fs(ctx, "/cx", transformers=[t])]}, inp.get("env", {}), c["error"])
    name = "xfenv" if "env" in inp else "xf"
    s = ctx.get(name)
    i = [x["id"] for x in ctx.of("config.transformer_prefix")].index(c["id"])
    ctx.not_refused(name, f"/cx{i}")
    path = f"/#/cx{i}/web"
    want = c["expect"] + (inp["path"] if "path" in inp else path)
    if s.thrift:
        got = thriftc.bound_tree(s.thrift.bind("nons", "", path))["root"]
        expect({"leaf": {"id": want, "residual": "/"}}, got, "thrift bind")
    else:
        expect(want, parse_json(s.api("bind", "nons", path), "bind").get("bound", {}).get("id"), "id")


def config_namerd(ctx, c):
    inp = c["input"]
    conf = {"namers": [fs(ctx)]}
    conf["interfaces"] = None if inp.get("missing") == "interfaces" else inp["interfaces"]
    start_fails(ctx, conf, {}, c["error"])


def skip(reason):
    def f(ctx, c):
        raise Skip(reason)
    return f


# area -> (server the area runs on, function); the order keeps the number of server starts low
AREAS = {
    "path.parse": ("main", path_parse),
    "path.utf8_elem": ("main", path_utf8_elem),
    "path.eq": ("main", path_eq),
    "prefix.parse": ("main", prefix_parse),
    "dentry.parse": ("main", dentry_parse),
    "dentry.nop": ("main", dentry_nop),
    "nametree.parse": ("main", nametree_parse),
    "nametree.show": ("", skip("trees with no or one branch cannot be sent over HTTP, and thrift does not print them")),
    "weight.show": ("main", weight_show),
    "nametree.eval": ("main", nametree_eval),
    "nametree.simplify": ("", skip("namerd never shows a simplified tree")),
    "dtab.parse": ("main", dtab_parse),
    "dtab.concat": ("main", dtab_concat),
    "dtab.lookup": ("main", dtab_lookup),
    "namer.system": ("main", namer_system),
    "inet.resolve": ("main", inet_resolve),
    "bind": ("main", bind),
    "delegate": ("main", delegate),
    "delegate.tree": ("main", delegate_tree),
    "depth": ("main", depth),
    "bound.eq": ("main", bound_eq),
    "bind.transition": ("main", bind_transition),
    "bind.dtab_change": ("main", bind_dtab_change),
    "bind.union_sequence": ("main", bind_sequence),
    "bind.failover_sequence": ("main", bind_sequence),
    "bind.weights": ("main", bind_weights),
    "http.bind": ("main", http_bind),
    "http.bind_watch": ("main", http_bind_watch),
    "http.invalid_path": ("main", http_invalid_path),
    "http.addr": ("main", http_addr),
    "http.addr_watch": ("main", http_addr_watch),
    "http.dtab_json": ("main", http_dtab_json),
    "http.delegate_error": ("main", http_delegate_error),
    "http.delegate_full": ("main", http_delegate_full),
    "thrift.bind": ("", skip("no binding of namerd holds an Alt; the layout is checked by bind")),
    "thrift.delegate": ("", skip("the fixture tree is built in code; the layout is checked by delegate")),
    "thrift.dtab": ("main", thrift_dtab),
    "rewrite.lookup": ("rw", rewrite_lookup),
    "pathmatcher.extract": ("rw", pathmatcher_extract),
    "pathmatcher.substitute": ("rw", pathmatcher_substitute),
    "transformer.namer": ("xf", transformer_namer),
    "transformer.namer_delegate": ("xf", transformer_namer_delegate),
    "transformer.localnode": ("xf", transformer_addr("transformer.localnode", "ln")),
    "transformer.daemonset": ("xf", transformer_addr("transformer.daemonset", "ds")),
    "transformer.interpreter_delegate": ("", skip("namerd has no transformers on its interpreter")),
    "netmask.local": ("", skip("the mask is not configurable")),
    "strip_transformer_prefix": ("root", strip_prefix),
    "thrift.addr": ("root", thrift_addr),
    "namer.bound_id": ("be", namer_bound_id),
    "namers_interpreter": ("", skip("needs the upstream test namers")),
    "delegate.simplify": ("", skip("the trees are built in code; the effect is checked by delegate")),
    "delegate.find": ("", skip("a helper of linkerd, not part of namerd")),
    "mesh.presence": ("", skip("the mesh interface is not driven by this runner")),
    "config.transformer_prefix": ("xf", config_transformer_prefix),
    "config.namer_prefix": ("", config_namer_prefix),
    "config.namers_conflict": ("", config_namers_conflict),
    "config.namerd": ("", config_namerd),
}

#!/usr/bin/env python3
"""Black-box conformance runner for rosterd. See README.md.

  conform.py cases  --cmd 'BINARY {config}' CASES.yaml [--only AREA]... [--id ID]... [--json FILE]
  conform.py tables --cmd 'BINARY {config}' TABLES.yaml
  conform.py golden --cmd 'BINARY {config}' FILE...
"""
import argparse
import collections
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cases as C          # noqa: E402
import golden as G         # noqa: E402
import tables as T         # noqa: E402
from differences import Differences, Wrong, not_built     # noqa: E402
from fakes import Fake     # noqa: E402
from server import StartFailed   # noqa: E402
import http1               # noqa: E402
import thriftc             # noqa: E402

ORDER = ["", "main", "rw", "xf", "xfenv", "root", "be", "own"]


cut = C.cut_text


def load(files):
    rows, seen = [], collections.Counter()
    for f in files:
        for row in yaml.safe_load(pathlib.Path(f).read_text(encoding="utf-8")):
            seen[row["area"]] += 1
            row.setdefault("id", f"{row['area']}-{seen[row['area']]:03d}")
            rows.append(row)
    return rows


def server_of(c):
    name = C.AREAS.get(c["area"], ("", None))[0]
    if c["area"].startswith("config."):
        if c["area"] == "config.transformer_prefix" and "error" not in c:
            return "xfenv" if "env" in c["input"] else "xf"
        return "own"
    if c["area"] == "rewrite.lookup" and "Dangling" in c.get("error", ""):
        return "own"
    if c["area"] == "namer.bound_id" and c["input"]["kind"].startswith("/$/"):
        return "main"
    return name


def changed(c, expect):
    """The case with what rosterd does instead."""
    return {**{k: v for k, v in c.items() if k != "error"}, "expect": expect}


def run_case(ctx, fn, c, expect):
    """expect: None, or what the differences list for this case; then the case as written must fail."""
    if expect is None:
        return fn(ctx, c)
    try:
        fn(ctx, c)
    except C.Fail:
        ctx.softs = []
        return fn(ctx, changed(c, expect))
    raise C.Fail("another answer than that of the case", "that of the case", "the listed difference")


def one(ctx, c, expect=None):
    ctx.softs = []
    t0 = time.monotonic()
    out = {"id": c["id"], "area": c["area"], "source": c.get("source", "")}
    fn = C.AREAS.get(c["area"], (None, None))[1]
    try:
        if fn is None:
            raise C.Fail("a runner for this area", "none", "unknown area")
        lacking = ctx.without & C.kinds_of(c)
        if lacking:
            raise C.Skip("not built: " + " ".join(sorted(lacking)))
        run_case(ctx, fn, c, expect)
        out["result"] = "passed"
    except C.Skip as e:
        out.update(result="skipped", reason=str(e))
    except C.Fail as e:
        out.update(result="failed", what=e.what, expected=e.expected, got=e.got)
    except StartFailed as e:
        out.update(result="failed", what="start of the server", expected="ready", got=f"{e}\n{e.output[-500:]}")
    except (OSError, http1.NoAnswer, thriftc.Timeout, thriftc.ThriftError, AssertionError) as e:
        out.update(result="failed", what="talking to the server", expected="an answer", got=f"{type(e).__name__}: {e}")
        if isinstance(e, ConnectionRefusedError):
            ctx.drop()                      # the server is gone: the next case starts a new one
    except Exception as e:                  # a bug of the runner or an answer of an unforeseen shape
        out.update(result="failed", what="unforeseen answer", expected="", got="".join(traceback.format_exception(e))[-800:])
    out["soft"] = [dict(kind=k, ok=ok, **({} if ok else {"expected": x, "got": g})) for k, ok, x, g in ctx.softs]
    out["seconds"] = round(time.monotonic() - t0, 3)
    return out


def run_cases(args, tmp):
    rows = load(args.files)
    todo = [c for c in rows if (not args.only or any(c["area"] == o or c["area"].startswith(o + ".") for o in args.only))
            and (not args.id or c["id"] in args.id)]
    stale = args.differences.unknown({c["id"] for c in rows}, lambda i: "/" not in i)
    if stale:
        raise Wrong(f"differences: no such cases: {', '.join(stale)}")
    todo.sort(key=lambda c: ORDER.index(server_of(c)))
    fake, silent = Fake(), Fake(silent=True)
    ctx = C.Ctx(args.cmd, tmp, fake, silent, not args.no_starts, C.THRIFT not in args.without, args.without, lambda m: print(m, flush=True))
    ctx.cases = rows
    results = []
    try:
        for c in todo:
            expect = args.differences.get(c["id"])
            r = one(ctx, c, expect)
            if r["result"] == "failed" and args.retry:
                again = one(ctx, c, expect)
                again["retried"] = True
                if again["result"] == "passed":
                    r = again
            results.append(r)
            if r["result"] == "failed":
                print(f"FAIL {r['id']}: {r['what']}: expected {cut(r['expected'])} got {cut(r['got'])}  [input {cut(c['input'], 300)}]", flush=True)
            elif args.verbose:
                print(f"{r['result']} {r['id']} {r.get('reason', '')}", flush=True)
    finally:
        ctx.drop()
        fake.stop()
        silent.stop()
    report(results, args)
    return results


def report(results, args):
    n = collections.Counter(r["result"] for r in results)
    kinds = collections.OrderedDict()
    for r in results:
        kinds.setdefault(r["area"], collections.Counter())[r["result"]] += 1
    reasons = collections.Counter((r["area"], r["reason"]) for r in results if r["result"] == "skipped")
    if args.soft:
        for r in results:
            for s in r["soft"]:
                if not s["ok"]:
                    print(f"soft {r['id']}: {s['kind']}: expected {cut(s['expected'])!r} got {cut(s['got'])!r}")
    print()
    for k in sorted({s["kind"] for r in results for s in r["soft"]}):
        ok = [s["ok"] for r in results for s in r["soft"] if s["kind"] == k]
        print(f"tolerated differences, {k}: {sum(ok)} of {len(ok)} equal")
    if results:
        print(f"\n{'kind':34} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for k in sorted(kinds):
        print(f"{k:34} {kinds[k]['passed']:7} {kinds[k]['failed']:7} {kinds[k]['skipped']:8}")
    for (a, reason), k in sorted(reasons.items()):
        print(f"skipped {a} x{k}: {reason}")
    again = [r["id"] for r in results if r.get("retried")]
    if again:
        print(f"passed only at the second try: {', '.join(again)}")
    print(f"{n['passed']} passed, {n['failed']} failed, {n['skipped']} skipped")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(
            {"passed": n["passed"], "failed": n["failed"], "skipped": n["skipped"], "cases": results},
            ensure_ascii=False, indent=1, default=str), encoding="utf-8")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", choices=["cases", "tables", "golden"])
    ap.add_argument("files", nargs="+")
    ap.add_argument("--cmd", required=True, help="how to start the server; {config} is replaced by the configuration file")
    ap.add_argument("--only", action="append", help="only this area (or its sub-areas); may be repeated")
    ap.add_argument("--id", action="append", help="only this case; may be repeated")
    ap.add_argument("--json", help="write all results to this file")
    ap.add_argument("--no-starts", action="store_true", help="skip the cases that need a start of their own")
    ap.add_argument("--differences", metavar="FILE", help="where the server differs on purpose (differences.yaml)")
    ap.add_argument("--not-built", metavar="FILE", help="kinds the server lacks, one a line (not-built.txt)")
    ap.add_argument("--without", action="append", metavar="KIND", help="one more kind that the server lacks; may be repeated")
    ap.add_argument("--no-thrift", action="store_true", help=f"the same as --without {C.THRIFT}")
    ap.add_argument("--retry", action="store_true", help="run a failing case a second time (for busy machines)")
    ap.add_argument("--soft", action="store_true", help="print every tolerated difference")
    ap.add_argument("--keep", action="store_true", help="keep the temporary folder")
    ap.add_argument("-v", "--verbose", action="store_true")
    args = ap.parse_args()
    args.without = not_built(args.not_built) | set(args.without or ()) | ({C.THRIFT} if args.no_thrift else set())
    args.differences = Differences.load(args.differences)
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(143))     # so that the server is stopped on the way out
    tmp = tempfile.mkdtemp(prefix="conform-")
    try:
        results = {"cases": run_cases, "tables": T.run, "golden": G.run}[args.what](args, tmp)
        if args.what != "cases":
            report(results, args)
    except Wrong as e:
        print(e, file=sys.stderr)
        return 2
    finally:
        if args.keep:
            print("kept", tmp)
        else:
            shutil.rmtree(tmp, ignore_errors=True)
    return 1 if any(r["result"] == "failed" for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())

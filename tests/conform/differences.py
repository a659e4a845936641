"""Where rosterd differs from the recordings and cases on purpose, and what is not built yet.

differences.yaml: a list of {id, decision, expect}. An entry or case listed there must *fail* against what was recorded and
*pass* against `expect`; either of the two otherwise is a failure, so that the list can neither hide a defect nor grow stale.

not-built.txt: one thing a line, `#` starts a comment: a kind (namer, transformer, interface, telemeter) that the server does
not have yet; the cases and entries that need it are skipped, and it is left out of the configurations. Or FILE/ENTRY of a
recording: what that entry asks for is missing; it must fail, and counts as skipped.
"""
import pathlib
import re

import yaml


class Wrong(Exception):
    """The file itself is wrong."""


class Differences:
    def __init__(self, rows=()):
        self.rows = {}
        for row in rows:
            if set(row) != {"id", "decision", "expect"}:
                raise Wrong(f"differences: {row.get('id')!r} has the keys {sorted(row)}; wanted are id, decision, expect")
            if not str(row["decision"]).strip():
                raise Wrong(f"differences: {row['id']!r} names no decision")
            if row["id"] in self.rows:
                raise Wrong(f"differences: {row['id']!r} is listed twice")
            self.rows[row["id"]] = row["expect"]

    @classmethod
    def load(cls, file):
        return cls(yaml.safe_load(pathlib.Path(file).read_text(encoding="utf-8")) or ()) if file else cls()

    def get(self, what):
        return self.rows.get(what)

    def unknown(self, known, belongs):
        """Listed ids that `belongs` claims for these files but that are not in them."""
        return sorted(i for i in self.rows if belongs(i) and i not in known)


def not_built(file):
    if not file:
        return set()
    lines = (x.split("#", 1)[0].strip() for x in pathlib.Path(file).read_text(encoding="utf-8").splitlines())
    return {x for x in lines if x}


# -- an `expect` against an HTTP answer ------------------------------------------------------------------------------

class Differs(Exception):
    """What was compared, expected, got."""


def check(what, want, got):
    if want != got:
        raise Differs(what, want, got)


def text_matches(want, got):
    """want: the text itself, or {contains: TEXT}, or {matches: REGEX} of the whole text."""
    if isinstance(want, dict) and set(want) == {"contains"}:
        return want["contains"] in got
    if isinstance(want, dict) and set(want) == {"matches"}:
        return re.fullmatch(want["matches"], got) is not None
    if isinstance(want, str):
        return want == got
    raise Wrong(f"differences: a body is a text, {{contains: …}} or {{matches: …}}, not {want!r}")


def check_answer(expect, answer):
    """expect: {status, body?, headers?: {name: value, or null for absent}, extra_bytes?}; what is not named is free."""
    odd = set(expect) - {"status", "headers", "body", "extra_bytes"}
    if odd or "status" not in expect:
        raise Wrong(f"differences: an answer has status, headers, body, extra_bytes; this one has {sorted(expect)}")
    check("status", str(expect["status"]), answer.status)
    for name, value in expect.get("headers", {}).items():
        check(f"header {name}", value, answer.header(name))
    for key, got in (("body", answer.body), ("extra_bytes", answer.extra)):
        if key in expect:
            got = got.decode("utf-8", "replace")
            if not text_matches(expect[key], got):
                raise Differs(key.replace("_", " "), expect[key], got)

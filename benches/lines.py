#!/usr/bin/env python3
"""Compare `firstseen filter` with other tools that remove repeated lines.

    benches/lines.py WORK                         every data set, every tool that is found
    benches/lines.py WORK --data paths --runs 5   one data set, five runs of each tool
    benches/lines.py WORK --install-tools DIR     build runiq and huniq into DIR (with cargo), then stop
    benches/lines.py WORK --assert                exit 1 if a promised figure is missed

WORK is a folder for the generated data (about 3 GB with everything). Data sets that lie, with a manifest.json, in
the folder that FIRSTSEEN_CORPORA names (default: the folder ../shared/corpora beside the repository, if it was
built there) are taken from it. Nothing is installed unless asked for: a tool that is neither in --tools DIR nor on
PATH is left out of the table.

Every tool's answer is checked before it is timed. The reference comes from the generator, which knows which lines
it repeats, or from the manifest: the SHA-256 of the first-seen stream for tools that keep the order, of the sorted
set for `sort -u`. A tool with a wrong answer is timed and marked WRONG. Tools read standard input from the file
and write to /dev/null. Runs are interleaved (one of each tool, then again), so that a slow minute of the machine
meets all of them. The table shows medians, the range, and the peak of resident memory for a distinct line.
"""
import argparse
import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BINARY = os.path.join(HERE, "..", "target", "release", "firstseen")
CORPORA = os.environ.get("FIRSTSEEN_CORPORA", os.path.join(HERE, "..", "..", "shared", "corpora"))
BATCH = 100_000

# Promised: at least so many times as fast as these tools, and at most so many bytes of memory a distinct line.
FACTORS_MIN = {"paths": 5.0, "repeats": 1.3}
FACTOR_TOOLS = ("runiq", "huniq")
BYTES_A_LINE_MAX = 70.0


# ------------------------------------------------------------------- data ---

def uuid_lines():
    """synthetic: 10 M lines of a 36-byte UUID, 30 % repeat an earlier line"""
    rnd = random.Random(50).random
    fresh = 0
    for _ in range(10_000_000):
        repeat = fresh > 0 and rnd() < 0.3
        number = int(rnd() * fresh) if repeat else fresh
        fresh += not repeat
        h = hashlib.md5(b"%d" % number).hexdigest()
        yield f"{h[:8]}-{h[8:12]}-4{h[13:16]}-8{h[17:20]}-{h[20:]}\n", not repeat


PLACES = ("usr/share/doc", "usr/lib/x86_64-linux-gnu", "srv/archive/2024", "usr/include", "home/build/src")
THINGS = ("libwidget", "netfilter", "telemetry", "renderer", "fonts-extra", "python3-codec", "kernel-tools", "mail")
PARTS = ("examples", "internal", "tests/fixtures", "locale/de", "include/detail", "assets", "plugins", "v2/schema")
ENDS = ("html", "txt.gz", "h", "json", "py", "so.1.2.0", "svg", "rs")


def path_lines():
    """synthetic: 7.3 M distinct file paths, 65 bytes in the mean, long shared beginnings"""
    bits = random.Random(65).getrandbits
    for number in range(7_300_000):
        r = bits(32)
        yield (f"{PLACES[r % 5]}/{THINGS[r >> 3 & 7]}-{r >> 6 & 63:02d}/{PARTS[r >> 12 & 7]}"
               f"/m{r >> 15 & 1023:04d}/entry-{number:08x}.{ENDS[r >> 25 & 7]}\n"), True


def repeated_lines():
    """synthetic: 20 M log lines of 60 bytes, 100,000 distinct ones: nearly all repeat"""
    rnd = random.Random(20).random
    seen = bytearray(100_000)
    for _ in range(20_000_000):
        number = int(rnd() * rnd() * 100_000)
        fresh = not seen[number]
        seen[number] = 1
        yield f"GET /api/v1/items/{number * 7919 % 1000003:07d} HTTP/1.1 200 client-{number:06d} eu-west\n", fresh


GENERATED = {"uuid10m": uuid_lines, "paths": path_lines, "repeats": repeated_lines}
# Real data, taken where it was built: Linux 6.1 source (35.7 M lines, 56 % repeat) and English words.
FOUND = ("ksrc", "words")


def build(name, path):
    """Write a generated data set beside its reference; both are known by construction."""
    whole = hashlib.sha256()
    first = hashlib.sha256()
    distinct = []
    lines = size = 0
    pending, pending_fresh = [], []

    def drain(out):
        data = "".join(pending).encode()
        whole.update(data)
        first.update("".join(pending_fresh).encode())
        out.write(data)
        distinct.extend(pending_fresh)
        pending.clear()
        pending_fresh.clear()
        return len(data)

    with open(path + ".part", "wb") as out:
        for line, fresh in GENERATED[name]():
            lines += 1
            pending.append(line)
            if fresh:
                pending_fresh.append(line)
            if len(pending) == BATCH:
                size += drain(out)
        size += drain(out)
    distinct.sort()
    ordered = hashlib.sha256()
    for start in range(0, len(distinct), BATCH):
        ordered.update("".join(distinct[start:start + BATCH]).encode())
    info = {"bytes": size, "lines": lines, "distinct": len(distinct), "sha256": whole.hexdigest(),
            "first_seen_sha256": first.hexdigest(), "sorted_sha256": ordered.hexdigest()}
    with open(path + ".json", "w") as f:
        json.dump(info, f, indent=1)
    os.rename(path + ".part", path)


def locate(name, work):
    """(path, reference) of a data set, generated if need be; None if it is neither found nor generated."""
    found = os.path.join(CORPORA, name)
    try:
        with open(os.path.join(CORPORA, "manifest.json")) as f:
            info = json.load(f).get(name)
    except OSError:
        info = None
    if info and os.path.exists(found) and os.path.getsize(found) == info["bytes"]:
        return found, info
    if name not in GENERATED:
        return None
    path = os.path.join(work, name)
    if not os.path.exists(path):
        print(f"building {name} ...", file=sys.stderr)
        # In a process of its own: a child's peak of memory starts from that of the process that started it.
        subprocess.run([sys.executable, __file__, work, "--build", name], check=True)
    with open(path + ".json") as f:
        return path, json.load(f)


# ------------------------------------------------------------------ tools ---

def tools(options):
    """name -> (argv, which reference its output must match)"""
    c_locale = dict(os.environ, LC_ALL="C")
    candidates = {
        "firstseen": ([options.binary, "filter"], "first_seen_sha256"),
        "runiq": (["runiq"], "first_seen_sha256"),
        "huniq": (["huniq"], "first_seen_sha256"),
        "mawk": (["mawk", "!seen[$0]++"], "first_seen_sha256"),
        "sort -u": (["sort", "-u"], "sorted_sha256"),
    }
    search = os.pathsep.join(filter(None, [options.tools, os.environ.get("PATH")]))
    usable = {}
    for name, (argv, reference) in candidates.items():
        if options.only and name not in options.only.split(","):
            continue
        program = shutil.which(argv[0], path=search)
        if program:
            usable[name] = ([program] + argv[1:], reference, c_locale)
        else:
            print(f"{name} is not there and is left out", file=sys.stderr)
    return usable


def is_right(tool, path, info):
    argv, reference, env = tool
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        child = subprocess.Popen(argv, stdin=source, stdout=subprocess.PIPE, env=env, bufsize=0)
        while chunk := child.stdout.read(1 << 20):
            digest.update(chunk)
        child.stdout.close()
        return child.wait() == 0 and digest.hexdigest() == info[reference]


def run(tool, path):
    """(seconds, peak resident bytes) of one run"""
    argv, _, env = tool
    with open(path, "rb") as source, open(os.devnull, "wb") as sink:
        started = time.monotonic()
        child = subprocess.Popen(argv, stdin=source, stdout=sink, stderr=subprocess.DEVNULL, env=env)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{argv[0]} failed with {child.returncode}")
    return seconds, usage.ru_maxrss * 1024


def compare(name, path, info, usable, runs):
    """Check, time and print; returns name -> (median seconds, bytes a distinct line, right)."""
    with open(path, "rb") as f:  # into the page cache
        while f.read(1 << 20):
            pass
    right = {tool: is_right(usable[tool], path, info) for tool in usable}
    measured = {tool: [] for tool in usable}
    for _ in range(runs):
        for tool in usable:
            measured[tool].append(run(usable[tool], path))
    mean = info["bytes"] / info["lines"] - 1
    print(f"\n{name}: {info['lines']:,} lines, {info['distinct']:,} distinct, {mean:.1f} bytes in the mean; "
          f"{runs} runs of each, interleaved; load {os.getloadavg()[0]:.1f}\n")
    print("| tool | median, s | min-max, s | million lines/s | peak memory, MiB | bytes a distinct line "
          "| its time / firstseen's | answer |")
    print("|:--|--:|--:|--:|--:|--:|--:|:--|")
    result = {}
    for tool, rows in measured.items():
        seconds = sorted(s for s, _ in rows)
        median = statistics.median(seconds)
        peak = max(p for _, p in rows)
        result[tool] = (median, peak / info["distinct"], right[tool])
        ratio = f"{median / result['firstseen'][0]:.2f}" if "firstseen" in result else ""
        print(f"| {tool} | {median:.3f} | {seconds[0]:.3f}-{seconds[-1]:.3f} | {info['lines'] / median / 1e6:.2f} "
              f"| {peak / 2**20:.0f} | {peak / info['distinct']:.1f} | {ratio} "
              f"| {'right' if right[tool] else 'WRONG'} |", flush=True)
    return result


def missed(name, result, info):
    """Promises that these figures break, as sentences."""
    if "firstseen" not in result:
        return []
    seconds, bytes_a_line, right = result["firstseen"]
    broken = [] if right else [f"{name}: the answer is wrong"]
    for tool in FACTOR_TOOLS:
        if name in FACTORS_MIN and tool in result and result[tool][0] / seconds < FACTORS_MIN[name]:
            broken.append(f"{name}: only {result[tool][0] / seconds:.2f} times as fast as {tool}")
    # With few lines the memory of the blocks outweighs that of the lines.
    if info["distinct"] > 5_000_000 and bytes_a_line > BYTES_A_LINE_MAX:
        broken.append(f"{name}: {bytes_a_line:.1f} bytes a distinct line")
    return broken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--binary", default=BINARY, help="firstseen, built with --release --features cli")
    parser.add_argument("--tools", help="folder with runiq and huniq (or its parent, as --install-tools made it)")
    parser.add_argument("--install-tools", metavar="DIR")
    parser.add_argument("--only", help="these tools, with commas between them")
    parser.add_argument("--data", default=",".join([*GENERATED, *FOUND]), help="these data sets, likewise")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--assert", dest="enforce", action="store_true")
    parser.add_argument("--build", choices=GENERATED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    if options.build:
        return build(options.build, os.path.join(options.work, options.build))
    if options.install_tools:
        for tool in FACTOR_TOOLS:
            subprocess.run(["cargo", "install", "--locked", tool, "--root", options.install_tools], check=True)
        return None
    if options.tools and os.path.isdir(os.path.join(options.tools, "bin")):
        options.tools = os.path.join(options.tools, "bin")
    usable = tools(options)
    broken = []
    for name in options.data.split(","):
        where = locate(name, options.work)
        if where is None:
            print(f"{name} is not there and is left out", file=sys.stderr)
            continue
        result = compare(name, *where, usable, options.runs)
        broken += missed(name, result, where[1])
    for sentence in broken:
        print(f"missed: {sentence}", file=sys.stderr)
    return 1 if broken and options.enforce else None


if __name__ == "__main__":
    sys.exit(main())

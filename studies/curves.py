#!/usr/bin/env python3
"""Draws throughput over threads as SVG: python3 curves.py WAREHOUSES MEASURED PUBLISHED > FILE.svg

MEASURED and PUBLISHED have the columns warehouses, scheme, threads, throughput_millions, MEASURED also `like` (empty, or a
program's name); lines that begin with # are comments. Measured points are joined by lines, published ones are hollow and
joined by dashes: one panel a scheme.

python3 curves.py --table RESULT.json > MEASURED makes the table of the result of `isles study thousand-cores.toml --json`.
"""

import csv
import json
import math
import sys

SCHEMES = ["silo", "tictoc", "occ", "mvcc", "no-wait", "wait-die", "dl-detect", "hstore"]
COLUMNS = ["warehouses", "scheme", "threads", "throughput_millions", "like"]
WIDTH, HEIGHT, LEFT, TOP = 210, 170, 44, 26
STEP_X, STEP_Y = WIDTH + 60, HEIGHT + 64
INK, MEASURED, LIKE, PUBLISHED = "#333", "#0b6e99", "#4d8c2f", "#c05a1c"


def table(path):
    """The rows of the curves among all runs of a study: those that differ in nothing but scheme, threads and `like`."""
    with open(path, encoding="utf-8") as file:
        findings = json.load(file)["findings"]
    rows = {}
    for finding in findings:
        if not finding["id"].removeprefix("like-").startswith(("high-", "low-")):
            continue
        for run in finding["runs"].values():
            if run["result"]:
                config = run["result"]["config"]
                key = (config.get("like") or "", -config["warehouses"], config["cc"], config["cores"])
                rows[key] = run["result"]["throughput"] / 1e6
    yield COLUMNS
    for (like, warehouses, scheme, threads), millions in sorted(rows.items()):
        yield [-warehouses, scheme, threads, f"{millions:.3f}", like]


def read(path, warehouses, like=""):
    points = {}
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if int(row["warehouses"]) == warehouses and (row.get("like") or "") == like:
                points.setdefault(row["scheme"], []).append((int(row["threads"]), float(row["throughput_millions"])))
    return {scheme: sorted(values) for scheme, values in points.items()}


def ticks(low, high):
    """One, two and five times powers of ten between two numbers."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**exponent for exponent in exponents for digit in (1, 2, 5)]
    return [value for value in values if low <= value <= high]


def scale(low, high, size):
    return lambda value: (math.log(value) - math.log(low)) / (math.log(high) - math.log(low)) * size


def line(points, x, y, colour, dashed):
    at = [(LEFT + x(threads), TOP + HEIGHT - y(value)) for threads, value in points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>'
    for a, b in at:
        yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.6" fill="{"#fff" if dashed else colour}" stroke="{colour}"/>'


def panel(scheme, curves, x, y, threads, values):
    yield f'<text x="{LEFT}" y="{TOP - 9}" font-weight="bold">{scheme}</text>'
    yield f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>'
    for value in values:
        at = TOP + HEIGHT - y(value)
        yield f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#eee"/>'
        yield f'<text x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>'
    for count in threads:
        at = LEFT + x(count)
        yield f'<text x="{at:.1f}" y="{TOP + HEIGHT + 14}" text-anchor="middle">{count}</text>'
    for colour, points in curves.items():
        yield from line(points.get(scheme, []), x, y, colour, colour == PUBLISHED)


def main():
    if sys.argv[1] == "--table":
        csv.writer(sys.stdout, lineterminator="\n").writerows(table(sys.argv[2]))
        return
    warehouses = int(sys.argv[1])
    curves = {
        PUBLISHED: read(sys.argv[3], warehouses),
        LIKE: read(sys.argv[2], warehouses, "dbx1000"),
        MEASURED: read(sys.argv[2], warehouses),
    }
    schemes = [scheme for scheme in SCHEMES if scheme in curves[MEASURED] or scheme in curves[LIKE]]
    points = [point for series in curves.values() for scheme in schemes for point in series.get(scheme, [])]
    counts = sorted({count for count, _ in points})
    # Labels of neighbours would overlap.
    shown = [count for place, count in enumerate(counts) if place % 2 == 0 or len(counts) < 6]
    low, high = min(value for _, value in points) / 1.2, max(value for _, value in points) * 1.2
    x, y = scale(counts[0] / 1.1, counts[-1] * 1.1, WIDTH), scale(low, high, HEIGHT)
    rows = math.ceil(len(schemes) / 4)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{4 * STEP_X}" height="{rows * STEP_Y + 24}" '
          f'font-family="sans-serif" font-size="11" fill="{INK}">')
    print('<rect width="100%" height="100%" fill="#fff"/>')
    for place, scheme in enumerate(schemes):
        print(f'<g transform="translate({place % 4 * STEP_X},{place // 4 * STEP_Y})">')
        for shape in panel(scheme, curves, x, y, shown, ticks(low, high)):
            print(shape)
        print("</g>")
    print(f'<text x="{LEFT}" y="{rows * STEP_Y + 8}">Million commits a second over threads, both logarithmic: '
          f'<tspan fill="{MEASURED}">Isles</tspan> and '
          f'<tspan fill="{LIKE}">Isles as the published program does it</tspan> in the virtual machine, '
          f'<tspan fill="{PUBLISHED}">published (dashes)</tspan>.</text>')
    print("</svg>")


main()

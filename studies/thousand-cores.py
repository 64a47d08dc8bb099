#!/usr/bin/env python3
"""Writes thousand-cores.toml: python3 thousand-cores.py TABLE > thousand-cores.toml

TABLE has the columns warehouses, scheme, threads, throughput_millions: median throughput of TPC-C (narrow mix) as
measured by Bang, May, Petrov and Binnig, DataManagementLab/VLDBJ_1000_cores_measurements, section 3.3.2, CC BY 4.0.
"""

import csv
import sys

SOURCE = "[1000] measurements, section 3.3.2 (CC BY 4.0)"
HEAD = """\
# Written by thousand-cores.py; do not edit.
title = "The full story of 1000 cores"
# Hours: not with a folder.
in_folder = false
about = \"\"\"
TPC-C's narrow mix on 28 sockets with 1568 hardware threads, in the virtual machine, beside throughput measured on the real
one. High conflict: 4 warehouses. Low conflict: 1568 warehouses, loaded in blocks as in the published study, so that the
homes of all workers lie on the first sockets in use until all hardware threads are; data and caches at a scale of 0.02.

Everything is run twice: as the published program does it (`--like dbx1000`, what that means: docs/like-dbx1000.md), and as
Isles does it. Between the two stand the differences one by one, at 224 threads. From 896 threads on, 5 ms are measured
(hundreds of thousands of commits) after the usual warm-up, and not 20.

Throughput is in commits a second. The null model says that throughput grows with the number of threads; an error is the
mean of the absolute logarithms of measured over published ratios, 0.69 being a factor of two either way.
\"\"\"
"""
HIGH = [1, 2, 4, 8, 16, 28, 56, 112, 224]
LOW = [28, 56, 112, 224, 448, 896, 1344, 1568]
SCHEMES = ["silo", "no-wait", "tictoc", "occ", "mvcc", "wait-die", "dl-detect", "hstore"]
HIGH_FLAGS = "--mix narrow --warehouses 4 --scale 1"
LOW_FLAGS = "--mix narrow --warehouses 1568 --scale 0.02 --scale-caches on --load block"
LIKE = "--like dbx1000"
# What the published program does, one difference at a time, and the schemes that it matters to.
CAUSES = [
    ("latch", "every lock of a row goes through a queue latch and a list of owners", "--row-lock latch", ["no-wait"]),
    ("buffer", "a refused transaction waits in a buffer of ten", "--retry buffer", ["no-wait", "silo"]),
    ("early", "hot rows are accessed first", "--hot-rows early", ["no-wait", "silo"]),
    ("copies", "whole rows are copied", "--row-copies rows", ["no-wait", "silo"]),
]


def number(value):
    return f"{value:.4g}"


def values(numbers):
    return "[" + ", ".join(number(value) for value in numbers) + "]"


def run(count, scheme, flags):
    length = " --seconds 0.005" if count >= 896 else ""
    return f"tpcc --machine superdome-flex --cores {count} --cc {scheme} {flags}{length}"


def key(scheme, count):
    return f"{scheme.replace('-', '_')}_{count}"


def measured(points):
    return "[" + ", ".join(f"{key(*point)}.throughput" for point in points) + "]"


def finding(name, claim, published, accept, value, runs):
    print(f'\n[[finding]]\nid = "{name}"\nsource = "{SOURCE}"\nclaim = "{claim}"')
    print(f'published = {published}\naccept = {accept}\nvalue = "{value}"\n[finding.runs]')
    for name, arguments in runs:
        print(f'{name} = "{arguments}"')


def curve(name, claim, table, warehouses, points, flags, form, published, accept):
    """A finding about points (scheme, threads); `form` is the value, of the measured and the published list."""
    commits = [table[warehouses, *point] * 1e6 for point in points]
    value = form.format(measured=measured(points), published=values(commits))
    finding(name, claim, published, accept, value, [(key(*point), run(point[1], point[0], flags)) for point in points])


SPEARMAN = "spearman({measured}, {published})"
WITHIN = "within_two({measured}, {published})"


def high(table, prefix, who, flags):
    """Orders and factors under high conflict."""
    for scheme in SCHEMES:
        points = [(scheme, count) for count in HIGH]
        curve(f"{prefix}high-{scheme}", f"{who}, {scheme}, 4 warehouses: throughput over 1 to 224 threads has the published order",
              table, 4, points, flags, SPEARMAN, 1, "[0.9, 1]")
    points = [(scheme, count) for scheme in SCHEMES for count in HIGH]
    curve(f"{prefix}high-all", f"{who}, all schemes, 4 warehouses: all points have the published order",
          table, 4, points, flags, SPEARMAN, 1, "[0.9, 1]")
    curve(f"{prefix}high-within", f"{who}, all schemes, 4 warehouses: 65 of 72 points within a factor of two",
          table, 4, points, flags, WITHIN, 72, "[65, 72]")


def low(table, prefix, who, flags):
    """Factors and orders under low conflict."""
    for scheme in ["silo", "no-wait"]:
        points = [(scheme, count) for count in LOW if (1568, scheme, count) in table]
        curve(f"{prefix}low-{scheme}", f"{who}, {scheme}, 1568 warehouses in blocks: all points within a factor of two",
              table, 1568, points, flags, WITHIN, len(points), f"[{len(points)}, {len(points)}]")
        base = f"{key(scheme, 28)}.throughput"
        published = [table[1568, *point] / table[1568, scheme, 28] for point in points[1:]]
        null = [count / 28 for _, count in points[1:]]
        finding(f"{prefix}low-{scheme}-null", f"{who}, {scheme}, 1568 warehouses in blocks: closer to the published ratios than the null model",
                "true", "true",
                f"log_error({measured(points[1:])} / {base}, {values(published)}) < log_error({values(null)}, {values(published)})",
                [(key(*point), run(point[1], point[0], flags)) for point in points])
    for count in [28, 448]:
        points = [(scheme, count) for scheme in SCHEMES if (1568, scheme, count) in table]
        curve(f"{prefix}low-order-{count}", f"{who}, 1568 warehouses in blocks, {count} threads: the schemes have the published order",
              table, 1568, points, flags, SPEARMAN, 1, "[0.8, 1]")


def causes():
    """What each difference costs alone, at 224 threads, and all of them together."""
    for scheme in ["no-wait", "silo"]:
        plain = ("plain", run(224, scheme, HIGH_FLAGS))
        together = ("together", run(224, scheme, f"{HIGH_FLAGS} {LIKE}"))
        for name, claim, flags, schemes in CAUSES:
            if scheme in schemes:
                finding(f"cause-{scheme}-{name}", f"{scheme}, 4 warehouses, 224 threads: {claim}: slower than without", "true", "true",
                        "alone.throughput < plain.throughput", [("alone", run(224, scheme, f"{HIGH_FLAGS} {flags}")), plain])
        finding(f"cause-{scheme}-together", f"{scheme}, 4 warehouses, 224 threads: all differences together: slower than without",
                "true", "true", "together.throughput < plain.throughput", [together, plain])


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        table = {(int(row["warehouses"]), row["scheme"], int(row["threads"])): float(row["throughput_millions"])
                 for row in rows}
    print(HEAD, end="")
    high(table, "like-", "as the published program", f"{HIGH_FLAGS} {LIKE}")
    causes()
    high(table, "", "Isles", HIGH_FLAGS)
    low(table, "like-", "as the published program", f"{LOW_FLAGS} {LIKE}")
    low(table, "", "Isles", LOW_FLAGS)
    arguments = "--mix narrow --warehouses 1568 --scale 0.02 --load home"
    finding(
        "home-silo", "silo, 1568 warehouses on the nodes of their workers: no plateau, 1568 threads at least 40 times 28",
        "true", "true", "n1568.throughput / n28.throughput >= 40",
        [("n28", run(28, "silo", arguments)), ("n1568", run(1568, "silo", arguments))],
    )


main()

#!/usr/bin/env python3
"""Writes superdome-flex.toml: python3 superdome-flex.py TABLE > superdome-flex.toml

TABLE has the columns warehouses, scheme, threads, throughput_millions: median throughput of TPC-C (narrow mix) as
measured by Bang, May, Petrov and Binnig, DataManagementLab/VLDBJ_1000_cores_measurements, section 3.3.2, CC BY 4.0.
"""

import csv
import sys

SOURCE = "[1000] measurements, section 3.3.2 (CC BY 4.0)"
HEAD = """\
# Written by superdome-flex.py; do not edit.
title = "TPC-C on superdome-flex"
about = \"\"\"
The narrow mix on 28 sockets with 1568 hardware threads, in the virtual machine, against throughput measured on the real
one. High conflict: 4 warehouses. Low conflict: 1568 warehouses, loaded in blocks as in the published study, so that the
homes of all workers lie on the first sockets in use until all hardware threads are.

Ratios are relative to 28 threads. The null model says that throughput grows with the number of threads; an error is the
mean of the absolute logarithms of measured over published ratios, 0.69 being a factor of two either way.
\"\"\"
"""
HIGH = [1, 2, 4, 8, 16, 28, 56, 112, 224]
LOW = [56, 112, 224, 448, 896, 1344, 1568]
SCHEMES = ["silo", "no-wait", "tictoc", "occ", "mvcc", "wait-die", "dl-detect", "hstore"]


def number(value):
    return f"{value:.4g}"


def paths(threads):
    return "[" + ", ".join(f"n{count}.throughput" for count in threads) + "]"


def values(numbers):
    return "[" + ", ".join(number(value) for value in numbers) + "]"


def run(count, arguments):
    return f"tpcc --machine superdome-flex --cores {count} {arguments}"


def finding(name, claim, published, accept, value, runs):
    print(f'\n[[finding]]\nid = "{name}"\nsource = "{SOURCE}"\nclaim = "{claim}"')
    print(f'published = {published}\naccept = {accept}\nvalue = "{value}"\n[finding.runs]')
    for key, arguments in runs:
        print(f'{key} = "{arguments}"')


def high(scheme, table):
    arguments = f"--cc {scheme} --mix narrow --warehouses 4 --scale 1"
    published = [table[4, scheme, count] for count in HIGH]
    finding(
        f"high-{scheme}", f"{scheme}, 4 warehouses: throughput over 1 to 224 threads has the published order",
        1, "[0.9, 1]", f"spearman({paths(HIGH)}, {values(published)})",
        [(f"n{count}", run(count, arguments)) for count in HIGH],
    )


def high_all(table):
    points = [(scheme, count) for scheme in SCHEMES for count in HIGH]
    key = lambda scheme, count: f"{scheme.replace('-', '_')}_{count}"
    measured = "[" + ", ".join(f"{key(*point)}.throughput" for point in points) + "]"
    published = [table[4, *point] for point in points]
    runs = [(key(*point), run(point[1], f"--cc {point[0]} --mix narrow --warehouses 4 --scale 1")) for point in points]
    finding(
        "high-all", "all schemes, 4 warehouses: all points have the published order",
        1, "[0.85, 1]", f"spearman({measured}, {values(published)})", runs,
    )


def low_order(count, table):
    schemes = [scheme for scheme in SCHEMES if (1568, scheme, count) in table]
    key = lambda scheme: scheme.replace("-", "_")
    measured = "[" + ", ".join(f"{key(scheme)}.throughput" for scheme in schemes) + "]"
    published = [table[1568, scheme, count] for scheme in schemes]
    arguments = "--mix narrow --warehouses 1568 --scale 0.02 --load block"
    finding(
        f"low-order-{count}", f"1568 warehouses in blocks, {count} threads: the schemes have the published order",
        1, "[0.7, 1]", f"spearman({measured}, {values(published)})",
        [(key(scheme), run(count, f"--cc {scheme} {arguments}")) for scheme in schemes],
    )


def low(scheme, table):
    threads = [count for count in LOW if (1568, scheme, count) in table]
    arguments = f"--cc {scheme} --mix narrow --warehouses 1568 --scale 0.02 --load block"
    base = table[1568, scheme, 28]
    ratios = [table[1568, scheme, count] / base for count in threads]
    null = [count / 28 for count in threads]
    finding(
        f"low-{scheme}-null", f"{scheme}, 1568 warehouses in blocks: closer to the published ratios than the null model",
        "true", "true",
        f"log_error({paths(threads)} / n28.throughput, {values(ratios)}) < log_error({values(null)}, {values(ratios)})",
        [(f"n{count}", run(count, arguments)) for count in [28, *threads]],
    )
    for count, ratio in zip(threads, ratios):
        finding(
            f"low-{scheme}-{count}", f"{scheme}, 1568 warehouses in blocks: {count} threads over 28",
            number(ratio), f"[{number(ratio / 2)}, {number(ratio * 2)}]", f"n{count}.throughput / n28.throughput",
            [(f"n{count}", run(count, arguments)), ("n28", run(28, arguments))],
        )


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        table = {(int(row["warehouses"]), row["scheme"], int(row["threads"])): float(row["throughput_millions"])
                 for row in rows}
    print(HEAD, end="")
    for scheme in SCHEMES:
        high(scheme, table)
        low(scheme, table)
    high_all(table)
    low_order(28, table)
    low_order(448, table)
    arguments = "--cc silo --mix narrow --warehouses 1568 --scale 0.02 --load home"
    finding(
        "home-silo", "silo, 1568 warehouses on the nodes of their workers: no plateau, 1568 threads at least 40 times 28",
        "true", "true", "n1568.throughput / n28.throughput >= 40",
        [("n28", run(28, arguments)), ("n1568", run(1568, arguments))],
    )


main()

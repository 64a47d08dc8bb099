#!/usr/bin/env python3
"""Draws throughput over the share of transactions over several sites as SVG: python3 islands.py MEASURED > FILE.svg

MEASURED has the columns operation, deploy, multisite, throughput_millions; lines that begin with # are comments. One panel an
operation, one line a deployment.

python3 islands.py --run ISLES > MEASURED makes the table: ISLES is the program, which runs in the virtual machine.
"""

import csv
import json
import subprocess
import sys

DEPLOYS = {"1isl": "one instance", "4isl": "one a socket", "24isl": "one a core"}
COLOURS = {"1isl": "#c05a1c", "4isl": "#4d8c2f", "24isl": "#0b6e99"}
OPERATIONS = {"read": "reads of 10 rows", "update": "updates of 10 rows"}
SHARES = [0, 0.05, 0.2, 0.5, 1]
WIDTH, HEIGHT, LEFT, TOP = 300, 190, 44, 26
STEP, INK = WIDTH + 70, "#333"


def run(isles):
    yield ["operation", "deploy", "multisite", "throughput_millions"]
    for operation in OPERATIONS:
        for deploy in DEPLOYS:
            for share in SHARES:
                flags = ["--machine", "quad-socket", "--cc", "silo", "--rows", "10", "--in-flight", "4", "--seconds", "0.004"]
                what = ["--op", operation, "--multisite", str(share), "--deploy", deploy, "--warmup", "0.001", "--json"]
                done = subprocess.run([isles, "bench", "micro", *flags, *what], stdout=subprocess.PIPE, check=True)
                yield [operation, deploy, share, f"{json.loads(done.stdout)['throughput'] / 1e6:.3f}"]


def read(path):
    curves = {}
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            points = curves.setdefault((row["operation"], row["deploy"]), [])
            points.append((float(row["multisite"]), float(row["throughput_millions"])))
    return curves


def panel(operation, curves, top):
    place = lambda share, value: (LEFT + share * WIDTH, TOP + HEIGHT - value / top * HEIGHT)
    yield f'<text x="{LEFT}" y="{TOP - 9}" font-weight="bold">{OPERATIONS[operation]}</text>'
    yield f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>'
    for value in range(0, top + 1, 4):
        _, at = place(0, value)
        yield f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#eee"/>'
        yield f'<text x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{value}</text>'
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1):
        at, _ = place(share, 0)
        yield f'<text x="{at:.1f}" y="{TOP + HEIGHT + 14}" text-anchor="middle">{share:.0%}</text>'
    for deploy, colour in COLOURS.items():
        at = [place(*point) for point in curves.get((operation, deploy), [])]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        for a, b in at:
            yield f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.6" fill="{colour}"/>'


def main():
    if sys.argv[1] == "--run":
        csv.writer(sys.stdout, lineterminator="\n").writerows(run(sys.argv[2]))
        return
    curves = read(sys.argv[1])
    top = -int(-max(value for points in curves.values() for _, value in points) // 4) * 4
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(OPERATIONS) * STEP}" height="{TOP + HEIGHT + 46}" '
          f'font-family="sans-serif" font-size="11" fill="{INK}">')
    print('<rect width="100%" height="100%" fill="#fff"/>')
    for number, operation in enumerate(OPERATIONS):
        print(f'<g transform="translate({number * STEP},0)">')
        for shape in panel(operation, curves, top):
            print(shape)
        print("</g>")
    names = ", ".join(f'<tspan fill="{COLOURS[deploy]}">{name}</tspan>' for deploy, name in DEPLOYS.items())
    print(f'<text x="{LEFT}" y="{TOP + HEIGHT + 36}">Million commits a second over the share of transactions over several '
          f'sites; quad-socket, 24 cores: {names}.</text>')
    print("</svg>")


main()

# SPDX-License-Identifier: BSD-2-Clause
"""Line charts with logarithmic axes as SVG text: what softfabric bench draws."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 340, 62, 14, 40, 46
COLOURS = ("#1b6ca8", "#c1272d", "#2e7d32", "#8e44ad", "#e08e0b", "#555555", "#00838f", "#7b3f00")


def size_name(n):
    for unit, size in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if n >= size and n % size == 0:
            return "%d %s" % (n // size, unit)
    return "%d" % n


def number(v):
    return "%d" % v if v >= 1 else "%g" % v


class Axis:
    """Values to places; ends at powers of @base."""

    def __init__(self, values, base, begin, end):
        self.base = base
        self.low = math.floor(math.log(min(values), base) + 1e-9)
        self.high = max(self.low + 1, math.ceil(math.log(max(values), base) - 1e-9))
        self.begin, self.end = begin, end

    def at(self, value):
        share = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self, most):
        step = max(1, math.ceil((self.high - self.low) / most))
        return [self.base ** e for e in range(self.low, self.high + 1, step)]


def chart(title, unit, series, x0):
    """One chart; @series: {name: [(size, value)]}."""
    xs = [x for line in series.values() for x, _ in line]
    ys = [y for line in series.values() for _, y in line]
    xa, ya = Axis(xs, 2, x0 + LEFT, x0 + WIDTH - RIGHT), Axis(ys, 10, HEIGHT - BOTTOM, TOP)
    put = ['<text x="%d" y="20" font-size="14" font-weight="bold">%s</text>' % (x0 + LEFT, escape(title))]
    for t in ya.ticks(8):
        y = ya.at(t)
        put.append('<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#dddddd"/>' % (xa.begin, xa.end, y, y))
        put.append('<text x="%.1f" y="%.1f" text-anchor="end">%s</text>' % (xa.begin - 6, y + 4, number(t)))
    for t in xa.ticks(7):
        put.append('<text x="%.1f" y="%d" text-anchor="middle">%s</text>' % (xa.at(t), HEIGHT - BOTTOM + 18,
                                                                             size_name(t)))
    put.append('<text x="%.1f" y="%d" text-anchor="middle">message, bytes</text>' % ((xa.begin + xa.end) / 2,
                                                                                     HEIGHT - 10))
    put.append('<text x="%.1f" y="%d">%s</text>' % (x0 + 8, TOP - 8, escape(unit)))
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join("%.1f,%.1f" % (xa.at(x), ya.at(y)) for x, y in sorted(line))
        put.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (points, colour))
        put += ['<circle cx="%s" cy="%s" r="3" fill="%s"/>' % (*p.split(","), colour) for p in points.split()]
        put.append('<text x="%.1f" y="%d" fill="%s">%s</text>' % (xa.begin + 10, TOP + 14 + 15 * i, colour,
                                                                  escape(name)))
    return put


def svg(charts, caption):
    """@charts: [(title, unit, series)]."""
    charts = [c for c in charts if any(c[2].values())]
    width = WIDTH * max(1, len(charts))
    put = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">'
           % (width, HEIGHT + 20),
           '<rect width="100%" height="100%" fill="white"/>']
    for i, (title, unit, series) in enumerate(charts):
        put += chart(title, unit, {n: line for n, line in series.items() if line}, i * WIDTH)
    put.append('<text x="10" y="%d" fill="#555555">%s</text>' % (HEIGHT + 10, escape(caption)))
    return "\n".join(put + ["</svg>", ""])

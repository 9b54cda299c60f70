"""What is drawn of measurements: the last ones, in an SVG that can be read, also where there are none."""

import json
from xml.etree import ElementTree

import pytest
from benchmarks import plots
from benchmarks.svg import Panel, drawing

SVG = "{http://www.w3.org/2000/svg}"


def result(name, value, **context):
    return json.dumps({"name": name, "value": value, "context": context})


def paths(text):
    return [path.get("d") for path in ElementTree.fromstring(text).iter(f"{SVG}path")]


def texts(text):
    return [found.text for found in ElementTree.fromstring(text).iter(f"{SVG}text")]


@pytest.fixture
def found():
    series = {
        "at_s": [0.5, 1.0, 2.0],
        "in_use_mib": [1.0, 250.0, 255.5],
        "budget_mib": 256,
        "submit_p50_us": [3.0, 4.0, 3.5],
        "submit_p99_us": [20.0, 45.0, 30.0],
        "outcomes": {"stored": [10, 30, 90], "queue_full": [0, 5, 5]},
    }
    lines = [result(f"put_ratio{size}", value) for size, value in (("_256k", 0.5), ("", 0.7), ("_16m", 0.9))]
    lines += [
        result("put_ratio", 0.8),
        result("put_ratio_checksum", 0.6),
        result("saturation_series", 3, series=series),
    ]
    lines += [result(f"peer_other_{what}_ratio", 0.4, rounds=[0.1, 0.4, 0.5]) for what in ("put", "get")]
    return plots.last(lines)


def test_of_each_result_the_last_counts_at_its_size(found):
    lines = plots.ratios(found)[0].lines
    assert lines["put"] == [(0.25, 0.5), (2.0, 0.8), (16.0, 0.9)]
    assert lines["put with checksums"] == [(2.0, 0.6)]
    assert lines["get"] == []


def test_of_peers_the_cold_round_is_left_out(found):
    put, get = plots.peers(found)
    assert put.lines == get.lines == {"other": [(0, 0.4), (1, 0.5)]}


def test_the_minute_of_overload_is_drawn_over_its_time(found):
    submits, use, became = plots.saturation(found)
    assert submits.lines["p99"] == [(0.5, 20.0), (1.0, 45.0), (2.0, 30.0)]
    assert (use.marks, use.lines["in use"][-1]) == ({"bound": 256.0}, (2.0, 255.5))
    assert became.lines == {"stored": [(1.0, 40.0), (2.0, 60.0)], "queue_full": [(1.0, 10.0), (2.0, 0.0)]}


def test_where_nothing_was_measured_the_drawing_says_so():
    for panels in (plots.ratios({}), plots.peers({}), plots.saturation({})):
        assert all("nothing was measured" in words for words in texts(drawing(panels)))


def test_a_drawing_has_a_line_a_legend_and_a_mark_for_each():
    lines = {"a < b": [(1.0, 0.0), (10.0, 1.0), (100.0, 2.0)], "flat": [(1.0, 1.0), (100.0, 1.0)]}
    text = drawing([Panel(title="T", x="x", y="y", lines=lines, marks={"target": 4.0}, log_x=True)])
    assert {"a < b", "flat", "T (y)", "target 4"} <= set(texts(text))
    assert paths(text) == ["M70.0,200.0L330.0,166.0L590.0,132.0", "M70.0,166.0L590.0,166.0"]


def test_a_single_point_is_drawn():
    text = drawing([Panel(title="T", x="x", y="y", lines={"one": [(3.0, 5.0)]})])
    assert paths(text) == ["M70.0,30.0"]

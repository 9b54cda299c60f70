"""The file that benchmarks append their results to."""

import json
from pathlib import Path

from benchmarks.results import Result, append


def test_each_result_is_one_line_and_earlier_lines_stay(tmp_path: Path):
    file = tmp_path / "bench-results.jsonl"
    append(Result(name="plan_s", value=0.2, unit="s", target=0.1, context={"nodes": 5000}), file)
    append(Result(name="plan_s", value=0.1, unit="s", target=0.1), file)
    append(Result(name="rows", value=7, unit="rows"), file)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines == [
        {"name": "plan_s", "value": 0.2, "unit": "s", "target": 0.1, "holds": False, "context": {"nodes": 5000}},
        {"name": "plan_s", "value": 0.1, "unit": "s", "target": 0.1, "holds": True, "context": {}},
        {"name": "rows", "value": 7, "unit": "rows", "target": None, "holds": None, "context": {}},
    ]

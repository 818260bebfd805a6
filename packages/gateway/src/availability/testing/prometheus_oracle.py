"""Answers what prometheus_client's parsers find in texts: one JSON request per line in, one JSON answer per line out.

A request is {"form": "lines" | "text" | "openmetrics", "text": …}. The answer is a list of samples [name, labels, value],
null for a text that is refused; for "lines" a list with one such answer per line. Numbers come as text.
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text


def number(value):
    try:
        value = float(value)
    except OverflowError:
        value = float("inf")
    return repr(value)


def samples(read, text):
    found = []
    try:
        for family in read(text):
            found.extend([one.name, one.labels, number(one.value)] for one in family.samples)
    except Exception:
        return None
    return found


for request in sys.stdin:
    request = json.loads(request)
    text = request["text"]
    if request["form"] == "lines":
        answer = [samples(read_text, line) for line in text.split("\n")]
    else:
        answer = samples(read_openmetrics if request["form"] == "openmetrics" else read_text, text)
    print(json.dumps(answer), flush=True)

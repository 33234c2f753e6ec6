"""Cases are dealt out so that each runs once, and told in the order in which they stand."""

from broker.matrix.case_files import parse
from broker.matrix.lanes import HTTP_LANES, OTHERS, deal

ROW = (
    "  - {{id: c{n}, request: {{method: GET, path: /}}, fault: {fault}, expect: {{category: success, retry: never}}}}\n"
)
DAEMON = "{point: at_step, kind: kill, step: 8_intent}"


def test_http_is_dealt_out_and_what_else_breaks_has_a_lane_each() -> None:
    rows = [ROW.format(n=number, fault=DAEMON if number % 4 == 3 else "null") for number in range(12)]
    lanes = deal(parse("cases:\n" + "".join(rows), "x.yaml"))

    assert HTTP_LANES + len(OTHERS) == len(lanes)
    assert list(range(12)) == sorted(place for lane in lanes for place in lane)
    assert [3, 7, 11] == lanes[-1]
    assert all(lane == sorted(lane) for lane in lanes)


def test_few_cases_leave_lanes_empty() -> None:
    lanes = deal(parse("cases:\n" + ROW.format(n=0, fault="null"), "x.yaml"))

    assert [[0], *[[]] * (HTTP_LANES - 1 + len(OTHERS))] == lanes

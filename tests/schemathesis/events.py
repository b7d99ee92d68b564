"""Asks for streams of events as the OpenAPI document allows and forbids, and reads each up to its first bytes.

A stream has no end, so schemathesis cannot wait for its answer. Here the head of the answer is checked like any other,
and its body only where it is not a stream.
"""

import sys

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode, Response
from schemathesis.specs.openapi.checks import positive_data_acceptance

url, token = sys.argv[1:]
schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
operation = schema["/v1/events"]["GET"]
seen = {}


def ask(case):
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
    request = requests.Request(**case.as_transport_kwargs(base_url=url)).prepare()
    with requests.Session() as session:
        answer = session.send(request, stream=True, timeout=60)
        stream = answer.headers.get("content-type", "").startswith("text/event-stream")
        if not stream:
            answer.content
        else:
            # A frame or a sign of life would take a while where nothing happens: the head has said what it is.
            answer._content = b""
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        if stream:
            assert answer.status_code == 200, answer.status_code
        else:
            case.validate_response(Response.from_requests(answer, verify=True), excluded_checks=[positive_data_acceptance])
        answer.close()


for mode in GenerationMode:

    @seed(1)
    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        ask(case)

    check()

print("GET /v1/events:", ", ".join(f"{count} x {status}" for status, count in sorted(seen.items())))
assert 200 in seen and any(400 <= status < 500 for status in seen), seen

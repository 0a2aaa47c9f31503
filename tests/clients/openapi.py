"""The description of the HTTP API against the specification of OpenAPI.

usage: openapi.py PATH_TO_SHELLYARD

Prints one line for each check and, last, `N passed, N failed`.
"""

import json
import os
import sys
import tempfile
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator

from server import over_http


def list_errors(document):
    return [f"{list(error.path)}: {error.message}" for error in OpenAPIV31SpecValidator(document).iter_errors()]


def is_valid(document):
    errors = list_errors(document)
    assert not errors, "\n".join(errors)


def a_mistake_is_found(document):
    wrong = json.loads(json.dumps(document))
    wrong["paths"]["/api/v1/jobs"]["get"]["parameters"][0]["in"] = "nowhere"
    assert list_errors(wrong), "the validator checks nothing"


def main(binary):
    failed = 0
    with tempfile.TemporaryDirectory() as folder, over_http(binary, folder) as url:
        address = url.rsplit("/", 1)[0] + "/api/v1/openapi.json"
        with urllib.request.urlopen(address, timeout=240) as answer:
            document = json.load(answer)
    checks = [is_valid, a_mistake_is_found]
    for check in checks:
        try:
            check(document)
            print(f"ok {check.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAILED {check.__name__}: {error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))

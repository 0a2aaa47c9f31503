"""The HTTP API of a Prometheus server, as Grafana uses it."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT = 120


class QueryError(Exception):
    """What Prometheus said about a query that it could not answer, or why it said nothing."""


class Prometheus:
    def __init__(self, url):
        self.url = url

    def get(self, path, **parameters):
        """The `data` of an answer."""
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.url}{path}?{query}", timeout=TIMEOUT) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            raise QueryError(error.read().decode(errors="replace")[:300]) from error
        except OSError as error:
            raise QueryError(str(error)) from error
        if said["status"] != "success":
            raise QueryError(said.get("error", "no success"))
        return said["data"]

    def instant(self, expression, at):
        """The series of an expression at one moment, each with one value."""
        data = self.get("/api/v1/query", query=expression, time=at)
        if data["resultType"] == "scalar":
            return [{"metric": {}, "values": [data["result"]]}]
        return [{"metric": s["metric"], "values": [s["value"]]} for s in data["result"]]

    def range(self, expression, start, end, step):
        """The series of an expression over a time."""
        data = self.get("/api/v1/query_range", query=expression, start=start, end=end, step=step)
        return data["result"]

    def label_values(self, label, match):
        """The values of a label, on the series that match."""
        return self.get(f"/api/v1/label/{label}/values", **{"match[]": match})

    def wait_until(self, what, is_so, seconds):
        """Returns once `is_so` holds, asked again and again."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if is_so(self):
                    return
            except QueryError:
                pass
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {seconds} s")
            time.sleep(0.2)

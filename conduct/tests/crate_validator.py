"""The public RO-Crate validator (roc-validator) on one folder, without a network.

    /opt/crate/bin/python crate_validator.py DATA_FOLDER     prints every issue; 0 none, 1 some

It runs in a Python of its own, which has nothing of this project. What it would fetch is the JSON-LD context
alone; that is answered from the terms below, which are those our crates use. Everything else it judges by its
own profiles: RO-Crate 1.1 and Process Run Crate.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
SCHEMA = "http://schema.org/"
#: term → what RO-Crate 1.1 takes it for: the IRI's last part where that is another one
TERMS = {
    "File": "MediaObject", "Dataset": "", "CreativeWork": "", "CreateAction": "", "SoftwareApplication": "",
    "about": "", "actionStatus": "", "contentSize": "", "datePublished": "", "description": "",
    "encodingFormat": "", "endTime": "", "hasPart": "", "identifier": "", "instrument": "", "license": "",
    "mentions": "", "name": "", "object": "", "result": "", "softwareVersion": "", "startTime": "",
    "version": "", "author": "", "affiliation": "", "creditText": "", "sameAs": "", "Person": "",
    "Organization": "",
}  # fmt: skip
DOCUMENT = {
    "@context": {
        **{term: SCHEMA + (other or term) for term, other in TERMS.items()},
        "conformsTo": "http://purl.org/dc/terms/conformsTo",
    }
}


class Answer:
    """What the validator takes for a response."""

    status_code = 200
    from_cache = True
    ok = True

    def __init__(self, url: str) -> None:
        if url.split("#")[0] != CONTEXT:
            raise ConnectionError(f"nothing but the context is answered here, and not {url}")
        self.url = url
        self.headers = {"Content-Type": "application/ld+json"}
        self.text = json.dumps(DOCUMENT)
        self.content = self.text.encode()
        self.links: dict[str, Any] = {}

    def json(self) -> Any:
        return json.loads(self.text)

    def raise_for_status(self) -> None:
        """Never: there is one document, and it is there."""


class Session:
    """In place of the validator's own, which would ask the network."""

    cache = None

    def get(self, url: str, *_args: Any, **_options: Any) -> Answer:
        return Answer(url)

    head = get


def issues(folder: str) -> list[str]:
    """Every issue of level REQUIRED."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = os.environ["XDG_CACHE_HOME"] = home
        from rocrate_validator import services
        from rocrate_validator.models import Severity, ValidationSettings
        from rocrate_validator.utils.http import HttpRequester

        settings = ValidationSettings(
            rocrate_uri=folder,
            profile_identifier="process-run-crate",
            offline=True,
            requirement_severity=Severity.REQUIRED,
        )
        HttpRequester().session = Session()
        result = services.validate(settings)
        checked = sorted({check.requirement.profile.identifier for check in result.executed_checks})
        print(f"profiles: {', '.join(checked)}; {len(result.executed_checks)} checks", file=sys.stderr)
        return [f"{issue.check.identifier}: {issue.message}" for issue in result.get_issues()]


if __name__ == "__main__":
    found = issues(sys.argv[1])
    print("\n".join(found))
    sys.exit(1 if found else 0)

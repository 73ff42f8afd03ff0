from __future__ import annotations

import pytest

from lakebed.client import LakebedClient
from lakebed.client.targets import Undelivered
from lakebed.core.errors import NotFound
from tests.fixtures.server import RunningServer

from .conftest import access_to

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_targets_are_managed_over_the_api(lakebed_server: RunningServer) -> None:
    with LakebedClient(access=access_to(lakebed_server)) as client:
        targets, named = client.targets, ("webhook", "over-the-wire")
        made = targets.put(*named, {"endpoint": "http://127.0.0.1:9/x"}, kinds=["Nothing"], subject="lake", audit=True)
        assert made.made["secret"].startswith("whsec_")
        try:
            assert [one.name for one in targets.list()] == ["over-the-wire"]
            assert list(targets.arns()) == [made.arn] == ["arn:lakebed:sqs:us-east-1:over-the-wire:webhook"]
            targets.pause(*named)
            shown = targets.get(*named)
            assert (shown.kinds, shown.subject, shown.audit, shown.paused) == (["Nothing"], "lake", True, True)
            assert (shown.settings["secret"], shown.made, shown.dead) == ("***", {}, 0)
            assert not shown.requests
            target = targets.put(*named, {"endpoint": "http://127.0.0.1:9/x"}, requests=True)
            assert (target.requests, target.audit) == (True, False)
            targets.resume(*named)
            assert not targets.get(*named).paused
            failure = targets.test(*named)
            assert failure is not None
            assert failure.startswith("no response")
            assert list(targets.undelivered(*named)) == list[Undelivered]()
            assert targets.redrive(*named) == 0
        finally:
            targets.delete(*named)
        with pytest.raises(NotFound):
            targets.get(*named)

"""Checks, with the one authorizer, that a caller holds in S3 the rights that the catalog would vend for a directory."""

from __future__ import annotations

from lakebed.core.access import AccessRequest
from lakebed.core.errors import AccessDenied
from lakebed.governance.directory_probes import probes
from lakebed.governance.questions import Question
from lakebed.governance.vending import directory_actions
from lakebed.objects.bucket import Bucket
from lakebed.objects.facilities import Facilities
from lakebed.objects.facts import creation_facts
from lakebed.objects.model import Caller


async def check_directory_rights(
    facilities: Facilities, caller: Caller, bucket: Bucket, directory: str, *, writes: bool
) -> None:
    """Return if the caller may do in S3, to every key of the directory, what vended credentials allow.

    Not inside a transaction: the authorizer may call another service. Raises AccessDenied with the missing action.
    """
    actions = directory_actions(writes=writes)
    whole = f"arn:aws:s3:::{bucket.name}"
    values = Question(AccessRequest(caller.principal, "", whole), facilities.clock).values
    keys = [
        one[len(whole) + 1 :] for one in probes(f"{whole}/{directory}", caller.principal, bucket.access_rules, values)
    ]
    try:
        for action in actions.on_bucket:
            await facilities.authorize(caller, bucket, action)
        for action in actions.on_listings:
            await facilities.authorize(caller, bucket, action, None, {"s3:prefix": directory})
        for action in actions.on_keys:
            facts = creation_facts(creates=True) if action == "s3:PutObject" else None
            for key in keys:
                await facilities.authorize(caller, bucket, action, key, facts)
    except AccessDenied as error:
        raise AccessDenied(
            f"the location holds objects, and the caller lacks a right to them in S3: choose an empty location, or"
            f" have the right granted. location=s3://{bucket.name}/{directory} reason={error}"
        ) from error

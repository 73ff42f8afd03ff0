"""Checks that a caller has S3 permissions on a whole directory."""

from __future__ import annotations

from lakebed.core.access import AccessRequest
from lakebed.governance.delegation.vending import DirectoryActions
from lakebed.governance.policy_language.directory_probes import probe_arns
from lakebed.governance.policy_language.request_context import RequestContext
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.condition_context import creation_condition_keys
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller


async def check_directory_rights(
    object_context: ObjectContext, caller: Caller, bucket: Bucket, directory: str, actions: DirectoryActions
) -> None:
    """Check the permission for these S3 actions on every key of the directory; empty for the whole bucket.

    Not inside a transaction: the authorizer may call another service. Raises AccessDenied with the missing action.
    """
    whole = f"arn:aws:s3:::{bucket.name}"
    values = RequestContext(AccessRequest(caller.principal, "", whole), object_context.clock).values
    keys = [
        one[len(whole) + 1 :]
        for one in probe_arns(f"{whole}/{directory}", caller.principal, bucket.access_rules, values)
    ]
    for action in actions.on_bucket:
        await object_context.authorize(caller, bucket, action)
    for action in actions.on_listings:
        await object_context.authorize(caller, bucket, action, None, {"s3:prefix": directory})
    for action in actions.on_keys:
        facts = creation_condition_keys(creates=True) if action == "s3:PutObject" else None
        for key in keys:
            await object_context.authorize(caller, bucket, action, key, facts)

from __future__ import annotations

from lakebed.governance import Principals
from lakebed.governance.policy_language.stored_policies import StoredPolicyProblem, stored_policy_problems
from lakebed.meta.seam import MetaStore, Transaction
from tests.governance.documents import policy, statement


async def test_unknown_actions_of_stored_policies_are_found_by_user(principals: Principals, store: MetaStore) -> None:
    misspelled = policy(statement(effect="Deny", action=["s3:DeletObject", "s3:PutObject"]))
    for name in ("alice", "bob"):
        await principals.create_user(name, canned=["readonly"])
        await principals.put_policy(name, "good", policy(statement()))

    async def work(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO principal_policies (principal, kind, name, document) VALUES (?, ?, ?, ?)",
            "bob",
            "inline",
            "old",
            misspelled,
        )

    await store.transact(work)
    found = [problem async for problem in stored_policy_problems(store)]
    assert found == [
        StoredPolicyProblem("bob", "old", 'unknown action "s3:DeletObject"; did you mean "s3:DeleteObject"?')
    ]

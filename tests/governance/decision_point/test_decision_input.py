from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.access import ANONYMOUS, DEFAULT_ACCOUNT, AccessTarget, ResourceRules, Session, root_of
from lakebed.governance.decision_point import DecisionQuery, batch_document, decision_document
from lakebed.governance.decision_point.decision_input import target_of
from lakebed.governance.rbac import GrantSet, Privilege

from .fakes import RULES, TABLE, access_request, user


def test_document_has_the_fields_of_polaris() -> None:
    caller = user(grants=GrantSet(roles=["readers", "analysts"]))
    query = access_request(caller, privileges=(Privilege.TABLE_READ_DATA,))
    assert json.loads(decision_document(DecisionQuery.of(query, RULES), "R1")) == {
        "input": {
            "actor": {
                "principal": "ann",
                "roles": ["analysts", "readers"],
                "type": "user",
                "id": "ID-ann",
                "arn": f"arn:aws:iam::{DEFAULT_ACCOUNT}:user/ann",
                "tags": {},
            },
            "action": "s3tables:GetTableData",
            "resource": {
                "targets": [
                    {
                        "type": "TABLE_LIKE",
                        "name": "orders",
                        "parents": [
                            {"type": "CATALOG", "name": "lake"},
                            {"type": "NAMESPACE", "name": "sales"},
                            {"type": "NAMESPACE", "name": "eu"},
                        ],
                        "arn": f"arn:aws:s3tables:us-east-1:{DEFAULT_ACCOUNT}:bucket/lake/table/1",
                    }
                ],
                "secondaries": [],
            },
            "context": {
                "request_id": "R1",
                "realm": DEFAULT_ACCOUNT,
                "privileges": ["TABLE_READ_DATA"],
                "facts": {"aws:SourceIp": "10.0.0.7"},
            },
        }
    }


def test_document_contains_session_arn_and_tags() -> None:
    session = Session("arn:aws:sts::000000000000:assumed-role/r/s", 1, 2, tags=(("team", "eu"),))
    actor = json.loads(decision_document(DecisionQuery.of(access_request(user(session=session)), RULES), ""))["input"][
        "actor"
    ]
    assert (actor["arn"], actor["tags"]) == (session.arn, {"team": "eu"})


def test_kinds_of_callers() -> None:
    callers = (user(), root_of(DEFAULT_ACCOUNT, "KEY"), ANONYMOUS)
    assert [DecisionQuery.of(access_request(caller), RULES).kind for caller in callers] == ["user", "root", "anonymous"]


def test_per_request_context_does_not_change_the_query() -> None:
    facts = {"aws:SourceIp": "10.0.0.7", "s3:signatureAge": "17", "s3:x-amz-content-sha256": "abc"}
    one = DecisionQuery.of(access_request(context=facts, request_id="R1"), RULES)
    other = DecisionQuery.of(access_request(context=facts | {"s3:signatureAge": "18"}, request_id="R2"), RULES)
    assert one == other


def test_every_relevant_difference_changes_the_query() -> None:
    base = access_request(user(grants=GrantSet(roles=["readers"])))
    others = [
        access_request(user(grants=GrantSet(roles=["writers"]))),
        access_request(user(name="bob", grants=GrantSet(roles=["readers"]))),
        base._replace(action="s3tables:PutTableData"),
        base._replace(resource="arn:aws:s3tables:us-east-1:000000000000:bucket/lake/table/2"),
        base._replace(target=AccessTarget("TABLE_LIKE", ("lake", "sales", "eu", "refunds"))),
        base._replace(context={"aws:SourceIp": "10.0.0.8"}),
        base._replace(privileges=(Privilege.TABLE_READ_DATA,)),
    ]
    query = {DecisionQuery.of(one, RULES) for one in (base, *others)} | {
        DecisionQuery.of(base, ResourceRules("999999999999"))
    }
    assert len(query) == len(others) + 2
    assert len({decision_document(one, "R") for one in query}) == len(query)


def test_recreated_user_changes_the_query() -> None:
    old, new = user(), user()
    assert DecisionQuery.of(access_request(old), RULES) == DecisionQuery.of(access_request(new), RULES)
    renewed = DecisionQuery.of(access_request(new), RULES)._replace(user_id="ID-2")
    assert renewed != DecisionQuery.of(access_request(old), RULES)


def test_target_is_derived_from_the_arn() -> None:
    assert target_of("arn:aws:s3:::b") == ("BUCKET", ("b",))
    assert target_of("arn:aws:s3:::b/a/k:1") == ("OBJECT", ("b", "a/k:1"))
    assert target_of("arn:aws:s3:::*") == target_of("*") == ("ROOT", ())
    assert target_of("arn:aws:s3tables:us-east-1:000000000000:bucket/lake/table/1") == ("CATALOG", ("lake",))
    assert target_of("arn:aws:iam::000000000000:role/lake/r") == ("ROLE", ("lake/r",))


@given(st.text(), st.text())
def test_object_target_has_its_bucket_as_parent(bucket: str, key: str) -> None:
    found = target_of(f"arn:aws:s3:::{bucket.replace('/', '')}/{key}")
    assert found == ("OBJECT", (bucket.replace("/", ""), key))


@given(st.text(), st.lists(st.text(), max_size=4), st.text())
def test_documents_with_any_names_are_valid_json(catalog: str, levels: list[str], name: str) -> None:
    target = AccessTarget("TABLE_LIKE", (catalog, *levels, name))
    (entity,) = json.loads(batch_document(DecisionQuery.of(access_request(), RULES), [target], ""))["input"][
        "resource"
    ]["targets"]
    assert ([parent["name"] for parent in entity["parents"]], entity["name"]) == ([catalog, *levels], name)


def test_batch_has_all_targets_in_order() -> None:
    targets = [TABLE, AccessTarget("NAMESPACE", ("lake", "sales")), AccessTarget("CATALOG", ("lake",))]
    targets_sent = json.loads(batch_document(DecisionQuery.of(access_request(), RULES), targets, "R"))["input"][
        "resource"
    ]["targets"]
    assert [(one["type"], one["name"]) for one in targets_sent] == [
        ("TABLE_LIKE", "orders"),
        ("NAMESPACE", "sales"),
        ("CATALOG", "lake"),
    ]


def test_documents_contain_the_realm() -> None:
    """A decision point of several installations must be able to distinguish equal catalog names."""
    other_rules = ResourceRules("222222222222")
    for rules, realm in ((RULES, DEFAULT_ACCOUNT), (other_rules, "222222222222")):
        query = DecisionQuery.of(access_request(), rules)
        for body in (decision_document(query, "R"), batch_document(query, [TABLE], "R")):
            assert json.loads(body)["input"]["context"]["realm"] == realm
    assert DecisionQuery.of(access_request(), RULES) != DecisionQuery.of(access_request(), other_rules)

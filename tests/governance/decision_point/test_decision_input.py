from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.access import ANONYMOUS, DEFAULT_ACCOUNT, AccessTarget, ResourceRules, Session, root_of
from lakebed.governance.decision_point import DecisionQuery, batch_document, decision_document
from lakebed.governance.decision_point.decision_input import target_of
from lakebed.governance.rbac import GrantSet, Privilege

from .asking import RULES, TABLE, question, user


def test_document_has_the_parts_that_policies_for_polaris_look_at() -> None:
    caller = user(grants=GrantSet(roles=["readers", "analysts"]))
    asked = question(caller, privileges=(Privilege.TABLE_READ_DATA,))
    assert json.loads(decision_document(DecisionQuery.of(asked, RULES), "R1")) == {
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


def test_temporary_keys_are_told_with_their_session_and_tags() -> None:
    session = Session("arn:aws:sts::000000000000:assumed-role/r/s", 1, 2, tags=(("team", "eu"),))
    actor = json.loads(decision_document(DecisionQuery.of(question(user(session=session)), RULES), ""))["input"][
        "actor"
    ]
    assert (actor["arn"], actor["tags"]) == (session.arn, {"team": "eu"})


def test_kinds_of_callers() -> None:
    callers = (user(), root_of(DEFAULT_ACCOUNT, "KEY"), ANONYMOUS)
    assert [DecisionQuery.of(question(caller), RULES).kind for caller in callers] == ["user", "root", "anonymous"]


def test_what_is_another_with_every_request_makes_no_other_question() -> None:
    facts = {"aws:SourceIp": "10.0.0.7", "s3:signatureAge": "17", "s3:x-amz-content-sha256": "abc"}
    one = DecisionQuery.of(question(context=facts, request_id="R1"), RULES)
    other = DecisionQuery.of(question(context=facts | {"s3:signatureAge": "18"}, request_id="R2"), RULES)
    assert one == other


def test_whatever_a_decision_can_stand_on_makes_another_question() -> None:
    base = question(user(grants=GrantSet(roles=["readers"])))
    others = [
        question(user(grants=GrantSet(roles=["writers"]))),
        question(user(name="bob", grants=GrantSet(roles=["readers"]))),
        base._replace(action="s3tables:PutTableData"),
        base._replace(resource="arn:aws:s3tables:us-east-1:000000000000:bucket/lake/table/2"),
        base._replace(target=AccessTarget("TABLE_LIKE", ("lake", "sales", "eu", "refunds"))),
        base._replace(context={"aws:SourceIp": "10.0.0.8"}),
        base._replace(privileges=(Privilege.TABLE_READ_DATA,)),
    ]
    asked = {DecisionQuery.of(one, RULES) for one in (base, *others)} | {
        DecisionQuery.of(base, ResourceRules("999999999999"))
    }
    assert len(asked) == len(others) + 2
    assert len({decision_document(one, "R") for one in asked}) == len(asked)


def test_a_new_user_of_an_old_name_is_somebody_else() -> None:
    old, new = user(), user()
    assert DecisionQuery.of(question(old), RULES) == DecisionQuery.of(question(new), RULES)
    renewed = DecisionQuery.of(question(new), RULES)._replace(user_id="ID-2")
    assert renewed != DecisionQuery.of(question(old), RULES)


def test_resources_without_a_target_are_named_by_their_arn() -> None:
    assert target_of("arn:aws:s3:::b") == ("BUCKET", ("b",))
    assert target_of("arn:aws:s3:::b/a/k:1") == ("OBJECT", ("b", "a/k:1"))
    assert target_of("arn:aws:s3:::*") == target_of("*") == ("ROOT", ())
    assert target_of("arn:aws:s3tables:us-east-1:000000000000:bucket/lake/table/1") == ("CATALOG", ("lake",))
    assert target_of("arn:aws:iam::000000000000:role/lake/r") == ("ROLE", ("lake/r",))


@given(st.text(), st.text())
def test_every_object_is_told_with_its_bucket(bucket: str, key: str) -> None:
    found = target_of(f"arn:aws:s3:::{bucket.replace('/', '')}/{key}")
    assert found == ("OBJECT", (bucket.replace("/", ""), key))


@given(st.text(), st.lists(st.text(), max_size=4), st.text())
def test_documents_of_any_names_can_be_read(catalog: str, levels: list[str], name: str) -> None:
    target = AccessTarget("TABLE_LIKE", (catalog, *levels, name))
    (entity,) = json.loads(batch_document(DecisionQuery.of(question(), RULES), [target], ""))["input"]["resource"][
        "targets"
    ]
    assert ([parent["name"] for parent in entity["parents"]], entity["name"]) == ([catalog, *levels], name)


def test_batch_has_all_targets_in_order() -> None:
    targets = [TABLE, AccessTarget("NAMESPACE", ("lake", "sales")), AccessTarget("CATALOG", ("lake",))]
    told = json.loads(batch_document(DecisionQuery.of(question(), RULES), targets, "R"))["input"]["resource"]["targets"]
    assert [(one["type"], one["name"]) for one in told] == [
        ("TABLE_LIKE", "orders"),
        ("NAMESPACE", "sales"),
        ("CATALOG", "lake"),
    ]


def test_every_question_names_the_realm() -> None:
    """A decision point that serves several installations must not take one's `lake` for another's."""
    elsewhere = ResourceRules("222222222222")
    for rules, realm in ((RULES, DEFAULT_ACCOUNT), (elsewhere, "222222222222")):
        asked = DecisionQuery.of(question(), rules)
        for posted in (decision_document(asked, "R"), batch_document(asked, [TABLE], "R")):
            assert json.loads(posted)["input"]["context"]["realm"] == realm
    assert DecisionQuery.of(question(), RULES) != DecisionQuery.of(question(), elsewhere)

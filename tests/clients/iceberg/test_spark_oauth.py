"""Spark with an OAuth2 credential only: it has the permissions of its user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.clients.boto import Keys, root_keys
from tests.clients.iceberg.engine import SPARK_MARKS, answered, with_credential
from tests.clients.iceberg.lake import POLARIS, Lake
from tests.clients.users import User

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy, pytest.mark.usefixtures("own_signatures")]

DELEGATION_MODES: Final = ("vended-credentials", "remote-signing")


@pytest.mark.parametrize("mode", DELEGATION_MODES)
def test_spark_needs_an_oauth_credential_only(
    spark: SparkSession, lake: Lake, engineer: User, namespace: str, mode: str
) -> None:
    signatures = _signatures(lake)
    engine = with_credential(spark, lake, engineer.keys, mode, mount=POLARIS)
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(3)")
    engine.sql(f"INSERT INTO {t} VALUES (7)")
    engine.sql(f"DELETE FROM {t} WHERE id = 1")
    assert engine.sql(f"SELECT id FROM {t} ORDER BY id") == [(0,), (2,), (7,)]
    assert (_signatures(lake) > signatures) == (mode == "remote-signing")


@pytest.mark.parametrize("mode", DELEGATION_MODES)
def test_spark_has_the_permissions_of_its_user(
    spark: SparkSession, lake: Lake, analyst: User, namespace: str, mode: str
) -> None:
    writes = with_credential(spark, lake, root_keys(lake.server), mode)
    writes.sql(f"CREATE TABLE {writes.table(namespace)} USING iceberg AS SELECT id FROM range(3)")
    reads = with_credential(spark, lake, analyst.keys, mode)
    t = reads.table(namespace)
    assert reads.value(f"SELECT count(*) FROM {t}") == 3
    for statement in (f"INSERT INTO {t} VALUES (9)", f"DROP TABLE {t}"):
        with pytest.raises(Exception, match=r"Forbidden|Status Code: 403"):
            reads.sql(statement)


def test_wrong_secret_is_not_authorized(spark: SparkSession, lake: Lake, engineer: User, namespace: str) -> None:
    wrong = with_credential(spark, lake, Keys(engineer.keys.access_key, "not the secret"), DELEGATION_MODES[0])
    with pytest.raises(Exception, match="NotAuthorized"):
        wrong.sql(f"SELECT 1 FROM {wrong.table(namespace)}")


def _signatures(lake: Lake) -> int:
    return answered(lake.server, "signRequest") + answered(lake.server, "signS3Request")

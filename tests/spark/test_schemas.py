"""The columns of tables in Spark's types."""

from kproxy.spark.schemas import contract, spark_schema


def test_types_are_sparks() -> None:
    types = {field.name: field.dataType.simpleString() for field in spark_schema(contract("record_batches")).fields}
    assert types["at"] == types["max_timestamp"] == "timestamp"
    assert types["topic"] == "string"
    assert types["is_control"] == "boolean"
    assert spark_schema(contract("records"))["headers"].dataType.simpleString().startswith("array<struct<key:binary")

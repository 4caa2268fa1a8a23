"""A view of the records of one topic, in Spark: a column for each field of their values, typed as the schema says.

records, exchanges = (spark.read.parquet(f"tables/{table}") for table in ("records", "exchanges"))
make_topic_view("orders", records, exchanges, SchemaSources.of_options(folders=["schemas"]))
spark.sql("FROM orders WHERE country = 'DE' AND total > 100")
"""

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.analyses.topic_view import BEFORE
from kproxy.encryption.envelope import MARKER
from kproxy.errors import UsageError
from kproxy.output.tables import TABLES
from kproxy.protocol.embedded.viewers import Content
from kproxy.schemas.kinds import Kind, spark_type
from kproxy.schemas.settings import SchemaSources
from kproxy.schemas.store import TOPICS_OF_REGISTRIES
from kproxy.schemas.viewer import SchemaViewer, make_viewers, why_no_objects
from kproxy.spark.session import reason_of

MOST_SAMPLES = 1_000  # values that the driver reads to meet all schemas
MOST_STORED = 20_000  # records of topics in which registries keep schemas


def make_topic_view(
    topic: str, records: DataFrame, exchanges: DataFrame, schemas: SchemaSources | None = None
) -> DataFrame:
    """Create a temporary view with the topic's name, and return it. Its columns are those of ``kproxy sql --view``.

    Args:
        topic: only values of it that are objects in JSON are in the view.
        records, exchanges: the tables, or parts of them (one cluster, some days).
        schemas: where the schemas come from, as when the table records was made; those in the traffic are in its records. The
            types of fields are those of the schemas, where they agree; Spark finds the others in the values.

    Raises UsageError for the name of a table, for a topic without such values, and for names of fields that differ in case alone.
    """
    if topic.lower() in TABLES:
        raise UsageError(f"{topic}: there is a table of this name; query the table records in place of a view")
    objects = records.where((F.col("topic") == topic) & F.col("value_json").startswith("{"))
    try:
        return _view(topic, objects, records, exchanges, schemas or SchemaSources())
    except AnalysisException as error:
        raise UsageError(f"{topic}: {reason_of(error)}") from error


def _view(
    topic: str, objects: DataFrame, records: DataFrame, exchanges: DataFrame, schemas: SchemaSources
) -> DataFrame:
    found = records.sparkSession.read.json(objects.select("value_json").rdd.map(lambda row: row[0])).schema
    if not found.fields:
        is_encrypted = F.substring("value", 1, len(MARKER)) == F.lit(MARKER)
        problem = F.min(F.when(is_encrypted, F.col("value_problem")))
        [row] = records.where(F.col("topic") == topic).agg(F.count("*"), F.count_if(is_encrypted), problem).collect()
        raise UsageError(f"{topic}: {why_no_objects(*row)}")
    kinds = _kinds(topic, records, schemas)
    typed = {name: spark_type(kind) for name, kind in kinds.items()}
    typed |= {field.name: field.dataType.simpleString() for field in found.fields if field.name not in kinds}
    ddl = ", ".join(f"{_quoted(name)} {kind}" for name, kind in typed.items())
    joined = objects.join(exchanges.select("connection_id", "exchange", "client_id"), ["connection_id", "exchange"])
    shown = joined.select(*BEFORE, F.from_json("value_json", ddl).alias("value"))
    fields = [F.col(f"value.{_quoted(name)}").alias(f"{name}_1" if name in BEFORE else name) for name in typed]
    view = shown.select(*BEFORE, *fields)
    view.createOrReplaceTempView(_quoted(topic))
    return view


def _kinds(topic: str, records: DataFrame, schemas: SchemaSources) -> dict[str, Kind]:
    """Return the types of fields: the driver reads one value of each schema, and of each message of a .proto file."""
    viewers = make_viewers(schemas.open())
    stored = records.where(F.col("topic").isin(*TOPICS_OF_REGISTRIES)).orderBy("partition_offset").limit(MOST_STORED)
    for row in stored.select("topic", "direction", "key", "value", "partition_offset").toLocalIterator():
        offset = None if row.direction == "produce" else row.partition_offset
        for part in ("key", "value"):
            viewers.view(_bytes(row[part]), Content(row.topic, part, offset=offset))
    beginnings = "value_schema_id", F.substring("value", 1, 8)
    fitting = records.where((F.col("topic") == topic) & F.col("value_fits"))
    samples = fitting.groupBy(*beginnings).agg(F.first(F.struct("value", "headers")).alias("one")).limit(MOST_SAMPLES)
    for (sample,) in samples.select("one").collect():
        headers = [
            (bytes(name).decode("utf-8", "surrogateescape"), value and bytes(value))
            for name, value, *_ in sample.headers
        ]
        viewers.view(bytes(sample.value), Content(topic, "value", headers))
    return SchemaViewer.of(viewers).kinds(topic)


def _bytes(data: bytearray | None) -> bytes | None:
    return None if data is None else bytes(data)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

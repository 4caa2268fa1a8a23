"""Answers: analyses in Spark SQL, run on DuckDB here and on Spark by kproxy.spark.

    analysis.py     one analysis: a file of SQL with a header in YAML
    columns.py      what columns mean that many analyses have
    library.py      the built-in analyses and views, users' folders; what an analysis needs
    translate.py    Spark SQL to DuckDB's
    rewriting.py    how, with sqlglot
    translation_cache.py   translations kept between runs
    parameters.py   values for ``:name``
    facts.py        tables of facts: versions of each Kafka release, of client libraries, error codes
    client_versions.py   what client libraries ask for: how one that says no name is recognised, and what it can do
    sources.py      what a source is: capture, decoded log, directory of tables
    duck.py         Database: DuckDB over sources; runs analyses
    scratch.py      where DuckDB keeps tables meanwhile
    loading.py      sources into DuckDB's tables; the two sides of a diff
    spans.py        ranges of time as a person writes them
    queries.py      a person's own queries, which read the tables and nothing else
    prompt.py       the prompt for them
    sql/            the analyses; sql/findings/ those that look for what is wrong
    views/          what several analyses share
    report/         verdicts and pages

Seams

    library.load(folders=())             -> dict[str, Analysis]      also load_views, views_needed, tables_needed, spark_text
    Analysis.id .title .severity .sql .parameters .needs .header
    facts.FACTS_TABLES, facts.arrow_table(name)                      rows of api_versions, releases, error_codes
    duck.Database(sources).run(analysis, **parameters) -> pyarrow.Table

Only this package imports duckdb and sqlglot. Of it, analysis, library, translate and facts do not import duckdb: they are what
kproxy.spark uses. SQL names tables (kproxy.output.tables.TABLES), facts and views by their bare names.

To add
    an analysis     sql/ID.sql, or findings/ID.sql; the docstring of kproxy/analyses/analysis.py shows one
    a view          views/NAME.sql
    a fact          FACTS_TABLES in facts.py
    a library       client_versions.txt, from a capture as in tests/analyses/clients or from its sources; its origin with it
"""

"""Analyses of Kafka traffic in SQL: run by DuckDB, here and in the tasks of kproxy.spark.

    sql/            the analyses; sql/findings/ has those that look for problems
    views/          views that several analyses share
    analysis.py     reads an analysis: a file of SQL with a header in YAML; its frame, which groups evidence; values for ``:name``
    library.py      finds built-in analyses, views, and those in users' folders; the tables that an analysis needs
    dialect.py      what analyses need of DuckDB; users' files in Spark SQL are translated with sqlglot
    facts.py        tables of facts: API versions of each Kafka release and client library, error codes
    loading.py      sources (captures, decoded logs, directories of tables) to DuckDB's tables; ranges of time and sides of a diff
    duck.py         Database: sources in DuckDB, with views and facts; runs analyses
    scratch.py      the directory where DuckDB keeps tables until a command ends
    topic_view.py   the view of one topic's records by their fields (kproxy sql --view)
    queries.py      users' own queries (kproxy sql), which read the tables and nothing else; prompt.py is their prompt
    examples.sql    questions with their queries, which kproxy sql --examples prints
    report/         verdicts and pages

Seams

    library.load(folders=())             -> dict[str, Analysis]      also load_views, views_needed, tables_needed
    Analysis.id .title .severity .sql .parameters .columns .header
    facts.FACTS_TABLES, facts.arrow_table(name)                      rows of api_versions, releases, error_codes
    duck.Database(sources).run(analysis, **parameters) -> pyarrow.Table

Only this package imports duckdb and sqlglot. SQL names tables (kproxy.output.tables.TABLES), facts and views by their bare names.

How a finding is made. Its SQL selects the evidence: the exchanges, batches, errors or connections that count. Its header has a
``frame`` that says how these are grouped into rows, which values each row has, which rows are kept, and after which
pause the same evidence is another episode. The frame adds the columns that all findings have: client, cluster, first and last
time, an example. An analysis without a frame is run as it is written.
Its ``basis`` says what it rests on, how certain it is, and what would show the contrary; all pages show that.

``only_if`` in a header selects rows of the tables without which the analysis has no rows either (errors with these codes, so many
connections). If there are none, it is not run: that is what makes a report of a small capture fast.

To add
    an analysis     sql/ID.sql, or sql/findings/ID.sql with a frame; the docstrings of analysis.py and of Frame show one. Users
                    put the same files into a folder for --analyses
    a scene         each finding needs one in tests/support/scenes, with a look-alike in which it stays silent
    a view          views/NAME.sql
    a fact          FACTS_TABLES in facts.py
    a library       client_versions.txt, from a capture as in tests/analyses/clients or from its source code; note its origin
"""

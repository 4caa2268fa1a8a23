"""What spark-submit runs on a cluster: ``spark-submit ... deploy/spark/job.py ingest -o DIR INPUT...``; see `kproxy-spark -h`."""

from kproxy.cli import main_of_spark

if __name__ == "__main__":
    main_of_spark()

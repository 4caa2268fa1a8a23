"""The analyzer process: reads the taps, runs the pipeline."""

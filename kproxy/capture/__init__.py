"""Capture files: pcap and pcapng, link layers, TCP reassembly -> the byte streams of both directions with their times."""

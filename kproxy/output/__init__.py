"""Events to people and machines: text lines and trees, the decoded log."""

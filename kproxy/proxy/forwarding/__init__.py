"""What a byte goes through: lanes, links, pumps."""

"""JSON values as text: numbers, strings with their escapes, base64. For the other extensions only (json_text.pxd)."""

"""Rows -> figures -> one self-contained page. Reads files only, never recomputes."""

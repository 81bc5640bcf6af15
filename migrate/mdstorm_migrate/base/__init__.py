"""Data types that all floors above use: documents, edits and findings."""

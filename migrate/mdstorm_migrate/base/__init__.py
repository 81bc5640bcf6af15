"""Data types that all other folders use: documents, edits and findings."""

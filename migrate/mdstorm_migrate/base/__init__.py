"""What every floor above uses: documents, the edits and findings that rules make of them."""

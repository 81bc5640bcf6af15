"""What every floor may use and what knows nothing of data: errors, threads, optional libraries."""

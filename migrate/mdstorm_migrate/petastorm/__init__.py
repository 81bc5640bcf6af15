"""What Petastorm's API is, and what of it mdstorm offers: tables, no code that looks at files."""

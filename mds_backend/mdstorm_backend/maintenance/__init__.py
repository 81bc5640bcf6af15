"""Looking after datasets: describing them, checking them, rebuilding an index that was lost.

Each function takes the URL of a dataset and returns what it found as a dataclass with a `to_json`;
none of them prints anything. The command ``mdstorm`` shows what they return.
"""

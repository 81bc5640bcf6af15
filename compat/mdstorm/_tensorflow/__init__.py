"""Implementation of the datasets in `mdstorm.tf_utils`."""

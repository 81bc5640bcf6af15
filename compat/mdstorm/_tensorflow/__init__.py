"""What the datasets of `mdstorm.tf_utils` are made of."""

"""What `mdstorm.reader` and the converter's methods are made of."""
